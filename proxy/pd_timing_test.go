package proxy

import (
	"slices"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// BenchmarkPairClientLeaves is the time from a client's leaving to the seeing of
// that by the worker whose phase it is, and to the end of the leases, in
// microseconds.
func BenchmarkPairClientLeaves(b *testing.B) {
	for _, bc := range []struct {
		name            string
		prefill, decode proxytest.Script
		begun           bool
	}{
		{"in prefill", proxytest.Silent, nil, false},
		{"in prefill's reply", halfReply(nixlReply), nil, false},
		{"before decode's head", nil, proxytest.Silent, false},
		{"in a stalled stream", nil, stalledStream, true},
		{"in a flowing stream", nil, flowing, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			prefill, decode := bc.prefill, bc.decode
			if prefill == nil {
				prefill = prefillWith(nixlReply)
			}
			if decode == nil {
				decode = decodeEither
			}
			p, d := proxytest.NewWorker(b, controlCalls(prefill)), proxytest.NewWorker(b, controlCalls(decode))
			r := startPD(b, pdOptions("cache_aware"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
			at := d
			if bc.decode == nil {
				at = p
			}
			var closed, idle []time.Duration
			for b.Loop() {
				c := r.post(chat("hi", true))
				at.WaitInFlight(1, patience)
				if bc.begun {
					if _, err := c.ReadHead(patience); err != nil {
						b.Fatal(err)
					}
				}
				time.Sleep(3 * time.Millisecond) // past the moment at which watching begins
				left := time.Now()
				c.CloseFIN()
				for v := r.snapshot(); v.Live > 0; v = r.snapshot() {
					time.Sleep(20 * time.Microsecond)
				}
				idle = append(idle, time.Since(left))
				at.WaitInFlight(0, patience)
				seen := at.Seen()
				closed = append(closed, seen[len(seen)-1].PeerClosedAt().Sub(left))
			}
			if got := r.outcome(actors.ClientGone); got != uint64(len(closed)) {
				b.Errorf("%d leases ended by the client, want %d", got, len(closed))
			}
			report := func(took []time.Duration, what string) {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-"+what+"-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs-"+what+"-p99")
			}
			report(closed, "closed")
			report(idle, "idle")
			b.ReportMetric(0, "ns/op")
		})
	}
}
