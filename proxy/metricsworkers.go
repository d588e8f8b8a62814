package proxy

import (
	"strconv"

	"loadstar/actors"
)

// workerSeries writes the series of workers, one after another, in the text format
// of Prometheus. There are a dozen and a half of them for each of maybe a thousand
// workers, so nothing here formats by reflection or allocates for each.
type workerSeries struct {
	text   []byte // of the worker that was written last
	worker []byte // `{worker="URL"`
	policy string // `,policy="NAME"`
}

func newWorkerSeries(policies string) *workerSeries {
	return &workerSeries{policy: ",policy=" + strconv.Quote(policies)}
}

// write returns the series of a worker, which are good until the next one's.
func (s *workerSeries) write(k *actors.WorkerView) []byte {
	w := appendQuoted(append(s.worker[:0], "{worker="...), k.URL)
	b := appendSeries(s.text[:0], "vllm_router_worker_load", w, "", uint64(k.Load))
	b = appendSeries(b, "vllm_router_running_requests", w, "", uint64(k.Load))
	b = appendSeries(b, "vllm_router_worker_health", w, "", boolGauge(k.Healthy))
	b = appendSeries(b, "vllm_router_cb_state", w, "", uint64(k.Breaker))
	b = appendSeries(b, "vllm_router_processed_requests_total", w, "", k.Granted)
	b = appendSeries(b, "vllm_router_policy_decisions_total", w, s.policy, k.Granted)
	b = appendSeries(b, "vllm_router_cb_outcomes_total", w, `,outcome="success"`, k.CBGood)
	b = appendSeries(b, "vllm_router_cb_outcomes_total", w, `,outcome="failure"`, k.CBBad)
	b = appendSeries(b, "loadstar_worker_foreign_load", w, "", uint64(k.Foreign))
	b = appendSeries(b, "loadstar_worker_foreign_pending_blocks", w, "", uint64(k.ForeignPending))
	b = appendSeries(b, "loadstar_worker_pending_blocks", w, "", uint64(k.Pending))
	if k.Speed > 0 {
		b = append(append(b, "loadstar_worker_prefill_blocks_per_second"...), w...)
		b = strconv.AppendFloat(append(b, "} "...), k.Speed, 'g', -1, 64)
		b = append(b, '\n')
	}
	b = appendSeries(b, "loadstar_cb_spared_total", w, "", k.CBSpared)
	b = appendSeries(b, "loadstar_worker_wedged", w, "", boolGauge(k.Wedged))
	for ph, n := range k.InPhase {
		if n > 0 || actors.Phase(ph) == actors.Plain {
			b = append(append(b, "loadstar_worker_leases"...), w...)
			b = appendLabel(b, "phase", actors.Phase(ph).String())
			b = appendValue(b, uint64(n))
		}
	}
	for c, n := range k.Outcomes {
		if n > 0 {
			b = append(append(b, "loadstar_worker_outcomes_total"...), w...)
			b = appendLabel(b, "outcome", actors.Cause(c).String())
			b = appendValue(b, n)
		}
	}
	for from := range k.Moves {
		for to, n := range &k.Moves[from] {
			if n > 0 {
				b = append(append(b, "vllm_router_cb_state_transitions_total"...), w...)
				b = appendLabel(b, "from", actors.BreakerState(from).String())
				b = appendLabel(b, "to", actors.BreakerState(to).String())
				b = appendValue(b, n)
			}
		}
	}
	s.text, s.worker = b, w
	return b
}

// appendSeries appends a series of a worker with further labels, written out.
func appendSeries(b []byte, name string, worker []byte, labels string, value uint64) []byte {
	b = append(append(append(b, name...), worker...), labels...)
	return appendValue(b, value)
}

// appendLabel appends a label whose value needs no escapes, as our own names don't.
func appendLabel(b []byte, name, value string) []byte {
	b = append(append(append(b, ','), name...), `="`...)
	return append(append(b, value...), '"')
}

// appendValue ends a series.
func appendValue(b []byte, value uint64) []byte {
	b = strconv.AppendUint(append(b, "} "...), value, 10)
	return append(b, '\n')
}

// appendQuoted is strconv.AppendQuote, quick for what needs no escapes.
func appendQuoted(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.AppendQuote(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
