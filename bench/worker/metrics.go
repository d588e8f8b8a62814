package worker

import (
	"fmt"
	"io"
	"net/http"
)

// metrics is GET /metrics: Prometheus text under vLLM's names, and under "sim:"
// for what vLLM doesn't count.
func (w *Worker) metrics(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	writeMetrics(rw, w.cfg, w.stats())
}

// writeMetrics writes what each rank has seen. The cache counters are in tokens,
// as vLLM's are. A client that has left needs no metrics, so write errors are
// nobody's concern.
func writeMetrics(out io.Writer, cfg Config, ranks []Stats) {
	sample := func(name string, rank int, more string, v any) {
		fmt.Fprintf(out, "%s{engine=\"%d\",model_name=%q%s} %v\n", name, rank, cfg.Model, more, v)
	}
	one := func(name, kind string, value func(Stats) any) {
		fmt.Fprintf(out, "# TYPE %s %s\n", name, kind)
		for rank, s := range ranks {
			sample(name, rank, "", value(s))
		}
	}
	used := func(s Stats) any {
		if cfg.CacheBlocks == 0 {
			return 0.0
		}
		return min(1, float64(s.HeldBlocks)/float64(cfg.CacheBlocks))
	}
	one("vllm:num_requests_running", "gauge", func(s Stats) any { return s.Running })
	one("vllm:num_requests_waiting", "gauge", func(s Stats) any { return s.Waiting + s.Loading })
	one("vllm:kv_cache_usage_perc", "gauge", used)
	one("vllm:gpu_cache_usage_perc", "gauge", used)
	one("vllm:prefix_cache_queries_total", "counter", func(s Stats) any { return s.PromptBlocks * BlockTokens })
	one("vllm:prefix_cache_hits_total", "counter", func(s Stats) any { return s.HitBlocks * BlockTokens })
	one("vllm:external_prefix_cache_hits_total", "counter", func(s Stats) any { return s.LoadedTokens })
	one("vllm:prompt_tokens_total", "counter", func(s Stats) any { return s.PromptTokens })
	one("vllm:generation_tokens_total", "counter", func(s Stats) any { return s.GeneratedTokens })

	const success = "vllm:request_success_total"
	fmt.Fprintf(out, "# TYPE %s counter\n", success)
	for rank, s := range ranks {
		sample(success, rank, `,finished_reason="stop"`, s.Stopped)
		sample(success, rank, `,finished_reason="length"`, s.Truncated)
		sample(success, rank, `,finished_reason="abort"`, s.Aborted)
		sample(success, rank, `,finished_reason="error"`, s.Failed)
	}

	const transfer = "vllm:nixl_xfer_time_seconds"
	fmt.Fprintf(out, "# TYPE %s histogram\n", transfer)
	for rank, s := range ranks {
		sample(transfer+"_bucket", rank, `,le="+Inf"`, s.KVLoaded)
		sample(transfer+"_sum", rank, "", s.LoadTime.Seconds())
		sample(transfer+"_count", rank, "", s.KVLoaded)
	}
	one("vllm:nixl_num_failed_transfers_total", "counter", func(s Stats) any { return s.KVFailed })
	one("vllm:nixl_num_kv_expired_reqs_total", "counter", func(s Stats) any { return s.KVExpired })
	one("sim:kv_pinned_requests", "gauge", func(s Stats) any { return s.PinnedRequests })
	one("sim:kv_pinned_blocks", "gauge", func(s Stats) any { return s.PinnedBlocks })
	one("sim:kv_sent_total", "counter", func(s Stats) any { return s.KVSent })
	one("sim:kv_dropped_total", "counter", func(s Stats) any { return s.KVDropped })
	one("sim:kv_mismatched_total", "counter", func(s Stats) any { return s.KVMismatched })
	one("sim:kv_recomputed_total", "counter", func(s Stats) any { return s.KVRecomputed })
}
