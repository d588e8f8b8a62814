package proxytest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEarlyScript(t *testing.T) {
	huge := strings.Repeat("x", bigSize)
	tests := []struct {
		name    string
		early   Script
		req     Request
		closes  bool
		status  int
		body    string // of the answer
		arrived int    // bytes of the request's body
	}{
		{name: "answers, drains, goes on", early: func(x *Exchange) { x.Reply(401, "early") }, req: Request{Body: "small"}, status: 401, body: "early", arrived: 5},
		{name: "answers and closes in order", early: func(x *Exchange) { x.Reply(413, "early"); x.HalfClose(); x.ReadBody() }, req: Request{Body: huge}, closes: true, status: 413, body: "early", arrived: len(huge)},
		{name: "reads, then answers", early: func(x *Exchange) { x.Reply(200, fmt.Sprint(len(x.ReadBody()))) }, req: Request{Body: "12345"}, status: 200, body: "5", arrived: 5},
		{name: "reads and leaves it", early: func(x *Exchange) { x.ReadBody() }, req: Request{Body: "12345"}, status: 200, body: "main", arrived: 5},
		{name: "does nothing", early: func(*Exchange) {}, req: Request{Body: "12345", ChunkSizes: []int{2}}, status: 200, body: "main", arrived: 5},
		{name: "hints only", early: func(x *Exchange) { x.Head(103, H("Link", "x")) }, req: Request{Body: "12345"}, status: 200, body: "main", arrived: 5},
		{name: "hints in pieces", early: func(x *Exchange) {
			for _, b := range []byte("HTTP/1.1 103 Early Hints\r\n\r\n") {
				x.Raw(string(b))
			}
		}, req: Request{Body: "12345"}, status: 200, body: "main", arrived: 5},
		{name: "no body", early: func(*Exchange) {}, req: Request{}, status: 200, body: "main"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) { x.Reply(200, "main") })
			w.SetEarly(tt.early)
			for range 3 {
				c := Dial(t, w.Addr())
				must(t, c.SendRequest(tt.req))
				must(t, c.Send("POST /next HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"))
				resp := mustRead(t, c)
				if resp.Status != tt.status || string(resp.Body) != tt.body {
					t.Errorf("answer is %d %q, want %d %q", resp.Status, resp.Body, tt.status, tt.body)
				}
				if !tt.closes {
					if got := mustRead(t, c).Status; got != tt.status {
						t.Errorf("status of the next answer is %d, want %d", got, tt.status)
					}
				}
				c.Close()
			}
			w.WaitFor("end of connections", func(c Counts) bool { return c.OpenConnections == 0 }, within)
			x := w.Seen()[0]
			if got := len(x.Body()); got != tt.arrived {
				t.Errorf("body has %d bytes, want %d", got, tt.arrived)
			}
			if got := x.Outcome(); got != Answered {
				t.Errorf("outcome is %v, want %v", got, Answered)
			}
		})
	}
}

// TestHalfClosedClientIsAnswered wants the answer of a script that answers
// although its client has gone, and the connection closed behind it.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	const half = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab"
	answer := func(x *Exchange) {
		x.ReadBody()
		<-x.PeerClosed()
		x.Reply(200, string(x.Body()))
	}
	tests := []struct {
		name, send, want string
		early            bool
	}{
		{"whole request", half + "cd", "abcd", false},
		{"half a request, early script", half, "ab", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, answer)
			if tt.early {
				w.SetEarly(answer)
			}
			c := Dial(t, w.Addr())
			must(t, c.Send(tt.send))
			w.WaitInFlight(1, within)
			c.HalfClose()
			if got := string(mustRead(t, c).Body); got != tt.want {
				t.Errorf("answer is %q, want %q", got, tt.want)
			}
			await(t, c.PeerClosed(), "close")
		})
	}
}

// TestQueueBehindAClose has the reader wait for the turn of a request that never
// comes, because the connection is closed before.
func TestQueueBehindAClose(t *testing.T) {
	const plain = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprintf("client has left %v", left), func(t *testing.T) {
			fake := &fakeTB{TB: t}
			early := make(chan int, 10)
			w := NewWorker(fake, func(x *Exchange) { <-x.hold })
			c := Dial(t, w.Addr())
			must(t, c.Send(plain+plain))
			w.WaitInFlight(2, within)
			w.SetEarly(func(x *Exchange) { early <- x.Seq })
			must(t, c.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"))
			w.WaitInFlight(3, within)
			if left {
				c.HalfClose()
				await(t, w.Seen()[0].PeerClosed(), "sign of the peer's leaving")
			}
			w.Seen()[0].Release()
			await(t, c.PeerClosed(), "close")
			if errs := fake.finish(); len(errs) != 0 {
				t.Errorf("the test was failed by %q, want nothing", errs)
			}
			if len(early) > 0 {
				t.Errorf("the early script ran for request %d", <-early)
			}
		})
	}
}

// TestRequestReadBehindAFIN has a FIN seen past unread bytes that hold another
// request: it was never in flight, and it is still answered.
func TestRequestReadBehindAFIN(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	w.SetEarly(func(x *Exchange) {
		if x.Seq == 1 {
			<-x.hold
		}
	})
	c := Dial(t, w.Addr())
	post := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"
	must(t, c.Send(post))
	w.WaitInFlight(1, within)
	must(t, c.Send("x"+post+"x"))
	c.HalfClose()
	x := w.Seen()[0]
	await(t, x.PeerClosed(), "sign of the peer's leaving")
	w.SetEarly(nil)
	x.Release()
	for range 2 {
		if got := mustRead(t, c).Status; got != 200 {
			t.Errorf("status is %d, want 200", got)
		}
	}
	if got, want := w.Counts(), (Counts{Requests: 2, MaxInFlight: 1, Connections: 1}); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
	for _, x := range w.Seen() {
		if x.Outcome() != Abandoned {
			t.Errorf("outcome of %d is %v, want %v", x.Seq, x.Outcome(), Abandoned)
		}
	}
}

// TestEarlyCloseLosesTheAnswer pins what a worker does that answers and closes
// without reading: the answer may be lost, and the client still sees the end.
func TestEarlyCloseLosesTheAnswer(t *testing.T) {
	w := NewWorker(t, JSON(200, "main"))
	w.SetEarly(func(x *Exchange) { x.KeepAlive(false); x.Reply(413, "early") })
	resp, err := Try(w.Addr(), Request{Body: strings.Repeat("x", bigSize)}, within)
	if resp != nil && resp.Status != 413 || resp == nil && err == nil {
		t.Errorf("got %+v and error %v, want a 413 or an error", resp, err)
	}
	if x := w.Seen()[0]; x.BodyWhole() || x.Outcome() != Answered {
		t.Errorf("body whole is %v and outcome %v, want an answered request cut short", x.BodyWhole(), x.Outcome())
	}
}

func TestExpectContinue(t *testing.T) {
	tests := []struct {
		name    string
		early   Script
		interim []int
		status  int
	}{
		{"by the worker", nil, []int{100}, 200},
		{"by the early script", func(x *Exchange) { x.Head(100) }, []int{100}, 200},
		{"refused", func(x *Exchange) { x.Reply(417, "") }, nil, 417},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, JSON(200, "main"))
			w.SetEarly(tt.early)
			c := Dial(t, w.Addr())
			must(t, c.Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"))
			if tt.early == nil {
				if _, err := c.ReadHead(50 * time.Millisecond); !errors.Is(err, ErrTimeout) {
					t.Fatalf("got error %v, want %v", err, ErrTimeout)
				}
			}
			must(t, c.Send("x"))
			resp := mustRead(t, c)
			var interim []int
			for _, r := range resp.Interim {
				interim = append(interim, r.Status)
			}
			if resp.Status != tt.status || !reflect.DeepEqual(interim, tt.interim) {
				t.Errorf("got status %d after %v, want %d after %v", resp.Status, interim, tt.status, tt.interim)
			}
		})
	}
}
