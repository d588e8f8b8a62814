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
//	exp(−(cost(w) − least) / (greatest − least) / temperature)
//
// Costs grow with prompts and with backlog; by their own range the same temperature
// leaves as much to chance whatever that is. What is only decoded isn't drawn for: its
// costs say how full workers are, and chance would only fill them unevenly.
type drawnWork struct {
	*leastWork
	temperature float64 // above 0
	draws       rng
	chances     []float64 // scratch: of the candidates, their costs before
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
	scale := 1 / (slices.Max(p.chances) - least) / p.temperature
	sum, likeliest := 0.0, 0
	for i, cost := range p.chances {
		chance := 1.0
		if cost > least {
			chance = math.Exp((least - cost) * scale)
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
