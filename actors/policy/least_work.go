package policy

import "math"

// leastWork takes the worker where the request makes the least work:
//
//	cost(w) = (pending(w) + (1+λ)·miss(w) + γ·load(w)) · pace(w) · price(w)
//
// all in blocks of prompt, and so in the time that a typical worker takes for one.
// λ is the price of a miss above its own time. On an idle fleet a miss delays nobody
// else, so λ is near zero and requests spread; under backlog a miss also delays all
// who wait behind it and pushes another prefix out of a cache, so λ rises and
// requests stay where their prefix is.
//
// Where requests only decode, each of their steps reads all that is held there, so
// held(w) takes the place of what waits, and a miss is what has to be transferred:
//
//	cost(w) = (held(w) + pending(w) + miss(w) + γ·load(w)) · pace(w) · price(w)
type leastWork struct {
	perMiss float64 // c: backlog, in prompts, that adds 1 to λ
	missCap float64 // the ceiling of λ
	decay   float64 // weight of the past in backlog
	perLoad float64 // γ, in blocks

	missPrice, heldPrice float64 // of the last choice, for Weigh

	backlogs perPool[float64] // moving averages of the mean pending blocks of a worker
}

func newLeastWork(o Options) *leastWork {
	return &leastWork{
		perMiss: o.MissBacklog,
		missCap: o.MissCap,
		decay:   o.BacklogDecay,
		perLoad: o.LoadBlocks,
	}
}

func (p *leastWork) Name() string { return "least_work" }

// Choose converts each product to float64 before it is added: that forbids
// fusing the two operations, so machines with and without such an instruction
// agree.
func (p *leastWork) Choose(req *Request, c []Candidate) Choice {
	missPrice, heldPrice := 1.0, 1.0
	if !req.Decode {
		missPrice, heldPrice = 1+p.lambda(req, c), 0
	}
	p.missPrice, p.heldPrice = missPrice, heldPrice
	t := newTie(req.Key)
	least, cheapest := math.Inf(1), math.Inf(1)
	longest := 0
	for i := range c {
		w := &c[i]
		longest = max(longest, w.Match)
		cost := float64(w.Pending) + float64(heldPrice*float64(w.Held)) +
			float64(missPrice*float64(max(req.Blocks-w.Match, 0))) +
			float64(p.perLoad*float64(w.Load))
		price := 1.0
		if w.Cost > 0 {
			price = w.Cost
		}
		cost *= price
		if w.Pace > 0 {
			cost *= w.Pace
		}
		// Equal costs can hide different prices, when there is no work at all:
		// then the cheaper worker is not an equal.
		if cost > least || cost == least && price > cheapest {
			continue
		}
		if cost < least || price < cheapest {
			least, cheapest = cost, price
			t.lead(c, i)
			continue
		}
		t.equal(c, i)
	}
	choice := Choice{Index: t.index, Reason: Backlog}
	switch {
	case longest == 0:
		choice.Reason = PrefixMiss
	case c[t.index].Match == longest:
		choice.Reason = PrefixHit
	}
	return choice
}

// Weigh repeats the sum of Choose, which has it in its loop: a call for each worker
// would cost every request more than a copy that a test holds to it.
func (p *leastWork) Weigh(req *Request, w *Candidate) (lambda, cost float64) {
	cost = float64(w.Pending) + float64(p.heldPrice*float64(w.Held)) +
		float64(p.missPrice*float64(max(req.Blocks-w.Match, 0))) +
		float64(p.perLoad*float64(w.Load))
	if w.Cost > 0 {
		cost *= w.Cost
	}
	if w.Pace > 0 {
		cost *= w.Pace
	}
	return p.missPrice - 1, cost
}

// lambda takes the present backlog into the pool's average and prices a miss of this
// prompt with it.
func (p *leastWork) lambda(req *Request, c []Candidate) float64 {
	pending := 0
	for i := range c {
		pending += c[i].Pending
	}
	mean := float64(pending) / float64(len(c))
	average := p.backlogs.of(req.Pool)
	backlog := float64(p.decay*(*average)) + float64((1-p.decay)*mean)
	*average = backlog
	return min(p.missCap, backlog/(p.perMiss*float64(max(req.Blocks, 1))))
}
