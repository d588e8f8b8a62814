package proxy

import (
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// writeSources writes how the sources of workers fare. A source that has never had an
// answer has no age.
func (m *metricSet) writeSources(w io.Writer) {
	if m.p.sources == nil {
		return
	}
	for _, s := range m.p.sources.View() {
		series := func(name string) string { return fmt.Sprintf("%s{source=%q}", name, s.Name) }
		metrics.WriteGaugeUint64(w, series("loadstar_discovery_workers"), uint64(s.Workers))
		metrics.WriteCounterUint64(w, series("loadstar_discovery_errors_total"), s.Errors)
		if !s.Last.IsZero() {
			metrics.WriteGaugeFloat64(w, series("loadstar_discovery_last_answer_seconds"), time.Since(s.Last).Seconds())
		}
	}
}
