package policy

// random draws uniformly.
type random struct {
	draws rng
}

func (p *random) Name() string { return "random" }

func (p *random) Choose(_ *Request, c []Candidate) Choice {
	return Choice{Index: p.draws.below(len(c)), Reason: Random}
}

// roundRobin counts the requests of each pool and takes the count modulo the number
// of candidates. With one count for all, requests for two models that come in turn
// would each find every second worker of theirs. A retry takes no turn: with two
// workers, one of which fails, every request would begin at that one otherwise.
type roundRobin struct {
	turns perPool[uint64]
}

func (p *roundRobin) Name() string { return "round_robin" }

func (p *roundRobin) Choose(req *Request, c []Candidate) Choice {
	turn := p.turns.of(req.Pool)
	i := int(*turn % uint64(len(c)))
	if !req.Retry {
		*turn++
	}
	return Choice{Index: i, Reason: RoundRobin}
}

// powerOfTwo draws two distinct candidates and takes the less loaded.
type powerOfTwo struct {
	draws rng
}

func (p *powerOfTwo) Name() string { return "power_of_two" }

func (p *powerOfTwo) Choose(req *Request, c []Candidate) Choice {
	if len(c) == 1 {
		return Choice{Reason: LeastLoad}
	}
	a := p.draws.below(len(c))
	b := p.draws.below(len(c) - 1)
	if b >= a {
		b++
	}
	t := newTie(req.Key)
	t.lead(c, a)
	switch {
	case c[b].Load < c[a].Load:
		t.lead(c, b)
	case c[b].Load == c[a].Load:
		t.equal(c, b)
	}
	return Choice{Index: t.index, Reason: LeastLoad}
}
