package main

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy"
)

// What the command line says of admission, as a config: vllm-router's own lines
// first.
func TestAdmissionFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want func(*config)
	}{
		{"no queue", "--max-concurrent-requests 2 --queue-size 0", func(c *config) {
			c.Admission.MaxConcurrent, c.Admission.QueueSize = 2, 0
		}},
		{"a short queue", "--max-concurrent-requests=1 --queue-size=1 --queue-timeout-secs=1", func(c *config) {
			c.Admission.MaxConcurrent, c.Admission.QueueSize, c.Admission.QueueTimeout = 1, 1, time.Second
		}},
		{"a rate", "--max-concurrent-requests 10 --rate-limit-tokens-per-second 5", func(c *config) {
			c.Admission.MaxConcurrent, c.Admission.RatePerSecond = 10, 5
		}},
		{"names cut short, as argparse allows", "--max-c 7 --queue-s 8 --queue-t 9 --rate 10", func(c *config) {
			c.Admission.MaxConcurrent, c.Admission.QueueSize = 7, 8
			c.Admission.QueueTimeout, c.Admission.RatePerSecond = 9*time.Second, 10
		}},
		{"a queue without a limit", "--queue-size 5 --queue-timeout-secs 5", func(c *config) {
			c.Admission.QueueSize, c.Admission.QueueTimeout = 5, 5*time.Second
		}},
		{"all there is", "--max-concurrent-requests 1 --max-worker-inflight 2 --rate-limit-tokens-per-second 0.5 --queue-size 4 --queue-timeout-secs 1.5 " +
			"--priority-header X-Class --tenant-header X-Tenant --queue-ageing-secs 0.5 --request-deadline-ms 1500", func(c *config) {
			c.Admission = admissionConfig{1, 2, 0.5, 4, 1500 * time.Millisecond, 500 * time.Millisecond, "x-class", "x-tenant", 1500 * time.Millisecond}
		}},
		{"none of it", "--max-concurrent-requests none --max-worker-inflight NONE --rate-limit-tokens-per-second none --request-deadline-ms none", func(*config) {}},
		{"containment", "--retry-budget 0.5 --retry-budget-floor 3 --slow-start-secs 0 --wedged-after-secs 30 --cb-max-open-share 1", func(c *config) {
			c.Retry.Budget, c.Retry.BudgetFloor, c.Breaker.MaxOpenShare = 0.5, 3, 1
			c.Containment = containmentConfig{WedgedAfter: 30 * time.Second}
		}},
		{"no budget", "--retry-budget none --slow-start-secs none --wedged-after-secs none", func(c *config) {
			c.Retry.Budget, c.Containment.SlowStart = noBudget, 0
		}},
		{"a flag of vllm-router cut short is none of ours", "--retry-b 2", func(c *config) { c.Retry.Multiplier = 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, strings.Fields(c.line), nil, c.want)
		})
	}
}

func TestCheckAdmission(t *testing.T) {
	const idle = "--priority-header is about requests that wait, and none ever does"
	for _, c := range []struct {
		name string
		line string
		want string // begins the one fault; empty if there is none
	}{
		{"classes without a limit", "--priority-header a", idle},
		{"classes without a queue", "--priority-header a --max-concurrent-requests 1 --queue-size 0", idle},
		{"classes with a limit", "--priority-header a --max-concurrent-requests 1", ""},
		{"classes with a limit for each worker", "--priority-header a --max-worker-inflight 1", ""},
		{"classes with a rate", "--priority-header a --rate-limit-tokens-per-second 1", ""},
		{"tenants without a limit, for the logs", "--tenant-header a", ""},
		{"one header for two things", "--priority-header X-A --tenant-header x-a --max-concurrent-requests 1", "--priority-header and --tenant-header name the same header"},
		{"a limit without a queue", "--max-worker-inflight 1 --queue-size 0", ""},
		{"a limit for each worker beside power of two", "--max-worker-inflight 1 --policy power_of_two --worker-urls http://a:1 http://b:1", ""},
		{"limits beside two phases", "--max-worker-inflight 1 --max-concurrent-requests 1 --vllm-pd-disaggregation --prefill http://a:1 --decode http://b:1", ""},
		{"limits in the demo", "demo --max-worker-inflight 1 --max-concurrent-requests 1 --priority-header a", ""},
		{"retries that are off beside their budget", "--disable-retries --retry-budget 0.2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(strings.Fields(c.line), nil)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one that begins with %q", err, c.want)
			}
		})
	}
}

// The settings reach the proxy and the actors, in their terms.
func TestAdmissionOptions(t *testing.T) {
	type settings struct {
		room     actors.RoomOptions
		retries  actors.RetryOptions
		slow     time.Duration
		wedged   time.Duration
		share    float64
		headers  [2]string
		deadline time.Duration
	}
	of := func(o proxy.Options) settings {
		r := o.Router
		return settings{r.Room, r.Retries, r.SlowStart, r.WedgedAfter, r.Breaker.MaxOpenShare, [2]string{o.ClassHeader, o.TenantHeader}, o.Deadline}
	}
	byDefault := settings{
		room:    actors.RoomOptions{QueueSize: 100, QueueTimeout: time.Minute, Ageing: 5 * time.Second},
		retries: actors.RetryOptions{Ratio: 0.1, Floor: 10}, slow: 10 * time.Second, share: 0.5,
	}
	for _, c := range []struct {
		name string
		line string
		want func(*settings)
	}{
		{"defaults", "", func(*settings) {}},
		{"limits", "--max-concurrent-requests 3 --max-worker-inflight 2 --queue-size 4 --queue-timeout-secs 5 --queue-ageing-secs 6", func(s *settings) {
			s.room = actors.RoomOptions{MaxLive: 3, Burst: 3, MaxPerWorker: 2, QueueSize: 4, QueueTimeout: 5 * time.Second, Ageing: 6 * time.Second}
		}},
		{"a rate", "--rate-limit-tokens-per-second 2.5", func(s *settings) { s.room.RatePerSecond = 2.5 }},
		{"a rate with vllm-router's burst", "--rate-limit-tokens-per-second 2.5 --max-concurrent-requests 9", func(s *settings) {
			s.room.RatePerSecond, s.room.MaxLive, s.room.Burst = 2.5, 9, 9
		}},
		{"who goes first", "--max-worker-inflight 1 --priority-header X-P --tenant-header X-T --request-deadline-ms 250", func(s *settings) {
			s.room.MaxPerWorker, s.headers, s.deadline = 1, [2]string{"x-p", "x-t"}, 250*time.Millisecond
		}},
		{"containment", "--retry-budget 0 --retry-budget-floor 0 --slow-start-secs 2 --wedged-after-secs 3 --cb-max-open-share 0.25", func(s *settings) {
			s.retries, s.slow, s.wedged, s.share = actors.RetryOptions{}, 2*time.Second, 3*time.Second, 0.25
		}},
		{"no budget", "--retry-budget none", func(s *settings) { s.retries.Disabled, s.retries.Ratio = true, 1000 }},
		{"no budget, as in vllm-router", "--compat", func(s *settings) { s.retries.Disabled, s.retries.Ratio = true, 1000 }},
		{"vllm-router with a budget", "--compat --retry-budget 0.2", func(s *settings) { s.retries.Ratio = 0.2 }},
		{"a budget beyond use", "--retry-budget 1000", func(s *settings) { s.retries.Disabled, s.retries.Ratio = true, 1000 }},
		{"a budget that is almost none", "--retry-budget 999", func(s *settings) { s.retries.Ratio = 999 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := parse(strings.Fields(c.line), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := byDefault
			c.want(&want)
			if got := of(proxyOptions(conf, slog.New(slog.DiscardHandler))); !reflect.DeepEqual(got, want) {
				t.Errorf("options %+v, want %+v", got, want)
			}
		})
	}
}

// What the flags take at most, the waiting room takes too, and no more.
func TestRoomTakesWhatFlagsTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		line   string
		change func(*actors.RoomOptions)
		ok     bool
	}{
		{"most", "--max-concurrent-requests 9223372036854775807 --max-worker-inflight 9223372036854775807 --rate-limit-tokens-per-second 1000000000 " +
			"--queue-size 65536 --queue-timeout-secs 1000000000 --queue-ageing-secs 1000000000", func(*actors.RoomOptions) {}, true},
		{"least", "--rate-limit-tokens-per-second 0.000001 --queue-timeout-secs 0.001 --queue-ageing-secs 0.001", func(*actors.RoomOptions) {}, true},
		{"a longer queue", "--queue-size 65536", func(o *actors.RoomOptions) { o.QueueSize++ }, false},
		{"a higher rate", "--rate-limit-tokens-per-second 1000000000", func(o *actors.RoomOptions) { o.RatePerSecond++ }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := parse(strings.Fields(c.line), nil)
			if err != nil {
				t.Fatal(err)
			}
			o := proxyOptions(conf, slog.New(slog.DiscardHandler)).Router.Room
			o.Now = func() int64 { return 0 }
			c.change(&o)
			if err := o.Validate(); (err == nil) != c.ok {
				t.Errorf("the room says %v, want it taken: %v", err, c.ok)
			}
		})
	}
}
