package policy

import (
	"math"
	"slices"
)

// weighing is a policy that goes by costs.
type weighing interface {
	Policy
	Weigher
	// reckon does what a choice does to later ones, where none has to be made.
	reckon(req *Request, c []Candidate)
}

// drawnWork draws a worker where leastWork takes the cheapest: each with a chance in
// proportion to
//
//	exp(−(cost(w) − least) · BlockTokens / temperature)
//
// Costs are in blocks and the temperature is in tokens, as it is in vllm-router. What is
// only decoded isn't drawn for: its costs say how full workers are, and chance would only
// fill them unevenly.
type drawnWork struct {
	*leastWork
	perBlock float64 // what a block of cost takes from the exponent: above 0, maybe infinite
	draws    rng
	chances  []float64 // scratch: of the candidates, their costs before
}

func newDrawnWork(p *leastWork, o Options) *drawnWork {
	return &drawnWork{leastWork: p, perBlock: BlockTokens / o.Temperature, draws: rng{o.Seed}}
}

func (p *drawnWork) Choose(req *Request, c []Candidate) Choice {
	if req.Decode {
		return p.leastWork.Choose(req, c)
	}
	p.reckon(req, c)
	p.chances = slices.Grow(p.chances[:0], len(c))[:len(c)]
	longest := 0
	for i := range c {
		longest = max(longest, c[i].Match)
		_, p.chances[i] = p.Weigh(req, &c[i])
	}
	i := p.draw()
	other := Random
	if p.chances[i] == 1 {
		other = Backlog // as it would be without a draw
	}
	return Choice{Index: i, Reason: prefixReason(c[i].Match, longest, other)}
}

// draw makes chances of the costs, 1 for the least, and draws by them.
func (p *drawnWork) draw() int {
	least := slices.Min(p.chances)
	sum, likeliest := 0.0, 0
	for i, cost := range p.chances {
		chance := 1.0
		if cost > least {
			chance = math.Exp((least - cost) * p.perBlock)
		} else {
			likeliest = i
		}
		p.chances[i] = chance
		sum += chance
	}
	at := p.draws.unit() * sum
	for i, chance := range p.chances {
		if at < chance {
			return i
		}
		at -= chance
	}
	return likeliest // the sum, rounded, was more than all of them
}
