package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// scrape returns the router's metrics by series.
func (r *router) scrape() map[string]float64 {
	r.t.Helper()
	out := map[string]float64{}
	for _, line := range strings.Split(string(r.call("GET", "/metrics", "").Body), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if i < 0 || err != nil {
			r.t.Fatalf("metric line %q", line)
		}
		if _, twice := out[line[:i]]; twice {
			r.t.Errorf("series %s twice", line[:i])
		}
		out[line[:i]] = v
	}
	return out
}

// TestMetricsTellTheTruth: the load of each worker as it is, totals whose
// difference is the load, outcomes by cause, and the reference's names.
func TestMetricsTellTheTruth(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("cache_aware"), w)
	open := []*proxytest.Client{r.post(chat("one", true)), r.post(chat("two", false))}
	r.waitLoad(w, 2)
	m := r.scrape()
	load := fmt.Sprintf(`vllm_router_worker_load{worker=%q}`, w.URL())
	for series, want := range map[string]float64{
		load: 2,
		fmt.Sprintf(`vllm_router_worker_health{worker=%q}`, w.URL()):            1,
		fmt.Sprintf(`vllm_router_processed_requests_total{worker=%q}`, w.URL()): 2,
		fmt.Sprintf(`loadstar_worker_leases{worker=%q,phase="plain"}`, w.URL()): 2,
		"loadstar_leases_live":                  2,
		"loadstar_inflight_requests":            3, // the scrape is one
		"loadstar_lease_releases_refused_total": 0,
		"vllm_router_active_workers":            1,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
		}
	}
	if m["loadstar_leases_acquired_total"]-m["loadstar_leases_released_total"] != m[load] {
		t.Errorf("acquired %v less released %v isn't the load %v", m["loadstar_leases_acquired_total"], m["loadstar_leases_released_total"], m[load])
	}
	w.WaitInFlight(2, patience)
	open[1].CloseFIN()
	r.waitLoad(w, 1)
	w.Release()
	if _, err := open[0].ReadResponse(patience); err != nil {
		t.Fatal(err)
	}
	r.waitLoad(w, 0)
	w.SetScript(proxytest.Sequence(proxytest.JSON(503, "{}"), proxytest.JSON(200, "{}")))
	r.call("POST", "/v1/completions", `{"prompt":"x"}`)
	r.call("GET", "/v1/completions", "")
	w.SetScript(proxytest.ResetBeforeHead)
	r.call("POST", "/v1/other", `{}`)
	m = r.scrape()
	for series, want := range map[string]float64{
		load: 0,
		`loadstar_request_outcomes_total{outcome="completed"}`:                                  2,
		`loadstar_request_outcomes_total{outcome="client_gone"}`:                                1,
		`loadstar_request_outcomes_total{outcome="refused"}`:                                    1,
		`loadstar_request_outcomes_total{outcome="upstream_reset"}`:                             1,
		fmt.Sprintf(`loadstar_worker_outcomes_total{worker=%q,outcome="busy"}`, w.URL()):        1,
		fmt.Sprintf(`loadstar_worker_outcomes_total{worker=%q,outcome="client_gone"}`, w.URL()): 1,
		`vllm_router_retries_total{route="/v1/completions"}`:                                    1,
		`vllm_router_requests_total{route="/v1/chat/completions"}`:                              1,
		`vllm_router_requests_total{route="/v1/completions"}`:                                   1,
		`loadstar_requests_total{path="/v1/completions"}`:                                       2,
		`loadstar_requests_total{path="other"}`:                                                 1,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
		}
	}
	text := string(r.call("GET", "/metrics", "").Body)
	for _, name := range []string{
		"loadstar_build_info", "loadstar_first_byte_seconds_bucket", "vllm_router_request_duration_seconds_bucket",
		"vllm_router_retry_backoff_duration_seconds_bucket", "loadstar_client_gone_close_seconds_bucket",
		"vllm_router_cb_state", "vllm_router_cb_outcomes_total", "vllm_router_tree_size", "vllm_router_policy_decisions_total",
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds", "go_goroutines", "vmrange=",
	} {
		if !strings.Contains(text, name) {
			t.Errorf("no %s in the metrics", name)
		}
	}
}

// TestSeriesOfRemovedWorkersGo: but not while they still have requests.
func TestSeriesOfRemovedWorkersGo(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("round_robin"), w)
	c := r.post(chat("hi", true))
	r.waitLoad(w, 1)
	if err := r.RemoveWorker(w.URL()); err != nil {
		t.Fatal(err)
	}
	load := fmt.Sprintf(`vllm_router_worker_load{worker=%q}`, w.URL())
	if got, ok := r.scrape()[load]; !ok || got != 1 {
		t.Errorf("removed with a request running: %s is %v, %v; want 1", load, got, ok)
	}
	c.CloseFIN()
	r.wait("the worker to be forgotten", func(v *actors.Snapshot) bool { return len(v.Workers) == 0 })
	for series := range r.scrape() {
		if strings.Contains(series, w.URL()) {
			t.Errorf("series %s of a worker that is gone", series)
		}
	}
}

// TestLabelsAreBounded: clients choose paths, methods, models, and names of users,
// sessions, tenants and requests, and none of it becomes a label.
func TestLabelsAreBounded(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("sticky_least_loaded")
	o.TenantHeader = "X-Tenant"
	r := startRouter(t, o, w)
	r.call("POST", "/v1/chat/completions", chat("hi", false))
	count := func() (n int) {
		for series := range r.scrape() {
			if !strings.Contains(series, "_bucket{") { // which show as durations fall into them
				n++
			}
		}
		return n
	}
	before := count()
	for i := range 300 {
		method := []string{"POST", "GET", "PATCH", "BREW"}[rand.IntN(4)]
		r.call(method, fmt.Sprintf("/path%d/%d", i, rand.Int()), "")
		own := fmt.Sprint("own-", i)
		r.call("POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"m%d","messages":[],"user":%q}`, i, own),
			proxytest.H("X-Tenant", own), proxytest.H("X-Session-ID", own), proxytest.H("X-Request-Id", own))
	}
	// The counters of causes and classes that had not been there yet are few.
	if after := count(); after > before+20 {
		t.Errorf("%d series before, %d after", before, after)
	}
}

func TestPrometheusBuckets(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.PrometheusBuckets = true
	r := startRouter(t, o, w)
	r.call("POST", "/v1/chat/completions", chat("hi", false))
	text := string(r.call("GET", "/metrics", "").Body)
	if !strings.Contains(text, `loadstar_first_byte_seconds_bucket{le="0.001"}`) || strings.Contains(text, "vmrange") {
		t.Error("want le buckets and no vmrange")
	}
}

// TestMetricsListener: every path has the metrics, but for /health and, by flag,
// what is for debugging.
func TestMetricsListener(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	for _, debug := range []bool{false, true} {
		o := testOptions("round_robin")
		o.DebugEndpoints = debug
		r := startRouter(t, o, w)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go r.ServeMetrics(ln) // ends with the router
		get := func(target string) *proxytest.Response {
			return proxytest.Do(t, ln.Addr().String(), proxytest.Request{Target: target})
		}
		r.post(chat("hi", true))
		r.waitLoad(w, 1)
		wantAnswer(t, get("/health"), 200, "OK")
		for _, target := range []string{"/metrics", "/", "/anything"} {
			if got := get(target); !strings.Contains(string(got.Body), "loadstar_leases_live 1") {
				t.Errorf("GET %s: %d %.100q, want the metrics", target, got.Status, got.Body)
			}
		}
		got := string(get("/debug/leases").Body)
		if is := strings.Contains(got, `"phase":"plain"`) && strings.Contains(got, w.URL()) && strings.HasPrefix(got, `{"leases":[`); is != debug {
			t.Errorf("debugging %v: /debug/leases is %.100q", debug, got)
		}
		if is := strings.Contains(string(get("/debug/pprof/goroutine?debug=1").Body), "goroutine profile"); is != debug {
			t.Errorf("debugging %v: profile %v", debug, is)
		}
	}
}

// TestMetricsToTheLast: the metrics' listener takes new connections while the end of a
// lease is awaited, when nothing else is served any more, and none afterwards.
func TestMetricsToTheLast(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(r *router, ctx context.Context) error
	}{
		{"Shutdown", func(r *router, ctx context.Context) error { return r.Shutdown(ctx) }},
		{"Close", func(r *router, ctx context.Context) error { return r.Close(ctx) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions("round_robin")
			o.Log = slog.New(slog.DiscardHandler)
			p, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			r := &router{Proxy: p, t: t}
			if _, err := r.AddWorker(WorkerSpec{URL: proxytest.NewWorker(t, either).URL()}); err != nil {
				t.Fatal(err)
			}
			r.waitHealthy(1)
			ln, err := Listen("127.0.0.1:0", 0)
			if err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- r.ServeMetrics(ln) }()
			lease, err := r.router.Acquire(&actors.Request{Now: r.now()})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- tc.end(r, context.Background()) }()
			for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				l, err := r.router.Acquire(&actors.Request{Now: r.now()})
				if errors.Is(err, actors.ErrStopped) {
					break // the lease is all that is awaited
				}
				if l.Release(actors.Completed, r.now()); time.Now().After(end) {
					t.Fatalf("%s has not come to wait for leases", tc.name)
				}
			}
			for range 20 {
				got := proxytest.Do(t, ln.Addr().String(), proxytest.Request{Target: "/metrics"})
				if !strings.Contains(string(got.Body), "loadstar_leases_live 1") {
					t.Fatalf("GET /metrics: %d %.100q, want the metrics, with the lease", got.Status, got.Body)
				}
			}
			lease.Release(actors.Completed, r.now())
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			if err := <-over; err != nil {
				t.Errorf("ServeMetrics: %v", err)
			}
			if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
				c.Close()
				t.Error("a connection is taken afterwards")
			}
		})
	}
}

// TestPanicIsOneRequests: a panic in a handler is that request's 500, and it
// leaves no lease behind.
func TestPanicIsOneRequests(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("round_robin"), w)
	r.logs.expectPanic = true
	bystander := r.post(chat("hi", true))
	w.WaitInFlight(1, patience)
	r.routes["/panic"] = &route{class: pathStatus, get: func(*exchange) { panic("for the test") }}
	wantProblem(t, r.call("GET", "/panic", ""), 500, "internal_error")
	if got := r.scrape()["loadstar_panics_total"]; got != 1 {
		t.Errorf("loadstar_panics_total is %v, want 1", got)
	}
	if !strings.Contains(r.logs.String(), "for the test") {
		t.Error("the panic isn't in the log")
	}
	w.Release()
	if got, err := bystander.ReadResponse(patience); err != nil || got.Status != 200 {
		t.Errorf("the bystander got %v, %v", got, err)
	}
	r.waitLoad(w, 0)
}

// TestLogsKeepSecrets: an access log has a line a request, a debug log a line a
// decision, and neither has prompts, keys or tokens.
func TestLogsKeepSecrets(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{"content":"secret-answer"}`))
	o := testOptions("cache_aware")
	o.AccessLog, o.WorkerKey = true, "secret-worker-key"
	r := startRouter(t, o, w)
	r.call("POST", "/v1/chat/completions?key=secret-query", chat("secret-prompt", false),
		proxytest.H("Authorization", "Bearer secret-token"), proxytest.H("X-Request-Id", "my-id"), proxytest.H("X-Session-Id", "secret-session"))
	c := proxytest.Dial(t, r.addr)
	if err := c.Send("POST /secret-path\x00 HTTP/1.1\r\nAuthorization: Bearer secret-token\r\nbad line secret\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadResponse(patience); err != nil {
		t.Fatal(err)
	}
	log := r.logs.String()
	if strings.Contains(log, "secret") {
		t.Errorf("the log gives a secret away:\n%s", log)
	}
	for _, want := range []string{
		"msg=request", "method=POST", "path=/v1/chat/completions", "id=my-id", "client=127.0.0.1", "status=200", "outcome=completed",
		"worker=" + w.URL(), "attempts=1", "msg=decision", "max_load=", "min_load=", "is_unbalanced=", "match=", "reason=prefix_miss",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}
}
