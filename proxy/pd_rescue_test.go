package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// isRescue reports whether a request at a decode worker is one for blocks alone.
func isRescue(x *proxytest.Exchange) bool {
	return strings.Contains(string(x.Body()), `"max_tokens":1,`) && !strings.Contains(string(x.Body()), `"stream":true`)
}

// rescuing answers rescues by one script and the rest by another.
func rescuing(rescue, rest proxytest.Script) proxytest.Script {
	return func(x *proxytest.Exchange) {
		if isRescue(x) {
			rescue(x)
			return
		}
		rest(x)
	}
}

// wantRescue fails the test unless x is a rescue for the last prefill.
func (f *pdFleet) wantRescue(x *proxytest.Exchange) {
	f.t.Helper()
	if !isRescue(x) {
		f.t.Errorf("the decode worker got %s, want a request for one token", x.Body())
	}
	f.wantHandover(x)
	if want := f.prefills()[len(f.prefills())-1].Get("Authorization"); x.Get("Authorization") != want {
		f.t.Errorf("the rescue authenticates as %q, want the client, %q", x.Get("Authorization"), want)
	}
}

// TestPairRescueAfterARefusal: a decode worker that refuses a request has fetched
// nothing, so another request, for one token, fetches what was prefilled. It
// counts where it runs, and the client doesn't wait for it.
func TestPairRescueAfterARefusal(t *testing.T) {
	for _, status := range []int{400, 404, 422, 429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				o := pdOptions(policy)
				o.Retry.MaxAttempts = 1
				f := startFleet(t, o, 2, nil, rescuing(heldPlain, pdStatus(status)))
				got := ask(t, f.router, chatPath, chat(theCase, stream), proxytest.H("Authorization", "Bearer client's"))
				if got.Status != status {
					t.Errorf("answer %d, want %d", got.Status, status)
				}
				f.waitSeen(1, 2)
				var rescue *proxytest.Exchange
				for _, x := range f.decodes() {
					if isRescue(x) {
						rescue = x
					}
				}
				if rescue == nil {
					t.Fatal("no rescue")
				}
				f.wantRescue(rescue)
				if where(rescue, f.decode) == where(other(f.decodes(), rescue), f.decode) {
					t.Error("the rescue went to the worker that had refused")
				}
				if got := f.sum().decoding; got != 2 {
					t.Errorf("%d requests are decoded, want 2, with the rescue", got)
				}
				f.wantBlocks(0, 0)
				rescue.Release()
				f.finish()
				f.wantBlocks(1, 0)
			})
		})
	}
}

// other is the request of two that isn't x.
func other(xs []*proxytest.Exchange, x *proxytest.Exchange) *proxytest.Exchange {
	for _, y := range xs {
		if y != x {
			return y
		}
	}
	return nil
}

// TestPairRescueInARetry: a client that leaves while its request waits for another
// decode worker leaves blocks behind, which are rescued.
func TestPairRescueInARetry(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		o := pdOptions(policy)
		o.Retry.InitialBackoff, o.Retry.MaxBackoff = time.Minute, time.Minute
		full := func(x *proxytest.Exchange) { x.Reply(503, "") }
		f := startFleet(t, o, 1, nil, rescuing(proxytest.JSON(200, "{}"), full))
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 1)
		f.untouched() // it waits
		c.CloseFIN()
		f.waitSeen(1, 2)
		for _, x := range f.decodes() {
			if isRescue(x) {
				f.wantRescue(x)
			}
		}
		f.finish()
		f.wantBlocks(1, 0)
	})
}

// TestPairRescuesAreBounded: no more rescues run at a time than are allowed, nor
// for longer, and what isn't rescued is counted.
func TestPairRescuesAreBounded(t *testing.T) {
	for _, tc := range []struct {
		name     string
		allowed  int
		requests int
		rescue   proxytest.Script
		timeout  time.Duration
		rescued  float64
		stranded float64
	}{
		{"none allowed", 0, 2, nil, time.Minute, 0, 2},
		{"one allowed", 1, 3, heldPlain, time.Minute, 1, 2},
		{"refused too", 2, 2, pdStatus(422), time.Minute, 0, 2},
		{"reset", 2, 2, proxytest.ResetBeforeHead, time.Minute, 0, 2},
		{"silence", 2, 2, proxytest.Silent, brief, 0, 2},
		{"silence in the body", 2, 2, halfReply(decodeAnswer), brief, 0, 2},
		{"no body", 2, 2, func(x *proxytest.Exchange) { x.Reply(204, "") }, time.Minute, 2, 0},
		{"a stream", 2, 2, proxytest.SSE(3, 0), time.Minute, 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				o := pdOptions(policy)
				o.PD.Rescues, o.PD.RescueTimeout = tc.allowed, tc.timeout
				o.Timeouts.PoolIdle = 0 // a kept connection that is reset at once counts as never used
				f := startFleet(t, o, 1, nil, rescuing(tc.rescue, pdStatus(422)))
				for range tc.requests {
					if got := ask(t, f.router, chatPath, chat(theCase, stream)); got.Status != 422 {
						t.Errorf("answer %d, want 422", got.Status)
					}
				}
				f.waitSeen(tc.requests, tc.requests+min(tc.allowed, tc.requests))
				if tc.rescued == 1 {
					f.wantBlocks(0, tc.stranded)
					release(f.decode...)
				}
				f.untouched()
				for _, x := range f.decodes() {
					f.until("the end of a request at its worker", func() bool { return x.Outcome() != proxytest.InFlight })
				}
				f.finish()
				f.wantBlocks(tc.rescued, tc.stranded)
			})
		})
	}
}

// TestPairMissingParameters: a reply without transfer parameters is counted, and
// the decode worker computes the prompt itself. There is nothing to rescue.
func TestPairMissingParameters(t *testing.T) {
	for _, reply := range []string{`{}`, `{"kv_transfer_params":null}`, `{"kv_transfer_params":[1]}`, `{"kv_transfer_params":"x"}`} {
		t.Run(reply, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				f := startFleet(t, pdOptions(policy), 1, proxytest.JSON(200, reply), proxytest.Sequence(decodeEither, pdStatus(422)))
				for _, want := range []int{200, 422} {
					if got := ask(t, f.router, chatPath, chat(theCase, stream)); got.Status != want {
						t.Errorf("answer %d, want %d", got.Status, want)
					}
				}
				f.wantSeen(2, 2)
				for _, x := range f.decodes() {
					if strings.Contains(string(x.Body()), "kv_transfer_params") {
						t.Errorf("the decode request has parameters: %s", x.Body())
					}
				}
				if got := f.metric("loadstar_pd_kv_handoff_missing_total"); got != 2 {
					t.Errorf("%v replies without parameters counted, want 2", got)
				}
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}
