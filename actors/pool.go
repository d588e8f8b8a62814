package actors

import (
	"slices"

	"loadstar/actors/policy"
)

// pool is the workers of one role that may get requests, as policies see them.
// It is kept so that a request costs no look at every worker. What it says of
// loads is derived: each time a counter has changed it is computed from the
// counters anew.
type pool struct {
	ready     []policy.Candidate // healthy members that nothing keeps out, by rising ID
	unsettled int                // other healthy members: it depends on the moment if they may
	full      int                // of ready, those at their limit
	stale     bool               // a membership, health or breaker has changed since
}

// unplaced is the place of a worker that isn't in the pool of a role.
const unplaced = -1

// nowhere is the places of a worker that is in no pool.
func nowhere() (all [numRoles]int) {
	for r := range all {
		all[r] = unplaced
	}
	return all
}

// disturb has the pools of a worker's roles rebuilt before they are used again.
func (s *state) disturb(w *worker) {
	for r := range s.pools {
		if w.spec.Roles.Has(Role(r)) {
			s.pools[r].stale = true
		}
	}
	s.room.unsettled, s.parkedAstray = true, true
}

// candidates returns the workers that may serve r in a role, by rising ID, and
// how many blocks of its prompt each is thought to have. unmark must follow.
func (s *state) candidates(r *Request, role Role) []policy.Candidate {
	p := &s.pools[role]
	if p.stale {
		s.rebuild(role)
	}
	s.skipped, s.skippedPin = 0, false
	sc, ok := s.scopeOf(r)
	s.scope, s.unserved = sc, !ok
	if !ok {
		return nil
	}
	if p.unsettled == 0 && len(r.Exclude) == 0 {
		c := p.ready
		switch limits := p.full > 0 || r.also.leases != 0; {
		case sc.set != nil:
			c = s.among(p, sc.set, role, r, limits)
		case limits:
			c = s.unfilled(p, r)
		}
		s.mark(r, c)
		return c
	}
	c := s.gather(r, role, sc.set, true)
	if len(c) == 0 && s.skipped == 0 && len(r.Exclude) > 0 && !r.strict {
		c = s.gather(r, role, sc.set, false)
	}
	return c
}

// rebuild fills a role's pool anew.
func (s *state) rebuild(role Role) {
	p := &s.pools[role]
	p.ready, p.unsettled, p.full, p.stale = p.ready[:0], 0, 0, false
	for i := range s.workers {
		w := &s.workers[i]
		if !w.used {
			continue
		}
		w.place[role] = unplaced
		if !w.spec.Roles.Has(role) {
			continue
		}
		switch {
		case !w.member || !w.health.healthy || w.emptying.on():
		case w.out() || w.ramp.on:
			p.unsettled++
		default:
			w.place[role] = len(p.ready)
			p.ready = append(p.ready, w.candidate(WorkerID(i)))
			p.full += s.fullAt(w.weight())
		}
	}
}

// candidate is a worker as policies see it. A reservation counts as load there:
// what is about to run would else not be seen by those who choose meanwhile.
func (w *worker) candidate(id WorkerID) policy.Candidate {
	return policy.Candidate{
		ID: uint32(id), Hash: w.hash, URL: w.spec.URL, Load: w.weight(), Pending: w.backlog(), Held: w.held, Pace: w.speed.pace, Cost: w.spec.Cost,
	}
}

// recount has the pools say what a worker's counters say.
func (s *state) recount(w *worker) {
	for r, place := range w.place {
		if place != unplaced {
			p := &s.pools[r]
			c := &p.ready[place]
			if s.room.on {
				p.full += s.fullAt(w.weight()) - s.fullAt(c.Load)
			}
			c.Load, c.Pending, c.Held = w.weight(), w.backlog(), w.held
		}
	}
}

// among returns the workers of a pool that are in a set; with limits, of those the
// ones that aren't at theirs.
func (s *state) among(p *pool, x *set, role Role, r *Request, limits bool) []policy.Candidate {
	c := s.gathered[:0]
	for _, id := range x.ids {
		at := s.workers[id].place[role]
		if at != unplaced && (!limits || !s.skips(r, id, p.ready[at].Load)) {
			c = append(c, p.ready[at])
		}
	}
	s.gathered = c
	return c
}

// gather picks the candidates one by one, where the pool alone can't tell. They
// are in the set, if there is one.
func (s *state) gather(r *Request, role Role, x *set, obeyExclude bool) []policy.Candidate {
	c, climbing := s.gathered[:0], false
	n := len(s.workers)
	if x != nil {
		n = len(x.ids)
	}
	for k := range n {
		i := k
		if x != nil {
			i = int(x.ids[k])
		}
		w := &s.workers[i]
		if w.ramp.on {
			s.climb(w, r.Now)
			climbing = climbing || w.ramp.on
		}
		if !w.member || !w.health.healthy || w.emptying.on() || !w.spec.Roles.Has(role) ||
			obeyExclude && slices.Contains(r.Exclude, WorkerID(i)) ||
			w.shut(&s.opts.Breaker, r.Now) || !s.permits(w, r.Now) {
			continue
		}
		if s.skips(r, WorkerID(i), w.weight()) {
			continue
		}
		c = append(c, w.candidate(WorkerID(i)))
	}
	if climbing {
		c = s.ease(c, r)
	}
	s.gathered = c
	s.mark(r, c)
	return c
}

// permits asks a worker's breaker, which may become half open by that.
func (s *state) permits(w *worker, now int64) bool {
	if w.breaker.due(&s.opts.Breaker, now) {
		s.moveBreaker(w, BreakerHalfOpen)
	}
	return w.breaker.permits(&s.opts.Breaker)
}

// mark notes which candidates are thought to have the prompt's prefix.
func (s *state) mark(r *Request, c []policy.Candidate) {
	for _, h := range r.hits {
		if i, ok := placeOf(c, h.Worker); ok {
			c[i].Match = min(int(h.Blocks), len(r.Key))
		}
	}
}

// unmark takes back what mark has noted: candidates are used again.
func unmark(r *Request, c []policy.Candidate) {
	for _, h := range r.hits {
		if i, ok := placeOf(c, h.Worker); ok {
			c[i].Match = 0
		}
	}
}

// placeOf returns the position of a worker among candidates, which stand by rising
// ID.
func placeOf(c []policy.Candidate, id uint32) (int, bool) {
	// Where every worker is a candidate its number is its place.
	if int(id) < len(c) && c[id].ID == id {
		return int(id), true
	}
	return slices.BinarySearchFunc(c, id, func(c policy.Candidate, id uint32) int { return int(c.ID) - int(id) })
}
