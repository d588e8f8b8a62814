package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestRequestsThatMayNotRunTwice: a worker that takes a request up and dies without
// an answer looks like one whose connection was stale. What isn't generation may
// have done something by then, and so is sent once.
func TestRequestsThatMayNotRunTwice(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		want         int // requests that reach the worker
	}{
		{"POST", "/v1/files", 1},
		{"POST", "/v1/responses", 1},
		{"DELETE", "/v1/files/1", 1},
		{"GET", "/v1/files", 2},
		{"POST", chatPath, 2},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			r := startRouter(t, once(), w)
			if got := r.call("GET", "/warm", ""); got.Status != 200 {
				t.Fatalf("status %d", got.Status)
			}
			before := w.Requests()
			w.SetScript(func(x *proxytest.Exchange) {
				x.ReadBody()
				x.CloseFIN()
			})
			wantProblem(t, r.call(tc.method, tc.path, ""), 502, "upstream_closed")
			if got := w.Requests() - before; got != tc.want {
				t.Errorf("the worker got it %d times, want %d", got, tc.want)
			}
			w.SetScript(proxytest.JSON(200, "{}"))
			want200(t, r.call(tc.method, tc.path, ""), "{}")
		})
	}
}

// TestErrorThatDoesNotEnd: while another worker could answer, nobody waits for the
// rest of an error.
func TestErrorThatDoesNotEnd(t *testing.T) {
	bad := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.Head(503, jsonType, proxytest.H("Content-Length", "200"))
		x.Raw("{")
		x.Hold()
	})
	good := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"), bad, good)
	for range 2 { // one of them meets the bad one first
		got, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: chat("hi", false)}, patience)
		if err != nil {
			t.Fatal(err)
		}
		want200(t, got, "{}")
	}
	if bad.Requests() == 0 {
		t.Error("the bad worker got no request, so nothing was tested")
	}
}

// TestResetOfKeptConnections: a request that every worker resets at once costs two
// calls, and one more where it went out over a kept connection first, which may have
// been stale; however many attempts there may be, and wherever kept connections are.
func TestResetOfKeptConnections(t *testing.T) {
	for _, phases := range []bool{false, true} {
		t.Run(fmt.Sprint("two phases: ", phases), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			calls := map[string][]string{} // of each poisoned request, the workers that got it
			script := func(name string, good proxytest.Script) proxytest.Script {
				return controlCalls(func(x *proxytest.Exchange) {
					x.ReadBody()
					id := x.Get("X-Poison")
					if id == "" {
						good(x)
						return
					}
					mu.Lock()
					calls[id] = append(calls[id], name)
					mu.Unlock()
					x.Reset()
				})
			}
			answer := proxytest.JSON(200, `{}`)
			if phases {
				answer = prefillWith(nixlReply)
			}
			cold := func(x *proxytest.Exchange) {
				x.Reply(200, nixlReply, jsonType, proxytest.H("Connection", "close"))
			}
			var ws []*proxytest.Worker
			for _, name := range []string{"warm 1", "warm 2", "warm 3", "warm 4"} {
				ws = append(ws, proxytest.NewWorker(t, script(name, answer)))
			}
			ws = append(ws, proxytest.NewWorker(t, script("cold", cold)))
			limits := func(o Options) Options {
				o.Retry.MaxAttempts = 10
				o.Router.Breaker.Disabled = true
				return o
			}
			var r *router
			if phases {
				r = startPD(t, limits(pdOptions("round_robin")), ws, []*proxytest.Worker{proxytest.NewWorker(t, controlCalls(decodeEither))})
			} else {
				r = startRouter(t, limits(testOptions("round_robin")), ws...)
			}
			first := map[string]int{}
			for i := range 4 * len(ws) { // each is the first now and then
				for range ws {
					if got := r.call("POST", chatPath, chat("hi", false)); got.Status != 200 {
						t.Fatalf("status %d %s", got.Status, got.Body)
					}
				}
				id := fmt.Sprint(i)
				if got := r.call("POST", chatPath, chat("hi", false), proxytest.H("X-Poison", id)); got.Status != 502 {
					t.Fatalf("status %d %s, want 502", got.Status, got.Body)
				}
				mu.Lock()
				got := calls[id]
				mu.Unlock()
				want := 3
				if got[0] == "cold" {
					want = 2
				}
				if len(got) > want || len(got) < 2 {
					t.Errorf("calls of %q, want %d", got, want)
				}
				if len(got) == want {
					first[got[0]]++
				}
			}
			if len(first) != len(ws) {
				t.Errorf("the first calls were %v, want each of %d workers among them", first, len(ws))
			}
		})
	}
}

// TestResetWithTheWorker: the bound holds where the worker that resets a kept
// connection is gone, and nobody has seen the attempt.
func TestResetWithTheWorker(t *testing.T) {
	t.Parallel()
	o := testOptions("round_robin")
	o.Retry.MaxAttempts = 10
	var calls atomic.Int64
	ws := make([]*proxytest.Worker, 4)
	for i := range ws {
		ws[i] = proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
			x.ReadBody()
			if x.Get("X-Poison") == "" {
				x.Reply(200, `{}`)
				return
			}
			if calls.Add(1) == 1 {
				ws[i].Stop()
			}
			x.Reset()
		}))
	}
	r := startRouter(t, o, ws...)
	for range 2 * len(ws) {
		want200(t, r.call("POST", chatPath, chat("hi", false)), `{}`)
	}
	if got := r.call("POST", chatPath, chat("hi", false), proxytest.H("X-Poison", "1")); got.Status != 502 {
		t.Errorf("status %d %s, want 502", got.Status, got.Body)
	}
	if n := calls.Load(); n < 2 || n > 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// TestResetOfKeptConnectionsBeside: the bound holds for a prefill that runs beside the
// decode request.
func TestResetOfKeptConnectionsBeside(t *testing.T) {
	t.Parallel()
	b := besideConnectors["mooncake"](t, pdOptions("round_robin"))
	b.p.SetScript(held(prefillWith(moonReply)))
	b.d.SetScript(held(decodeEither))
	var clients []*proxytest.Client
	for range 4 { // each leaves a connection behind
		c, _, _ := b.begin(t, false)
		clients = append(clients, c)
	}
	b.p.Release()
	b.d.Release()
	for _, c := range clients {
		if got := finish(t, c); got.Status != 200 {
			t.Fatalf("status %d %s", got.Status, got.Body)
		}
	}
	b.r.waitIdle()
	b.p.SetScript(controlCalls(proxytest.ResetBeforeHead))
	before := len(generations(b.p))
	if got := finish(t, b.r.post(chat("bad", false))); got.Status != 502 {
		t.Errorf("status %d %s, want 502", got.Status, got.Body)
	}
	if n := len(generations(b.p)) - before; n < 2 || n > 3 {
		t.Errorf("the prefill worker got it %d times, want 3", n)
	}
}
