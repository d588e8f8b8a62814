package proxytest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// answers are all the ways in which an answer can end. read reads just as far as
// the request is in flight.
var answers = []struct {
	name   string
	script Script
	method string
	want   Outcome // Answered unless given
	read   func(c *Client) error
}{
	{name: "reply", script: JSON(200, `{"ok":true}`)},
	{name: "empty reply", script: JSON(200, "")},
	{name: "reply of 100 KB", script: JSON(200, strings.Repeat("x", 100<<10))},
	{name: "no content", script: JSON(204, "")},
	{name: "head", method: "HEAD", script: JSON(200, "not sent")},
	{name: "reply that closes", script: func(x *Exchange) { x.KeepAlive(false); x.Reply(200, "ok") }},
	{name: "length in pieces", script: func(x *Exchange) {
		x.Head(200, H("Content-Length", "4"))
		for _, b := range []string{"a", "b", "c", "d"} {
			x.Raw(b)
		}
	}},
	{name: "raw byte by byte", script: func(x *Exchange) {
		for _, b := range []byte("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx") {
			x.Raw(string(b))
		}
	}},
	{name: "chunks", script: func(x *Exchange) {
		x.Head(200, H("Transfer-Encoding", "chunked"))
		x.Chunk("abc")
		x.EndChunks(H("T", "1"))
	}},
	{name: "stream", script: SSE(3, 0)},
	{name: "stream without end mark", script: SSENoDone(3, 0)},
	{name: "up to close", script: func(x *Exchange) { x.Head(200); x.Raw("body") }},
	{name: "up to close by script", script: func(x *Exchange) { x.Head(200); x.Raw("body"); x.CloseFIN(); x.Hold() }},
	{name: "end mark, then nothing", script: func(x *Exchange) { x.SSEHead(); x.Event("a"); x.Done(); x.Hold() }, read: func(c *Client) error {
		for {
			ev, err := c.ReadEvent(within)
			if err != nil || ev.Data == "[DONE]" {
				return err
			}
		}
	}},
	{name: "answer, then a slow script", script: func(x *Exchange) { x.Reply(200, "ok"); x.Hold() }},
	{name: "truncated", script: Truncated(100, 10), want: Cut, read: func(c *Client) error { return wantErr(c, ErrTruncated) }},
	{name: "reset", script: ResetBeforeHead, want: Cut, read: func(c *Client) error { return wantErr(c, ErrReset) }},
	{name: "closed unanswered", script: func(*Exchange) {}, want: Cut, read: func(c *Client) error { return wantErr(c, ErrNoAnswer) }},
	{name: "half-closed unanswered", script: func(x *Exchange) { x.HalfClose(); x.Hold() }, want: Cut, read: func(c *Client) error { return wantErr(c, ErrNoAnswer) }},
}

func wantErr(c *Client, want error) error {
	if _, err := c.ReadResponse(within); !errors.Is(err, want) {
		return fmt.Errorf("got error %w, want %w", err, want)
	}
	return nil
}

// TestInFlightAtTheEnd wants that a request is out of flight when its client
// has read the last byte, not a moment later, whatever ends the answer.
func TestInFlightAtTheEnd(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			w := NewWorker(t, a.script)
			const rounds = 100
			c := Dial(t, w.Addr())
			for i := range rounds {
				method := a.method
				if method == "" {
					method = "POST"
				}
				must(t, c.SendRequest(Request{Method: method, Target: "/v1", Body: "x"}))
				read := a.read
				if read == nil {
					read = func(c *Client) error { _, err := c.ReadResponse(within); return err }
				}
				must(t, read(c))
				if got := w.InFlight(); got != 0 {
					t.Fatalf("round %d: in flight are %d, want 0", i, got)
				}
				if got, want := w.Seen()[i].Outcome(), max(a.want, Answered); got != want {
					t.Fatalf("round %d: outcome is %v, want %v", i, got, want)
				}
				if got := w.MaxInFlight(); got != 1 {
					t.Fatalf("round %d: most in flight are %d, want 1", i, got)
				}
				if i+1 == rounds {
					break
				}
				c.Close()
				c = Dial(t, w.Addr())
			}
			if got := w.Requests(); got != rounds {
				t.Errorf("requests are %d, want %d", got, rounds)
			}
		})
	}
}

// TestInFlightBeforeTheEnd wants the converse: with a byte of the answer still
// to come the request is in flight.
func TestInFlightBeforeTheEnd(t *testing.T) {
	tests := []struct {
		name      string
		most, end string
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "b"},
		{"head", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r", "\n"},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r", "\n"},
		{"interim", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) {
				x.Raw(tt.most)
				x.Hold()
				x.Raw(tt.end)
				x.Hold()
			})
			c := Dial(t, w.Addr())
			must(t, c.Get("/"))
			w.WaitRequests(1, within)
			if _, err := c.ReadResponse(50 * time.Millisecond); !errors.Is(err, ErrTimeout) {
				t.Fatalf("got error %v, want %v", err, ErrTimeout)
			}
			if got := w.InFlight(); got != 1 {
				t.Errorf("in flight are %d before the last byte, want 1", got)
			}
			w.Release()
			mustRead(t, c)
			if got := w.InFlight(); got != 0 {
				t.Errorf("in flight are %d after the last byte, want 0", got)
			}
			if got := w.Seen()[0].Outcome(); got != Answered {
				t.Errorf("outcome is %v, want %v", got, Answered)
			}
		})
	}
}

// TestBigReplyStaysInFlight wants that a reply in one call is in flight until
// the client has made room for its end.
func TestBigReplyStaysInFlight(t *testing.T) {
	w := NewWorker(t, JSON(200, strings.Repeat("x", bigSize)))
	c := Dial(t, w.Addr())
	c.StopReading()
	must(t, c.Get("/"))
	w.WaitRequests(1, within)
	if w.wait(func(c Counts) bool { return c.InFlight == 0 }, 100*time.Millisecond) {
		t.Errorf("request went out of flight while the client does not read")
	}
	c.ReadRate(-1)
	if got := len(mustRead(t, c).Body); got != bigSize {
		t.Errorf("body has %d bytes, want %d", got, bigSize)
	}
	if got := w.InFlight(); got != 0 {
		t.Errorf("in flight are %d after the answer, want 0", got)
	}
}

// TestStuckEndStaysInFlight wants that an end mark for which the kernel has no
// room is not taken for sent.
func TestStuckEndStaysInFlight(t *testing.T) {
	full := make(chan struct{})
	w := NewWorker(t, func(x *Exchange) {
		x.SSEHead()
		filling := []byte(strings.Repeat(".", 64<<10))
		for idle := 0; idle < 10; idle++ {
			err := x.conn.link.raw.Write(func(fd uintptr) bool {
				for {
					n, err := syscall.Write(int(fd), filling)
					if n <= 0 || err != nil {
						return true
					}
					idle = 0
				}
			})
			if err != nil || !x.Sleep(10*time.Millisecond) {
				return
			}
		}
		close(full)
		x.Done()
		x.Hold()
	})
	c := Dial(t, w.Addr())
	c.StopReading()
	must(t, c.SendRequest(Request{Proto: "HTTP/1.0"}))
	await(t, full, "full socket")
	if w.wait(func(c Counts) bool { return c.InFlight == 0 }, 100*time.Millisecond) {
		t.Errorf("request went out of flight before its end mark could be sent")
	}
	c.ReadRate(-1)
	w.WaitInFlight(0, within)
	if got := w.Seen()[0].Outcome(); got != Answered {
		t.Errorf("outcome is %v, want %v", got, Answered)
	}
}

func TestPipelinedRequestsAreInFlight(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		if x.Hold() {
			x.Reply(200, fmt.Sprint(x.Seq))
		}
	})
	c := Dial(t, w.Addr())
	const n = 5
	var raw strings.Builder
	for i := range n {
		r := Request{Method: "POST", Target: fmt.Sprintf("/%d", i), Body: "b"}
		raw.WriteString(r.Head(c.host) + r.Body)
	}
	must(t, c.Send(raw.String()))
	w.WaitInFlight(n, within)
	for i := range n {
		if got := w.InFlight(); got != n-i {
			t.Errorf("in flight are %d, want %d", got, n-i)
		}
		w.Seen()[i].Release()
		if got := string(mustRead(t, c).Body); got != fmt.Sprint(i+1) {
			t.Errorf("answer %d is %q, want %d", i, got, i+1)
		}
	}
	if got := w.Connections(); got != 1 {
		t.Errorf("connections are %d, want 1", got)
	}
	if got := w.Requests("/0", "/4", "/none"); got != 2 {
		t.Errorf("requests to two paths are %d, want 2", got)
	}
}

// TestPipelineCut wants all that was queued out of flight when the connection
// ends, whoever ends it, and no script run for what was behind a close.
func TestPipelineCut(t *testing.T) {
	tests := []struct {
		name string
		end  func(w *Worker, c *Client)
		want Outcome
	}{
		{"client resets", func(_ *Worker, c *Client) { c.Reset() }, Abandoned},
		{"worker is killed", func(w *Worker, _ *Client) { w.Kill() }, Cut},
		{"worker closes", func(w *Worker, _ *Client) { w.Seen()[0].Release() }, Cut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) { x.Hold() })
			c := Dial(t, w.Addr())
			must(t, c.Send(strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 3)+"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"))
			w.WaitInFlight(4, within)
			tt.end(w, c)
			w.WaitInFlight(0, within)
			for i, x := range w.Seen() {
				if got := x.Outcome(); got != tt.want {
					t.Errorf("outcome of %d is %v, want %v", i, got, tt.want)
				}
			}
			if got := w.OpenConnections(); got != 0 {
				t.Errorf("open connections are %d, want 0", got)
			}
		})
	}
}

// TestManyClients has each of many connections send requests whose outcomes it
// knows, and wants the counts to agree with them at the end and, where the
// client has just read an end, in between.
func TestManyClients(t *testing.T) {
	const clients, rounds = 500, 6
	var known sync.Map // body to exchange
	answer := ByBody(map[string]Script{
		"json":   Echo,
		"sse":    SSE(3, time.Millisecond),
		"silent": Silent,
		"chunk":  func(x *Exchange) { x.Head(200, H("Transfer-Encoding", "chunked")); x.Chunk("x"); x.EndChunks() },
		"reset":  ResetBeforeHead,
		"cut":    Truncated(10, 5),
	})
	w := NewWorker(t, func(x *Exchange) {
		known.Store(string(x.Body()), x)
		answer(x)
	})
	kinds := []string{"json", "sse", "chunk", "silent", "reset", "cut"}
	errs := make(chan error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for r := range rounds {
				body := fmt.Sprintf("%s %d/%d", kinds[(i+r)%len(kinds)], i, r)
				err := oneOfMany(w, body)
				if x, ok := known.Load(body); ok && err == nil && !strings.HasPrefix(body, "silent") && x.(*Exchange).Outcome() == InFlight {
					err = errors.New("request is in flight although its answer has ended")
				}
				if err != nil {
					errs <- fmt.Errorf("client %d round %d: %w", i, r, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	w.WaitFor("end of all connections", func(c Counts) bool { return c.OpenConnections == 0 }, within)
	got := w.Counts()
	if got.MaxInFlight < 2 || got.MaxInFlight > clients {
		t.Errorf("most in flight are %d, want 2 to %d", got.MaxInFlight, clients)
	}
	got.MaxInFlight = 0
	if want := (Counts{Requests: clients * rounds, Connections: clients * rounds}); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
	outcomes := map[Outcome]int{}
	for _, x := range w.Seen() {
		outcomes[x.Outcome()]++
	}
	sixth := clients * rounds / 6
	if want := (map[Outcome]int{Answered: 3 * sixth, Abandoned: sixth, Cut: 2 * sixth}); fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes are %v, want %v", outcomes, want)
	}
}

func oneOfMany(w *Worker, body string) error {
	c, err := Connect(w.Addr(), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Post("/", body); err != nil {
		return err
	}
	if strings.HasPrefix(body, "silent") {
		if _, err := c.ReadResponse(5 * time.Millisecond); !errors.Is(err, ErrTimeout) {
			return fmt.Errorf("got error %w, want a timeout", err)
		}
		return nil
	}
	resp, err := c.ReadResponse(within)
	switch {
	case strings.HasPrefix(body, "reset"):
		if !errors.Is(err, ErrReset) {
			return fmt.Errorf("got error %w, want a reset", err)
		}
	case strings.HasPrefix(body, "cut"):
		if !errors.Is(err, ErrTruncated) || string(resp.Body) != "xxxxx" {
			return fmt.Errorf("got error %w, want a cut body", err)
		}
	case err != nil:
		return err
	case strings.HasPrefix(body, "json"):
		if e, err := ReadEcho(resp); err != nil || string(e.Body) != body {
			return fmt.Errorf("got echo of %q (error %w), want %q", e.Body, err, body)
		}
	}
	return nil
}

// TestThousandsOfStreams opens as many streams as the descriptors allow for and
// has half of the clients leave.
func TestThousandsOfStreams(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	w := NewWorker(t, func(x *Exchange) {
		x.SSEHead()
		x.Event(x.Path())
		x.Hold()
	})
	before := FDs()
	clients := make([]*Client, n)
	for i := range clients {
		clients[i] = Dial(t, w.Addr())
		must(t, clients[i].Get(fmt.Sprintf("/%d", i)))
	}
	w.WaitInFlight(n, within)
	for i, c := range clients {
		ev, err := c.ReadEvent(within)
		if want := fmt.Sprintf("/%d", i); err != nil || ev.Data != want {
			t.Fatalf("got event %q (error %v), want %q", ev.Data, err, want)
		}
	}
	for i, c := range clients {
		if i%2 == 0 {
			c.Close()
		}
	}
	w.WaitInFlight(n/2, within)
	w.Release()
	for i, c := range clients {
		if i%2 == 1 {
			if _, err := c.ReadEvent(within); !errors.Is(err, ErrTruncated) {
				t.Fatalf("got error %v, want %v", err, ErrTruncated)
			}
			c.Close()
		}
	}
	w.WaitFor("end of all connections", func(c Counts) bool { return c.InFlight == 0 && c.OpenConnections == 0 }, within)
	if before > 0 {
		for deadline := time.Now().Add(within); FDs() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("descriptors are %d, want %d as before", FDs(), before)
			}
		}
	}
}

// TestAnswersMatchTheirReading pins that a stream read event by event ends as
// one read whole.
func TestAnswersMatchTheirReading(t *testing.T) {
	w := NewWorker(t, SSE(3, 0))
	c := Dial(t, w.Addr())
	for range 2 {
		must(t, c.Get("/"))
		var raw string
		var n int
		for {
			ev, err := c.ReadEvent(within)
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			raw += string(ev.Raw)
			n++
		}
		resp := mustRead(t, c)
		if n != 4 || raw != string(resp.Body) || !resp.Clean {
			t.Errorf("got %d events %q, want 4 that make up %q", n, raw, resp.Body)
		}
	}
}
