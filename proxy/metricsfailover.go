package proxy

import (
	"fmt"

	"loadstar/proxy/continuation"

	"github.com/VictoriaMetrics/metrics"
)

// failoverMetrics count what became of streams whose worker died. There are none
// unless streams may be continued.
type failoverMetrics struct {
	continued *metrics.Counter
	failed    *metrics.Counter   // no other worker went on
	refused   []*metrics.Counter // by continuation.Refusal
}

func newFailoverMetrics(s *metrics.Set) failoverMetrics {
	m := failoverMetrics{
		continued: s.NewCounter(`loadstar_stream_failovers_total{result="continued"}`),
		failed:    s.NewCounter(`loadstar_stream_failovers_total{result="failed"}`),
		refused:   []*metrics.Counter{continuation.None: nil},
	}
	for _, r := range continuation.Refusals() {
		m.refused = append(m.refused, s.NewCounter(fmt.Sprintf("loadstar_stream_failovers_refused_total{reason=%q}", r)))
	}
	return m
}
