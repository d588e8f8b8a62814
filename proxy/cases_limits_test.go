package proxy

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
	"loadstar/proxy/watch"
)

// mutant is text with a few bytes changed, doubled, moved or left out.
func mutant(random *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + random.IntN(6) {
		if len(b) == 0 {
			return ""
		}
		at := random.IntN(len(b))
		switch to := min(len(b), at+1+random.IntN(8)); random.IntN(6) {
		case 0:
			b[at] = byte(random.IntN(256))
		case 1:
			b = append(b[:at], b[to:]...)
		case 2:
			b = append(b[:to:to], b[at:]...)
		case 3:
			b = b[:at]
		case 4:
			b = append(append(b[:at:at], `{}[]",:\u0d`[random.IntN(11)]), b[at:]...)
		default:
			b = append(append(b[:at:at], strings.Repeat(string(b[at:to]), 1+random.IntN(50))...), b[to:]...)
		}
	}
	return string(b)
}

// TestCaseB120MutantsPanicNothing: bodies, heads and answers that are nearly right
// do no harm: the router goes on, counts right, and has not panicked, which the
// end of every test looks for.
func TestCaseB120MutantsPanicNothing(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"h\u00e9\"llo"},{"type":"image_url","image_url":{"url":"data:,"}}]}],"stream":true,"user":"u"}`,
		`{"model":"m","prompt":[[1,2,3],["a","b"]],"max_tokens":5,"session_params":{"session_id":"s"}}`,
		`{"input":[{"role":"user","content":"x"}],"previous_response_id":"resp_1","tools":[{"type":"function","function":{"name":"f"}}]}`,
	}
	paths := []string{chatPath, "/v1/completions", "/v1/responses", "/v1/messages", "/unknown"}
	once := func(o Options) Options {
		o.Router.Breaker.Disabled = true
		o.Retry.MaxAttempts = 1
		return o
	}
	tolerant := func(o Options) Options { // of workers that fall silent
		o = once(o)
		o.Timeouts.Idle, o.Timeouts.FirstByte = brief, brief
		return o
	}
	for _, policy := range []string{"cache_aware", "sticky_least_loaded"} {
		t.Run("bodies, "+policy, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(120, 1))
			w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, once(testOptions(policy)), w)
			for i := range 500 {
				body := mutant(random, bodies[i%len(bodies)])
				want200(t, ask(t, r, paths[i%len(paths)], body), `{}`)
			}
			r.waitLoad(w, 0)
		})
	}
	t.Run("bodies in two phases", func(t *testing.T) {
		t.Parallel()
		random := rand.New(rand.NewPCG(120, 2))
		p, d := proxytest.NewWorker(t, prefillWith(nixlReply)), proxytest.NewWorker(t, decodeEither)
		r := startPD(t, once(pdOptions("cache_aware")), []*proxytest.Worker{p}, []*proxytest.Worker{d})
		for i := range 300 {
			body := mutant(random, bodies[i%len(bodies)])
			got := ask(t, r, paths[i%len(paths)], body)
			if got.Status != 200 && got.Status != 400 {
				t.Errorf("%q: answer %d %s, want 200 or 400", body, got.Status, got.Body)
			}
		}
		r.waitIdle()
	})
	answers := []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n11\r\ndata: {\"a\":\"b\"}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\nConnection: x-a\r\nX-A: b\r\n\r\n{\"id\":\"resp_1\"}",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}",
	}
	for _, phases := range []bool{false, true} {
		t.Run(fmt.Sprint("answers, two phases: ", phases), func(t *testing.T) {
			t.Parallel()
			var turn atomic.Uint64
			script := controlCalls(func(x *proxytest.Exchange) {
				n := turn.Add(1)
				x.Raw(mutant(rand.New(rand.NewPCG(n, 120)), answers[n%3]))
				x.CloseFIN()
			})
			w := proxytest.NewWorker(t, script)
			var r *router
			if phases {
				r = startPD(t, tolerant(pdOptions("cache_aware")), []*proxytest.Worker{proxytest.NewWorker(t, prefillWith(nixlReply))}, []*proxytest.Worker{w})
			} else {
				r = startRouter(t, tolerant(testOptions("cache_aware")), w)
			}
			for i := range 300 {
				// Whatever comes of it comes soon.
				_, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: paths[i%3], Headers: []proxytest.Header{jsonType}, Body: bodies[i%3]}, patience)
				if errors.Is(err, proxytest.ErrTimeout) || errors.Is(err, proxytest.ErrMalformed) || errors.Is(err, proxytest.ErrNoAnswer) {
					t.Errorf("answer %d: %v", i, err)
				}
			}
			r.waitIdle()
			w.SetScript(controlCalls(proxytest.JSON(200, decodeAnswer)))
			if got := ask(t, r, chatPath, bodies[0]); got.Status != 200 {
				t.Errorf("afterwards: answer %d %s, want 200", got.Status, got.Body)
			}
		})
	}
	t.Run("heads", func(t *testing.T) {
		t.Parallel()
		o := tolerant(testOptions("cache_aware"))
		o.Timeouts.ClientHeader, o.Timeouts.ClientBody = 50*time.Millisecond, 50*time.Millisecond
		w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, o, w)
		const head = "POST " + chatPath + "?a=b HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-A\r\nX-A: b\r\nExpect: 100-continue\r\nX-Session-Id: s\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\n{}"
		random := rand.New(rand.NewPCG(120, 3))
		texts := make([]string, 400)
		for i := range texts {
			texts[i] = mutant(random, head)
		}
		together(8, func(k int) {
			for i := k; i < len(texts); i += 8 {
				c, err := proxytest.Connect(r.addr, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.Send(texts[i])
				if _, err := c.ReadHead(patience); errors.Is(err, proxytest.ErrTimeout) || errors.Is(err, proxytest.ErrMalformed) {
					t.Errorf("%q: %v", texts[i], err)
				}
				c.Close()
			}
		})
		r.waitIdle()
		r.until("an answer to one who is not late", func() bool {
			got, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: `{}`}, patience)
			return err == nil && got.Status == 200
		})
	})
}

// panicky is a writer that panics.
type panicky struct{}

func (panicky) Write([]byte) (int, error) { panic("for the test") }

// TestCaseB120PanicInAStream: a panic behind the handler, where fasthttp writes the
// body, ends that answer and its lease and nothing else.
func TestCaseB120PanicInAStream(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, testOptions("round_robin"), w)
	r.logs.expectPanic = true
	lease, err := r.router.Acquire(&actors.Request{Now: r.now()})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	s := r.streams.Get().(*stream)
	*s = stream{
		p: r.Proxy, pool: poolOf(&lease), lease: lease, leased: true, final: actors.Completed, cause: actors.Aborted, first: []byte("x"),
		link: link{client: near, guard: r.guards.Get().(*watch.Guard)},
	}
	r.metrics.inFlight.Inc()
	_, err = s.WriteTo(panicky{})
	if err == nil {
		t.Error("a stream that panicked has ended well")
	}
	_ = s.CloseWithError(err)
	r.waitLoad(w, 0)
	samples := r.scrape()
	if got := samples["loadstar_panics_total"]; got != 1 {
		t.Errorf("%v panics are counted, want 1", got)
	}
	want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
}

// zeros is an endless text.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// heapInUse is what is live on the heap, in bytes.
func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // what pools hold goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestCaseB121BigBodiesLeaveNothing: big bodies, up and down, leave no big buffer
// behind, not in what is pooled and not with connections that stay open.
func TestCaseB121BigBodiesLeaveNothing(t *testing.T) {
	const size, clients = 8 << 20, 6
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if n, err := io.Copy(io.Discard, q.Body); err == nil && n > 0 {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, n)) // a client that has left needs none
		}
	}))
	defer worker.Close()
	r := startRouter(t, testOptions("cache_aware"))
	if _, err := r.AddWorker(WorkerSpec{URL: worker.URL}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	post := func(c net.Conn, n int64) {
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", chatPath, n)
		if _, err := io.Copy(c, io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, n))); err != nil {
			t.Error(err)
			return
		}
		// The answer is as long and ends with an empty chunk.
		last := []byte("\r\n0\r\n\r\n")
		tail := make([]byte, 0, 64<<10)
		for !strings.HasSuffix(string(tail), string(last)) {
			if len(tail) > 32<<10 {
				tail = append(tail[:0], tail[len(tail)-len(last):]...)
			}
			k, err := c.Read(tail[len(tail):cap(tail)])
			if err != nil {
				t.Error(err)
				return
			}
			tail = tail[:len(tail)+k]
		}
	}
	var conns []net.Conn
	for range clients {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		conns = append(conns, c)
	}
	together(clients, func(i int) { post(conns[i], 64<<10) })
	before := heapInUse()
	together(clients, func(i int) { post(conns[i], size) })
	r.waitIdle()
	// Looked at with the connections open, and with what is pooled still there.
	x := r.exchanges.Get().(*exchange)
	if cap(x.body) > keptBody {
		t.Errorf("a pooled exchange keeps %d bytes, want at most %d", cap(x.body), keptBody)
	}
	if grown := heapInUse() - before; grown > size/4 {
		t.Errorf("%d bodies of %d bytes leave %d bytes behind, want less than %d", clients, size, grown, size/4)
	}
}

// TestCaseB122SlowClientsHoldNothing: clients that dribble a head in, or stop in the
// middle of one or of a body, are answered and closed in time, however many there
// are, and others are served meanwhile.
func TestCaseB122SlowClientsHoldNothing(t *testing.T) {
	t.Parallel()
	o := testOptions("round_robin")
	o.Timeouts.ClientHeader, o.Timeouts.ClientBody = brief, brief
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, o, w)
	const each = 40
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n"
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(3*each, func(i int) {
			c, err := proxytest.Connect(r.addr, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			switch i % 3 {
			case 0: // a byte now and then: the limit is on the whole head
				if c.Send(head) != nil {
					return
				}
				for open := true; open; {
					select {
					case <-c.PeerClosed():
						open = false
					case <-time.After(20 * time.Millisecond):
						_ = c.Send("X") // may meet the close
					}
				}
			case 1:
				_ = c.Send(head + "Content-Le")
			default:
				_ = c.Send(head + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 20_000))
			}
			got, err := c.ReadResponse(patience)
			if got == nil || got.Status != 408 {
				t.Errorf("client %d: answer %+v, %v, want 408", i, got, err)
			}
			select {
			case <-c.PeerClosed():
			case <-time.After(patience):
				t.Errorf("client %d: the connection stays open", i)
			}
		})
	}()
	served := 0
	for over := false; !over; served++ {
		select {
		case <-done:
			over = true
		default:
		}
		want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
	}
	if got := w.Requests(); got != served {
		t.Errorf("the worker got %d requests, want the %d that came whole", got, served)
	}
}

// TestCaseB123SlowReadersAreHeldBack: of an answer that is not read, little is taken
// from the worker, which is held back; the rest comes when the client reads on.
func TestCaseB123SlowReadersAreHeldBack(t *testing.T) {
	const readers, size = 6, 64 << 20
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
	}{
		{"chunks", []proxytest.Header{proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Transfer-Encoding", "chunked")}},
		{"a length", []proxytest.Header{proxytest.H("Content-Type", "text/plain"), proxytest.H("Content-Length", fmt.Sprint(size))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sent atomic.Int64
			piece := strings.Repeat("x", 64<<10)
			w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{"": proxytest.JSON(200, `{}`), "flood": func(x *proxytest.Exchange) {
				x.Head(200, tc.headers...)
				for range size / len(piece) {
					if !x.Chunk(piece) {
						return
					}
					sent.Add(int64(len(piece)))
				}
			}}))
			r := startRouter(t, testOptions("round_robin"), w)
			ask(t, r, chatPath, chat("hi", false))
			before := heapInUse()
			var clients []*proxytest.Client
			for range readers {
				c := proxytest.Dial(t, r.addr)
				c.StopReading()
				if err := c.Post(chatPath, chat("flood", true), jsonType); err != nil {
					t.Fatal(err)
				}
				clients = append(clients, c)
			}
			w.WaitInFlight(readers, patience)
			for last := int64(-1); sent.Load() != last; time.Sleep(200 * time.Millisecond) { // until nothing more goes out
				last = sent.Load()
			}
			// Most of what is sent lies in the kernel's buffers.
			if got := sent.Load(); got > readers*size/2 {
				t.Errorf("the worker could send %d of %d bytes to clients that read none", got, readers*size)
			}
			if grown := heapInUse() - before; grown > readers<<20 {
				t.Errorf("%d clients that don't read cost %d bytes, want less than %d", readers, grown, readers<<20)
			}
			want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
			stalled := sent.Load()
			clients[0].ReadRate(-1)
			for end := time.Now().Add(patience); sent.Load() == stalled; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("a client that reads on gets nothing more")
				}
			}
			for _, c := range clients {
				c.CloseFIN()
			}
			r.waitLoad(w, 0)
		})
	}
}

// TestCaseB133AnswersInOrder: requests that come together are answered in their
// order, the first without waiting for the rest of the second, nor for its answer.
func TestCaseB133AnswersInOrder(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		if x.Hold() {
			x.Reply(200, x.Method+" "+x.Target+" "+string(x.Body()))
		}
	})
	r := startRouter(t, testOptions("round_robin"), w)
	const first = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirst"
	const second = "GET /b?c HTTP/1.1\r\nHost: x\r\n\r\n"
	for i, cut := range []int{len(second), len(second) - 1, 20, 1} {
		c := proxytest.Dial(t, r.addr)
		if err := c.Send(first + second[:cut]); err != nil {
			t.Fatal(err)
		}
		w.WaitRequests(2*i+1, patience)
		if got := w.Requests("/b"); got != i {
			t.Errorf("cut at %d: the second request is at the worker before the first is answered", cut)
		}
		w.Release()
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatalf("cut at %d: the first answer: %v", cut, err)
		}
		want200(t, got, "POST /a first")
		if err := c.Send(second[cut:]); err != nil {
			t.Fatal(err)
		}
		w.WaitRequests(2*i+2, patience)
		w.Release()
		if got, err = c.ReadResponse(patience); err != nil {
			t.Fatalf("cut at %d: the second answer: %v", cut, err)
		}
		want200(t, got, "GET /b?c ")
	}
}
