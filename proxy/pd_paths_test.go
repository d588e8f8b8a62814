package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// halfReply announces a JSON answer and sends half of it.
func halfReply(body string) proxytest.Script {
	return func(x *proxytest.Exchange) {
		x.Head(200, jsonType, proxytest.H("Content-Length", fmt.Sprint(len(body))))
		x.Raw(body[:len(body)/2])
		if x.Hold() {
			x.Raw(body[len(body)/2:])
		}
	}
}

// wantNoTeaching fails the test if a breaker has learnt of a failure.
func (f *pdFleet) wantNoTeaching() {
	f.t.Helper()
	v := f.snapshot()
	for i := range v.Workers {
		if w := &v.Workers[i]; w.CBBad != 0 {
			f.t.Errorf("the breaker of %s has learnt of %d failures, want none", w.URL, w.CBBad)
		}
	}
}

// TestPairClientLeaves: in whatever phase a client leaves, the worker that has its
// request is told, nothing stays counted, and nobody is to blame.
func TestPairClientLeaves(t *testing.T) {
	const merged = `{"model":"m","prompt":"the case","echo":true,"logprobs":1}`
	for _, tc := range []struct {
		name            string
		prefill, decode proxytest.Script
		path, body      string
		stream, plain   bool // which of the two it applies to
		begun           bool // the client has the answer's head
		decodes         int
	}{
		{name: "in prefill, before its head", prefill: proxytest.Silent, stream: true, plain: true},
		{name: "in the middle of prefill's reply", prefill: halfReply(nixlReply), stream: true, plain: true},
		{name: "before decode's head", decode: proxytest.Silent, stream: true, plain: true, decodes: 1},
		{name: "in a stalled stream", decode: stalledStream, stream: true, begun: true, decodes: 1},
		{name: "in a flowing stream", decode: flowing, stream: true, begun: true, decodes: 1},
		{name: "in a stalled plain answer", decode: stalledPlain, plain: true, begun: true, decodes: 1},
		{name: "while the answer is gathered", decode: halfReply(decodeAnswer), plain: true, decodes: 1, path: "/v1/completions", body: merged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				if stream && !tc.stream || !stream && !tc.plain {
					t.Skip("does not apply")
				}
				f := startFleet(t, pdOptions(policy), 1, tc.prefill, tc.decode)
				path, body := chatPath, chat(theCase, stream)
				if tc.path != "" {
					path, body = tc.path, tc.body
				}
				c := proxytest.Dial(t, f.addr)
				if err := c.Post(path, body, jsonType); err != nil {
					t.Fatal(err)
				}
				f.waitSeen(1, tc.decodes)
				if tc.begun {
					if _, err := c.ReadHead(loaded); err != nil {
						t.Fatal(err)
					}
				}
				left := time.Now()
				if stream {
					c.CloseFIN()
				} else {
					c.Reset()
				}
				last := append(f.prefills(), f.decodes()...)
				f.wantEnded(last, proxytest.Abandoned)
				if d := last[len(last)-1].PeerClosedAt().Sub(left); d > loaded {
					t.Errorf("the worker saw its peer leave after %v, want within %v", d, loaded)
				}
				f.untouched()
				f.ended(actors.ClientGone)
				f.wantNoTeaching()
				f.wantSeen(1, tc.decodes)
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}

// TestPairLoadIsHeldToTheEnd: a plain answer counts until its last byte, a stream
// until its end mark, and the prefill worker is through once it has replied.
func TestPairLoadIsHeldToTheEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		lingering := func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Event("one")
			if !x.Hold() {
				return
			}
			x.Done()
			if x.Hold() {
				x.EndChunks()
			}
		}
		script := halfReply(decodeAnswer)
		if stream {
			script = lingering
		}
		f := startFleet(t, pdOptions(policy), 1, nil, script)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 1)
		want := loadJSON{running: 3, prefilling: 1, reserved: 1, decoding: 2}
		f.until("the case to be decoded", func() bool { return f.sum() == want })
		if _, err := c.ReadHead(loaded); err != nil {
			t.Fatal(err)
		}
		if got := f.sum(); got != want {
			t.Errorf("load in mid-answer %+v, want %+v", got, want)
		}
		release(f.decode...)
		if stream {
			f.untouched() // the body is still open
			f.decodes()[0].Release()
		}
		if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
			t.Errorf("answer %+v, %v; want a whole 200", got, err)
		}
		f.finish()
		f.wantBlocks(0, 0)
	})
}

// pdStatus is a worker's error.
func pdStatus(status int) proxytest.Script {
	return func(x *proxytest.Exchange) {
		x.Reply(status, workerError, jsonType, proxytest.H("X-Worker", "says so"), proxytest.H("Retry-After", "7"))
	}
}

const workerError = `{"error": {"message": "as the worker put it", "type": "t", "code": 1}}`

// TestPairWorkerRefuses: what a worker of either phase says against the request
// reaches the client as it came, and what it says against itself as an error that
// names the phase. A prefill that failed is followed by no decode.
func TestPairWorkerRefuses(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		for _, tc := range []struct{ says, want int }{
			{400, 400}, {401, 401}, {404, 404}, {422, 422}, {429, 429}, {500, 502}, {502, 502}, {503, 503}, {504, 504},
		} {
			t.Run(fmt.Sprint(role, " ", tc.says), func(t *testing.T) {
				eachWay(t, func(t *testing.T, policy string, stream bool) {
					scripts := map[string]proxytest.Script{role: pdStatus(tc.says)}
					f := startFleet(t, pdOptions(policy), 1, scripts["prefill"], scripts["decode"])
					got := ask(t, f.router, chatPath, chat(theCase, stream))
					wantValues(t, got, "Retry-After", "7")
					if tc.want < 500 {
						wantBytes(t, "the error", got.Body, []byte(workerError))
						wantValues(t, got, "X-Worker", "says so")
						wantValues(t, got, "Content-Type", "application/json")
					} else {
						wantRole(t, got, tc.want, role+"_failed", role)
						if !strings.Contains(string(got.Body), "as the worker put it") {
							t.Errorf("error %s doesn't say what the worker said", got.Body)
						}
					}
					if got.Status != tc.want {
						t.Errorf("status %d, want %d", got.Status, tc.want)
					}
					switch {
					case role == "prefill":
						f.wantSeen(1, 0)
					case tc.want >= 500 && tc.want != 503:
						f.wantSeen(1, 1)
					default:
						f.waitSeen(1, 2) // its blocks are fetched all the same
					}
					f.finish()
				})
			})
		}
	}
}

// TestPairWorkerFails: a worker of either phase that breaks off, is silent or says
// what can't be read ends the request with an error that names the phase, once
// nobody else may be asked.
func TestPairWorkerFails(t *testing.T) {
	impatient := func(o *Options) { o.PD.PrefillTimeout = brief }
	hasty := func(o *Options) { o.Timeouts.FirstByte = brief } // bystanders have to keep to it too
	cut := func(x *proxytest.Exchange) {
		x.Head(200, jsonType, proxytest.H("Content-Length", "1000"))
		x.Raw("{")
		x.Reset()
	}
	for _, tc := range []struct {
		name, role string
		script     proxytest.Script
		options    func(*Options)
		status     int
		code       string
		seen       [2]int // requests at each phase
	}{
		{"reset before the head", "prefill", proxytest.ResetBeforeHead, nil, 502, "upstream_closed", [2]int{2, 0}},
		{"reset in the body", "prefill", cut, nil, 502, "upstream_truncated", [2]int{2, 0}},
		{"silence", "prefill", proxytest.Silent, impatient, 504, "upstream_timeout", [2]int{1, 0}},
		{"silence in the body", "prefill", halfReply(nixlReply), impatient, 504, "upstream_timeout", [2]int{1, 0}},
		{"no JSON", "prefill", func(x *proxytest.Exchange) { x.Reply(200, "<html>", jsonType) }, nil, 502, "upstream_invalid_answer", [2]int{2, 0}},
		{"half a JSON", "prefill", func(x *proxytest.Exchange) { x.Reply(200, `{"kv_transfer_params":{"a":1}`, jsonType) }, nil, 502, "upstream_invalid_answer", [2]int{2, 0}},
		{"nothing", "prefill", func(x *proxytest.Exchange) { x.Reply(204, "") }, nil, 502, "upstream_invalid_answer", [2]int{2, 0}},
		{"an empty body", "prefill", func(x *proxytest.Exchange) { x.Reply(200, "", jsonType) }, nil, 502, "upstream_invalid_answer", [2]int{2, 0}},
		{"no HTTP", "prefill", func(x *proxytest.Exchange) { x.Raw("220 smtp\r\n\r\n"); x.CloseFIN() }, nil, 502, "upstream_invalid_answer", [2]int{2, 0}},
		{"reset before the head", "decode", proxytest.ResetBeforeHead, nil, 502, "upstream_closed", [2]int{2, 2}},
		{"silence", "decode", proxytest.Silent, hasty, 504, "upstream_timeout", [2]int{1, 1}},
		{"no HTTP", "decode", func(x *proxytest.Exchange) { x.Raw("220 smtp\r\n\r\n"); x.CloseFIN() }, nil, 502, "upstream_invalid_answer", [2]int{2, 2}},
	} {
		t.Run(tc.role+", "+tc.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				o := pdOptions(policy)
				o.Timeouts.PoolIdle = 0 // a kept connection that is reset at once counts as never used
				var absent []string
				if tc.options != nil {
					tc.options(&o)
					if tc.role == "prefill" {
						absent = []string{inPrefill}
					}
				}
				scripts := map[string]proxytest.Script{tc.role: tc.script}
				f := startFleet(t, o, 1, scripts["prefill"], scripts["decode"], absent...)
				wantRole(t, ask(t, f.router, chatPath, chat(theCase, stream)), tc.status, tc.code, tc.role)
				f.wantSeen(tc.seen[0], tc.seen[1])
				f.untouched()
				for _, x := range append(f.prefills(), f.decodes()...) {
					f.until("the end of a request at its worker", func() bool { return x.Outcome() != proxytest.InFlight })
				}
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}

// TestPairDecodeBreaksOff: a decode worker that breaks off in its answer is not
// replaced: the client gets what there was, an event that says what happened if it
// reads events, and an unclean end.
func TestPairDecodeBreaksOff(t *testing.T) {
	for _, how := range []string{"reset", "FIN", "silence"} {
		t.Run(how, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				script := func(x *proxytest.Exchange) {
					if stream {
						x.SSEHead()
						x.Event("one")
					} else {
						x.Head(200, jsonType, proxytest.H("Content-Length", "100000"))
						x.Raw(strings.Repeat("z", 50_000))
					}
					x.Hold() // until the client has what was sent
					switch how {
					case "reset":
						x.Reset()
					case "FIN":
						x.CloseFIN()
					default:
						x.Hold()
					}
				}
				o, absent := pdOptions(policy), []string(nil)
				if how == "silence" {
					o.Timeouts.Idle, absent = brief, []string{inDecode}
				}
				f := startFleet(t, o, 2, nil, script, absent...)
				c := f.post(chat(theCase, stream))
				if _, err := c.ReadHead(loaded); err != nil {
					t.Fatal(err)
				}
				if stream {
					if e, err := c.ReadEvent(loaded); err != nil || e.Data != "one" {
						t.Fatalf("event %+v, %v", e, err)
					}
				}
				release(f.decode...)
				got, err := c.ReadResponse(loaded)
				if err == nil || got == nil || got.Status != 200 {
					t.Fatalf("answer %+v, %v; want a 200 that ends uncleanly", got, err)
				}
				if body := string(got.Body); stream && (!strings.HasPrefix(body, "data: one\n\ndata: {\"error\":") || !strings.Contains(body, "decode worker") || strings.Contains(body, "[DONE]")) {
					t.Errorf("stream %q, want its event and an error that names the phase", body)
				}
				f.wantSeen(1, 1)
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}
