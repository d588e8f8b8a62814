package policy

import "math"

// leastWork takes the worker where the request makes the least work:
//
//	cost(w) = ((pending(w) + miss(w)) · √pace(w) + λ·miss(w) + γ·load(w)) · price(w)
//
// all in blocks of prompt, and so in the time that a typical worker takes for one.
// λ is the price of a miss above its own time. On an idle fleet a miss delays nobody
// else, so λ is near zero and requests spread; under backlog a miss also delays all
// who wait behind it and pushes another prefix out of a cache, so λ rises and
// requests stay where their prefix is.
//
// A worker that takes twice as long would be weighed with twice its work, if only
// this request counted. But then its cache goes unused, and its prefixes push others
// out of the caches of the fast ones; the root is what serves all best (bench/README,
// What was learnt).
//
// Where requests only decode, each of their steps reads all that is held there, so
// held(w) takes the place of what waits, and a miss is what has to be transferred:
//
//	cost(w) = ((held(w) + pending(w) + miss(w)) · √pace(w) + γ·load(w)) · price(w)
type leastWork struct {
	name    string
	perMiss float64 // c: backlog, in prompts, that adds 1 to λ
	missCap float64 // the ceiling of λ
	decay   float64 // weight of the past in backlog
	perLoad float64 // γ, in blocks

	price, heldPrice float64 // λ and that of a held block at the last choice, for Weigh

	backlogs perPool[float64] // moving averages of the mean pending blocks of a worker
}

func newLeastWork(name string, o Options) *leastWork {
	return &leastWork{
		name:    name,
		perMiss: o.MissBacklog,
		missCap: o.MissCap,
		decay:   o.BacklogDecay,
		perLoad: o.LoadBlocks,
	}
}

func (p *leastWork) Name() string { return p.name }

// Choose converts each product to float64 before it is added: that forbids
// fusing the two operations, so machines with and without such an instruction
// agree.
func (p *leastWork) Choose(req *Request, c []Candidate) Choice {
	p.reckon(req, c)
	lambda, heldPrice, perLoad := p.price, p.heldPrice, p.perLoad
	t := newTie(req.Key)
	least, cheapest := math.Inf(1), math.Inf(1)
	longest := 0
	for i := range c {
		w := &c[i]
		longest = max(longest, w.Match)
		miss := float64(max(req.Blocks-w.Match, 0))
		work := float64(w.Pending) + miss + float64(heldPrice*float64(w.Held))
		if w.Pace > 0 {
			work *= math.Sqrt(w.Pace)
		}
		cost := work + float64(lambda*miss) + float64(perLoad*float64(w.Load))
		price := 1.0
		if w.Cost > 0 {
			price = w.Cost
		}
		cost *= price
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
	return Choice{Index: t.index, Reason: prefixReason(c[t.index].Match, longest, Backlog)}
}

// prefixReason says what a choice has to do with the longest prefix known: other,
// where it wasn't followed.
func prefixReason(match, longest int, other Reason) Reason {
	switch {
	case longest == 0:
		return PrefixMiss
	case match == longest:
		return PrefixHit
	default:
		return other
	}
}

// reckon takes a request into the prices that a choice and Weigh go by.
func (p *leastWork) reckon(req *Request, c []Candidate) {
	p.price, p.heldPrice = 0, 1
	if !req.Decode {
		p.price, p.heldPrice = p.lambda(req, c), 0
	}
}

// Weigh repeats the sum of Choose, which has it in its loop: a call for each worker
// would cost every request more than a copy that a test holds to it.
func (p *leastWork) Weigh(req *Request, w *Candidate) (lambda, cost float64) {
	miss := float64(max(req.Blocks-w.Match, 0))
	work := float64(w.Pending) + miss + float64(p.heldPrice*float64(w.Held))
	if w.Pace > 0 {
		work *= math.Sqrt(w.Pace)
	}
	cost = work + float64(p.price*miss) + float64(p.perLoad*float64(w.Load))
	if w.Cost > 0 {
		cost *= w.Cost
	}
	return p.price, cost
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
