package proxy

import (
	"fmt"
	"io"
	"slices"

	"loadstar/actors"

	"github.com/VictoriaMetrics/metrics"
)

// actingPolicy is the label of what was really done, beside which shadows are seen.
const actingPolicy = "acting"

// writeShadows writes what shadow policies would have done.
func (m *metricSet) writeShadows(w io.Writer, v *actors.Snapshot) {
	for i := range v.Shadows {
		s := &v.Shadows[i]
		if !slices.Contains(m.p.roles(), s.Role) {
			continue
		}
		name := s.Policy
		if name == "" {
			name = actingPolicy
		}
		labels := fmt.Sprintf("{policy=%q,role=%q}", name, s.Role)
		metrics.WriteCounterUint64(w, "loadstar_shadow_decisions_total"+labels, s.Asked)
		metrics.WriteCounterUint64(w, "loadstar_shadow_agreed_total"+labels, s.Agreed)
		metrics.WriteCounterUint64(w, "loadstar_shadow_prompt_blocks_total"+labels, s.Blocks)
		metrics.WriteCounterUint64(w, "loadstar_shadow_matched_blocks_total"+labels, s.Matched)
		metrics.WriteCounterUint64(w, "loadstar_shadow_wait_blocks_total"+labels, s.Wait)
		metrics.WriteGaugeFloat64(w, "loadstar_shadow_imbalance"+labels, s.Imbalance)
	}
}
