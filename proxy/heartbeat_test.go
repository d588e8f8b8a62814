package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// beating is once with heartbeats.
func beating() Options {
	o := once()
	o.Heartbeat = 50 * time.Millisecond
	return o
}

// readBeats reads n events, each of which must be a heartbeat.
func readBeats(t testing.TB, c *proxytest.Client, n int) {
	t.Helper()
	for i := range n {
		ev, err := c.ReadEvent(patience)
		if err != nil || string(ev.Raw) != heartbeat {
			t.Fatalf("event %d is %q, %v; want a heartbeat", i, ev.Raw, err)
		}
	}
}

// TestCaseB30Heartbeats: a stream that is silent, before its first event and
// between two, is kept alive by comments. Its events are what the worker sent.
func TestCaseB30Heartbeats(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		for i := 0; i < 2 && x.Hold(); i++ {
			x.Event(fmt.Sprint("ev-", i))
		}
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	})
	r := startRouter(t, beating(), w)
	c := r.post(chat("hi", true))
	for i := range 2 {
		readBeats(t, c, 3)
		w.Release()
		for {
			ev, err := c.ReadEvent(patience)
			if err != nil {
				t.Fatal(err)
			}
			if ev.Data != "" {
				if ev.Data != fmt.Sprint("ev-", i) {
					t.Errorf("event %d is %q", i, ev.Data)
				}
				break
			}
		}
	}
	w.Release()
	resp, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	want200(t, &proxytest.Response{Status: resp.Status, Body: []byte(strings.ReplaceAll(string(resp.Body), heartbeat, ""))}, "data: ev-0\n\ndata: ev-1\n\ndata: [DONE]\n\n")
	r.waitOutcome(actors.Completed, 1)
}

// TestWhereNoHeartbeatGoes: inside an event, behind the end mark, into what is no
// plain stream of events, and where nobody asked for them.
func TestWhereNoHeartbeatGoes(t *testing.T) {
	t.Parallel()
	const half = "data: {\"a\""
	silence := func(x *proxytest.Exchange) { x.Sleep(300 * time.Millisecond) }
	for _, tc := range []struct {
		name   string
		proto  string
		off    bool
		before bool // in front of the answer one may go, if the worker is slow
		answer proxytest.Script
		want   string
	}{
		{"in the middle of a line", "", false, true, func(x *proxytest.Exchange) {
			rest := ":1}\n\ndata: [DONE]\n\n"
			x.SSEHead()
			x.Chunk(half)
			silence(x)
			x.Chunk(rest)
			x.EndChunks()
		}, half + ":1}\n\ndata: [DONE]\n\n"},
		{"between two lines of an event", "", false, true, func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Chunk("event: a\n")
			silence(x)
			x.Chunk("data: b\n\ndata: [DONE]\n\n")
			x.EndChunks()
		}, "event: a\ndata: b\n\ndata: [DONE]\n\n"},
		{"behind the end mark", "", false, true, proxytest.LingerAfterDone(0, 0, 300*time.Millisecond), "data: [DONE]\n\n"},
		{"encoded", "", false, false, func(x *proxytest.Exchange) {
			x.SSEHead(proxytest.H("Content-Encoding", "gzip"))
			silence(x)
			x.Chunk("zipped")
			x.EndChunks()
		}, "zipped"},
		{"no events", "", false, false, func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
			silence(x)
			x.Chunk("text")
			x.EndChunks()
		}, "text"},
		{"with a length", "", false, false, func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Content-Length", "9"))
			silence(x)
			x.Raw("data: x\n\n")
		}, "data: x\n\n"},
		{"HTTP/1.0", "HTTP/1.0", false, false, func(x *proxytest.Exchange) {
			x.SSEHead()
			silence(x)
			x.Done()
			x.EndChunks()
		}, "data: [DONE]\n\n"},
		{"off", "", true, false, func(x *proxytest.Exchange) {
			x.SSEHead()
			silence(x)
			x.Done()
			x.EndChunks()
		}, "data: [DONE]\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := beating()
			if tc.off {
				o.Heartbeat = 0
			}
			r := startRouter(t, o, proxytest.NewWorker(t, tc.answer))
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Proto: tc.proto, Body: chat("hi", true)})
			for again := tc.before; again; {
				resp.Body, again = bytes.CutPrefix(resp.Body, []byte(heartbeat))
			}
			want200(t, resp, tc.want)
		})
	}
}

// TestHeartbeatsKeepNoWorker: what the router says itself doesn't count as a sign
// of the worker, whichever of the two limits is the shorter.
func TestHeartbeatsKeepNoWorker(t *testing.T) {
	t.Parallel()
	for _, beat := range []time.Duration{20 * time.Millisecond, time.Minute} {
		t.Run(fmt.Sprint(beat), func(t *testing.T) {
			t.Parallel()
			o := once()
			o.Heartbeat, o.Timeouts.Idle = beat, brief
			r := startRouter(t, o, proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				x.SSEHead()
				x.Sleep(30 * time.Millisecond)
				x.Event("x") // so that the wait that lasts has the deadline of the one before
				x.Hold()
			}))
			resp, err := r.post(chat("hi", true)).ReadResponse(patience)
			if err == nil || resp == nil || !strings.Contains(string(resp.Body), "upstream_timeout") {
				t.Errorf("a stream that stalls: %v, %v; want it cut, with an error event", resp, err)
			}
			if beats := strings.Count(string(resp.Body), heartbeat); (beats > 0) != (beat < o.Timeouts.Idle) {
				t.Errorf("%d heartbeats", beats)
			}
			r.waitOutcome(actors.UpstreamTimeout, 1)
		})
	}
}

// TestHeartbeatsNoticeClients: a client that leaves between heartbeats is noticed
// at once.
func TestHeartbeatsNoticeClients(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Hold()
	})
	r := startRouter(t, beating(), w)
	c := r.post(chat("hi", true))
	readBeats(t, c, 2)
	c.CloseFIN()
	r.waitOutcome(actors.ClientGone, 1)
	w.WaitInFlight(0, patience)
}

// TestHeartbeatsInTwoPhases: an event that is held back, to be rewritten, isn't
// passed, so a heartbeat may stand in front of it.
func TestHeartbeatsInTwoPhases(t *testing.T) {
	t.Parallel()
	o := pdOptions("round_robin")
	o.Heartbeat = 50 * time.Millisecond
	prefill := proxytest.NewWorker(t, prefillWith(nixlReply))
	decode := proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Chunk("data: {\"choices\"")
		if x.Hold() {
			x.Chunk(":[]}\n\n")
			x.Done()
			x.EndChunks()
		}
	}))
	r := startPD(t, o, []*proxytest.Worker{prefill}, []*proxytest.Worker{decode})
	c := r.post(chat("hi", true))
	readBeats(t, c, 3)
	decode.Release()
	resp, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(resp.Body), heartbeat, "")
	if want := "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"; got != want {
		t.Errorf("the stream is %q, want %q", got, want)
	}
	r.waitIdle()
	decode.SetScript(controlCalls(proxytest.LingerAfterDone(1, 0, 300*time.Millisecond)))
	resp = r.call("POST", chatPath, chat("hi", true))
	if _, behind, ok := strings.Cut(string(resp.Body), "data: [DONE]\n\n"); !ok || behind != "" {
		t.Errorf("the stream is %q, want nothing behind its end mark", resp.Body)
	}
	r.waitIdle()
}
