package actors

import "iter"

// The floor: breakers and silence never keep more than a share of a role's
// healthy members out at a time. When half of a fleet fails at once the cause is
// rarely in the workers, and the rest would not bear the load anyway. So it is
// among those who serve a model, which need not be the whole role.

// muster is how a role stands, or those of it that are in a set.
type muster struct {
	proven  int // members that were healthy at least once
	healthy int
	out     int // healthy members that a breaker or silence keeps out
}

func (s *state) muster(r Role, x *set) (m muster) {
	for id := range s.in(x) {
		w := &s.workers[id]
		if !w.member || w.emptying.on() || !w.spec.Roles.Has(r) {
			continue
		}
		if w.health.proven {
			m.proven++
		}
		if w.health.healthy {
			m.healthy++
			if w.out() {
				m.out++
			}
		}
	}
	return m
}

// in yields the workers in a set, or all if there is none.
func (s *state) in(x *set) iter.Seq[WorkerID] {
	return func(yield func(WorkerID) bool) {
		if x == nil {
			for i := range s.workers {
				if !yield(WorkerID(i)) {
					return
				}
			}
			return
		}
		for _, id := range x.ids {
			if !yield(id) {
				return
			}
		}
	}
}

// out reports whether a breaker or silence keeps a worker out. One that is half
// open is out: it gets few requests.
func (w *worker) out() bool { return w.breaker.state != BreakerClosed || w.life.wedged }

// limit is how many healthy members may be out: a share, and never the last one.
func (m *muster) limit(o *BreakerOptions) int {
	share := o.MaxOpenShare
	if share <= 0 {
		share = DefaultMaxOpenShare
	}
	return max(0, min(m.healthy-1, int(share*float64(m.healthy)+1e-9)))
}

// lone reports whether the whole role is one worker. Its breaker may open, for
// there is nobody to leave the requests to in any case.
func (m *muster) lone() bool { return m.proven <= 1 }

// mayLeave reports whether one more worker may be kept out, by its breaker or by
// silence. One that checks call sick is out anyway.
func (s *state) mayLeave(w *worker, byBreaker bool) bool {
	if w.out() || !w.health.healthy || w.emptying.on() {
		return true
	}
	spares := func(x *set) bool {
		for r := range numRoles {
			if !w.spec.Roles.Has(r) {
				continue
			}
			m := s.muster(r, x)
			if byBreaker && m.lone() {
				continue
			}
			if m.out >= m.limit(&s.opts.Breaker) {
				return false
			}
		}
		return true
	}
	return spares(nil) && s.setsOf(w, spares)
}

// spare keeps a breaker closed that would have opened. It is told of once in a
// breaker's Timeout, for the failures may go on and on.
func (s *state) spare(w *worker, now int64) {
	b := &w.breaker
	b.spared++
	if b.spared == 1 || now-b.sparedAt >= int64(s.opts.Breaker.Timeout) {
		b.sparedAt = now
		s.emitSpared(w)
	}
	b.anew()
}

func (s *state) emitSpared(w *worker) {
	e := Event{Kind: BreakerSpared, URL: w.spec.URL, Detail: "too many workers are out", Load: w.load()}
	w.breaker.explain(&e, w.breaker.state)
	s.emit(e)
}

// keepFloor lets workers in again, those first that have been out for longest,
// where a loss of members or of their health has left too few.
func (s *state) keepFloor() {
	s.keepFloorOf(nil)
	s.catalog.round++
	for i := range s.workers {
		s.newSetsOf(&s.workers[i], s.keepFloorOf)
	}
}

// keepFloorOf does so in a set, or in the fleet if there is none. It reports true.
func (s *state) keepFloorOf(x *set) bool {
	for r := range numRoles {
		m := s.muster(r, x)
		for m.out > m.limit(&s.opts.Breaker) {
			w := s.longestOut(r, x, m.lone())
			if w == nil {
				break
			}
			s.letIn(w)
			m.out--
		}
	}
	return true
}

// longestOut is the healthy member of a role that has been out for longest, in the
// set if there is one; with onlyWedged, of those that are wedged. There may be none.
func (s *state) longestOut(r Role, x *set, onlyWedged bool) (longest *worker) {
	var since int64
	for id := range s.in(x) {
		w := &s.workers[id]
		if !w.member || !w.health.healthy || w.emptying.on() || !w.spec.Roles.Has(r) || !w.out() || onlyWedged && !w.life.wedged {
			continue
		}
		at := w.breaker.openedAt
		if w.life.wedged {
			at = w.life.wedgedAt
		}
		if longest == nil || at < since {
			longest, since = w, at
		}
	}
	return longest
}

// letIn ends whatever keeps a worker out.
func (s *state) letIn(w *worker) {
	w.breaker.spared++
	s.emitSpared(w)
	w.life = life{}
	if w.breaker.state != BreakerClosed {
		s.moveBreaker(w, BreakerClosed)
	}
	s.disturb(w)
}
