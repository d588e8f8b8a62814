package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLeastWork(t *testing.T) {
	type worker struct {
		load, pending, match int
		cost                 float64
	}
	tests := []struct {
		name    string
		blocks  int
		workers []worker
		change  func(*Options)
		want    []int
		reason  Reason
	}{
		{name: "longest prefix", blocks: 10, workers: []worker{{0, 0, 4, 1}, {0, 0, 8, 1}, {0, 0, 0, 1}}, want: []int{1}, reason: PrefixHit},
		{name: "nothing known, least pending", blocks: 10, workers: []worker{{0, 3, 0, 1}, {0, 1, 0, 1}, {0, 2, 0, 1}}, want: []int{1}, reason: PrefixMiss},
		{name: "nothing known, least load", blocks: 10, workers: []worker{{3, 0, 0, 1}, {2, 0, 0, 1}, {1, 0, 0, 1}}, want: []int{2}, reason: PrefixMiss},
		{name: "a queue longer than the prefix saves", blocks: 10, workers: []worker{{0, 30, 10, 1}, {0, 0, 0, 1}}, want: []int{1}, reason: Backlog},
		{name: "a queue shorter than the prefix saves", blocks: 10, workers: []worker{{0, 5, 10, 1}, {0, 0, 0, 1}}, want: []int{0}, reason: PrefixHit},
		{name: "a running request is worth four blocks", blocks: 10, workers: []worker{{3, 0, 10, 1}, {0, 0, 0, 1}}, want: []int{1}, reason: Backlog},
		{name: "equal work is a tie", blocks: 12, workers: []worker{{3, 0, 12, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}}, want: []int{0, 1, 2}, reason: 0},
		{
			name: "a running request is worth ten blocks", blocks: 10, workers: []worker{{2, 0, 10, 1}, {0, 0, 0, 1}}, want: []int{1}, reason: Backlog,
			change: func(o *Options) { o.LoadBlocks = 10 },
		},
		{name: "a dear worker is used when the others are busy", blocks: 10, workers: []worker{{0, 20, 0, 1}, {0, 0, 0, 2}}, want: []int{1}, reason: PrefixMiss},
		{name: "a dear worker is left alone when they are not", blocks: 10, workers: []worker{{0, 5, 0, 1}, {0, 0, 0, 2}}, want: []int{0}, reason: PrefixMiss},
		{name: "no work at all goes to the cheapest", blocks: 0, workers: []worker{{0, 0, 0, 2}, {0, 0, 0, .5}, {0, 0, 0, 1}}, want: []int{1}, reason: PrefixMiss},
		{name: "no price means 1", blocks: 10, workers: []worker{{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, math.NaN()}, {0, 0, 0, -3}}, want: []int{0, 1, 2, 3}, reason: PrefixMiss},
		{name: "no key, least load", blocks: 0, workers: []worker{{1, 0, 0, 1}, {0, 0, 0, 1}}, want: []int{1}, reason: PrefixMiss},
		{name: "one worker", blocks: 10, workers: []worker{{9, 900, 0, 1}}, want: []int{0}, reason: PrefixMiss},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			if tt.change != nil {
				tt.change(&o)
			}
			c := fleet(len(tt.workers))
			for i, w := range tt.workers {
				c[i].Load, c[i].Pending, c[i].Match, c[i].Cost = w.load, w.pending, w.match, w.cost
			}
			chosen := map[int]bool{}
			for key := range uint64(64) {
				// A policy of its own for each key: no backlog builds up.
				got := build(t, "least_work", o, c).Choose(&Request{Key: key, Blocks: tt.blocks}, c)
				chosen[got.Index] = true
				if tt.reason != 0 && got.Reason != tt.reason {
					t.Fatalf("key %d: reason %v, want %v", key, got.Reason, tt.reason)
				}
			}
			for _, i := range tt.want {
				if !chosen[i] {
					t.Errorf("worker %d was never chosen; chosen %v, want %v", i, chosen, tt.want)
				}
			}
			if len(chosen) != len(tt.want) {
				t.Errorf("chosen %v, want %v", chosen, tt.want)
			}
		})
	}
}

// A worker that takes four times as long for a block is weighed with twice its work,
// and one whose pace isn't known is as the others.
func TestLeastWorkWeighsPace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		pace    []float64
		pending []int
		want    int
	}{
		{"slow, and less to do", []float64{4, 1}, []int{4, 17}, 1},
		{"slow, and much less to do", []float64{4, 1}, []int{4, 19}, 0},
		{"fast, and more to do", []float64{.25, 1}, []int{27, 9}, 0},
		{"fast, and much more to do", []float64{.25, 1}, []int{30, 9}, 1},
		{"not known", []float64{0, 1}, []int{4, 5}, 0},
		{"no number", []float64{math.NaN(), 1}, []int{6, 5}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fleet(2)
			for i := range c {
				c[i].Pace, c[i].Pending = tc.pace[i], tc.pending[i]
			}
			if got := build(t, "least_work", DefaultOptions(), c).Choose(&Request{Key: 1, Blocks: 10}, c); got.Index != tc.want {
				t.Errorf("worker %d, want %d", got.Index, tc.want)
			}
		})
	}
}

// Where requests only decode, what is held counts, and a miss is no more than its
// transfer, whatever the backlog.
func TestLeastWorkDecodes(t *testing.T) {
	for _, tc := range []struct {
		name        string
		held, match []int
		load        []int
		want        int
	}{
		{"less held", []int{50, 20}, []int{0, 0}, []int{1, 5}, 1},
		{"the prefix is worth its transfer", []int{50, 42}, []int{10, 0}, []int{0, 0}, 0},
		{"and no more", []int{50, 38}, []int{10, 0}, []int{0, 0}, 1},
		{"as much held, less running", []int{20, 20}, []int{0, 0}, []int{3, 2}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fleet(2)
			p := build(t, "least_work", DefaultOptions(), c)
			for i := range c {
				c[i].Pending = 1000
			}
			for range 400 {
				p.Choose(&Request{Blocks: 10}, c) // a miss is dear
			}
			for i := range c {
				c[i].Pending, c[i].Held, c[i].Match, c[i].Load = 0, tc.held[i], tc.match[i], tc.load[i]
			}
			if got := p.Choose(&Request{Key: 1, Blocks: 10, Decode: true}, c); got.Index != tc.want {
				t.Errorf("worker %d, want %d", got.Index, tc.want)
			}
			for i := range c {
				c[i].Match, c[i].Load = 0, 0
			}
			c[0].Held, c[1].Held = 1000, 0
			chosen := map[int]bool{}
			for key := range uint64(64) {
				chosen[p.Choose(&Request{Key: key, Blocks: 10}, c).Index] = true
			}
			if len(chosen) != 2 {
				t.Errorf("chosen %v for a prefill, want both: what is held is no work of that", chosen)
			}
		})
	}
}

// The same queue difference is worth a miss when the fleet is idle and not worth
// it under backlog: the price of a miss is what least_work adapts.
func TestLeastWorkStaysUnderBacklog(t *testing.T) {
	c := fleet(2)
	p := build(t, "least_work", DefaultOptions(), c)
	req := Request{Key: 1, Blocks: 10}
	state := func(first, second int) []Candidate {
		c[0].Pending, c[0].Match = first, 10
		c[1].Pending = second
		return c
	}
	if got := p.Choose(&req, state(30, 0)); got.Index != 1 || got.Reason != Backlog {
		t.Errorf("idle fleet: %+v, want worker 1 by backlog", got)
	}
	for range 400 {
		p.Choose(&req, state(100, 100))
	}
	// The mean backlog is near 100 blocks, so λ is at its ceiling of 12 and a miss
	// of 10 blocks costs 130.
	if got := p.Choose(&req, state(130, 100)); got.Index != 0 || got.Reason != PrefixHit {
		t.Errorf("busy fleet, 30 more: %+v, want worker 0 by prefix", got)
	}
	if got := p.Choose(&req, state(229, 100)); got.Index != 0 {
		t.Errorf("busy fleet, 129 more: %+v, want worker 0", got)
	}
	if got := p.Choose(&req, state(231, 100)); got.Index != 1 {
		t.Errorf("busy fleet, 131 more: %+v, want worker 1: the price of a miss has a ceiling", got)
	}
	for range 600 {
		p.Choose(&req, state(0, 0))
	}
	if got := p.Choose(&req, state(30, 0)); got.Index != 1 {
		t.Errorf("idle again: %+v, want worker 1", got)
	}
}

// The backlog of one pool makes no miss dear in another.
func TestLeastWorkPerPool(t *testing.T) {
	busy, idle := fleet(2), fleet(2)
	p := build(t, "least_work", DefaultOptions(), fleet(2))
	for i := range busy {
		busy[i].Pending = 100
	}
	for range 400 {
		p.Choose(&Request{Key: 1, Blocks: 10, Pool: 2}, busy)
	}
	idle[0].Pending, idle[0].Match = 30, 10
	for _, pool := range []uint32{0, 1, 3} {
		if got := p.Choose(&Request{Key: 1, Blocks: 10, Pool: pool}, idle); got.Index != 1 {
			t.Errorf("pool %d: %+v, want worker 1 as in an idle fleet", pool, got)
		}
	}
	busy[0].Pending, busy[0].Match = 130, 10
	if got := p.Choose(&Request{Key: 1, Blocks: 10, Pool: 2}, busy); got.Index != 0 {
		t.Errorf("busy pool: %+v, want worker 0 by prefix", got)
	}
}

// λ follows the formula of the design, request by request.
func TestLeastWorkPriceOfAMiss(t *testing.T) {
	tests := []struct {
		name    string
		blocks  int
		pending []int // of the three workers, in every request
		steps   int
		want    float64
	}{
		{"first request", 8, []int{10, 20, 30}, 1, .02 * 20 / (.25 * 8)},
		{"second request", 8, []int{10, 20, 30}, 2, (.98*.02*20 + .02*20) / (.25 * 8)},
		{"settled", 100, []int{10, 20, 30}, 2000, 20 / (.25 * 100)},
		{"small prompt, ceiling", 2, []int{10, 20, 30}, 2000, 12},
		{"no prompt counts as one block", 0, []int{1, 1, 1}, 2000, 4},
		{"no backlog", 8, []int{0, 0, 0}, 2000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := fleet(3)
			for i := range c {
				c[i].Pending = tt.pending[i]
			}
			p := newLeastWork("least_work", DefaultOptions())
			var got float64
			for range tt.steps {
				got = p.lambda(&Request{Blocks: tt.blocks}, c)
			}
			if math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("λ = %v, want %v", got, tt.want)
			}
		})
	}
}

// Weigh says what Choose went by: the chosen worker's cost is the least of all, and λ
// is that of the choice.
func TestLeastWorkWeighsAsItChose(t *testing.T) {
	draws := rand.New(rand.NewPCG(3, 7))
	all := fleet(12)
	p := newLeastWork("least_work", DefaultOptions())
	priced := false
	for range 2000 {
		req, c := scenario(draws, all)
		req.Decode = draws.IntN(4) == 0
		for i := range c {
			c[i].Held, c[i].Pace, c[i].Cost = draws.IntN(500), 0.5+draws.Float64(), 0.5+draws.Float64()
		}
		got := p.Choose(&req, c)
		lambda, least := p.Weigh(&req, &c[got.Index])
		if req.Decode && lambda != 0 || lambda < 0 {
			t.Fatalf("λ = %v for %+v", lambda, req)
		}
		priced = priced || lambda > 0.01
		for i := range c {
			if _, cost := p.Weigh(&req, &c[i]); cost < least {
				t.Fatalf("worker %d costs %v, less than the chosen %d with %v; %+v", i, cost, got.Index, least, req)
			}
		}
	}
	if !priced {
		t.Error("a miss never had a price")
	}
}
