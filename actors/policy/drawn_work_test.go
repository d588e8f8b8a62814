package policy

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func newDrawn(t testing.TB, temperature float64, c []Candidate) *drawnWork {
	t.Helper()
	o := DefaultOptions()
	o.Temperature, o.Seed = temperature, 77
	return build(t, kvAware, o, c).(*drawnWork)
}

// slowChances is the softmax as it is written in books, of costs in blocks of 16 tokens.
func slowChances(costs []float64, temperature float64) []float64 {
	least := slices.Min(costs)
	chances := make([]float64, len(costs))
	sum := 0.0
	for i := range costs {
		tokens := 16 * (costs[i] - least)
		chances[i] = math.Pow(math.E, -tokens/temperature)
		sum += chances[i]
	}
	for i := range chances {
		chances[i] /= sum
	}
	return chances
}

// Nothing left to chance is least_work, choice by choice.
func TestNoTemperatureIsLeastWork(t *testing.T) {
	draws := rand.New(rand.NewPCG(21, 1))
	all := fleet(9)
	drawn, plain := build(t, kvAware, DefaultOptions(), all), build(t, "least_work", DefaultOptions(), all)
	for step := range 5000 {
		req, c := scenario(draws, all)
		req.Decode, req.Affinity = draws.IntN(4) == 0, req.Session
		if got, want := drawn.Choose(&req, c), plain.Choose(&req, c); got != want {
			t.Fatalf("step %d: %+v, want %+v", step, got, want)
		}
	}
}

func TestDrawsFollowTheSoftmax(t *testing.T) {
	for _, tc := range []struct {
		name    string
		workers func(i int, w *Candidate)
		n       int
	}{
		{"two workers", func(i int, w *Candidate) { w.Load = i }, 2},
		{"a prefix at one of eight", func(i int, w *Candidate) { w.Match = 40 * (i / 7) }, 8},
		{"loads that rise", func(i int, w *Candidate) { w.Load = 3 * i }, 6},
		{"some alike", func(i int, w *Candidate) { w.Load = i / 3 }, 9},
		{"prices and paces", func(i int, w *Candidate) { w.Cost, w.Pace = 1+float64(i%3), 1+float64(i%2) }, 6},
		{"backlog", func(i int, w *Candidate) { w.Pending, w.Match = 30*(i%4), 10*(i%3) }, 7},
		{"all alike", func(int, *Candidate) {}, 5},
		{"alone", func(int, *Candidate) {}, 1},
	} {
		for _, temperature := range []float64{5, 60, 400, 3000} {
			t.Run(fmt.Sprintf("%s/%v", tc.name, temperature), func(t *testing.T) {
				const requests = 8000
				c := fleet(tc.n)
				for i := range c {
					tc.workers(i, &c[i])
				}
				p := newDrawn(t, temperature, c)
				req := Request{Key: 1, Blocks: 50}
				for range 1000 { // until the backlog's average has settled
					p.Choose(&req, c)
				}
				got := make([]int, len(c))
				for i := range requests {
					req.Key = uint64(i)
					got[p.Choose(&req, c).Index]++
				}
				costs := make([]float64, len(c))
				for i := range c {
					_, costs[i] = p.Weigh(&req, &c[i])
				}
				for i, chance := range slowChances(costs, temperature) {
					mean := chance * requests
					if away := math.Abs(float64(got[i]) - mean); away > 1+5*math.Sqrt(mean*(1-chance)) {
						t.Errorf("worker %d drawn %d times, want about %.0f; all %v for costs %v", i, got[i], mean, got, costs)
					}
				}
			})
		}
	}
}

// A temperature is in tokens, of which a block is 16: what one of eight idle workers
// holds of a prompt brings it there the oftener the more that is by the temperature.
func TestTemperatureIsInTokens(t *testing.T) {
	for _, tc := range []struct {
		held        int // blocks
		temperature float64
		want        float64 // share of requests
	}{
		{250, .5, 1},
		{250, 800, .95},
		{250, 1200, .80},
		{250, 2000, .51},
		{250, 4000, .28},
		{250, 1e6, .125},
		{50, 800, .28}, // 800 tokens
		{50, .5, 1},
		{1, .5, 1},
		{1, 16, .28},
	} {
		t.Run(fmt.Sprintf("%d blocks/%v", tc.held, tc.temperature), func(t *testing.T) {
			c := fleet(8)
			c[5].Match = tc.held
			p := newDrawn(t, tc.temperature, c)
			const requests = 20_000
			hits := 0
			for range requests {
				if p.Choose(&Request{Blocks: 250}, c).Index == 5 {
					hits++
				}
			}
			if got := float64(hits) / requests; math.Abs(got-tc.want) > .015 {
				t.Errorf("%.3f of the requests, want %.3f", got, tc.want)
			}
		})
	}
}

func TestTemperatureAtItsEnds(t *testing.T) {
	c := loaded(0, 1, 2, 300)
	for _, tc := range []struct {
		temperature float64
		low, high   []int // of 4000 draws
	}{
		{1e-12, []int{4000, 0, 0, 0}, []int{4000, 0, 0, 0}},
		{math.SmallestNonzeroFloat64, []int{4000, 0, 0, 0}, []int{4000, 0, 0, 0}},
		{1e6, []int{850, 850, 850, 850}, []int{1150, 1150, 1150, 1150}},
		{math.MaxFloat64, []int{850, 850, 850, 850}, []int{1150, 1150, 1150, 1150}},
	} {
		t.Run(fmt.Sprint(tc.temperature), func(t *testing.T) {
			p := newDrawn(t, tc.temperature, c)
			got := make([]int, len(c))
			for range 4000 {
				got[p.Choose(&Request{}, c).Index]++
			}
			for i := range got {
				if got[i] < tc.low[i] || got[i] > tc.high[i] {
					t.Errorf("worker %d drawn %d times, want %d to %d; all %v", i, got[i], tc.low[i], tc.high[i], got)
				}
			}
		})
	}
}

// What can't be weighed is no reason to choose nobody, nor to leave less to chance.
func TestDrawsWithEndlessCosts(t *testing.T) {
	for _, tc := range []struct {
		name        string
		endless     []int // workers, of three
		temperature float64
		want        []int // workers that are drawn
	}{
		{"one, with next to nothing left to chance", []int{2}, math.SmallestNonzeroFloat64, []int{1}},
		{"one", []int{2}, 100, []int{0, 1}},
		{"one, with all left to chance", []int{2}, math.MaxFloat64, []int{0, 1}},
		{"all but one", []int{0, 2}, 100, []int{1}},
		{"all", []int{0, 1, 2}, 100, []int{0, 1, 2}},
		{"all, with next to nothing left to chance", []int{0, 1, 2}, math.SmallestNonzeroFloat64, []int{0, 1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := loaded(1, 0, 2)
			for _, i := range tc.endless {
				c[i].Cost = math.MaxFloat64 // and so its blocks cost more than there are numbers for
			}
			p := newDrawn(t, tc.temperature, c)
			drawn := map[int]bool{}
			for range 200 {
				drawn[p.Choose(&Request{Blocks: 3}, c).Index] = true
			}
			if got := slices.Sorted(maps.Keys(drawn)); !slices.Equal(got, tc.want) {
				t.Errorf("drawn %v, want %v", got, tc.want)
			}
		})
	}
}

// Costs are those of least_work, and so is what a choice does to later ones.
func TestDrawsByTheCostsOfLeastWork(t *testing.T) {
	draws := rand.New(rand.NewPCG(25, 1))
	all := fleet(9)
	drawn, plain := newDrawn(t, 400, all), newLeastWork("least_work", DefaultOptions())
	for step := range 1000 {
		req, c := scenario(draws, all)
		req.Decode = draws.IntN(4) == 0
		drawn.Choose(&req, c)
		plain.Choose(&req, c)
		for i := range c {
			lambda, cost := drawn.Weigh(&req, &c[i])
			if wantLambda, want := plain.Weigh(&req, &c[i]); cost != want || lambda != wantLambda {
				t.Fatalf("step %d: cost %v with λ %v, want %v with %v", step, cost, lambda, want, wantLambda)
			}
		}
	}
}

// Decode workers are never drawn.
func TestDecodeIsNotDrawn(t *testing.T) {
	draws := rand.New(rand.NewPCG(22, 1))
	all := fleet(9)
	drawn, plain := newDrawn(t, 1e6, all), build(t, "least_work", DefaultOptions(), all)
	for step := range 2000 {
		req, c := scenario(draws, all)
		req.Decode = true
		for i := range c {
			c[i].Held = draws.IntN(50)
		}
		if got, want := drawn.Choose(&req, c), plain.Choose(&req, c); got != want {
			t.Fatalf("step %d: %+v, want %+v", step, got, want)
		}
	}
}

func TestDrawReasons(t *testing.T) {
	c := loaded(0, 0, 9)
	c[0].Match, c[2].Match = 2, 10
	want := map[int]Reason{0: Backlog, 1: Random, 2: PrefixHit}
	p := newDrawn(t, 400, c)
	seen := map[int]bool{}
	for range 200 {
		got := p.Choose(&Request{Blocks: 10}, c)
		if seen[got.Index] = true; got.Reason != want[got.Index] {
			t.Fatalf("%+v, want reason %v", got, want[got.Index])
		}
	}
	if len(seen) != len(want) {
		t.Errorf("drawn %v, want each", seen)
	}
	if got := p.Choose(&Request{Blocks: 10}, loaded(0, 5)); got.Reason != PrefixMiss {
		t.Errorf("%+v, want reason %v where nothing is known", got, PrefixMiss)
	}
}

// The seed, and nothing else, makes the draws.
func TestDrawsBySeed(t *testing.T) {
	choices := func(seed uint64) (all []int) {
		o := DefaultOptions()
		o.Temperature, o.Seed = 100, seed
		c := loaded(0, 1, 2, 3)
		p := build(t, kvAware, o, c)
		for range 100 {
			all = append(all, p.Choose(&Request{}, c).Index)
		}
		return all
	}
	if !slices.Equal(choices(5), choices(5)) {
		t.Error("one seed gives two sequences")
	}
	if slices.Equal(choices(5), choices(6)) {
		t.Error("two seeds give one sequence")
	}
}

func TestUnitDraws(t *testing.T) {
	draws := rng{3}
	least, greatest, sum := 1.0, 0.0, 0.0
	const n = 100_000
	for range n {
		x := draws.unit()
		least, greatest, sum = min(least, x), max(greatest, x), sum+x
	}
	if least < 0 || least > .001 || greatest >= 1 || greatest < .999 || math.Abs(sum/n-.5) > .01 {
		t.Errorf("from %v to %v, %v on average, want from 0 to below 1, 0.5 on average", least, greatest, sum/n)
	}
}
