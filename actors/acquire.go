package actors

import "loadstar/actors/policy"

// choice is a worker that a policy has chosen for a request.
type choice struct {
	worker   WorkerID
	decision Decision
}

// acquire answers a request: it chooses among the workers that may serve it and
// grants a lease there.
func (s *state) acquire(r *Request) {
	r.grant = grant{}
	if r.grant.err = s.refusal(r, r.Role); r.grant.err != nil {
		return
	}
	c, ok := s.choose(r, r.Role)
	if !ok {
		r.grant.err = s.nobody(r.Role)
		return
	}
	s.charge(r)
	phase := phaseOf[r.Role]
	if r.Whole {
		phase = Plain
	}
	k := work{pending: c.missing(), tells: r.Stream || phase == Prefilling}
	if r.Role == Decode {
		k.held = len(r.Key)
	}
	r.grant = s.place(c, r.Role, phase, k, r)
}

// acquirePair answers a request that is prefilled at one worker and decoded at
// another: both leases or none. When the chosen decode worker lacks so little of
// the prompt that a prefill elsewhere isn't worth it, there is only the decode
// lease, for the whole request.
func (s *state) acquirePair(r *Request) {
	r.grant, r.second = grant{}, grant{}
	if r.grant.err = s.refusal(r, Decode); r.grant.err != nil {
		return
	}
	d, ok := s.choose(r, Decode)
	if !ok {
		r.grant.err = s.nobody(Decode)
		return
	}
	if d.missing() < r.Short {
		s.charge(r)
		r.second = s.lend(d, Plain, work{pending: d.missing(), held: len(r.Key), tells: r.Stream}, r.Now)
		return
	}
	r.also = also{d.worker, 1}
	p, ok := s.choose(r, Prefill)
	r.also = also{}
	if !ok {
		r.grant.err = s.nobody(Prefill)
		return
	}
	s.charge(r)
	r.grant = s.place(p, Prefill, Prefilling, work{pending: p.missing(), tells: true}, r)
	r.second = s.lend(d, Reserved, work{held: len(r.Key)}, r.Now)
}

// begin starts the decode phase of the reserved lease that t names. Where r may
// move, and its worker has become unfit or much busier than others meanwhile,
// the reservation ends and the phase starts at another worker.
func (s *state) begin(t ticket, r *Request) {
	r.grant = grant{}
	sl := s.find(t)
	if sl == nil || sl.phase != Reserved {
		s.refuse("begin")
		r.grant.err = ErrLeaseEnded
		return
	}
	r.also = also{sl.worker, -1}
	defer func() { r.also = also{} }()
	if !r.Movable || s.fit(sl, r) {
		s.advance(t, Reserved, Decoding)
		r.grant = s.view(sl.worker, t, Decision{})
		return
	}
	c, ok := s.choose(r, Decode)
	if !ok {
		r.grant.err = ErrNoDecode
		return
	}
	if c.worker == sl.worker {
		s.advance(t, Reserved, Decoding)
		r.grant = s.view(sl.worker, t, c.decision)
		return
	}
	// In this order: between the two a drain would be over.
	r.grant = s.lend(c, Decoding, work{held: sl.held}, r.Now)
	s.giveBack(t, Moved, r.Now)
}

// fit reports whether the worker of a reserved lease is still one to decode at.
func (s *state) fit(sl *slot, r *Request) bool {
	if w := &s.workers[sl.worker]; w.emptying.on() {
		return w.epoch == sl.epoch && w.health.healthy && !w.out() // it keeps what it has
	}
	r.own = int(sl.worker) + 1
	candidates := s.candidates(r, Decode)
	r.own = 0
	defer unmark(r, candidates)
	i, ok := placeOf(candidates, uint32(sl.worker))
	if !ok || s.workers[sl.worker].epoch != sl.epoch {
		return false
	}
	least := candidates[i].Load
	for k := range candidates {
		least = min(least, candidates[k].Load)
	}
	o := &s.opts.PolicyOptions
	own := candidates[i].Load - 1 // without this reservation
	return own-least <= o.BalanceAbs || float64(own) <= float64(least)*o.BalanceRel
}

// refusal says why no lease is granted whoever is there.
func (s *state) refusal(r *Request, role Role) error {
	switch {
	case len(s.draining) > 0:
		return ErrStopped
	case role >= numRoles:
		return ErrNoWorker
	case r.Retry && !r.charged && !s.budget.allows(r.Now):
		return ErrRetryBudget
	default:
		return nil
	}
}

// charge notes in the retry budget, and for its model, that r is granted what it
// asks for. It is charged once, however often it was parked.
func (s *state) charge(r *Request) {
	if r.charged {
		return
	}
	r.charged = true
	if m := s.scope.model; m != nil {
		m.granted++
	}
	if r.Retry {
		s.budget.spend()
	} else {
		s.budget.first(r.Now)
	}
}

// choose has the policy for a role choose among the workers that may serve a
// request. It reports false if there are none.
func (s *state) choose(r *Request, role Role) (c choice, ok bool) {
	s.lookIfDue(r.Now)
	if r.Now >= s.speeds.at {
		s.payOff(r.Now)
	}
	if r.Now >= s.lapseAt {
		s.lapse(r.Now)
	}
	candidates := s.candidates(r, role)
	if len(candidates) == 0 {
		return choice{}, false
	}
	defer unmark(r, candidates)
	if s.skippedPin {
		return choice{}, false // nobody else has what it goes on from
	}
	var chosen policy.Choice
	if i := s.pinned(r.Pin, candidates); i >= 0 {
		chosen = policy.Choice{Index: i, Reason: policy.Pinned}
	} else {
		s.asked = policy.Request{
			Key: r.Head, Blocks: len(r.Key), Session: r.Session, Retry: len(r.Exclude) > 0, Decode: role == Decode && !r.Whole, Now: r.Now,
			Model: s.scope.number(), Pool: s.scope.pool(),
		}
		if role != Prefill { // a session's cache is where it decodes; a prefill goes where it is cheapest
			s.asked.Affinity = r.Affinity
		}
		chosen = s.policies[role].Choose(&s.asked, candidates)
		if s.shadows != nil {
			s.overshadow(role, candidates, chosen.Index)
		}
	}
	if r.Explain != nil {
		s.explain(&r.Explain.Of[role], r.Explain.Most, len(r.Key), role, candidates, &chosen)
	}
	return choice{
		worker: WorkerID(candidates[chosen.Index].ID),
		decision: Decision{
			Reason:     chosen.Reason,
			Match:      candidates[chosen.Index].Match,
			Blocks:     len(r.Key),
			MaxLoad:    chosen.MaxLoad,
			MinLoad:    chosen.MinLoad,
			Imbalanced: chosen.Imbalanced,
			Candidates: len(candidates),
		},
	}, true
}

// missing is how many blocks of the prompt the chosen worker isn't known to have.
func (c *choice) missing() int { return c.decision.Blocks - c.decision.Match }

// lend grants a lease at the chosen worker.
func (s *state) lend(c choice, p Phase, k work, now int64) grant {
	return s.view(c.worker, s.grant(c.worker, p, k, now), c.decision)
}

// view is what the holder of a lease is told of it.
func (s *state) view(id WorkerID, t ticket, d Decision) grant {
	w := &s.workers[id]
	return grant{ticket: t, worker: id, url: w.spec.URL, rank: w.spec.Rank, handle: w.spec.Handle, decision: d}
}

var phaseOf = [numRoles]Phase{Regular: Plain, Prefill: Prefilling, Decode: Decoding}

// noWorker is the error for a role that nobody may serve.
var noWorker = [numRoles]error{Regular: ErrNoWorker, Prefill: ErrNoPrefill, Decode: ErrNoDecode}
