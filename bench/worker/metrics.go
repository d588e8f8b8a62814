package worker

import (
	"fmt"
	"io"
	"net/http"
)

// metrics is GET /metrics: Prometheus text under vLLM's names.
func (w *Worker) metrics(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	writeMetrics(rw, w.cfg, w.Stats())
}

// writeMetrics writes s. The cache counters are in tokens, as vLLM's are. A
// client that has left needs no metrics, so write errors are nobody's concern.
func writeMetrics(out io.Writer, cfg Config, s Stats) {
	labels := fmt.Sprintf(`engine="0",model_name=%q`, cfg.Model)
	one := func(name, kind string, v any) {
		fmt.Fprintf(out, "# TYPE %s %s\n%s{%s} %v\n", name, kind, name, labels, v)
	}
	used := 0.0
	if cfg.CacheBlocks > 0 {
		used = min(1, float64(s.HeldBlocks)/float64(cfg.CacheBlocks))
	}
	one("vllm:num_requests_running", "gauge", s.Running)
	one("vllm:num_requests_waiting", "gauge", s.Waiting)
	one("vllm:kv_cache_usage_perc", "gauge", used)
	one("vllm:gpu_cache_usage_perc", "gauge", used)
	one("vllm:prefix_cache_queries_total", "counter", s.PromptBlocks*BlockTokens)
	one("vllm:prefix_cache_hits_total", "counter", s.HitBlocks*BlockTokens)
	one("vllm:prompt_tokens_total", "counter", s.PromptTokens)
	one("vllm:generation_tokens_total", "counter", s.GeneratedTokens)

	const success = "vllm:request_success_total"
	fmt.Fprintf(out, "# TYPE %s counter\n", success)
	for _, r := range []struct {
		reason string
		n      int64
	}{{"stop", s.Stopped}, {"length", s.Truncated}, {"abort", s.Aborted}, {"error", s.Failed}} {
		fmt.Fprintf(out, "%s{%s,finished_reason=%q} %d\n", success, labels, r.reason, r.n)
	}
}
