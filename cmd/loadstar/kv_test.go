package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/proxy"
)

func TestKVCommandLines(t *testing.T) {
	args := "--policy kv_aware --kv-event-source http://A:1=tcp://a:5557,tcp://a:5558 http://b:1=tcp://b:5557 --kv-event-replay-source http://b:1=tcp://b:5559 " +
		"--kv-event-block-size 32 --kv-event-model m --kv-penalty-host 1 --kv-penalty-external 0.5 --kv-penalty-disk 0 " +
		"--router-temperature 0.5 --kv-aware-session-affinity-ttl-secs 1800"
	want := kvConfig{
		Sources:   map[string][]string{"http://a:1": {"a:5557", "a:5558"}, "http://b:1": {"b:5557"}},
		Replays:   map[string][]string{"http://b:1": {"b:5559"}},
		BlockSize: 32, Model: "m", Host: 1, External: .5, Disk: 0, Temperature: .5, AffinityTTL: 30 * time.Minute,
	}
	checkConfig(t, strings.Fields(args), nil, func(c *config) { c.Policy.Name, c.KV = policyKVAware, want })

	// Commas separate the values of a list in the environment too.
	vars := variables(map[string]string{
		"LOADSTAR_POLICY": "kv_aware", "LOADSTAR_KV_EVENT_SOURCE": "http://a:1=tcp://a:5557,tcp://a:5558,http://b:1=tcp://b:5557",
	})
	checkConfig(t, nil, vars, func(c *config) { c.Policy.Name, c.KV.Sources = policyKVAware, want.Sources })
}

func TestKVContradictions(t *testing.T) {
	const source = " --kv-event-source http://a:1=tcp://a:5557"
	for _, c := range []struct{ name, args, want string }{
		{"no sources", "--policy kv_aware", "--policy kv_aware needs --kv-event-source: "},
		{"no sources for a phase", "--vllm-pd-disaggregation --prefill http://a:1 --decode http://b:1 --decode-policy kv_aware", "--policy kv_aware needs --kv-event-source: "},
		{"no policy", source, "--kv-event-source and --pd-kv-events mean nothing without --policy kv_aware: "},
		{"a policy of one phase", "--vllm-pd-disaggregation --prefill http://a:1 --decode http://b:1 --prefill-policy kv_aware --pd-kv-events" + source, ""},
		{"no policy, compatible", "--compat" + source, ""},
		{"more replays than sources", "--policy kv_aware --kv-event-replay-source http://b:1=tcp://b:1" + source, "--kv-event-replay-source http://b:1 has more endpoints"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(strings.Fields(c.args), nil)
			var got []string
			if err != nil {
				got = faultsOf(t, err)
			}
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
				t.Errorf("faults %q, want one that begins with %q", got, c.want)
			}
		})
	}
}

// A source that can't be read is told of once, not also as one that is missing.
func TestKVFaultsOnce(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"no worker", "--kv-event-source http://a:1", `--kv-event-source: "http://a:1" names no worker: `},
		{"a worker that is none", "--kv-event-source a=tcp://a:5557", `--kv-event-source: "a" has no scheme: `},
		{"no endpoint", "--kv-event-source http://a:1=http://a:5557 --kv-event-replay-source http://a:1=tcp://a:5558", `--kv-event-source: "http://a:5557" is no endpoint: `},
		{"no endpoint of replays", "--kv-event-source http://a:1=tcp://a:5557 --kv-event-replay-source http://a:1=a", `--kv-event-replay-source: "a" is no endpoint: `},
		{"an endpoint twice", "--kv-event-source http://a:1=tcp://a:5557,tcp://a:5557", "--kv-event-source: tcp://a:5557 is named twice for http://a:1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(strings.Fields("--policy kv_aware "+c.args), nil)
			if got := faultsOf(t, err); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("faults %q, want one that begins with %q", got, c.want)
			}
		})
	}
}

// A policy that would be refused as a shadow is not proposed as one.
func TestShadowsProposed(t *testing.T) {
	got := strings.Join(valueFaults("shadow-policy", "best"), "\n")
	want := `--shadow-policy: "best" is not a policy: use some of ` + strings.Join(policyNames, ", ")
	if want = strings.TrimSuffix(want, ", kv_aware"); got != want {
		t.Errorf("fault %q, want %q", got, want)
	}
}

func TestKVValues(t *testing.T) {
	const temperature, ttl = "router-temperature", "kv-aware-session-affinity-ttl-secs"
	for _, c := range []struct{ flag, value, want string }{
		{temperature, "0", ""},
		{temperature, "0.0", ""},
		{temperature, "2500", ""},
		{temperature, "-0.1", `"-0.1" is not a number of at least 0`},
		{temperature, "NaN", `"NaN" is not a number of at least 0`},
		{temperature, "inf", `"inf" is not a number of at least 0`},
		{temperature, "1e400", `"1e400" is not a number of at least 0`},
		{temperature, "warm", `"warm" is not a number of at least 0`},
		{ttl, "1", ""},
		{ttl, "31536000", ""},
		{ttl, "0", `"0" is not a number of seconds from 1 to 31536000`},
		{ttl, "-5", `"-5" is not a number of seconds from 1 to 31536000`},
		{ttl, "31536001", `"31536001" is not a number of seconds from 1 to 31536000`},
		{ttl, "none", `"none" is not a number of seconds from 1 to 31536000`},
	} {
		t.Run(c.flag+" "+c.value, func(t *testing.T) {
			want := ""
			if c.want != "" {
				want = "--" + c.flag + ": " + c.want
			}
			if got := strings.Join(valueFaults(c.flag, c.value), "\n"); got != want {
				t.Errorf("faults %q, want %q", got, want)
			}
		})
	}
}

// What is given and does nothing is told of once, and only a policy that goes by it
// gets it.
func TestKVRemarks(t *testing.T) {
	const (
		kv    = "--policy kv_aware --kv-event-source http://a:1=tcp://a:1 "
		pairs = "--vllm-pd-disaggregation --prefill http://a:1 --decode http://b:1 --kv-event-source http://a:1=tcp://a:1 "
		both  = " --router-temperature 0.5 --kv-aware-session-affinity-ttl-secs 60"
		cold  = "--router-temperature has no effect"
		loose = "--kv-aware-session-affinity-ttl-secs has no effect"
	)
	for _, c := range []struct {
		name, args string
		want       []string
		taken      bool
	}{
		{"nothing", "--policy random", nil, false},
		{"kv_aware", kv, nil, true},
		{"kv_aware with both", kv + both, nil, true},
		{"another policy", "--policy random" + both, []string{cold, loose}, false},
		{"another policy and no draw", "--policy random --router-temperature 0", nil, false},
		{"kv_aware to prefill", pairs + "--prefill-policy kv_aware" + both, []string{loose}, true},
		{"kv_aware to decode", pairs + "--decode-policy kv_aware" + both, []string{cold}, true},
		{"kv_aware for what is not in two phases", pairs + "--policy kv_aware --prefill-policy random --decode-policy random --enable-igw" + both, nil, true},
		{"kv_aware for both", pairs + "--policy kv_aware" + both, nil, true},
		{"kv_aware with a high temperature", kv + "--router-temperature 800", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := parse(strings.Fields(c.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			var logged bytes.Buffer
			var o proxy.Options
			putKV(&o, parsed, slog.New(slog.NewTextHandler(&logged, nil)))
			lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
			if logged.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.want) {
				t.Fatalf("logged %q, want %d lines", lines, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], "level=WARN msg=\""+want) {
					t.Errorf("logged %q, want %q", lines[i], want)
				}
			}
			p := &o.Router.PolicyOptions
			if got := p.Temperature == parsed.KV.Temperature && p.AffinityTTL == int64(parsed.KV.AffinityTTL) && o.KVEvents != nil; got != c.taken {
				t.Errorf("taken: %v, want %v; %+v", got, c.taken, p)
			}
		})
	}
}
