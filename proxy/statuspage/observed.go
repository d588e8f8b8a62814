package statuspage

import "time"

// maxDecisions is how many of the last decisions are remembered.
const maxDecisions = 50

// Observed is what was observed while somebody looked. Its zero value is nothing.
type Observed struct {
	workers   map[string]Seen // by URL, since the last frame
	decisions [maxDecisions]Decision
	decided   int // the next goes to this place, modulo their number
}

// observation is one thing that was observed: a decision, or an answer that began.
type observation struct {
	decision Decision
	worker   string // of an answer; empty for a decision
	after    time.Duration
}

// Decided has viewers told of a decision, if there is room.
func (h *Hub) Decided(d Decision) { h.observe(observation{decision: d}) }

// Answered has viewers told how long after its arrival a request's answer has begun,
// if there is room.
func (h *Hub) Answered(worker string, after time.Duration) {
	h.observe(observation{worker: worker, after: after})
}

func (h *Hub) observe(o observation) {
	select {
	case h.observed <- o:
	default:
	}
}

func (s *Observed) note(o *observation) {
	if s.workers == nil {
		s.workers = make(map[string]Seen)
	}
	if o.worker == "" {
		w := s.workers[o.decision.Worker]
		w.Blocks += o.decision.Blocks
		w.Matched += o.decision.Match
		s.workers[o.decision.Worker] = w
		s.decisions[s.decided%maxDecisions] = o.decision
		s.decided++
		return
	}
	w, after := s.workers[o.worker], o.after.Seconds()
	w.Answers++
	w.Mean += (after - w.Mean) / float64(w.Answers)
	w.Worst = max(w.Worst, after)
	s.workers[o.worker] = w
}

// next begins another second.
func (s *Observed) next() { clear(s.workers) }

// Of is what was observed of a worker in this second.
func (s *Observed) Of(worker string) Seen { return s.workers[worker] }

// Decisions lists the last decisions, newest first.
func (s *Observed) Decisions() []Decision {
	all := make([]Decision, min(s.decided, maxDecisions))
	for i := range all {
		all[i] = s.decisions[(s.decided-1-i)%maxDecisions]
	}
	return all
}
