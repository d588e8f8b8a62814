package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestCaseB05NoCountWithoutLease: a request that reaches no worker gives back
// nothing, so no counter drops below what runs, and no worker looks idler than
// it is.
func TestCaseB05NoCountWithoutLease(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		o := testOptions(policy)
		o.Limits.BodyBytes = 64 << 10
		script := proxytest.ByBody(map[string]proxytest.Script{
			"": proxytest.JSON(200, `{"ok":true}`), "hold": proxytest.Silent,
		})
		a, b := proxytest.NewWorker(t, script), proxytest.NewWorker(t, script)
		r := startRouter(t, o, a, b)

		stop, watched := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watched)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				v := r.snapshot()
				sum := 0
				for i := range v.Workers {
					w := &v.Workers[i]
					sum += w.Load
					if w.Load < 0 {
						t.Errorf("load %d at %s, want 0 or more", w.Load, w.URL)
					}
				}
				if sum != v.Live || uint64(v.Live) != v.Granted-v.Returned {
					t.Errorf("loads add up to %d, with %d leases live of %d granted and %d returned", sum, v.Live, v.Granted, v.Returned)
				}
			}
		}()
		const n = 10
		tooBig := strings.Repeat(" ", o.Limits.BodyBytes+1)
		for i := range n {
			want200(t, ask(t, r, chatPath, chat(fmt.Sprint("fine ", i), false)), `{"ok":true}`)
			wantProblem(t, ask(t, r, chatPath, tooBig), 413, "payload_too_large")
			refused := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: tooBig, ChunkSizes: []int{20_000}})
			wantProblem(t, refused, 413, "payload_too_large")
			wantProblem(t, proxytest.Do(t, r.addr, proxytest.Request{Method: "DELETE", Target: chatPath}), 405, "method_not_allowed")
			c := proxytest.Dial(t, r.addr)
			if err := c.Send("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatalf("answer to a malformed head: %v", err)
			}
			wantProblem(t, resp, 400, "bad_request")
		}
		for range n {
			c := r.post(chat("hold", true))
			r.wait("a lease", func(v *actors.Snapshot) bool { return v.Live == 1 })
			c.CloseFIN()
			r.wait("no lease", func(v *actors.Snapshot) bool { return v.Live == 0 })
		}
		close(stop)
		<-watched
		r.waitLoad(a, 0)
		r.waitLoad(b, 0)
		if got := r.outcome(actors.Completed); got != n {
			t.Errorf("%d leases completed, want %d", got, n)
		}
		if got := r.outcome(actors.ClientGone); got != n {
			t.Errorf("%d leases ended by the client, want %d", got, n)
		}
		if v := r.snapshot(); v.Granted != 2*n {
			t.Errorf("%d leases granted, want %d", v.Granted, 2*n)
		}
	})
}

// TestCaseB06TieNotToTheFirst: one request at a time finds all workers equally
// idle, and still they share.
func TestCaseB06TieNotToTheFirst(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		o := testOptions(policy)
		for _, tc := range []struct{ name, format string }{
			{"short prompts", "unique-%d"},
			{"long prompts", "%d " + strings.Repeat("and the same again ", 100)},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				a, b := proxytest.NewWorker(t, proxytest.JSON(200, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
				r := startRouter(t, o, a, b)
				const n = 128
				for i := range n {
					want200(t, ask(t, r, chatPath, chat(fmt.Sprintf(tc.format, i), false)), `{}`)
				}
				if got := a.Requests() + b.Requests(); got != n {
					t.Errorf("the workers got %d requests, want %d", got, n)
				}
				if most := max(a.Requests(), b.Requests()); most > n*7/10 {
					t.Errorf("the busier worker got %d of %d requests, want at most %d", most, n, n*7/10)
				}
			})
		}
	})
}

// TestCaseB09NoLoadIsPolled: load is counted here, so no worker is asked for
// it, and what a worker would say changes nothing.
func TestCaseB09NoLoadIsPolled(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		o := testOptions(policy)
		script := func(load string) proxytest.Script {
			return func(x *proxytest.Exchange) {
				if x.Path() == chatPath {
					x.Reply(200, `{}`)
					return
				}
				x.Reply(200, load, jsonType)
			}
		}
		a := proxytest.NewWorker(t, script(`{"server_load":50,"load":50}`))
		b := proxytest.NewWorker(t, script(`{"server_load":0,"load":0}`))
		r := startRouter(t, o, a, b)
		const n = 40
		for i := range n {
			ask(t, r, chatPath, chat(fmt.Sprint("distinct ", i), false))
		}
		checks := a.HealthChecks() + 1
		a.WaitFor("more health checks", func(c proxytest.Counts) bool { return c.HealthChecks >= checks }, patience)
		for _, w := range []*proxytest.Worker{a, b} {
			if got, chats := w.Requests(), w.Requests(chatPath); got != chats {
				t.Errorf("%s got %d requests of which %d are the clients', want no others", w.URL(), got, chats)
			}
		}
		if got := a.Requests() + b.Requests(); got != n {
			t.Errorf("the workers got %d requests, want %d", got, n)
		}
	})
}

// TestCaseB11GaugesTellWhatRuns: what a scrape says of a worker is what runs
// there at that moment, not what ran before the last change, and a worker that
// is removed has no series once nothing runs there.
func TestCaseB11GaugesTellWhatRuns(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			a := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if x.Hold() {
					proxytest.SSE(1, 0)(x)
				}
			})
			r := startRouter(t, testOptions("cache_aware"), a)
			gauges := []string{
				fmt.Sprintf("vllm_router_worker_load{worker=%q}", a.URL()),
				fmt.Sprintf("vllm_router_running_requests{worker=%q}", a.URL()),
				fmt.Sprintf("loadstar_worker_leases{worker=%q,phase=\"plain\"}", a.URL()),
				"loadstar_leases_live",
			}
			check := func(when string, want float64) {
				t.Helper()
				samples := r.scrape()
				for _, g := range gauges {
					if got, ok := samples[g]; got != want || !ok {
						t.Errorf("%s: %s is %v, want %v", when, g, got, want)
					}
				}
			}
			check("before", 0)
			c, d := r.post(chat("one", stream)), r.post(chat("two", stream))
			a.WaitInFlight(2, patience)
			check("while two run", 2)
			c.Close()
			r.waitLoad(a, 1)
			check("behind a client that left", 1)
			ask(t, r, "/remove_worker?url="+a.URL(), "")
			check("while one runs at a removed worker", 1)
			a.Release()
			if _, err := d.ReadResponse(patience); err != nil {
				t.Fatal(err)
			}
			r.wait("no worker", func(v *actors.Snapshot) bool { return len(v.Workers) == 0 })
			for series := range r.scrape() {
				if strings.Contains(series, a.URL()) {
					t.Errorf("a worker that is gone has the series %s", series)
				}
			}
		})
	}
}
