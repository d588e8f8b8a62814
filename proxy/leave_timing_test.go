package proxy

import (
	"slices"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// BenchmarkClientLeaves is the time from a client's leaving to its worker's
// seeing that, in microseconds.
func BenchmarkClientLeaves(b *testing.B) {
	for _, bc := range []struct {
		name   string
		script proxytest.Script
	}{
		{"before the head", proxytest.Silent},
		{"in a stalled stream", stalledStream},
		{"in a flowing stream", flowing},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := proxytest.NewWorker(b, bc.script)
			r := startRouter(b, testOptions("cache_aware"), w)
			var took []time.Duration
			for b.Loop() {
				c := r.post(chat("hi", true))
				w.WaitInFlight(1, patience)
				if bc.name != "before the head" {
					if _, err := c.ReadHead(patience); err != nil {
						b.Fatal(err)
					}
				}
				time.Sleep(3 * time.Millisecond) // past the moment at which watching begins
				left := time.Now()
				c.CloseFIN()
				w.WaitInFlight(0, patience)
				seen := w.Seen()
				took = append(took, seen[len(seen)-1].PeerClosedAt().Sub(left))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs-p99")
			b.ReportMetric(0, "ns/op")
		})
	}
}
