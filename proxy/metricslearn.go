package proxy

import (
	"fmt"
	"io"

	"loadstar/actors"
	"loadstar/proxy/decisions"
	"loadstar/proxy/usage"

	"github.com/VictoriaMetrics/metrics"
)

// usageMetrics is what answers have told of tokens. Its zero value is that of a
// router whose policies don't want to know.
type usageMetrics struct {
	prompt, cached, completion *metrics.Counter
	predicted, best            *metrics.Counter // where an answer has told of cached ones
}

func newUsageMetrics(s *metrics.Set) usageMetrics {
	return usageMetrics{
		prompt:     s.NewCounter("loadstar_prompt_tokens_total"),
		cached:     s.NewCounter("loadstar_prompt_tokens_cached_total"),
		completion: s.NewCounter("loadstar_completion_tokens_total"),
		predicted:  s.NewCounter("loadstar_prompt_tokens_predicted_total"),
		best:       s.NewCounter("loadstar_prompt_tokens_best_total"),
	}
}

// add counts what an answer has told, and of the same prompt what was expected: the
// part known at the worker that was chosen, and that at the worker which knows most.
func (m *usageMetrics) add(u usage.Usage, d *actors.Decision) {
	m.prompt.AddInt64(int64(u.Prompt))
	m.cached.AddInt64(int64(u.Cached))
	m.completion.AddInt64(int64(u.Completion))
	if u.HasCached {
		prompt := bounded(u.Prompt)
		m.predicted.Add(decisions.Tokens(d.Match, d.Blocks, prompt))
		m.best.Add(decisions.Tokens(d.Best, d.Blocks, prompt))
	}
}

// cacheJSON is how well requests have found what was cached, since the start, as
// /workers shows it.
type cacheJSON struct {
	Blocks  uint64      `json:"prompt_blocks"`
	Matched uint64      `json:"matched_blocks"` // known at the worker that was chosen
	Best    uint64      `json:"best_blocks"`    // known at the worker that knows most
	Tokens  *tokensJSON `json:"tokens,omitempty"`
}

// tokensJSON is the same in tokens, of answers with usage.
type tokensJSON struct {
	Prompt    uint64 `json:"prompt"`
	Predicted uint64 `json:"predicted"` // cached, that is
	Reported  uint64 `json:"reported"`
	Best      uint64 `json:"best"`
}

// cache sums up how well requests have found what was cached; nil where no policy
// goes by prefixes.
func (m *metricSet) cache() *cacheJSON {
	if !m.p.needsKey {
		return nil
	}
	c := &cacheJSON{Blocks: m.prompt.Get(), Matched: m.matched.Get(), Best: m.best.Get()}
	if u := &m.usage; u.prompt != nil {
		c.Tokens = &tokensJSON{Prompt: u.prompt.Get(), Predicted: u.predicted.Get(), Reported: u.cached.Get(), Best: u.best.Get()}
	}
	return c
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
		metrics.WriteGaugeFloat64(w, "loadstar_token_bytes"+modelLabel(k.Model), k.Bytes)
	}
}

// writeCaches writes what the tree has learnt of each worker's cache.
func writeCaches(w io.Writer, t *actors.TreeStats, v *actors.Snapshot) {
	urls := make(map[actors.WorkerID]string, len(v.Workers))
	for i := range v.Workers {
		urls[v.Workers[i].ID] = v.Workers[i].URL
	}
	for _, c := range t.Caches {
		url, ok := urls[actors.WorkerID(c.Worker)]
		if !ok {
			continue
		}
		metrics.WriteGaugeUint64(w, fmt.Sprintf("loadstar_worker_tree_blocks{worker=%q}", url), uint64(c.Held))
		if c.Size > 0 {
			metrics.WriteGaugeUint64(w, fmt.Sprintf("loadstar_worker_cache_blocks{worker=%q}", url), uint64(c.Size))
		}
	}
}
