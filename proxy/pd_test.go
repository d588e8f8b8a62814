package proxy

import (
	"fmt"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestPairSmoke: a request is prefilled at one worker and decoded at another, by
// the same id, and both loads are 0 again.
func TestPairSmoke(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			p, d := proxytest.NewWorker(t, prefillWith(nixlReply)), proxytest.NewWorker(t, decodeEither)
			r := startPD(t, pdOptions("cache_aware"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
			c := r.post(chat("hi", stream))
			got, err := c.ReadResponse(patience)
			if err != nil || got.Status != 200 {
				t.Fatalf("answer %+v, %v", got, err)
			}
			if !stream && !strings.Contains(string(got.Body), `"cached_tokens":4`) {
				t.Errorf("usage is not the prefill worker's: %s", got.Body)
			}
			ps, ds := generations(p), generations(d)
			if len(ps) != 1 || len(ds) != 1 {
				t.Fatalf("%d prefill and %d decode requests, want one each", len(ps), len(ds))
			}
			if a, b := ps[0].Get("X-Request-Id"), ds[0].Get("X-Request-Id"); a != b || !strings.HasPrefix(a, "___prefill_addr_"+p.Addr()+"___decode_addr_"+d.Addr()+"_") {
				t.Errorf("request ids %q and %q", a, b)
			}
			if !strings.Contains(string(ds[0].Body()), `"remote_engine_id":"e1"`) {
				t.Errorf("the decode request has no transfer parameters: %s", ds[0].Body())
			}
			r.waitIdle()
		})
	}
}

// TestPairPhases: while requests are in prefill the decode worker's load is 0 and
// its places are reserved; then it has them until their bodies end.
func TestPairPhases(t *testing.T) {
	const n = 20
	p := proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
		if x.Hold() {
			x.Reply(200, nixlReply, jsonType)
		}
	}))
	d := proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Event("one")
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	}))
	for _, policy := range []string{"round_robin", "cache_aware"} {
		t.Run(policy, func(t *testing.T) {
			r := startPD(t, pdOptions(policy), []*proxytest.Worker{p}, []*proxytest.Worker{d})
			var clients []*proxytest.Client
			for i := range n {
				clients = append(clients, r.post(chat(fmt.Sprint("prompt ", i), true)))
			}
			r.waitPhase(p, actors.Prefilling, n)
			r.waitPhase(d, actors.Reserved, n)
			if l := r.load(d); l != 0 {
				t.Errorf("decode load %d while all are in prefill, want 0", l)
			}
			p.WaitInFlight(n, patience)
			p.Release()
			r.waitPhase(d, actors.Decoding, n)
			r.waitLoad(p, 0)
			for _, c := range clients {
				if _, err := c.ReadEvent(patience); err != nil {
					t.Fatal(err)
				}
			}
			if l := r.load(d); l != n {
				t.Errorf("decode load %d while bodies run, want %d", l, n)
			}
			d.Release()
			for _, c := range clients {
				if _, err := c.ReadResponse(patience); err != nil {
					t.Error(err)
				}
			}
			r.waitIdle()
		})
	}
}
