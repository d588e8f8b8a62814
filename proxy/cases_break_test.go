package proxy

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// tryPost sends one chat and returns whatever came of an answer.
func tryPost(r *router, stream bool) (*proxytest.Response, error) {
	return proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{jsonType}, Body: chat("hi", stream)}, patience)
}

// TestCaseB32TruncatedAnswerLooksTruncated: an answer that its worker breaks off
// reaches the client as an error, or broken off as well, and never as complete.
func TestCaseB32TruncatedAnswerLooksTruncated(t *testing.T) {
	t.Parallel()
	chunked := proxytest.H("Transfer-Encoding", "chunked")
	cut := func(framing proxytest.Header, body string, reset bool) proxytest.Script {
		return func(x *proxytest.Exchange) {
			x.Head(200, jsonType, framing)
			x.Raw(body)
			if reset {
				x.Hold() // until the client has what was sent
				x.Reset()
				return
			}
			x.CloseFIN()
		}
	}
	for _, tc := range []struct {
		name  string
		reset bool
		head  proxytest.Header
		body  string // as on the wire
		data  string // of it
	}{
		{"half of a short body", false, proxytest.H("Content-Length", "100"), strings.Repeat("z", 50), strings.Repeat("z", 50)},
		{"none of a body", false, proxytest.H("Content-Length", "100"), "", ""},
		{"half of a long body", false, proxytest.H("Content-Length", "100000"), strings.Repeat("z", 50_000), strings.Repeat("z", 50_000)},
		{"all but a byte", false, proxytest.H("Content-Length", "100000"), strings.Repeat("z", 99_999), strings.Repeat("z", 99_999)},
		{"no last chunk", false, chunked, "2\r\nok\r\n", "ok"},
		{"no chunk at all", false, chunked, "", ""},
		{"inside a chunk", false, chunked, "20\r\nok", "ok"},
		{"inside a chunk's size", false, chunked, "2\r\nok\r\n2", "ok"},
		{"before the trailer's end", false, chunked, "2\r\nok\r\n0\r\n", "ok"},
		{"no valid chunk", false, chunked, "xyz\r\n", ""},
		{"no valid chunk behind another", false, chunked, "2\r\nok\r\nxyz\r\n", "ok"},
		{"a long body, reset", true, proxytest.H("Content-Length", "100000"), strings.Repeat("z", 50_000), strings.Repeat("z", 50_000)},
		{"a chunked body, reset", true, chunked, "2\r\nok\r\n", "ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, cut(tc.head, tc.body, tc.reset))
			r := startRouter(t, once(), w)
			c := r.post(chat("hi", false))
			if tc.reset {
				if _, err := c.ReadHead(patience); err != nil {
					t.Fatal(err)
				}
				w.Release()
			}
			resp, err := c.ReadResponse(patience)
			switch {
			case resp == nil:
				t.Errorf("no answer at all: %v", err)
			case resp.Status == 200 && !errors.Is(err, proxytest.ErrTruncated):
				t.Errorf("the answer is 200 %.60q and ended with %v, want an end cut short", resp.Body, err)
			case resp.Status == 200 && !strings.HasPrefix(tc.data, string(resp.Body)):
				t.Errorf("the answer is %.60q, want a part of the worker's", resp.Body)
			case resp.Status != 200:
				if err != nil {
					t.Errorf("an error was cut short itself: %v", err)
				}
				wantProblem(t, resp, 502, "upstream_truncated")
			}
			r.wait("a broken answer", func(*actors.Snapshot) bool {
				return r.outcome(actors.UpstreamTruncated)+r.outcome(actors.UpstreamReset) == 1
			})
			r.waitLoad(w, 0)
		})
	}
}

// TestCaseB33HeadIsNotLost: when a body dies early the client still learns how
// the answer began, or gets an error; it never gets nothing.
func TestCaseB33HeadIsNotLost(t *testing.T) {
	t.Parallel()
	for _, sent := range []int{0, 50, 3000} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, wait=%v", sent, wait), func(t *testing.T) {
				t.Parallel()
				w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
					x.Head(200, proxytest.H("X-From", "worker"), proxytest.H("Content-Length", "100000"))
					x.Raw(strings.Repeat("z", sent))
					if wait {
						x.Hold()
					}
					x.CloseFIN()
				})
				r := startRouter(t, once(), w)
				c := r.post(chat("hi", false))
				if wait {
					head, err := c.ReadHead(patience)
					if err != nil {
						t.Fatalf("no head while the worker is silent: %v", err)
					}
					wantValues(t, head, "X-From", "worker")
					w.Release()
				}
				resp, err := c.ReadResponse(patience)
				if resp == nil || resp.Status != 200 && resp.Status != 502 {
					t.Fatalf("answer %v, %v; want the worker's head or a 502", resp, err)
				}
				if resp.Status == 200 && (!errors.Is(err, proxytest.ErrTruncated) || len(resp.Body) != sent) {
					t.Errorf("%d bytes of body and %v, want %d and an end cut short", len(resp.Body), err, sent)
				}
			})
		}
	}
}

// TestCaseB34NoEmptySuccess: a worker that breaks the connection before it has
// said anything useful is an error, or another worker's turn, and never an empty
// stream that looks well.
func TestCaseB34NoEmptySuccess(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, tc := range []struct {
			name string
			die  proxytest.Script
			code string
		}{
			{"reset", proxytest.ResetBeforeHead, "upstream_closed"},
			{"closed", (*proxytest.Exchange).CloseFIN, "upstream_closed"},
			{"within the head", func(x *proxytest.Exchange) { x.Raw("HTTP/1.1 200 OK\r\nContent-Ty"); x.CloseFIN() }, "upstream_closed"},
			{"behind an interim answer", func(x *proxytest.Exchange) { x.Head(103, proxytest.H("Link", "</a>")); x.CloseFIN() }, "upstream_closed"},
			{"no HTTP", func(x *proxytest.Exchange) { x.Raw("SSH-2.0-OpenSSH\r\n\r\n"); x.Hold() }, "upstream_invalid_answer"},
		} {
			t.Run(fmt.Sprintf("%s, stream=%v", tc.name, stream), func(t *testing.T) {
				t.Parallel()
				bad, good := proxytest.NewWorker(t, tc.die), proxytest.NewWorker(t, proxytest.SSE(2, 0))
				alone := startRouter(t, once(), bad)
				resp, err := tryPost(alone, stream)
				if err != nil {
					t.Fatal(err)
				}
				wantProblem(t, resp, 502, tc.code)

				both := startRouter(t, testOptions("round_robin"), bad, good)
				for range 2 {
					if resp := ask(t, both, chatPath, chat("hi", stream)); resp.Status != 200 || !strings.HasSuffix(string(resp.Body), "data: [DONE]\n\n") {
						t.Errorf("answer %d %q, want the good worker's", resp.Status, resp.Body)
					}
				}
				if got := bad.Requests(); got > 3 {
					t.Errorf("the bad worker got %d requests, want at most 3: it is not asked twice for one", got)
				}
			})
		}
	}
}

// wantErrorEvent fails the test unless the rest of an answer is one event with
// an error object, and an end that is not clean.
func wantErrorEvent(t *testing.T, c *proxytest.Client, code string) {
	t.Helper()
	ev, err := c.ReadEvent(patience)
	if err != nil {
		t.Fatalf("no event behind the break: %v with %q", err, ev.Raw)
	}
	if !strings.Contains(ev.Data, `"error"`) || !strings.Contains(ev.Data, code) {
		t.Errorf("the event behind the break is %q, want an error with code %q", ev.Raw, code)
	}
	rest, err := c.ReadEvent(patience)
	if !errors.Is(err, proxytest.ErrTruncated) || len(rest.Raw) > 0 {
		t.Errorf("behind the error came %q and %v, want nothing and an end cut short", rest.Raw, err)
	}
}

// TestCaseB35BrokenStreamSaysSo: a stream that breaks ends with an error that
// the client's library can show, on a line of its own, and not as a whole one
// ends.
func TestCaseB35BrokenStreamSaysSo(t *testing.T) {
	t.Parallel()
	events := func(x *proxytest.Exchange, n int) {
		x.SSEHead()
		for i := range n {
			x.Event(fmt.Sprint("ev-", i))
		}
	}
	for _, tc := range []struct {
		name   string
		events int
		die    func(x *proxytest.Exchange)
		code   string
	}{
		{"reset", 3, (*proxytest.Exchange).Reset, "upstream_truncated"},
		{"closed", 3, (*proxytest.Exchange).CloseFIN, "upstream_truncated"},
		{"before the first event", 0, (*proxytest.Exchange).Reset, "upstream_truncated"},
		{"inside a chunk", 2, func(x *proxytest.Exchange) { x.Raw("100\r\n"); x.CloseFIN() }, "upstream_truncated"},
		{"no valid chunk", 2, func(x *proxytest.Exchange) { x.Raw("what\r\n"); x.Hold() }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				events(x, tc.events)
				x.Hold()
				tc.die(x)
			})
			// Retries are on: none may follow what the client has seen.
			r := startRouter(t, testOptions("cache_aware"), w)
			c := r.post(chat("hi", true))
			if _, err := c.ReadHead(patience); err != nil {
				t.Fatal(err)
			}
			for i := range tc.events {
				if ev, err := c.ReadEvent(patience); err != nil || ev.Data != fmt.Sprint("ev-", i) {
					t.Fatalf("event %d is %q, %v", i, ev.Data, err)
				}
			}
			w.Release()
			wantErrorEvent(t, c, tc.code)
			r.waitOutcome(actors.UpstreamTruncated, 1)
			if got := w.Requests(); got != 1 {
				t.Errorf("the worker got %d requests, want 1", got)
			}
			if got := r.scrape()[`loadstar_request_outcomes_total{outcome="upstream_truncated"}`]; got != 1 {
				t.Errorf("%v broken streams are counted, want 1", got)
			}
		})
	}
	for _, tail := range []string{"data: half a li", "data: a line\n", "event: x\ndata: y\n"} {
		t.Run(fmt.Sprintf("inside an event, %q", tail), func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				events(x, 1)
				x.Chunk(tail)
				x.Hold()
				x.Reset()
			})
			r := startRouter(t, once(), w)
			c := r.post(chat("hi", true))
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			w.Release()
			// The part that had come is closed, so the error is an event of its own.
			ev, err := c.ReadEvent(patience)
			if err != nil || !strings.HasPrefix(string(ev.Raw), tail) || strings.Contains(string(ev.Raw), "error") {
				t.Fatalf("behind the part %q came %q, %v; want it closed by itself", tail, ev.Raw, err)
			}
			wantErrorEvent(t, c, "upstream_truncated")
		})
	}
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
	}{
		{"encoded", []proxytest.Header{proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Content-Encoding", "gzip"), proxytest.H("Transfer-Encoding", "chunked")}},
		{"no events", []proxytest.Header{proxytest.H("Content-Type", "application/x-ndjson"), proxytest.H("Transfer-Encoding", "chunked")}},
		{"with a length", []proxytest.Header{proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Content-Length", "5000")}},
	} {
		t.Run("no error event: "+tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				x.Head(200, tc.headers...)
				x.Chunk("a part\n\n")
				x.Hold()
				x.CloseFIN()
			})
			r := startRouter(t, once(), w)
			c := r.post(chat("hi", true))
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			w.Release()
			resp, err := c.ReadResponse(patience)
			if !errors.Is(err, proxytest.ErrTruncated) || string(resp.Body) != "a part\n\n" {
				t.Errorf("the client got %q and %v, want the part and an end cut short", resp.Body, err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		o := once()
		o.Timeouts.Idle = brief
		w := proxytest.NewWorker(t, stalledStream)
		r := startRouter(t, o, w)
		c := r.post(chat("hi", true))
		for range 2 {
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
		}
		wantErrorEvent(t, c, "upstream_timeout")
		r.waitOutcome(actors.UpstreamTimeout, 1)
		w.WaitInFlight(0, patience)
	})
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.SSE(3, 0))
		r := startRouter(t, once(), w)
		c := r.post(chat("hi", true))
		for {
			ev, err := c.ReadEvent(patience)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || strings.Contains(ev.Data, "error") {
				t.Fatalf("event %q, %v", ev.Raw, err)
			}
		}
	})
}
