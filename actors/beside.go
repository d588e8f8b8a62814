package actors

import "errors"

// Workers of whole requests may stand beside those of the two phases, for a fleet has
// models that are worth it and models that are not. What nobody may serve in its role,
// or as a pair, is served whole by a regular worker.

// serve grants what a request asks for, or says in its grant why not.
func (s *state) serve(r *Request, pair bool) {
	if r.Beside {
		s.serveBeside(r, pair)
	} else {
		s.serveAs(r, pair)
	}
}

// serveAs is serve for those alone who have the request's role, or are of a pair.
func (s *state) serveAs(r *Request, pair bool) {
	if pair {
		r.served = Decode
		s.acquirePair(r)
	} else {
		r.served = r.Role
		s.acquire(r)
	}
}

// serveBeside is serve for a request that regular workers may serve too. Another
// worker, of either kind, comes before one that has failed the request. It waits for
// room at whoever has it first.
func (s *state) serveBeside(r *Request, pair bool) {
	defer func() { r.strict = false }()
	for r.strict = len(r.Exclude) > 0; ; r.strict = false {
		if s.isPinnedBeside(r, pair) {
			if s.acquireRegular(r, pair); !isLacking(r.grant.err) || s.skippedPin {
				return
			}
		}
		s.serveAs(r, pair)
		first := r.grant.err
		if !isLacking(first) || s.skippedPin {
			return
		}
		if s.acquireRegular(r, pair); !isLacking(r.grant.err) {
			return
		}
		if !r.strict {
			if errors.Is(first, errFull) {
				r.grant.err = errFull
			}
			return
		}
	}
}

// isPinnedBeside reports whether what a request goes on from is at a regular worker.
func (s *state) isPinnedBeside(r *Request, pair bool) bool {
	to, ok := s.pins.at[r.Pin]
	if !ok || r.Pin == 0 {
		return false
	}
	role := r.Role
	if pair {
		role = Decode
	}
	w := &s.workers[to.worker]
	return w.epoch == to.epoch && w.spec.Roles.Has(Regular) && !w.spec.Roles.Has(role)
}

// isLacking reports whether a request was refused for want of a worker of some kind.
func isLacking(err error) bool {
	switch {
	case errors.Is(err, errFull), errors.Is(err, ErrNoWorker), errors.Is(err, ErrNoPrefill), errors.Is(err, ErrNoDecode):
		return true
	}
	return false
}

// acquireRegular answers a request with a lease for all of it at a regular worker. In
// the answer to a pair it stands in the decode worker's place.
func (s *state) acquireRegular(r *Request, pair bool) {
	r.grant, r.second = grant{}, grant{}
	c, ok := s.choose(r, Regular)
	if !ok {
		r.grant.err = s.nobody(Regular)
		return
	}
	s.charge(r)
	r.served = Regular
	g := s.place(c, Regular, Plain, work{pending: c.missing(), tells: r.Stream}, r)
	if pair {
		r.second = g
	} else {
		r.grant = g
	}
}
