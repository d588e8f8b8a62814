package worker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// Each rank is an engine of its own: cache, load and metrics.
func TestRanks(t *testing.T) {
	w, url := start(t, Config{Model: "m", Ranks: 3})
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, strings.Repeat("x", BlockBytes+1))
	tests := []struct {
		name, rank     string
		status, cached int
	}{
		{"first time", "2", 200, 0},
		{"again", "2", 200, BlockTokens},
		{"another rank's cache", "0", 200, 0},
		{"too high", "3", 400, 0},
		{"negative", "-1", 400, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, "POST", url+"/v1/completions", body, "X-data-parallel-rank", tt.rank)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			if tt.status == 200 {
				expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", tt.cached)
			}
		})
	}
	// Requests without a rank take turns; not a number is none.
	for _, rank := range []string{"", "x", ""} {
		ask(t, "POST", url+"/v1/completions", `{"prompt":"y","max_tokens":1}`, "X-data-parallel-rank", rank)
	}
	eventually(t, w, "end of all requests", func(s Stats) bool {
		return s.Completed == 6 && s.Refused == 2 && s.Entered == 8 && s.Open == 0
	})
	if got, want := fmt.Sprint(w.Stats().Ranks), "map[0:1 2:2]"; got != want {
		t.Errorf("ranks are %s, want %s", got, want)
	}
	metrics := string(ask(t, "GET", url+"/metrics", "").body)
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 0`,
		`vllm:num_requests_running{engine="2",model_name="m"} 0`,
		`vllm:request_success_total{engine="0",model_name="m",finished_reason="length"} 2`,
		`vllm:request_success_total{engine="1",model_name="m",finished_reason="length"} 1`,
		`vllm:request_success_total{engine="2",model_name="m",finished_reason="length"} 3`,
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("metrics lack %s in\n%s", want, metrics)
		}
	}
	if n := strings.Count(metrics, "# TYPE vllm:num_requests_running "); n != 1 {
		t.Errorf("the type of a metric is told %d times, want once", n)
	}
	query := ask(t, "GET", url+"/query", "")
	for rank, e := range w.engines {
		expect(t, query.body, fmt.Sprintf("%d.engine_id", rank), e.id)
	}
	if w.engines[0].id == w.engines[1].id {
		t.Errorf("two ranks have the id %s", w.engines[0].id)
	}
	expect(t, ask(t, "GET", url+"/get_server_info", "").body, "dp_size", 3)
}

// One rank is checked as many are; where none are configured, any is served.
func TestFewRanks(t *testing.T) {
	tests := []struct {
		ranks  int
		rank   string
		status int
	}{
		{0, "0", 200},
		{0, "5", 200},
		{1, "0", 200},
		{1, "1", 400},
		{1, "", 200},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q of %d", tt.rank, tt.ranks), func(t *testing.T) {
			cfg := quick()
			cfg.Ranks = tt.ranks
			got := post(t.Context(), open(t, cfg), completions, `{"prompt":"x"}`, "X-Data-Parallel-Rank", tt.rank)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
		})
	}
}

// Blocks are kept by the rank that prefilled them, and a rank may fetch them from
// another of its own worker.
func TestRanksHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pdConfig()
		cfg.Ranks = 2
		w := open(t, cfg)
		kv := handover(t, post(t.Context(), w, completions, prefill(tenBlocks('a'), toDecode), "X-Data-Parallel-Rank", "1"))
		pinned := func() string {
			var b strings.Builder
			writeMetrics(&b, cfg, w.stats())
			var values []string
			for line := range strings.Lines(b.String()) {
				if strings.HasPrefix(line, "sim:kv_pinned_") || strings.HasPrefix(line, "vllm:kv_cache_usage_perc") {
					values = append(values, strings.Fields(line)[1])
				}
			}
			return strings.Join(values, " ")
		}
		if got, want := pinned(), "0 0.11 0 1 0 11"; got != want { // usage, requests, blocks
			t.Errorf("after the prefill the metrics say %s, want %s", got, want)
		}
		got := post(t.Context(), w, completions, decode(tenBlocks('a'), kv), "X-Data-Parallel-Rank", "0")
		if want := unit + 3*unit; got.after != want {
			t.Errorf("the decode took %v, want %v", got.after, want)
		}
		if got, want := pinned(), "0 0 0 0 0 0"; got != want {
			t.Errorf("after the transfer the metrics say %s, want %s", got, want)
		}
		if s := w.Stats(); s.KVSent != 1 || s.KVLoaded != 1 {
			t.Errorf("%d sent, %d loaded, want 1 and 1", s.KVSent, s.KVLoaded)
		}
	})
}
