package proxy

import (
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// TestPanicAnywhere: wherever a request makes the router panic, its lease ends,
// its client gets a 500 or the end of its connection, and nobody else notices.
func TestPanicAnywhere(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 8000)
	plain := proxytest.JSON(200, `{"ok":1}`)
	slow := func(x *proxytest.Exchange) {
		if x.Sleep(50 * time.Millisecond) {
			plain(x)
		}
	}
	big := func(x *proxytest.Exchange) { x.Reply(200, strings.Repeat("0123456789", 20_000), jsonType) }
	prefill := controlCalls(proxytest.JSON(200, nixlReply))
	slowPrefill := controlCalls(func(x *proxytest.Exchange) {
		if x.Sleep(50 * time.Millisecond) {
			x.Reply(200, nixlReply, jsonType)
		}
	})
	for _, tc := range []struct {
		name    string
		at      trapPoint
		script  proxytest.Script
		prefill proxytest.Script // in two phases, if there is one
		proto   string
		body    string
		want    int // status; 0 is an end without an answer, or in the middle of it
	}{
		{"body", trapBody, plain, nil, "", chat(long, false), 500},
		{"grant", trapGrant, plain, nil, "", chat("a", false), 500},
		{"wait", trapWatch, slow, nil, "", chat("a", false), 500},
		{"stream of events", trapWrite, proxytest.SSE(20, time.Millisecond), nil, "", chat("a", true), 0},
		{"body of known length", trapWrite, big, nil, "", chat("a", false), 0},
		{"stream to HTTP/1.0", trapWrite, proxytest.SSE(20, time.Millisecond), nil, "HTTP/1.0", chat("a", true), 0},
		{"way out", trapEnd, plain, nil, "", chat("a", false), 200},
		{"way out, before a stream", trapEnd, proxytest.SSE(20, time.Millisecond), nil, "", chat("a", true), 200},
		{"log", trapAccess, plain, nil, "", chat("a", false), 200},
		{"log, behind a stream", trapAccess, proxytest.SSE(20, time.Millisecond), nil, "", chat("a", true), 200},
		{"log, behind a stream to HTTP/1.0", trapAccess, proxytest.SSE(20, time.Millisecond), nil, "HTTP/1.0", chat("a", true), 200},
		{"two phases, body", trapBody, decodeEither, prefill, "", chat(long, false), 500},
		{"two phases, grant", trapGrant, decodeEither, prefill, "", chat("a", false), 500},
		{"two phases, wait", trapWatch, decodeEither, slowPrefill, "", chat("a", false), 500},
		{"two phases, stream", trapWrite, decodeEither, prefill, "", chat("a", true), 0},
		{"two phases, way out", trapEnd, decodeEither, prefill, "", chat("a", true), 200},
		{"two phases, log", trapAccess, decodeEither, prefill, "", chat("a", true), 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := func(x *proxytest.Exchange) {
				if x.Get("X-Bystander") != "" {
					x.SSEHead()
					x.Event("one")
					if x.Hold() {
						x.Done()
						x.EndChunks()
					}
					return
				}
				tc.script(x)
			}
			w := proxytest.NewWorker(t, script)
			var r *router
			var tr *trap
			if tc.prefill == nil {
				r, tr = startTrapped(t, testOptions("cache_aware"), w)
			} else {
				r, tr = startTrapped(t, pdOptions("cache_aware"))
				r.addPD([]*proxytest.Worker{proxytest.NewWorker(t, tc.prefill)}, []*proxytest.Worker{w})
			}
			beside := proxytest.Dial(t, r.addr)
			if err := beside.Post("/v1/chat/completions", chat("b", true), jsonType, proxytest.H("X-Bystander", "yes")); err != nil {
				t.Fatal(err)
			}
			if _, err := beside.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			cl := proxytest.Dial(t, r.addr)
			id := tr.set(cl, tc.at)
			if err := cl.SendRequest(proxytest.Request{Target: chatPath, Method: "POST", Proto: tc.proto, Headers: []proxytest.Header{jsonType, id}, Body: tc.body}); err != nil {
				t.Fatal(err)
			}
			got, err := cl.ReadResponse(patience)
			switch {
			case tc.want == 0 && err == nil:
				t.Errorf("an answer of status %d has ended well", got.Status)
			case tc.want != 0 && (err != nil || got.Status != tc.want):
				t.Errorf("the answer is %+v (%v), want status %d", got, err, tc.want)
			}
			if tc.want != 200 {
				select {
				case <-cl.PeerClosed():
				case <-time.After(patience):
					t.Error("the connection stays open")
				}
			}
			r.waitLoad(w, 1) // of the bystander
			w.Release()
			if got, err := beside.ReadResponse(patience); err != nil || got.Status != 200 {
				t.Errorf("the answer beside it ends with %v", err)
			}
			r.waitIdle()
			if got := ask(t, r, chatPath, chat("c", false)); got.Status != 200 {
				t.Errorf("afterwards: status %d, want 200", got.Status)
			}
			wantCounted(t, r, tr, 1)
		})
	}
}

// wantCounted fails the test unless n traps were sprung, each counted as a panic
// once, and no request is taken to run.
func wantCounted(t *testing.T, r *router, tr *trap, n int) {
	t.Helper()
	for end := time.Now().Add(patience); r.metrics.inFlight.Get() != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if got := r.metrics.inFlight.Get(); got != 0 {
		t.Errorf("%v requests are said to run, want 0", got)
	}
	if got, counted := tr.count(), r.metrics.panics.Get(); got != n || counted != uint64(n) {
		t.Errorf("%d traps were sprung and %d panics counted, want %d", got, counted, n)
	}
	for _, o := range tr.others {
		t.Errorf("the router panicked: %s", o)
	}
}

// TestPanicOutsideAnExchange: a panic where fasthttp asks before there is an
// exchange, or for metrics, is that request's 500 too.
func TestPanicOutsideAnExchange(t *testing.T) {
	t.Parallel()
	o := testOptions("round_robin")
	o.AdminKey = "key"
	r, _ := startTrapped(t, o, proxytest.NewWorker(t, proxytest.JSON(200, `{}`)))
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := r.ServeMetrics(ln); err != nil {
			t.Errorf("ServeMetrics: %v", err)
		}
	}()
	r.exchanges = sync.Pool{New: func() any { return "no exchange" }}
	for _, tc := range []struct {
		name string
		req  proxytest.Request
	}{
		{"handler", proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{jsonType}, Body: "{}"}},
		{"expectation", proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{jsonType, proxytest.H("Expect", "100-continue")}, Body: "{}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := r.metrics.panics.Get()
			got, err := proxytest.Try(r.addr, tc.req, patience)
			if err != nil || got.Status != 500 {
				t.Errorf("the answer is %+v (%v), want status 500", got, err)
			}
			if n := r.metrics.panics.Get() - before; n != 1 {
				t.Errorf("%d panics are counted, want 1", n)
			}
		})
	}
	r.metrics.set.NewGauge("panics", func() float64 { panic(errTrap) })
	got, err := proxytest.Try(ln.Addr().String(), proxytest.Request{Target: "/metrics"}, patience)
	if err != nil || got.Status != 500 {
		t.Errorf("metrics: the answer is %+v (%v), want status 500", got, err)
	}
}
