package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// wantNoticed fails the test unless the worker has seen its peer leave within
// patience of the client's leaving at left, and counts nothing more.
func wantNoticed(t *testing.T, r *router, w *proxytest.Worker, left time.Time) {
	t.Helper()
	w.WaitInFlight(0, patience)
	r.waitLoad(w, 0)
	seen := w.Seen()
	x := seen[len(seen)-1]
	if x.Outcome() != proxytest.Abandoned {
		t.Errorf("the request ended as %v at the worker, want abandoned", x.Outcome())
	}
	if d := x.PeerClosedAt().Sub(left); d > patience {
		t.Errorf("the worker saw its peer leave after %v, want within %v", d, patience)
	}
	r.waitOutcome(actors.ClientGone, 1)
}

// warmUp makes one request that w answers at once, so that the next finds a kept
// connection: on its way to a new one a request is watched already.
func warmUp(t *testing.T, r *router, w *proxytest.Worker, script proxytest.Script) {
	t.Helper()
	w.SetScript(proxytest.JSON(200, `{}`))
	want200(t, ask(t, r, chatPath, chat("warm up", false)), `{}`)
	w.SetScript(script)
}

// TestCaseB12ClientGoneInMidStream: a worker that streams is not left to
// generate for a client that has hung up.
func TestCaseB12ClientGoneInMidStream(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint("gap ", gap), func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, nil)
			r := startRouter(t, testOptions("cache_aware"), w)
			warmUp(t, r, w, proxytest.SSE(1<<20, gap))
			c := r.post(chat("hi", true))
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			r.waitLoad(w, 1)
			left := time.Now()
			c.CloseFIN()
			wantNoticed(t, r, w, left)
		})
	}
}

// TestCaseB13ClientGoneBeforeTheFirstByte: while a worker is still silent, as in
// a long prefill, the client is watched too.
func TestCaseB13ClientGoneBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	headOnly := func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Hold()
	}
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		stream bool
	}{
		{"plain", proxytest.Silent, false},
		{"stream", proxytest.Silent, true},
		{"stream whose head has come", headOnly, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, nil)
			r := startRouter(t, testOptions("cache_aware"), w)
			warmUp(t, r, w, tc.script)
			c := r.post(chat("hi", tc.stream))
			w.WaitInFlight(1, patience)
			left := time.Now()
			c.CloseFIN()
			wantNoticed(t, r, w, left)
		})
	}
}

// TestCaseB15CancelOnEveryPath: a hang-up ends the work at the worker whatever
// the path, also where the router knows nothing of it.
func TestCaseB15CancelOnEveryPath(t *testing.T) {
	t.Parallel()
	requests := []proxytest.Request{{Target: "/some/path?stream=1"}, {Method: "PUT", Target: "/some/path", Body: "x"}, {Target: "/v1/models"}}
	for path := range workerPaths {
		requests = append(requests, proxytest.Request{Target: path, Headers: []proxytest.Header{jsonType}, Body: chat("hi", true)})
	}
	for _, q := range requests {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s%s begun=%v", q.Method, q.Target, begun), func(t *testing.T) {
				t.Parallel()
				script := proxytest.Silent
				if begun {
					script = stalledStream
				}
				w := proxytest.NewWorker(t, nil)
				r := startRouter(t, testOptions("round_robin"), w)
				warmUp(t, r, w, script)
				c := proxytest.Dial(t, r.addr)
				if err := c.SendRequest(q); err != nil {
					t.Fatal(err)
				}
				w.WaitInFlight(1, patience)
				if begun {
					if _, err := c.ReadEvent(patience); err != nil {
						t.Fatal(err)
					}
				}
				left := time.Now()
				c.CloseFIN()
				wantNoticed(t, r, w, left)
			})
		}
	}
}

// namedStream streams pieces that each name their request, and sometimes
// announces a length instead.
func namedStream(x *proxytest.Exchange) {
	name := x.Get("X-Name")
	const pieces = 8
	if strings.HasSuffix(name, "7") {
		x.Head(200, proxytest.H("Content-Type", "text/plain"), proxytest.H("Content-Length", fmt.Sprint(pieces*(len(name)+1))))
	} else {
		x.Head(200, proxytest.H("Content-Type", "text/plain"), proxytest.H("Transfer-Encoding", "chunked"))
	}
	for range pieces {
		if !x.Chunk(name+"\n") || !x.Sleep(time.Millisecond) {
			return
		}
	}
	x.EndChunks()
}

// TestCaseB17NoDirtyConnectionIsUsedAgain: a connection to a worker that was
// left in the middle of an answer carries no other request.
func TestCaseB17NoDirtyConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, r *router, name string) {
		t.Helper()
		resp := proxytest.Do(t, r.addr, proxytest.Request{
			Method: "POST", Target: chatPath, Headers: []proxytest.Header{proxytest.H("X-Name", name)}, Body: chat(name, true),
		})
		want200(t, resp, strings.Repeat(name+"\n", 8))
	}
	t.Run("clients that leave", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, namedStream)
		r := startRouter(t, once(), w)
		together(4, func(k int) {
			random := rand.New(rand.NewPCG(17, uint64(k)))
			for i := range 10 {
				c := proxytest.Dial(t, r.addr)
				name := fmt.Sprintf("gone-%d-%d", k, i)
				if err := c.Post(chatPath, chat(name, true), proxytest.H("X-Name", name)); err != nil {
					t.Error(err)
				}
				if random.IntN(3) > 0 {
					if _, err := c.ReadHead(patience); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
				c.CloseFIN()
				ask(t, r, fmt.Sprintf("stays-%d-%d", k, i))
			}
		})
		r.waitLoad(w, 0)
	})
	t.Run("a worker that stalls", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			if strings.Contains(string(x.Body()), "stall") {
				x.Head(200, proxytest.H("Content-Length", "1000"))
				x.Raw("a part")
				x.Hold()
				x.Raw(strings.Repeat("late", 1000))
				return
			}
			x.Reply(200, strings.Repeat(x.Get("X-Name")+"\n", 8)) // at once: no stall, however busy the machine
		})
		o := once()
		o.Timeouts.Idle = 300 * time.Millisecond
		r := startRouter(t, o, w)
		for i := range 2 {
			resp, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: chat("stall", false)}, patience)
			if err == nil {
				t.Errorf("a stalled answer ended as promised: %d %q", resp.Status, resp.Body)
			}
			// The rest comes when the next request is out, so that a connection
			// kept by mistake looks quiet until then.
			next := w.Requests() + 1
			together(2, func(k int) {
				if k == 0 {
					ask(t, r, fmt.Sprint("behind-", i))
					return
				}
				w.WaitRequests(next, patience)
				w.Release()
			})
		}
		if got := r.outcome(actors.UpstreamTimeout); got != 2 {
			t.Errorf("%d timeouts, want 2", got)
		}
	})
	t.Run("a worker that says too much", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			if strings.Contains(string(x.Body()), "more") {
				x.KeepAlive(true)
				x.Raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n")
				x.Hold()
				x.Raw("\r\nwrong")
				return
			}
			namedStream(x)
		})
		r := startRouter(t, once(), w)
		for i := range 2 {
			want200(t, proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: chat("more", false)}), "ok")
			next := w.Requests() + 1
			together(2, func(k int) {
				if k == 0 {
					ask(t, r, fmt.Sprint("behind-", i))
					return
				}
				w.WaitRequests(next, patience)
				w.Release()
			})
		}
	})
}

// TestCaseB18CloseWhileReading: ending a stream from beside, while a read of it
// is parked, disturbs neither that read's memory nor other streams. It is for
// the race detector.
func TestCaseB18CloseWhileReading(t *testing.T) {
	t.Parallel()
	o := once()
	o.Timeouts.Idle = brief
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		if !strings.Contains(string(x.Body()), "slow") {
			namedStream(x)
			return
		}
		x.SSEHead()
		for x.Event(strings.Repeat("x", 100)) {
			// Some fall silent, so the router ends some streams itself.
			if rand.IntN(20) == 0 {
				x.Hold()
				return
			}
			if !x.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) {
				return
			}
		}
	})
	r := startRouter(t, o, w)
	together(150, func(i int) {
		if i%5 == 0 {
			name := fmt.Sprint("intact-", i)
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{proxytest.H("X-Name", name)}, Body: chat(name, true)})
			want200(t, resp, strings.Repeat(name+"\n", 8))
			return
		}
		c := proxytest.Dial(t, r.addr)
		if err := c.Post(chatPath, chat(fmt.Sprint("slow ", i), true)); err != nil {
			t.Error(err)
			return
		}
		// An end before the client's own is the router's idle limit.
		select {
		case <-c.PeerClosed():
		case <-time.After(time.Duration(i) * 20 * time.Millisecond):
		}
		if i%2 == 0 {
			c.Reset()
		} else {
			c.CloseFIN()
		}
	})
	r.waitLoad(w, 0)
	w.WaitInFlight(0, patience)
}

// TestCaseB19IdleConnectionDiesAtSend: a kept connection that the worker closes
// just when a request is sent on it costs the client nothing, a POST included,
// and the worker runs each request once.
func TestCaseB19IdleConnectionDiesAtSend(t *testing.T) {
	t.Parallel()
	post := func(t *testing.T, r *router, path string) *proxytest.Response {
		t.Helper()
		return ask(t, r, path, chat("hi", false))
	}
	t.Run("closed while idle", func(t *testing.T) {
		t.Parallel()
		var ran atomic.Int64 // a request on a connection that is being closed counts as one, and isn't run
		w := proxytest.NewWorker(t, proxytest.IdleClose(200*time.Millisecond, func(x *proxytest.Exchange) {
			ran.Add(1)
			x.Reply(200, `{}`)
		}))
		r := startRouter(t, once(), w)
		for i := range int64(3) {
			want200(t, post(t, r, chatPath), `{}`)
			w.WaitFor("closed connection", func(c proxytest.Counts) bool { return c.OpenConnections == 0 }, patience)
			if got := ran.Load(); got != i+1 {
				t.Errorf("the worker ran %d requests, want %d", got, i+1)
			}
		}
	})
	for _, how := range []string{"FIN", "RST"} {
		for _, path := range []string{chatPath, "/v1/responses", "/unknown"} {
			t.Run("closed on arrival by "+how+" at "+path, func(t *testing.T) {
				t.Parallel()
				ran := make(chan string, 100)
				w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
					ran <- x.Target
					x.Reply(200, `{}`)
				})
				r := startRouter(t, once(), w)
				w.SetEarly(func(x *proxytest.Exchange) {
					switch {
					case x.Seq == 1:
					case how == "FIN":
						x.CloseFIN()
					default:
						x.Reset()
					}
				})
				for range 3 {
					want200(t, post(t, r, path), `{}`)
				}
				if len(ran) != 3 {
					t.Errorf("the worker ran %d requests, want 3", len(ran))
				}
				if got := r.outcome(actors.UpstreamReset); got != 0 {
					t.Errorf("%d resets count against the worker, want 0", got)
				}
			})
		}
	}
	t.Run("several, all stale", func(t *testing.T) {
		t.Parallel()
		const n = 5
		w := proxytest.NewWorker(t, proxytest.Silent)
		w.SetScript(func(x *proxytest.Exchange) {
			if x.Hold() {
				x.Reply(200, `{}`)
			}
		})
		r := startRouter(t, once(), w)
		var clients []*proxytest.Client
		for range n {
			clients = append(clients, r.post(chat("hi", false)))
		}
		w.WaitInFlight(n, patience)
		w.Release()
		for _, c := range clients {
			if _, err := c.ReadResponse(patience); err != nil {
				t.Fatal(err)
			}
		}
		r.waitLoad(w, 0)
		w.SetScript(proxytest.JSON(200, `{}`))
		w.DropConnections()
		for range n {
			want200(t, post(t, r, chatPath), `{}`)
		}
	})
	t.Run("the fresh one dies too", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.Sequence(proxytest.JSON(200, `{}`), proxytest.ResetBeforeHead))
		r := startRouter(t, once(), w)
		want200(t, post(t, r, chatPath), `{}`)
		wantProblem(t, post(t, r, chatPath), 502, "upstream_closed")
		if got := w.Requests(); got != 3 {
			t.Errorf("the worker got %d requests, want 3: one, one on a kept connection, one on a fresh one", got)
		}
	})
	t.Run("dies within its answer", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.Sequence(proxytest.JSON(200, `{}`), func(x *proxytest.Exchange) {
			x.Raw("HTTP/1.1 2")
			x.CloseFIN()
		}))
		r := startRouter(t, once(), w)
		want200(t, post(t, r, chatPath), `{}`)
		wantProblem(t, post(t, r, chatPath), 502, "upstream_closed")
		if got := w.Requests(); got != 2 {
			t.Errorf("the worker got %d requests, want 2: one that it began to answer is not sent again", got)
		}
	})
}

// TestCaseB20BodyIsSentAgainWhole: what is sent again on a fresh connection is
// the whole request, not a head with an empty body.
func TestCaseB20BodyIsSentAgainWhole(t *testing.T) {
	t.Parallel()
	body := chat(strings.Repeat("0123456789", 20_000), false)
	for _, tc := range []struct {
		name  string
		sizes []int
		early proxytest.Script
	}{
		{"closed at the head", nil, (*proxytest.Exchange).CloseFIN},
		{"reset at the head", nil, (*proxytest.Exchange).Reset},
		{"reset behind the body", nil, func(x *proxytest.Exchange) { x.ReadBody(); x.Reset() }},
		{"chunked upload", []int{20_000}, (*proxytest.Exchange).Reset},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, once(), w)
			w.SetEarly(func(x *proxytest.Exchange) {
				if x.Seq > 1 {
					tc.early(x)
				}
			})
			for range 3 {
				resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: body, ChunkSizes: tc.sizes})
				want200(t, resp, `{}`)
			}
			whole := 0
			for _, x := range w.Seen() {
				if x.Outcome() == proxytest.Answered {
					wantBytes(t, "a body that was answered", x.Body(), []byte(body))
					whole++
				}
			}
			if whole != 3 {
				t.Errorf("%d requests were answered, want 3", whole)
			}
		})
	}
	t.Run("retry at another worker", func(t *testing.T) {
		t.Parallel()
		a, b := proxytest.NewWorker(t, proxytest.ResetBeforeHead), proxytest.NewWorker(t, proxytest.ResetBeforeHead)
		r := startRouter(t, testOptions("round_robin"), a, b)
		resp, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: body}, patience)
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, resp, 502, "upstream_closed")
		for _, w := range []*proxytest.Worker{a, b} {
			wantBytes(t, "a body that was tried", theRequest(t, w).Body(), []byte(body))
		}
	})
}
