package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// beside is a pair whose requests are sent at once. It is the same under every
// connector but for how the pair gets there.
type beside struct {
	*pushPair
	push   bool
	boot   func() int // questions to the bootstrap server, 0 if there is none
	np, nd int        // requests seen before the one that begin has sent
}

func noBootstrap() int { return 0 }

// besideConnectors start pairs.
var besideConnectors = map[string]func(t *testing.T, o Options) *beside{
	"push": func(t *testing.T, o Options) *beside {
		return &beside{pushPair: newPushPair(t, o), push: true, boot: noBootstrap}
	},
	"mooncake": func(t *testing.T, o Options) *beside {
		f := newMoonPair(t, o, prefillWith(moonReply), decodeEither)
		return &beside{pushPair: &pushPair{f.r, f.p, f.d}, boot: func() int { return f.boot.Requests() }}
	},
	"moriio": func(t *testing.T, o Options) *beside {
		return &beside{pushPair: moriPair(t, "WRITE", o, prefillWith(moonReply), decodeEither), boot: noBootstrap}
	},
}

// eachBeside runs f for each connector that sends both requests at once, and for
// both forms of answers under one of them.
func eachBeside(t *testing.T, o func() Options, f func(t *testing.T, b *beside, stream bool)) {
	for _, tt := range []struct {
		connector string
		stream    bool
	}{{"push", false}, {"mooncake", false}, {"mooncake", true}, {"moriio", true}} {
		t.Run(fmt.Sprint(tt.connector, " stream ", tt.stream), func(t *testing.T) {
			t.Parallel()
			f(t, besideConnectors[tt.connector](t, o()), tt.stream)
		})
	}
}

func noRetries() Options {
	o := withRetries()
	o.Retry.MaxAttempts = 1
	return o
}

// withRetries are options for workers that reset connections: on one that was
// used before this would look as if it had been closed while it lay idle.
func withRetries() Options {
	o := pdOptions("round_robin")
	o.Timeouts.PoolIdle = 0
	return o
}

// begin sends a request and waits until both workers have it.
func (b *beside) begin(t *testing.T, stream bool) (c *proxytest.Client, p, d *proxytest.Exchange) {
	t.Helper()
	b.np, b.nd = len(generations(b.p)), len(generations(b.d))
	c = b.r.post(chat("beside", stream))
	return c, nthGeneration(t, b.p, b.np), nthGeneration(t, b.d, b.nd)
}

// TestBesidePrefillFails: a prefill that fails takes the decode request down at
// once, and its error is the answer.
func TestBesidePrefillFails(t *testing.T) {
	t.Parallel()
	const refusal = `{"error": {"message":"too long","code":400}}`
	cases := []struct {
		name    string
		script  proxytest.Script
		status  int
		body    string // all of it, "" for one of ours
		code    string
		waiting int // seconds in Retry-After
	}{
		{"400", reply(400, refusal), 400, refusal, "", 0},
		{"429", reply(429, refusal, proxytest.H("Retry-After", "3")), 429, refusal, "", 3},
		{"500", reply(500, refusal), 502, "", "prefill_failed", 0},
		{"503", reply(503, refusal, proxytest.H("Retry-After", "7")), 503, "", "prefill_failed", 7},
		{"reset", proxytest.ResetBeforeHead, 502, "", "upstream_closed", 0},
		{"no JSON", reply(200, "<html>"), 502, "", "upstream_invalid_answer", 0},
		{"cut", func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Content-Length", "100"))
			x.Chunk(`{"choices":`)
			x.Reset()
		}, 502, "", "upstream_truncated", 0},
	}
	eachBeside(t, noRetries, func(t *testing.T, b *beside, stream bool) {
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				b.p.SetScript(held(tt.script))
				b.d.SetScript(held(decodeEither))
				c, p, d := b.begin(t, stream)
				p.Release()
				wantClosed(t, "the decode request", d)
				got := finish(t, c)
				if got.Status != tt.status {
					t.Errorf("status %d, want %d: %s", got.Status, tt.status, got.Body)
				}
				switch {
				case tt.body != "":
					wantBytes(t, "answer", got.Body, []byte(tt.body))
				case !strings.Contains(string(got.Body), `"code":"`+tt.code+`"`):
					t.Errorf("answer %s, want code %s", got.Body, tt.code)
				}
				if tt.waiting != 0 {
					wantValues(t, got, "Retry-After", fmt.Sprint(tt.waiting))
				}
				b.r.waitIdle()
				b.wantNoFailure(t, b.d)
				wantNoMore(t, b.d, b.nd+1)
			})
		}
	})
}

// wantNoFailure fails the test if a request counts as failed at a worker.
func (b *beside) wantNoFailure(t *testing.T, w *proxytest.Worker) {
	t.Helper()
	v := b.r.snapshot()
	got := uint64(0)
	for i := range v.Workers {
		if v.Workers[i].Base == w.URL() {
			got += failures(&v.Workers[i])
		}
	}
	if got != 0 {
		t.Errorf("%d requests count as failed at %s, want none", got, w.URL())
	}
}

// TestBesidePrefillRetried: both requests are made again, under another id, when
// the prefill has failed in a way that may pass.
func TestBesidePrefillRetried(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		script proxytest.Script
	}{{"503", reply(503, `{}`)}, {"reset", proxytest.ResetBeforeHead}}
	eachBeside(t, withRetries, func(t *testing.T, b *beside, stream bool) {
		good := reply(200, moonReply)
		if b.push {
			good = reply(200, pushReply("e1"))
		}
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				b.p.SetScript(controlCalls(proxytest.Sequence(held(tt.script), good)))
				b.d.SetScript(controlCalls(proxytest.Sequence(proxytest.Silent, decodeEither)))
				c, p, d := b.begin(t, stream)
				p.Release()
				wantClosed(t, "the first decode request", d)
				if got := finish(t, c); got.Status != 200 {
					t.Errorf("status %d, want 200: %s", got.Status, got.Body)
				}
				ps, ds := generations(b.p)[b.np:], generations(b.d)[b.nd:]
				wantNewID(t, ps)
				wantNewID(t, ds)
				if ds[1].Get("X-Request-Id") != ps[1].Get("X-Request-Id") {
					t.Errorf("the answer is to %q, the prefill was %q", ds[1].Get("X-Request-Id"), ps[1].Get("X-Request-Id"))
				}
				b.r.waitIdle()
			})
		}
	})
}

// TestBesideDecodeRefuses: a decode worker's error ends the prefill at once, and
// reaches the client as it is.
func TestBesideDecodeRefuses(t *testing.T) {
	t.Parallel()
	eachBeside(t, func() Options { return pdOptions("round_robin") }, func(t *testing.T, b *beside, stream bool) {
		const refusal = `{"error": {"message":"bad decode","code":422} }`
		b.p.SetScript(held(reply(200, moonReply)))
		b.d.SetScript(held(reply(422, refusal, proxytest.H("X-Why", "so"))))
		c, p, d := b.begin(t, stream)
		d.Release()
		wantClosed(t, "the prefill request", p)
		got := finish(t, c)
		if got.Status != 422 || got.Get("X-Why") != "so" {
			t.Errorf("status %d, headers %v, want the decode worker's", got.Status, got.Headers)
		}
		wantBytes(t, "answer", got.Body, []byte(refusal))
		b.r.waitIdle()
		b.wantNoFailure(t, b.p)
		wantNoMore(t, b.p, b.np+1)
	})
}

// TestBesideDecodeFails: so do its failures, which are told in our own words.
func TestBesideDecodeFails(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		script proxytest.Script
		code   string
	}{
		{"500", reply(500, `{}`), "decode_failed"},
		{"reset", proxytest.ResetBeforeHead, "upstream_closed"},
	}
	eachBeside(t, noRetries, func(t *testing.T, b *beside, stream bool) {
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				b.meet(t)
				b.p.SetScript(held(reply(200, moonReply)))
				b.d.SetScript(held(tt.script))
				c, p, d := b.begin(t, stream)
				d.Release()
				wantClosed(t, "the prefill request", p)
				got := finish(t, c)
				if got.Status != 502 || !strings.Contains(string(got.Body), `"code":"`+tt.code+`"`) {
					t.Errorf("answer %d %s, want 502 %s", got.Status, got.Body, tt.code)
				}
				b.r.waitIdle()
				b.wantNoFailure(t, b.p)
			})
		}
	})
}

// meet sends a request that goes well, and waits until what was forgotten of the
// prefill worker is known again.
func (b *beside) meet(t *testing.T) {
	t.Helper()
	good := reply(200, moonReply)
	if b.push {
		good = reply(200, pushReply("e1"))
	}
	b.p.SetScript(controlCalls(good))
	b.d.SetScript(decodeEither)
	checks := b.boot()
	eventually(t, "a question to the bootstrap server", func() bool { return checks == 0 || b.boot() > checks+1 })
	finish(t, b.r.post(chat("meet", false)))
	b.r.waitIdle()
}

// TestBesideClientLeaves: the connections to both workers are closed at once,
// before and behind the answer's head.
func TestBesideClientLeaves(t *testing.T) {
	t.Parallel()
	eachBeside(t, withRetries, func(t *testing.T, b *beside, stream bool) {
		for _, begun := range []bool{false, true} {
			if begun && !stream {
				return // what isn't a stream begins when the prefill is over
			}
			t.Run(fmt.Sprint("answer begun ", begun), func(t *testing.T) {
				b.p.SetScript(held(reply(200, moonReply)))
				b.d.SetScript(controlCalls(func(x *proxytest.Exchange) {
					if begun {
						x.SSEHead()
						x.Event(`{"choices":[]}`)
					}
					x.Hold()
				}))
				c, p, d := b.begin(t, stream)
				if begun {
					if _, err := c.ReadEvent(livePatience); err != nil {
						t.Fatal(err)
					}
				}
				c.Reset()
				wantClosed(t, "the prefill request", p)
				wantClosed(t, "the decode request", d)
				b.r.waitIdle()
				b.wantNoFailure(t, b.p)
				b.wantNoFailure(t, b.d)
			})
		}
	})
}

const (
	usageFrame = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":9}}}` + "\n\n"
	usageRight = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	textFrame  = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	doneFrame  = "data: [DONE]\n\n"
)

// TestBesideUsageWaits: of a stream whose prefill is slow all comes at once but
// the usage, and what is behind it.
func TestBesideUsageWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pieces []string
	}{
		{"in pieces", []string{textFrame, textFrame, usageFrame, doneFrame}},
		{"in one piece", []string{textFrame + textFrame + usageFrame + doneFrame}},
		{"with the piece before", []string{textFrame, textFrame + usageFrame[:40], usageFrame[40:] + doneFrame}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newMoonPair(t, pdOptions("round_robin"), held(reply(200, moonReply)), controlCalls(func(x *proxytest.Exchange) {
				x.Head(200, proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Transfer-Encoding", "chunked"))
				for _, piece := range tt.pieces {
					x.Chunk(piece)
				}
				x.EndChunks()
			}))
			c := f.r.post(chat("hi", true))
			nthGeneration(t, f.p, 0)
			for i := range 2 {
				if e, err := c.ReadEvent(livePatience); err != nil || string(e.Raw) != textFrame {
					t.Fatalf("event %d is %q, %v, want %q while the prefill runs", i, e.Raw, err, textFrame)
				}
			}
			if e, err := c.ReadEvent(30 * time.Millisecond); err == nil {
				t.Errorf("event %q came before the prefill was over", e.Raw)
			}
			f.p.Release()
			got := finish(t, c)
			wantBytes(t, "stream", got.Body, []byte(textFrame+textFrame+usageRight+doneFrame))
			f.r.waitIdle()
		})
	}
}

// TestBesideSlowPrefillFails: a stream that waits for its usage ends with an error
// when the prefill fails; nothing that came before is lost.
func TestBesideSlowPrefillFails(t *testing.T) {
	t.Parallel()
	for _, pieces := range [][]string{{textFrame, usageFrame}, {textFrame + usageFrame}} {
		t.Run(fmt.Sprint("pieces ", len(pieces)), func(t *testing.T) {
			t.Parallel()
			f := newMoonPair(t, pdOptions("round_robin"), held(reply(503, `{}`)), controlCalls(func(x *proxytest.Exchange) {
				x.Head(200, proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Transfer-Encoding", "chunked"))
				for _, piece := range pieces {
					x.Chunk(piece)
				}
				x.Hold()
			}))
			c := f.r.post(chat("hi", true))
			nthGeneration(t, f.p, 0)
			d := nthGeneration(t, f.d, 0)
			if e, err := c.ReadEvent(livePatience); err != nil || string(e.Raw) != textFrame {
				t.Fatalf("event %q, %v, want %q while the prefill runs", e.Raw, err, textFrame)
			}
			f.p.Release()
			wantClosed(t, "the decode request", d)
			got, _ := c.ReadResponse(livePatience)
			if got == nil || !strings.HasPrefix(string(got.Body), textFrame) || !strings.Contains(string(got.Body), `data: {"error":`) || !strings.Contains(string(got.Body), "prefill") {
				t.Errorf("answer %+v, want the text and an error of the prefill worker", got)
			}
			f.r.waitIdle()
		})
	}
}

// TestBesideEndMarkBeforePrefillFails: an answer that is whole reaches the client
// whole, whatever becomes of its prefill.
func TestBesideEndMarkBeforePrefillFails(t *testing.T) {
	t.Parallel()
	f := newMoonPair(t, pdOptions("round_robin"), held(reply(503, `{}`)), controlCalls(func(x *proxytest.Exchange) {
		x.Head(200, proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Transfer-Encoding", "chunked"))
		x.Chunk(textFrame + usageFrame + doneFrame)
		x.Hold()
	}))
	c := f.r.post(chat("hi", true))
	p, d := nthGeneration(t, f.p, 0), nthGeneration(t, f.d, 0)
	if _, err := c.ReadEvent(livePatience); err != nil {
		t.Fatal(err)
	}
	p.Release()
	wantClosed(t, "the decode request", d)
	got, _ := c.ReadResponse(livePatience)
	if got == nil {
		t.Fatal("no answer")
	}
	wantBytes(t, "stream", got.Body, []byte(textFrame+strings.Replace(usageFrame, `"cached_tokens":9`, "", 1)+doneFrame))
	f.r.waitIdle()
	f.p.SetScript(prefillWith(moonReply))
	f.d.SetScript(decodeEither)
	finish(t, f.r.post(chat("hi", false)))
}

// TestBesideEarlyHead: engines send a stream's head before they have a token. It
// is held until there is one, so that a prefill's error can still be the answer,
// and a request that has met another engine be made again.
func TestBesideEarlyHead(t *testing.T) {
	t.Parallel()
	early := controlCalls(func(x *proxytest.Exchange) {
		x.SSEHead()
		if x.Hold() {
			x.Chunk(textFrame + doneFrame)
			x.EndChunks()
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		const refusal = `{"error":{"message":"too long","code":400}}`
		f := newMoonPair(t, pdOptions("round_robin"), held(reply(400, refusal)), early)
		c := f.r.post(chat("hi", true))
		p, d := nthGeneration(t, f.p, 0), nthGeneration(t, f.d, 0)
		if _, err := c.ReadHead(20 * time.Millisecond); err == nil {
			t.Error("the answer's head came before its first event")
		}
		p.Release()
		wantClosed(t, "the decode request", d)
		if got := finish(t, c); got.Status != 400 || string(got.Body) != refusal {
			t.Errorf("answer %d %s, want the prefill worker's 400", got.Status, got.Body)
		}
		f.r.waitIdle()
	})
	t.Run("another engine", func(t *testing.T) {
		t.Parallel()
		f := newPushPair(t, pdOptions("round_robin"))
		f.p.SetScript(held(reply(200, pushReply("e2"))))
		f.d.SetScript(early)
		c := f.r.post(chat("hi", true))
		nthGeneration(t, f.p, 1)
		d := nthGeneration(t, f.d, 1)
		time.Sleep(20 * time.Millisecond) // for the head
		f.p.Release()
		wantClosed(t, "the decode request that waits for another engine", d)
		nthGeneration(t, f.p, 2)
		d = nthGeneration(t, f.d, 2)
		f.p.Release()
		f.d.Release()
		want200(t, finish(t, c), textFrame+doneFrame)
		wantKV(t, "decode", kvOf(t, d), `{"remote_engine_id":"e2"}`)
		f.r.waitIdle()
	})
}
