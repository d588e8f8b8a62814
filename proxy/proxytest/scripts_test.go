package proxytest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestScripts(t *testing.T) {
	data := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, "data: %s\n\n", EventData(i))
		}
		return s.String()
	}
	const done = "data: [DONE]\n\n"
	tests := []struct {
		name   string
		script Script
		status int
		body   string
		err    error
	}{
		{name: "json", script: JSON(418, `{"a":1}`), status: 418, body: `{"a":1}`},
		{name: "sse", script: SSE(3, time.Millisecond), status: 200, body: data(3) + done},
		{name: "sse without events", script: SSE(0, 0), status: 200, body: done},
		{name: "sse without end mark", script: SSENoDone(2, 0), status: 200, body: data(2)},
		{name: "lingering", script: LingerAfterDone(1, 0, time.Millisecond), status: 200, body: data(1) + done},
		{name: "truncated", script: Truncated(9, 4), status: 200, body: "xxxx", err: ErrTruncated},
		{name: "reset", script: ResetBeforeHead, err: ErrReset},
		{name: "slow", script: Slow(time.Millisecond, JSON(200, "s")), status: 200, body: "s"},
		{name: "by body, longest", script: ByBody(map[string]Script{"h": JSON(200, "h"), "hell": JSON(200, "hell"), "": JSON(200, "any")}), status: 200, body: "hell"},
		{name: "by body, any", script: ByBody(map[string]Script{"bye": JSON(200, "bye"), "": JSON(200, "any")}), status: 200, body: "any"},
		{name: "by body, none", script: ByBody(map[string]Script{"bye": JSON(200, "bye")}), status: 500, body: `{"error":{"message":"the worker's script has no case for this body"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, tt.script)
			resp, err := Try(w.Addr(), Request{Body: "hello"}, within)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if tt.status == 0 {
				return
			}
			if resp.Status != tt.status || string(resp.Body) != tt.body {
				t.Errorf("got %d %q, want %d %q", resp.Status, resp.Body, tt.status, tt.body)
			}
		})
	}
}

func TestSequence(t *testing.T) {
	w := NewWorker(t, Sequence(JSON(500, "1"), JSON(503, "2"), JSON(200, "3")))
	for i, want := range []int{500, 503, 200, 200} {
		if got := Do(t, w.Addr(), Request{}).Status; got != want {
			t.Errorf("status %d is %d, want %d", i, got, want)
		}
	}
}

// TestLingerIsNotInFlight pins what a lingering stream means: after its end mark
// the request is not in flight, and the connection is open.
func TestLingerIsNotInFlight(t *testing.T) {
	w := NewWorker(t, LingerAfterDone(1, 0, time.Hour))
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	for range 2 {
		if _, err := c.ReadEvent(within); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Counts(); got.InFlight != 0 || got.OpenConnections != 1 {
		t.Errorf("counts are %+v, want none in flight on an open connection", got)
	}
	if _, err := c.ReadEvent(20 * time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Errorf("got error %v, want %v", err, ErrTimeout)
	}
}

func TestIdleClose(t *testing.T) {
	w := NewWorker(t, IdleClose(time.Hour, JSON(200, "{}")))
	c := Dial(t, w.Addr())
	for i := range 3 { // each idle time is its own
		if i == 2 {
			w.SetScript(IdleClose(time.Second, JSON(200, "{}")))
		}
		must(t, c.Get("/"))
		if resp := mustRead(t, c); resp.Get("Connection") != "" {
			t.Errorf("the close is announced: %q", resp.RawHead)
		}
	}
	await(t, c.PeerClosed(), "close")
	if c.PeerReset() {
		t.Error("connection ended by RST, want FIN")
	}
	if got := w.Counts(); got.OpenConnections != 0 || got.Connections != 1 {
		t.Errorf("counts are %+v, want one connection, closed", got)
	}
}

func TestIdleCloseSparesARequest(t *testing.T) {
	w := NewWorker(t, IdleClose(400*time.Millisecond, Sequence(JSON(200, "{}"), Slow(700*time.Millisecond, JSON(200, "late")))))
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	mustRead(t, c)
	must(t, c.Get("/"))
	resp, err := c.ReadResponse(within)
	if errors.Is(err, ErrNoAnswer) && w.Requests() < 2 {
		t.Skip("the second request was too late on this machine")
	}
	if err != nil || string(resp.Body) != "late" {
		t.Errorf("got error %v, want an answer: the connection was not idle", err)
	}
}

func TestKeepAlive(t *testing.T) {
	tests := []struct {
		name   string
		script Script
		req    Request
		stays  bool
	}{
		{"http 1.1", JSON(200, ""), Request{}, true},
		{"http 1.0", JSON(200, ""), Request{Proto: "HTTP/1.0"}, false},
		{"http 1.0 that keeps", JSON(200, ""), Request{Proto: "HTTP/1.0", Headers: []Header{{"Connection", "Keep-Alive"}}}, true},
		{"client closes", JSON(200, ""), Request{Headers: []Header{{"Connection", "close"}}}, false},
		{"worker announces", func(x *Exchange) { x.Head(200, H("Content-Length", "0"), H("Connection", "close")) }, Request{}, false},
		{"worker announces and stays", func(x *Exchange) {
			x.KeepAlive(true)
			x.Head(200, H("Content-Length", "0"), H("Connection", "close"))
		}, Request{}, true},
		{"unannounced", func(x *Exchange) { x.Reply(200, ""); x.CloseFIN() }, Request{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, tt.script)
			c := Dial(t, w.Addr())
			must(t, c.SendRequest(tt.req))
			mustRead(t, c)
			if !tt.stays {
				await(t, c.PeerClosed(), "close")
				if c.PeerReset() || w.OpenConnections() != 0 {
					t.Error("connection is not closed by a FIN")
				}
				return
			}
			must(t, c.Get("/"))
			mustRead(t, c)
			if got := w.Connections(); got != 1 {
				t.Errorf("connections are %d, want 1", got)
			}
		})
	}
}

func TestHoldAndSleepReturn(t *testing.T) {
	results := make(chan bool, 4)
	w := NewWorker(t, func(x *Exchange) {
		results <- x.Hold()
		results <- x.Sleep(time.Millisecond)
		results <- x.Hold()
		results <- x.Sleep(time.Hour)
	})
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	w.WaitRequests(1, within)
	w.Release()
	got := []bool{<-results, <-results}
	c.Close()
	got = append(got, <-results, <-results)
	if want := "[true true false false]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
