package proxy

import (
	"strconv"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestHealthEndpoints: what a load balancer may rely on.
func TestHealthEndpoints(t *testing.T) {
	a, b := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"))
	sick := func(x *proxytest.Exchange) { x.Reply(503, "sick") }

	wantAnswer(t, r.call("GET", "/liveness", ""), 200, "OK")
	wantAnswer(t, r.call("GET", "/health", ""), 503, "No workers")
	wantAnswer(t, r.call("GET", "/readiness", ""), 503, `{"status":"not_ready","reason":"no healthy workers available","total_workers":0}`)

	for _, w := range []*proxytest.Worker{a, b} {
		if _, err := r.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitHealthy(2)
	wantAnswer(t, r.call("GET", "/health", ""), 200, "All servers healthy")
	wantAnswer(t, r.call("GET", "/readiness", ""), 200, `{"status":"ready","healthy_workers":2,"total_workers":2}`)

	a.SetHealth(sick)
	r.waitHealthy(1)
	if got := r.call("GET", "/health", ""); got.Status != 200 || !strings.Contains(string(got.Body), a.URL()) {
		t.Errorf("one of two is sick: /health %d %q, want 200 and its name", got.Status, got.Body)
	}
	wantAnswer(t, r.call("GET", "/readiness", ""), 200, `{"status":"ready","healthy_workers":1,"total_workers":2}`)

	b.SetHealth(sick)
	r.waitHealthy(0)
	if got := r.call("GET", "/health", ""); got.Status != 503 || !strings.HasPrefix(string(got.Body), "Unhealthy servers: [") {
		t.Errorf("both are sick: /health %d %q", got.Status, got.Body)
	}
	got := r.call("POST", "/v1/chat/completions", chat("hi", false))
	wantProblem(t, got, 503, "no_available_workers")
	if got.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if log := r.logs.String(); strings.Count(log, "worker is unhealthy") != 2 || !strings.Contains(log, `reason="status 503"`) {
		t.Errorf("want each transition logged once, with its reason; log:\n%s", log)
	}
}

// TestBreakerCountsForReadiness: a fleet whose breakers are all open takes no
// requests, and says so.
func TestBreakerCountsForReadiness(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(500, "{}"))
	o := testOptions("round_robin")
	o.Router.Breaker.FailureThreshold, o.Retry.MaxAttempts = 2, 1
	r := startRouter(t, o, w)
	for range 2 {
		r.call("POST", "/v1/chat/completions", chat("hi", false))
	}
	r.wait("the breaker to open", func(v *actors.Snapshot) bool { return v.Workers[0].Breaker == actors.BreakerOpen })
	if got := r.call("GET", "/readiness", ""); got.Status != 503 {
		t.Errorf("/readiness %d, want 503", got.Status)
	}
	wantProblem(t, r.call("POST", "/v1/chat/completions", chat("hi", false)), 503, "no_available_workers")
}

// TestStartsWithADeadWorker: one healthy worker is enough to serve, and a dead
// one is never taken for healthy and is tried again until it is.
func TestStartsWithADeadWorker(t *testing.T) {
	alive := proxytest.NewWorker(t, proxytest.JSON(200, `"alive"`))
	late := proxytest.NewWorker(t, proxytest.JSON(200, `"late"`))
	addr := late.Addr()
	late.Kill()
	r := startRouter(t, testOptions("round_robin"))
	for _, u := range []string{alive.URL(), "http://" + addr} {
		if _, err := r.AddWorker(WorkerSpec{URL: u}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitHealthy(1)
	for range 6 {
		wantAnswer(t, r.call("POST", "/v1/chat/completions", chat("hi", false)), 200, `"alive"`)
	}
	again := proxytest.NewWorkerAt(t, addr, proxytest.JSON(200, `"late"`))
	r.waitHealthy(2)
	r.call("POST", "/v1/chat/completions", chat("hi", false))
	r.call("POST", "/v1/chat/completions", chat("hi", false))
	if again.Requests() == 0 {
		t.Error("the worker that came up later got no request")
	}
}

// TestProbesCarryTheKey: workers that want a key are checked with it, and a
// wrong one is told apart from a dead worker.
func TestProbesCarryTheKey(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	w.SetHealth(func(x *proxytest.Exchange) {
		if x.Get("Authorization") != "Bearer wk" {
			x.Reply(401, "")
			return
		}
		x.Reply(200, "")
	})
	o := testOptions("round_robin")
	o.WorkerKey = "wk"
	r := startRouter(t, o, w)
	r.call("POST", "/v1/chat/completions", chat("hi", false), proxytest.H("Authorization", "Bearer ck"))
	for _, x := range w.Seen() {
		if got := x.Values("Authorization"); len(got) != 1 || got[0] != "Bearer wk" {
			t.Errorf("the worker saw Authorization %q, want the workers' key alone", got)
		}
	}
	o.WorkerKey = "wrong"
	wrong := startRouter(t, o)
	if _, err := wrong.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
		t.Fatal(err)
	}
	wrong.wait("a check with the wrong key", func(v *actors.Snapshot) bool {
		return strings.Contains(v.Workers[0].Reason, "does not accept the key")
	})
}

// TestHealthNamesNoWorker: only those who may see the list of workers are told by
// /health which of them are unwell. The status is the same for all.
func TestHealthNamesNoWorker(t *testing.T) {
	page := proxytest.H("Origin", "https://somewhere.example")
	for _, tc := range []struct {
		name    string
		change  func(o *Options)
		remote  bool
		headers []proxytest.Header
		want    bool
	}{
		{"this machine", func(*Options) {}, false, nil, true},
		{"another machine", func(*Options) {}, true, nil, false},
		{"a page on this machine", func(*Options) {}, false, []proxytest.Header{page}, false},
		{"compat", func(o *Options) { o.Compat = true }, true, nil, true},
		{"admin key, not sent", func(o *Options) { o.AdminKey = "k1" }, false, nil, false},
		{"admin key, wrong", func(o *Options) { o.AdminKey = "k1" }, true, []proxytest.Header{bearerOf("k2")}, false},
		{"admin key", func(o *Options) { o.AdminKey = "k1" }, true, []proxytest.Header{bearerOf("k1")}, true},
		{"a client's key", func(o *Options) { o.ClientKeys = keysOf(t, "c1") }, true, []proxytest.Header{bearerOf("c1")}, false},
		{"an admin listener elsewhere", func(o *Options) { o.AdminListener = true }, false, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			o := testOptions("round_robin")
			tc.change(&o)
			r := startRouter(t, o, a, b)
			ask := func() (int, string) {
				if tc.remote {
					got := r.remotely("GET", "/health", tc.headers...)
					return got.Status, string(got.Body)
				}
				got := r.call("GET", "/health", "", tc.headers...)
				return got.Status, string(got.Body)
			}
			a.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "sick") })
			r.waitHealthy(1)
			list, number := "["+strconv.Quote(a.URL())+"]", "1 of 2"
			if tc.want {
				number = list
			}
			if status, body := ask(); status != 200 || body != "1 of 2 servers healthy. Unhealthy servers: "+number {
				t.Errorf("one of two is sick: %d %q, want 200 and it told as %s", status, body, number)
			}
			b.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "sick") })
			r.waitHealthy(0)
			status, body := ask()
			if named := strings.Contains(body, a.URL()) && strings.Contains(body, b.URL()); status != 503 || named != tc.want ||
				!named && body != "Unhealthy servers: 2 of 2" {
				t.Errorf("both are sick: %d %q, want 503, with names: %v", status, body, tc.want)
			}
		})
	}
}
