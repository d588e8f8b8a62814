package sim

import (
	"math"

	"loadstar/actors/policy"
	"loadstar/bench/workload"
)

// formula is a fixed rule that isn't the router's: the least cost wins. It is there
// to compare with.
type formula struct {
	name string
	cost func(miss, pending, load int) int
}

// formulas in their order of appearance. LMetric is miss*(load+1).
var formulas = []formula{
	{"load", func(_, _, load int) int { return load }},
	{"miss+pending", func(miss, pending, _ int) int { return miss + pending }},
	{"2*miss+pending", func(miss, pending, _ int) int { return 2*miss + pending }},
	{"(miss+pending)*(load+1)", func(miss, pending, load int) int { return (miss + pending) * (load + 1) }},
	{"miss*(load+1)", func(miss, _, load int) int { return miss * (load + 1) }},
}

func formulaNamed(name string) *formula {
	for i := range formulas {
		if formulas[i].name == name {
			return &formulas[i]
		}
	}
	return nil
}

// Name is the formula.
func (f *formula) Name() string { return f.name }

// Choose takes the least cost. Ties go by the prompt's first blocks, as those of
// the router's policies do.
func (f *formula) Choose(q *policy.Request, c []policy.Candidate) policy.Choice {
	best, least, score := 0, math.MaxInt, uint64(0)
	for i := range c {
		cost := f.cost(q.Blocks-c[i].Match, c[i].Pending, c[i].Load)
		if s := workload.Mix(q.Key ^ c[i].Hash); cost < least || cost == least && s > score {
			best, least, score = i, cost, s
		}
	}
	return policy.Choice{Index: best}
}
