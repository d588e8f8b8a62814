package proxy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// numberedPrefill replies with blocks that tell the n-th reply from others.
func numberedPrefill() proxytest.Script {
	var n atomic.Int64
	return func(x *proxytest.Exchange) {
		x.Reply(200, strings.Replace(nixlReply, "[[1,2]]", fmt.Sprintf("[[%d]]", n.Add(1)), 1), jsonType)
	}
}

// blocksOf is which reply's blocks a decode request names.
func blocksOf(x *proxytest.Exchange) string {
	_, rest, _ := strings.Cut(string(x.Body()), `"remote_block_ids":[[`)
	n, _, _ := strings.Cut(rest, "]")
	return n
}

// TestPairRetries: another prefill worker takes the place of one that failed, under
// a new id. Another decode worker takes that of one that was full, with the same
// blocks, and, once, the place of one that failed, with new ones. No worker is
// asked twice while another is there.
func TestPairRetries(t *testing.T) {
	cut := func(x *proxytest.Exchange) {
		x.Head(200, jsonType, proxytest.H("Content-Length", "1000"))
		x.Raw("{")
		x.Reset()
	}
	noJSON := func(x *proxytest.Exchange) { x.Reply(200, "<html>") }
	noHTTP := func(x *proxytest.Exchange) { x.Raw("220 smtp\r\n\r\n"); x.CloseFIN() }
	bare := func(status int) proxytest.Script { return func(x *proxytest.Exchange) { x.Reply(status, "") } }
	good := [2]proxytest.Script{nil, decodeEither}
	for _, tc := range []struct {
		name     string
		role     int                // 0 prefill, 1 decode
		fails    []proxytest.Script // one after the other, whichever worker is asked
		status   int
		seen     [2]int
		blocks   string // that the last decode request names
		attempts int    // allowed, 0 is 3
	}{
		{name: "prefill 503", fails: []proxytest.Script{pdStatus(503)}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill 502, then 504", fails: []proxytest.Script{bare(502), bare(504)}, status: 504, seen: [2]int{2, 0}},
		{name: "prefill 502", fails: []proxytest.Script{bare(502)}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill 504", fails: []proxytest.Script{bare(504)}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill 429", fails: []proxytest.Script{pdStatus(429)}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill reset", fails: []proxytest.Script{proxytest.ResetBeforeHead}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill cut", fails: []proxytest.Script{cut}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill no JSON", fails: []proxytest.Script{noJSON}, status: 200, seen: [2]int{2, 1}, blocks: "1"},
		{name: "prefill 503 for ever", fails: []proxytest.Script{bare(503), bare(503), bare(503)}, status: 503, seen: [2]int{2, 0}},
		{name: "prefill 503 everywhere, for 7 s", fails: []proxytest.Script{pdStatus(503), pdStatus(503)}, status: 503, seen: [2]int{2, 0}},
		{name: "prefill 503, no retries", fails: []proxytest.Script{pdStatus(503)}, status: 503, seen: [2]int{1, 0}, attempts: 1},
		{name: "decode 503", role: 1, fails: []proxytest.Script{pdStatus(503)}, status: 200, seen: [2]int{1, 2}, blocks: "1"},
		{name: "decode 429", role: 1, fails: []proxytest.Script{pdStatus(429)}, status: 200, seen: [2]int{1, 2}, blocks: "1"},
		{name: "decode 500", role: 1, fails: []proxytest.Script{pdStatus(500)}, status: 200, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode 502", role: 1, fails: []proxytest.Script{pdStatus(502)}, status: 200, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode reset", role: 1, fails: []proxytest.Script{proxytest.ResetBeforeHead}, status: 200, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode no HTTP", role: 1, fails: []proxytest.Script{noHTTP}, status: 200, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode 503, then reset", role: 1, fails: []proxytest.Script{pdStatus(503), proxytest.ResetBeforeHead}, status: 502, seen: [2]int{1, 2}, blocks: "1"},
		{name: "decode 500 for ever", role: 1, fails: []proxytest.Script{bare(500), bare(500), bare(500)}, status: 502, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode reset for ever", role: 1, fails: []proxytest.Script{proxytest.ResetBeforeHead, proxytest.ResetBeforeHead, proxytest.ResetBeforeHead}, status: 502, seen: [2]int{2, 2}, blocks: "2"},
		{name: "decode 500, no retries", role: 1, fails: []proxytest.Script{pdStatus(500)}, status: 502, seen: [2]int{1, 1}, blocks: "1", attempts: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				o := pdOptions(policy)
				o.Timeouts.PoolIdle = 0 // a kept connection that is reset at once counts as never used
				if tc.attempts > 0 {
					o.Retry.MaxAttempts = tc.attempts
				}
				scripts := good
				scripts[0] = numberedPrefill()
				scripts[tc.role] = proxytest.Sequence(append(append([]proxytest.Script(nil), tc.fails...), scripts[tc.role])...)
				f := startFleet(t, o, 2, scripts[0], scripts[1])
				got := ask(t, f.router, chatPath, chat(theCase, stream))
				if got.Status != tc.status {
					t.Errorf("answer %d %s, want %d", got.Status, got.Body, tc.status)
				}
				f.wantSeen(tc.seen[0], tc.seen[1])
				asked := [2][]*proxytest.Exchange{f.prefills(), f.decodes()}
				if n := len(asked[1]); n > 0 {
					last := asked[1][0]
					for _, x := range asked[1] {
						if x.ArrivedAt.After(last.ArrivedAt) {
							last = x
						}
					}
					if got := blocksOf(last); got != tc.blocks {
						t.Errorf("the last decode request names the blocks of reply %s, want %s", got, tc.blocks)
					}
				}
				ids := map[string]bool{}
				for _, x := range asked[0] {
					ids[x.Get("X-Request-Id")] = true
				}
				if len(ids) != tc.seen[0] {
					t.Errorf("%d ids in %d prefill requests", len(ids), tc.seen[0])
				}
				if n := tc.seen[tc.role]; n > 1 && where(asked[tc.role][0], []*proxytest.Worker{f.prefill[0], f.decode[0]}) == nil {
					t.Errorf("one of two workers was asked %d times, and the other not at all", n)
				}
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}

// TestPairConnectionRefused: a decode worker where nobody listens is replaced by
// another, with the same blocks.
func TestPairConnectionRefused(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := startFleet(t, patientChecks(policy), 2, heldPrefill, nil)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		gone := f.reserved()
		gone.Stop()
		release(f.prefill...)
		if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
			t.Errorf("answer %+v, %v; want a whole 200", got, err)
		}
		f.wantSeen(1, 1)
		f.wantHandover(f.decodes()[0])
		f.ended(actors.ConnectFailed)
		f.finish()
		f.wantBlocks(0, 0)
	})
}

// patientChecks are options under which no worker becomes unhealthy.
func patientChecks(policy string) Options {
	o := pdOptions(policy)
	o.Router.Health.FailureThreshold = 1 << 20
	o.Health.HealthOptions = o.Router.Health
	return o
}

// TestPairNobodyListens: without any worker that can be reached the error names
// the phase, and blocks that were prefilled are given up.
func TestPairNobodyListens(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		t.Run(role, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				f := startFleet(t, patientChecks(policy), 1, nil, nil, inPrefill)
				stranded := 0.0
				if role == "prefill" {
					f.prefill[0].Stop()
					f.prefill[0].DropConnections()
				} else {
					f.decode[0].Stop()
					stranded = 1
				}
				got := ask(t, f.router, chatPath, chat(theCase, stream))
				wantRole(t, got, 502, "upstream_connect_failed", role)
				f.wantSeen(int(stranded), 0)
				f.untouched()
				f.wantBlocks(0, stranded)
				f.finish()
			})
		})
	}
}

// TestPairBreakers: the breaker of each worker opens by its own failures, and by
// no other's.
func TestPairBreakers(t *testing.T) {
	const threshold = 3
	for _, tc := range []struct {
		name   string
		role   int
		script proxytest.Script
	}{
		{"prefill fails", 0, pdStatus(500)},
		{"decode fails", 1, pdStatus(500)},
		{"prefill resets", 0, proxytest.ResetBeforeHead},
		{"decode resets", 1, proxytest.ResetBeforeHead},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				o := pdOptions(policy)
				o.Router.Breaker.FailureThreshold = threshold
				o.Retry.MaxAttempts = 1
				o.Timeouts.PoolIdle = 0
				var scripts [2]proxytest.Script
				scripts[tc.role] = tc.script
				f := startFleet(t, o, 1, scripts[0], scripts[1])
				for range threshold {
					if got := ask(t, f.router, chatPath, chat(theCase, stream)); got.Status != 502 {
						t.Errorf("answer %d, want 502", got.Status)
					}
				}
				role := []string{"prefill", "decode"}[tc.role]
				wantRole(t, ask(t, f.router, chatPath, chat(theCase, stream)), 503, "no_available_workers", role)
				v := f.snapshot()
				for i := range v.Workers {
					w := &v.Workers[i]
					want := actors.BreakerClosed
					if w.Roles.String() == role {
						want = actors.BreakerOpen
					}
					if w.Breaker != want {
						t.Errorf("the breaker of the %s worker is %v, want %v", w.Roles, w.Breaker, want)
					}
				}
				f.untouched()
			})
		})
	}
}
