package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"loadstar/actors"

	"github.com/VictoriaMetrics/metrics"
)

// fprintWorker is workerSeries.write, slow and plain.
func fprintWorker(w io.Writer, k *actors.WorkerView, policies string) {
	series := func(name string, labels ...string) string {
		s := fmt.Sprintf("%s{worker=%q", name, k.URL)
		for j := 0; j < len(labels); j += 2 {
			s += fmt.Sprintf(",%s=%q", labels[j], labels[j+1])
		}
		return s + "}"
	}
	metrics.WriteGaugeUint64(w, series("vllm_router_worker_load"), uint64(k.Load))
	metrics.WriteGaugeUint64(w, series("vllm_router_running_requests"), uint64(k.Load))
	metrics.WriteGaugeUint64(w, series("vllm_router_worker_health"), boolGauge(k.Healthy))
	metrics.WriteGaugeUint64(w, series("vllm_router_cb_state"), uint64(k.Breaker))
	metrics.WriteCounterUint64(w, series("vllm_router_processed_requests_total"), k.Granted)
	metrics.WriteCounterUint64(w, series("vllm_router_policy_decisions_total", "policy", policies), k.Granted)
	metrics.WriteCounterUint64(w, series("vllm_router_cb_outcomes_total", "outcome", "success"), k.CBGood)
	metrics.WriteCounterUint64(w, series("vllm_router_cb_outcomes_total", "outcome", "failure"), k.CBBad)
	metrics.WriteGaugeUint64(w, series("loadstar_worker_foreign_load"), uint64(k.Foreign))
	metrics.WriteGaugeUint64(w, series("loadstar_worker_foreign_pending_blocks"), uint64(k.ForeignPending))
	metrics.WriteGaugeUint64(w, series("loadstar_worker_pending_blocks"), uint64(k.Pending))
	if k.Speed > 0 {
		metrics.WriteGaugeFloat64(w, series("loadstar_worker_prefill_blocks_per_second"), k.Speed)
	}
	metrics.WriteCounterUint64(w, series("loadstar_cb_spared_total"), k.CBSpared)
	metrics.WriteGaugeUint64(w, series("loadstar_worker_wedged"), boolGauge(k.Wedged))
	for ph, n := range k.InPhase {
		if n > 0 || actors.Phase(ph) == actors.Plain {
			metrics.WriteGaugeUint64(w, series("loadstar_worker_leases", "phase", actors.Phase(ph).String()), uint64(n))
		}
	}
	for c, n := range k.Outcomes {
		if n > 0 {
			metrics.WriteCounterUint64(w, series("loadstar_worker_outcomes_total", "outcome", actors.Cause(c).String()), n)
		}
	}
	for from, row := range k.Moves {
		for to, n := range row {
			if n > 0 {
				metrics.WriteCounterUint64(w, series("vllm_router_cb_state_transitions_total",
					"from", actors.BreakerState(from).String(), "to", actors.BreakerState(to).String()), n)
			}
		}
	}
}

// someWorker is a worker with counters of all sizes, some of them 0.
func someWorker(r *rand.Rand, url string) *actors.WorkerView {
	n := func() uint64 { return r.Uint64N(3) * (r.Uint64() >> (16 + r.Uint64N(48))) }
	k := &actors.WorkerView{Healthy: r.Uint64N(2) == 0, Wedged: r.Uint64N(2) == 0, Breaker: actors.BreakerState(r.Uint64N(3))}
	k.URL = url
	k.Load, k.Foreign, k.ForeignPending, k.Pending, k.Speed = int(n()), int(n()), int(n()), int(n()), float64(n())/3
	k.Granted, k.CBGood, k.CBBad, k.CBSpared = n(), n(), n(), n()
	for i := range k.InPhase {
		k.InPhase[i] = int(n())
	}
	for i := range k.Outcomes {
		k.Outcomes[i] = n()
	}
	for i := range k.Moves {
		for j := range k.Moves[i] {
			k.Moves[i][j] = n()
		}
	}
	return k
}

func TestWorkerSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, url := range []string{"http://127.0.0.1:8000", "http://[::1]:8000@3", "a\"b", "a\\b", "a\nb", "a\x7fb", "a\xffb", "aéb", ""} {
		t.Run(url, func(t *testing.T) {
			series := newWorkerSeries("cache_aware, least_work")
			for range 100 {
				k := someWorker(r, url)
				var want bytes.Buffer
				fprintWorker(&want, k, "cache_aware, least_work")
				if got := series.write(k); string(got) != want.String() {
					t.Fatalf("the series are\n%s\nwant\n%s", got, &want)
				}
			}
		})
	}
}

// BenchmarkMetrics is what a scrape takes of the handler for the series of a
// thousand workers.
func BenchmarkMetrics(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []*actors.WorkerView
	for i := range 1000 {
		k := someWorker(r, fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250))
		k.Outcomes = [len(k.Outcomes)]uint64{1000}
		k.InPhase = [len(k.InPhase)]int{3}
		k.Moves = [len(k.Moves)][len(k.Moves)]uint64{}
		all = append(all, k)
	}
	run := func(name string, write func() int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = write()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
	series := newWorkerSeries("cache_aware")
	run("append", func() int {
		size := 0
		for _, k := range all {
			size += len(series.write(k))
		}
		return size
	})
	var slow strings.Builder
	run("fmt", func() int {
		slow.Reset()
		for _, k := range all {
			fprintWorker(&slow, k, "cache_aware")
		}
		return slow.Len()
	})
}
