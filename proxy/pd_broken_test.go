package proxy

import (
	"fmt"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestBesideDecodeBreaksOff: a decode worker whose answer breaks off while it waits
// for the prefill is noticed at once, though the prefill goes on. Its place is free
// then.
func TestBesideDecodeBreaksOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		begin proxytest.Script
		end   func(x *proxytest.Exchange)
	}{
		{"reset in the body", begunBody, (*proxytest.Exchange).Reset},
		{"end in the body", begunBody, (*proxytest.Exchange).CloseFIN},
		{"reset behind the head", begunHead, (*proxytest.Exchange).Reset},
		{"reset in chunks", begunChunks, (*proxytest.Exchange).Reset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := besideConnectors["push"](t, noRetries())
			b.p.SetScript(controlCalls(proxytest.Silent))
			b.d.SetScript(controlCalls(func(x *proxytest.Exchange) {
				tt.begin(x)
				if x.Hold() {
					tt.end(x)
				}
			}))
			c, p, d := b.begin(t, false)
			b.r.waitPhase(b.d, actors.Decoding, 1)
			d.Release()
			if got := finish(t, c); got.Status != 502 {
				t.Errorf("answer %d %s, want 502", got.Status, got.Body)
			}
			wantClosed(t, "the prefill that nobody wants any more", p)
			b.r.waitIdle()
		})
	}
}

func begunHead(x *proxytest.Exchange) {
	x.Head(200, jsonType, proxytest.H("Content-Length", "500"))
}

func begunBody(x *proxytest.Exchange) {
	begunHead(x)
	x.Raw(decodeAnswer[:40])
}

func begunChunks(x *proxytest.Exchange) {
	x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
	x.Chunk(decodeAnswer[:40])
}

// TestBesideDecodeEndsFirst: a decode worker that has answered and closed waits for
// its prefill unharmed.
func TestBesideDecodeEndsFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer proxytest.Script
	}{
		{"length", func(x *proxytest.Exchange) { x.KeepAlive(false); x.Reply(200, decodeAnswer, jsonType) }},
		{"chunks", func(x *proxytest.Exchange) {
			x.KeepAlive(false)
			x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"), proxytest.H("Connection", "close"))
			x.Chunk(decodeAnswer)
			x.EndChunks()
		}},
		{"until close", func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Connection", "close"))
			x.Raw(decodeAnswer)
			x.CloseFIN()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := besideConnectors["push"](t, noRetries())
			b.p.SetScript(held(reply(200, pushReply("e1"))))
			b.d.SetScript(controlCalls(tt.answer))
			c, _, d := b.begin(t, false)
			if !b.d.WaitInFlight(0, patience) {
				t.FailNow()
			}
			if o := d.Outcome(); o != proxytest.Answered {
				t.Fatalf("the decode request is %v, want answered", o)
			}
			// The router looks at it several times.
			if _, err := c.ReadHead(5 * lookEvery); err == nil {
				t.Error("the answer came before the prefill's")
			}
			b.p.Release()
			if got := finish(t, c); got.Status != 200 {
				t.Errorf("answer %d %s, want 200", got.Status, got.Body)
			}
			b.r.waitIdle()
		})
	}
}

// TestBesideOutcomes: a request that its prefill fails is counted for what the
// prefill worker did, whole or as a stream.
func TestBesideOutcomes(t *testing.T) {
	t.Parallel()
	for _, streamed := range []bool{false, true} {
		for _, tt := range []struct {
			status int
			want   actors.Cause
		}{{500, actors.ServerError}, {400, actors.ClientError}, {503, actors.Busy}} {
			t.Run(fmt.Sprint(tt.status, ", stream: ", streamed), func(t *testing.T) {
				t.Parallel()
				b := besideConnectors["push"](t, noRetries())
				b.p.SetScript(held(reply(tt.status, "{}")))
				b.d.SetScript(controlCalls(proxytest.Silent))
				c, p, _ := b.begin(t, streamed)
				p.Release()
				if got := finish(t, c); got.Status < 400 {
					t.Errorf("answer %d %s, want an error", got.Status, got.Body)
				}
				b.r.waitIdle()
				b.r.eventually("its outcome", func() bool { return b.r.metrics.outcomes[tt.want.String()].Get() == 1 })
			})
		}
	}
}
