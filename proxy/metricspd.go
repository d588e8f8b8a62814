package proxy

import (
	"fmt"
	"io"

	"loadstar/actors"

	"github.com/VictoriaMetrics/metrics"
)

// pdMetrics is what is counted of requests in two phases. Its zero value counts
// nothing.
type pdMetrics struct {
	requests [numPathClasses]*metrics.Counter
	duration [numPathClasses]histogram
	prefill  histogram // of the prefill request, answer included
	decode   histogram // from the decode request to the head of its answer
	pending  histogram // from the choice of a decode worker to its request
	missing  *metrics.Counter
	stranded *metrics.Counter
	rescued  *metrics.Counter
}

func newPDMetrics(s *metrics.Set, hist func(name string) histogram) pdMetrics {
	m := pdMetrics{
		prefill:  hist("loadstar_pd_prefill_seconds"),
		decode:   hist("loadstar_pd_decode_first_byte_seconds"),
		pending:  hist("vllm_router_pd_decode_pending_seconds"),
		missing:  s.NewCounter("loadstar_pd_kv_handoff_missing_total"),
		stranded: s.NewCounter("loadstar_pd_kv_stranded_total"),
		rescued:  s.NewCounter("loadstar_pd_kv_rescued_total"),
	}
	for c := range numPathClasses {
		if splits(c) {
			m.requests[c] = s.NewCounter(fmt.Sprintf("vllm_router_pd_requests_total{route=%q}", c))
			m.duration[c] = hist(fmt.Sprintf("vllm_router_pd_request_duration_seconds{route=%q}", c))
		}
	}
	return m
}

// splits reports whether requests of this class may be split in two phases.
func splits(c pathClass) bool {
	switch c {
	case pathChat, pathCompletions, pathResponses, pathMessages, pathGenerate, pathTokensIn:
		return true
	}
	return false
}

// finished counts a request whose phases had a worker each.
func (m *pdMetrics) finished(c pathClass, seconds float64) {
	if m.requests[c] != nil {
		m.requests[c].Inc()
		m.duration[c].Update(seconds)
	}
}

// writeWorkers writes what the registry sees of workers with a phase.
func (m *pdMetrics) writeWorkers(w io.Writer, v *actors.Snapshot) {
	if m.prefill == nil {
		return
	}
	for i := range v.Workers {
		k := &v.Workers[i]
		url := fmt.Sprintf("{worker=%q}", k.URL)
		if k.Roles.Has(actors.Prefill) {
			metrics.WriteCounterUint64(w, "vllm_router_pd_prefill_requests_total"+url, k.Granted)
			metrics.WriteCounterUint64(w, "vllm_router_pd_prefill_errors_total"+url, failures(k))
		}
		if k.Roles.Has(actors.Decode) {
			rank := fmt.Sprintf("{worker=%q,rank=%q}", k.Base, rankName(k.Rank))
			metrics.WriteCounterUint64(w, "vllm_router_pd_decode_requests_total"+url, k.Granted)
			metrics.WriteCounterUint64(w, "vllm_router_pd_decode_errors_total"+url, failures(k))
			metrics.WriteGaugeUint64(w, "vllm_router_pd_pending_decode_requests"+rank, uint64(k.InPhase[actors.Reserved]))
			metrics.WriteGaugeUint64(w, "vllm_router_pd_active_decode_requests"+rank, uint64(k.InPhase[actors.Decoding]))
		}
	}
}

// failures is how many requests have failed at a worker, those it refused included.
func failures(k *actors.WorkerView) uint64 {
	n := uint64(0)
	for c, times := range k.Outcomes {
		switch actors.Cause(c) {
		case actors.Completed, actors.ClientGone, actors.Aborted, actors.Moved:
		default:
			n += times
		}
	}
	return n
}

func rankName(rank int) string {
	if rank == actors.NoRank {
		return "aggregate"
	}
	return itoa(rank)
}
