package proxy

import (
	"net"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy/proxytest"
	"loadstar/proxy/upstream"
)

// stalledStream answers with two events and then says nothing until its peer
// leaves.
func stalledStream(x *proxytest.Exchange) {
	x.SSEHead()
	x.Event("one")
	x.Event("two")
	x.Hold()
}

// flowing streams for as long as its peer stays.
func flowing(x *proxytest.Exchange) {
	x.SSEHead()
	for x.Sleep(5 * time.Millisecond) {
		x.Event(`{"choices":[{"delta":{"content":"word "}}]}`)
	}
}

// stalledPlain announces a plain answer and sends half of it.
func stalledPlain(x *proxytest.Exchange) {
	x.Head(200, proxytest.H("Content-Type", "application/json"), proxytest.H("Content-Length", "10000"))
	x.Raw("12345")
	x.Hold()
}

// warm makes n requests at once, which w holds, so that the router keeps as many
// connections to it: over a new one clients are watched from the dial on.
func (r *router) warm(w *proxytest.Worker, n int) {
	r.t.Helper()
	var clients []*proxytest.Client
	for range n {
		clients = append(clients, r.post(chat("warm", false)))
	}
	w.WaitInFlight(n, patience)
	w.Release()
	for _, c := range clients {
		if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
			r.t.Fatalf("answer %v, %v", got, err)
		}
	}
}

// TestClientLeaves: whenever a client leaves, its worker is told at once, and
// the request no longer counts, whatever the policy.
func TestClientLeaves(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tc := range []struct {
				name   string
				script proxytest.Script
				stream bool
				begun  bool // an answer reaches the client before it leaves
			}{
				{"before the head", proxytest.Silent, true, false},
				{"before the head, plain", proxytest.Silent, false, false},
				{"stalled stream", stalledStream, true, true},
				{"flowing stream", flowing, true, true},
				{"stalled plain answer", stalledPlain, false, true},
			} {
				for _, how := range []string{"FIN", "RST", "half close", "FIN behind pipelined bytes"} {
					t.Run(tc.name+", "+how, func(t *testing.T) {
						t.Parallel()
						const n = 3
						w := proxytest.NewWorker(t, heldPlain)
						r := startRouter(t, testOptions(name), w)
						r.warm(w, n)
						w.SetScript(tc.script)
						var clients []*proxytest.Client
						for range n {
							c := r.post(chat("hi", tc.stream))
							clients = append(clients, c)
							if tc.begun {
								if _, err := c.ReadHead(patience); err != nil {
									t.Fatalf("ReadHead: %v", err)
								}
							}
						}
						w.WaitInFlight(n, patience)
						r.waitLoad(w, n)
						for _, c := range clients {
							switch how {
							case "FIN":
								c.CloseFIN()
							case "RST":
								c.Reset()
							case "half close":
								c.HalfClose()
							case "FIN behind pipelined bytes":
								if err := c.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"); err != nil {
									t.Fatal(err)
								}
								c.CloseFIN()
							}
						}
						r.waitLoad(w, 0)
						w.WaitInFlight(0, patience)
						r.waitOutcome(actors.ClientGone, n)
						for _, x := range w.Seen()[n:] {
							if x.Outcome() != proxytest.Abandoned {
								t.Errorf("the worker saw a request end as %v, want abandoned", x.Outcome())
							}
						}
					})
				}
			}
		})
	}
}

// TestWatchedInADribble: a client is watched from a moment after the first wait for
// a worker on, even if the worker never lets it wait long.
func TestWatchedInADribble(t *testing.T) {
	p, err := New(testOptions("round_robin"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	w := proxytest.NewWorker(t, heldPlain)
	pool, err := upstream.NewPool(w.URL(), p.upstreamOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Retire()
	conn, err := pool.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Any connection will do for the client's.
	client, err := net.Dial("tcp", w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l := link{client: client, guard: p.watcher.NewGuard()}
	l.attach(conn)
	defer l.settle(pool, false)
	// Each answer is there before it is waited for.
	for begun := time.Now(); time.Since(begun) < 5*armAfter || !l.guard.Armed(); {
		if time.Since(begun) > patience {
			t.Fatal("the client is not watched")
		}
		if _, err := conn.Write([]byte("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(armAfter / 4)
		if err := l.more(patience); err != nil {
			t.Fatal(err)
		}
		conn.Reader().Discard(conn.Reader().Buffered())
	}
}
