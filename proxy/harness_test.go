package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy/proxytest"
)

// patience is how long a test waits for an event that is due at once. A busy machine
// may keep it waiting for seconds; only a failure takes so long.
const patience = 30 * time.Second

// farOff is a limit that no test reaches, and so long that whoever waits with patience
// misses what only this limit brings about.
const farOff = 4 * patience

// brief is a limit that is to be reached, and not before others have done what they do
// at once: a busy machine may keep any of them waiting for two seconds.
const brief = 2500 * time.Millisecond

// testOptions are options for a router under test: quick checks, short waits,
// every limit small enough to be reached.
func testOptions(name string) Options {
	o := Options{
		Retry:          RetryOptions{MaxAttempts: 3, InitialBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2},
		Timeouts:       Timeouts{Connect: farOff, FirstByte: farOff, Idle: farOff, PoolIdle: farOff, ClientHeader: farOff, ClientBody: farOff, ClientWrite: farOff, ClientIdle: farOff},
		Limits:         Limits{BodyBytes: 64 << 20, HeadBytes: 32 << 10, Connections: 10_000, IdleConns: 512},
		StartupTimeout: patience,
		Version:        "test",
		leastWait:      brief,
	}
	o.Router.PolicyOptions = policy.DefaultOptions()
	for r := range o.Router.Policy {
		o.Router.Policy[r] = name
	}
	o.Router.TreeBytes = 4 << 20
	o.Router.MaxWorkers = 1024
	o.Router.Retries = actors.RetryOptions{Ratio: 0.1, Floor: 1000}
	o.Router.Breaker = actors.BreakerOptions{FailureThreshold: 10, SuccessThreshold: 3, Timeout: 60 * time.Second}
	o.Router.Health = actors.HealthOptions{
		FailureThreshold: 3, SuccessThreshold: 2, Interval: 50 * time.Millisecond, RetryInterval: 20 * time.Millisecond, Timeout: patience,
	}
	o.Health = HealthOptions{HealthOptions: o.Router.Health, Path: "/health"}
	return o
}

// router is a router under test, listening on loopback.
type router struct {
	*Proxy
	t    testing.TB
	addr string
	logs *logBuffer
}

// logBuffer gathers what a router logs, and hands it to the test when it fails.
type logBuffer struct {
	expectPanic bool

	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startRouter starts a router in front of workers and waits until each is
// healthy. It stops with the test, and fails it if a release was refused.
func startRouter(t testing.TB, o Options, workers ...*proxytest.Worker) *router {
	t.Helper()
	serve := func(p *Proxy, ln net.Listener) error { return p.Serve(ln, nil) }
	return startServed(t, o, serve, workers...)
}

// startServed is startRouter with a way to serve of the test's own. A log in the
// options stays.
func startServed(t testing.TB, o Options, serve func(*Proxy, net.Listener) error, workers ...*proxytest.Worker) *router {
	t.Helper()
	r := &router{t: t, logs: &logBuffer{}}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy = p
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- serve(p, ln) }()
	t.Cleanup(func() {
		v := r.snapshot()
		if v.Refused != 0 {
			t.Errorf("%d releases were refused, want 0", v.Refused)
		}
		for i := range v.Workers {
			if w := &v.Workers[i]; w.Load+w.InPhase[actors.Reserved]+w.InPhase[actors.Parked] == 0 && (w.Pending != 0 || w.Held != 0) {
				t.Errorf("%s has %d blocks pending and holds %d without a lease, want 0", w.URL, w.Pending, w.Held)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if !r.logs.expectPanic && strings.Contains(r.logs.String(), "made the router panic") {
			t.Error("the router panicked")
		}
		if t.Failed() && len(r.logs.String()) < 1<<16 {
			t.Logf("router's log:\n%s", r.logs)
		}
	})
	for _, w := range workers {
		if _, err := p.AddWorker(WorkerSpec{URL: w.URL(), Priority: 50}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitHealthy(len(workers))
	return r
}

func (r *router) snapshot() actors.Snapshot {
	v, err := r.router.Snapshot(r.now())
	if err != nil {
		r.t.Errorf("Snapshot: %v", err)
	}
	return v
}

// wait waits until cond holds of what the registry sees.
func (r *router) wait(what string, cond func(v *actors.Snapshot) bool) {
	r.t.Helper()
	var v actors.Snapshot
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		v = r.snapshot()
		if cond(&v) {
			return
		}
	}
	r.t.Fatalf("after %v still waiting for %s; workers: %s", patience, what, describe(&v))
}

func describe(v *actors.Snapshot) string {
	var b strings.Builder
	for i := range v.Workers {
		w := &v.Workers[i]
		fmt.Fprintf(&b, "\n  %s member=%v healthy=%v breaker=%v load=%d reason=%q", w.URL, w.Member, w.Healthy, w.Breaker, w.Load, w.Reason)
	}
	return b.String()
}

func (r *router) waitHealthy(n int) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%d healthy workers", n), func(v *actors.Snapshot) bool {
		healthy := 0
		for i := range v.Workers {
			if v.Workers[i].Healthy && v.Workers[i].Member {
				healthy++
			}
		}
		return healthy == n
	})
}

// waitLoad waits until a worker's load is n.
func (r *router) waitLoad(w *proxytest.Worker, n int) {
	r.t.Helper()
	r.wait(fmt.Sprintf("load %d at %s", n, w.URL()), func(v *actors.Snapshot) bool { return loadOf(v, w.URL()) == n })
}

// load is a worker's load at this instant.
func (r *router) load(w *proxytest.Worker) int {
	v := r.snapshot()
	return loadOf(&v, w.URL())
}

func loadOf(v *actors.Snapshot, url string) int {
	for i := range v.Workers {
		if v.Workers[i].URL == url {
			return v.Workers[i].Load
		}
	}
	return 0
}

// waitOutcome waits until n requests have ended at workers with a cause.
func (r *router) waitOutcome(c actors.Cause, n uint64) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%d leases that end as %s", n, c), func(v *actors.Snapshot) bool {
		got := uint64(0)
		for i := range v.Workers {
			got += v.Workers[i].Outcomes[c]
		}
		return got == n
	})
}

// chat is the body of a request whose prompt is its own.
func chat(prompt string, stream bool) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%v}`, prompt, stream)
}

var jsonType = proxytest.H("Content-Type", "application/json")

// post sends a chat and returns the open connection.
func (r *router) post(body string) *proxytest.Client {
	r.t.Helper()
	c := proxytest.Dial(r.t, r.addr)
	if err := c.Post("/v1/chat/completions", body, jsonType); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func hostOf(t testing.TB, url string) string {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		t.Fatal(err)
	}
	return host
}
