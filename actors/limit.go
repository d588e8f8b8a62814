package actors

import "loadstar/actors/policy"

// fullAt is 1 if a worker with so many leases is at its limit, and 0 if not.
func (s *state) fullAt(leases int) int {
	if most := s.opts.Room.MaxPerWorker; most > 0 && leases >= most {
		return 1
	}
	return 0
}

// skips reports whether a worker is at its limit, and takes note that it is left
// out for that alone.
func (s *state) skips(r *Request, id WorkerID, leases int) bool {
	if r.also.worker == id {
		leases += r.also.leases
	}
	if s.fullAt(leases) == 0 {
		return false
	}
	s.skipped++
	if to, ok := s.pins.at[r.Pin]; ok && r.Pin != 0 && to.worker == id && to.epoch == s.workers[id].epoch {
		s.skippedPin = true
	}
	return true
}

// unfilled returns the workers of a pool that aren't at their limit.
func (s *state) unfilled(p *pool, r *Request) []policy.Candidate {
	c := s.gathered[:0]
	for i := range p.ready {
		if !s.skips(r, WorkerID(p.ready[i].ID), p.ready[i].Load) {
			c = append(c, p.ready[i])
		}
	}
	s.gathered = c
	return c
}

// nobody is the error for a role in which candidates has found none: that of a
// fleet without workers for it or for the model, or errFull.
func (s *state) nobody(role Role) error {
	switch {
	case s.skipped > 0:
		return errFull
	case s.unserved:
		return ErrNoModel
	}
	return noWorker[role]
}
