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
	s.text = s.text[:0]
	s.worker = strconv.AppendQuote(append(s.worker[:0], "{worker="...), k.URL)
	s.add("vllm_router_worker_load", "", uint64(k.Load))
	s.add("vllm_router_running_requests", "", uint64(k.Load))
	s.add("vllm_router_worker_health", "", boolGauge(k.Healthy))
	s.add("vllm_router_cb_state", "", uint64(k.Breaker))
	s.add("vllm_router_processed_requests_total", "", k.Granted)
	s.add("vllm_router_policy_decisions_total", s.policy, k.Granted)
	s.add("vllm_router_cb_outcomes_total", `,outcome="success"`, k.CBGood)
	s.add("vllm_router_cb_outcomes_total", `,outcome="failure"`, k.CBBad)
	s.add("loadstar_worker_foreign_load", "", uint64(k.Foreign))
	s.add("loadstar_worker_pending_blocks", "", uint64(k.Pending))
	s.add("loadstar_cb_spared_total", "", k.CBSpared)
	s.add("loadstar_worker_wedged", "", boolGauge(k.Wedged))
	for ph, n := range k.InPhase {
		if n > 0 || actors.Phase(ph) == actors.Plain {
			s.begin("loadstar_worker_leases")
			s.label("phase", actors.Phase(ph).String())
			s.end(uint64(n))
		}
	}
	for c, n := range k.Outcomes {
		if n > 0 {
			s.begin("loadstar_worker_outcomes_total")
			s.label("outcome", actors.Cause(c).String())
			s.end(n)
		}
	}
	for from, row := range k.Moves {
		for to, n := range row {
			if n > 0 {
				s.begin("vllm_router_cb_state_transitions_total")
				s.label("from", actors.BreakerState(from).String())
				s.label("to", actors.BreakerState(to).String())
				s.end(n)
			}
		}
	}
	return s.text
}

// add writes a series with these further labels, written out.
func (s *workerSeries) add(name, labels string, value uint64) {
	s.begin(name)
	s.text = append(s.text, labels...)
	s.end(value)
}

func (s *workerSeries) begin(name string) {
	s.text = append(append(s.text, name...), s.worker...)
}

// label adds a label whose value needs no escapes, as our own names don't.
func (s *workerSeries) label(name, value string) {
	s.text = append(append(s.text, ','), name...)
	s.text = append(append(s.text, `="`...), value...)
	s.text = append(s.text, '"')
}

func (s *workerSeries) end(value uint64) {
	s.text = strconv.AppendUint(append(s.text, "} "...), value, 10)
	s.text = append(s.text, '\n')
}
