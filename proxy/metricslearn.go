package proxy

import (
	"fmt"
	"io"

	"loadstar/actors"
	"loadstar/proxy/usage"

	"github.com/VictoriaMetrics/metrics"
)

// usageMetrics is what answers have told of tokens. Its zero value is that of a
// router whose policies don't want to know.
type usageMetrics struct {
	prompt, cached, completion *metrics.Counter
}

func newUsageMetrics(s *metrics.Set) usageMetrics {
	return usageMetrics{
		prompt:     s.NewCounter("loadstar_prompt_tokens_total"),
		cached:     s.NewCounter("loadstar_prompt_tokens_cached_total"),
		completion: s.NewCounter("loadstar_completion_tokens_total"),
	}
}

func (m *usageMetrics) add(u usage.Usage) {
	m.prompt.AddInt64(int64(u.Prompt))
	m.cached.AddInt64(int64(u.Cached))
	m.completion.AddInt64(int64(u.Completion))
}

// writeTree writes what the tree has to say, of itself and of what it has learnt.
func (m *metricSet) writeTree(w io.Writer, t *actors.TreeStats) {
	metrics.WriteGaugeUint64(w, "vllm_router_tree_size", uint64(t.Bytes))
	metrics.WriteGaugeUint64(w, "loadstar_tree_bytes", uint64(t.Bytes))
	metrics.WriteGaugeUint64(w, "loadstar_tree_nodes", uint64(t.Nodes))
	metrics.WriteGaugeUint64(w, "loadstar_tree_entries", uint64(t.Entries))
	metrics.WriteCounterUint64(w, "loadstar_tree_evicted_total", t.Evicted)
	metrics.WriteCounterUint64(w, "loadstar_tree_busy_total", t.Dropped)
	if m.usage.prompt == nil {
		return // it learns nothing
	}
	metrics.WriteCounterUint64(w, `loadstar_tree_predictions_total{outcome="hit"}`, t.Hits)
	metrics.WriteCounterUint64(w, `loadstar_tree_predictions_total{outcome="miss"}`, t.Misses)
	metrics.WriteCounterUint64(w, "loadstar_tree_restarts_total", t.Restarts)
	for _, k := range t.Tokens {
		metrics.WriteGaugeFloat64(w, fmt.Sprintf("loadstar_token_bytes{model=%q}", k.Model), k.Bytes)
	}
}

// writeCaches writes what the tree has learnt of each worker's cache.
func writeCaches(w io.Writer, t *actors.TreeStats, v *actors.Snapshot) {
	urls := make(map[actors.WorkerID]string, len(v.Workers))
	for i := range v.Workers {
		urls[v.Workers[i].ID] = v.Workers[i].URL
	}
	for _, c := range t.Caches {
		url, ok := urls[c.Worker]
		if !ok {
			continue
		}
		metrics.WriteGaugeUint64(w, fmt.Sprintf("loadstar_worker_tree_blocks{worker=%q}", url), uint64(c.Held))
		if c.Size > 0 {
			metrics.WriteGaugeUint64(w, fmt.Sprintf("loadstar_worker_cache_blocks{worker=%q}", url), uint64(c.Size))
		}
	}
}
