package actors

import "loadstar/actors/policy"

// ramp is the slow start of a worker that has come back: for a while it takes
// few requests, for its caches are cold and what made it fail may be the load.
// It says who may be chosen and is no count of anything.
type ramp struct {
	on    bool
	begun bool
	from  int64 // when it began, with the first request since; monotonic nanoseconds
}

// slowDown begins a worker's slow start.
func (s *state) slowDown(w *worker) {
	if s.opts.SlowStart > 0 {
		w.ramp = ramp{on: true}
		s.disturb(w)
	}
}

// climb moves a worker's slow start on to now, and ends it when it is over.
func (s *state) climb(w *worker, now int64) {
	if !w.ramp.begun {
		w.ramp.begun, w.ramp.from = true, now
	}
	if now-w.ramp.from >= int64(s.opts.SlowStart) {
		w.ramp = ramp{}
		s.disturb(w)
	}
}

// ease takes workers in slow start out of the candidates that have their share
// already: of the mean load of those that are ready as much as of the time has
// passed, and one request at least. Where nobody is ready they all stay.
func (s *state) ease(c []policy.Candidate, r *Request) []policy.Candidate {
	sum, n := 0, 0
	for i := range c {
		if w := &s.workers[c[i].ID]; !w.ramp.on && !w.out() {
			sum += c[i].Load
			n++
		}
	}
	if n == 0 {
		return c
	}
	mean, kept := float64(sum)/float64(n), c[:0]
	for i := range c {
		w := &s.workers[c[i].ID]
		if w.ramp.on {
			passed := float64(max(0, r.Now-w.ramp.from)) / float64(s.opts.SlowStart)
			after := c[i].Load + 1
			if r.own == int(c[i].ID)+1 {
				after-- // its reservation is this request
			}
			if float64(after) > max(1, mean*passed) {
				continue
			}
		}
		kept = append(kept, c[i])
	}
	return kept
}
