package actors

// maxAwaiting is how many ended leases may wait to be judged; the oldest give up
// their place first, and teach the breaker nothing.
const maxAwaiting = 1024

// docket remembers the leases that have ended and are yet to be judged, the
// oldest first. Their slots are not used again until then.
type docket struct {
	ring []ticket // a ring once it is full; some of them may have been judged
	next int      // where in the ring the next one goes
}

// withhold has the breaker learn nothing from the end of a lease, which is near.
func (s *state) withhold(t ticket) {
	if sl := s.find(t); sl != nil {
		sl.unjudged = true
	}
}

// await keeps the slot of a lease that has just ended for its judgement.
func (s *state) await(t ticket) {
	d := &s.docket
	if len(d.ring) < maxAwaiting {
		d.ring = append(d.ring, t)
		return
	}
	if s.awaited(d.ring[d.next]) != nil {
		s.closeCase(d.ring[d.next])
	}
	d.ring[d.next] = t
	d.next = (d.next + 1) % maxAwaiting
}

// awaited returns the slot of an ended lease that is yet to be judged, or nil.
func (s *state) awaited(t ticket) *slot {
	if int(t.slot) >= len(s.slots) {
		return nil
	}
	sl := &s.slots[t.slot]
	if sl.live || !sl.unjudged || sl.gen != t.gen+1 {
		return nil
	}
	return sl
}

// closeCase gives an awaited lease's slot up for another lease.
func (s *state) closeCase(t ticket) {
	s.slots[t.slot].unjudged = false
	s.freeSlots = append(s.freeSlots, t.slot)
}

// judge has a breaker learn how a lease ended that was returned unjudged.
func (s *state) judge(t ticket, c Cause, now int64) {
	sl := s.awaited(t)
	if sl == nil {
		return
	}
	if c >= numCauses {
		c = Aborted
	}
	s.closeCase(t)
	if w := &s.workers[sl.worker]; w.member && sl.epoch == w.epoch {
		s.teach(w, c.verdict(), sl.trial, now)
	}
}
