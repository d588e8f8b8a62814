package policy

import (
	"slices"
	"testing"
)

func TestRandomIsUniformAndSeeded(t *testing.T) {
	const requests = 40_000
	c := loaded(0, 9, 100, 3) // load is not its business
	run := func(seed uint64) ([]int, []int) {
		o := DefaultOptions()
		o.Seed = seed
		p := build(t, "random", o, c)
		counts, first := make([]int, len(c)), []int{}
		for range requests {
			choice := p.Choose(&Request{Key: 1}, c)
			if choice.Reason != Random {
				t.Fatalf("reason %v, want %v", choice.Reason, Random)
			}
			counts[choice.Index]++
			if len(first) < 50 {
				first = append(first, choice.Index)
			}
		}
		return counts, first
	}
	counts, first := run(1)
	for i, n := range counts {
		if n < requests/4*95/100 || n > requests/4*105/100 {
			t.Errorf("worker %d got %d of %d, want about a quarter", i, n, requests)
		}
	}
	if _, again := run(1); !slices.Equal(first, again) {
		t.Errorf("seed 1 gave %v, then %v, want the same", first, again)
	}
	if _, other := run(2); slices.Equal(first, other) {
		t.Errorf("seeds 1 and 2 both gave %v, want different draws", first)
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	c := loaded(5, 0, 7)
	p := build(t, "round_robin", DefaultOptions(), c)
	var got []int
	for range 7 {
		choice := p.Choose(&Request{Key: 1}, c)
		if choice.Reason != RoundRobin {
			t.Fatalf("reason %v, want %v", choice.Reason, RoundRobin)
		}
		got = append(got, choice.Index)
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
	got = got[:0]
	for range 4 { // one worker is gone: the count goes on, modulo two
		got = append(got, p.Choose(&Request{}, c[:2]).Index)
	}
	if want := []int{1, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("turns among two %v, want %v", got, want)
	}
}

func TestPowerOfTwo(t *testing.T) {
	tests := []struct {
		name  string
		loads []int
		never []int // workers that cannot be chosen
	}{
		{"one worker", []int{80}, nil},
		{"two workers, the second lighter", []int{3, 2}, []int{0}},
		{"two workers, the first lighter", []int{2, 3}, []int{1}},
		{"the heaviest of many always loses", []int{1, 9, 1, 1}, []int{1}},
		{"strictly ordered", []int{4, 3, 2, 1}, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := loaded(tt.loads...)
			p := build(t, "power_of_two", DefaultOptions(), c)
			got := make([]int, len(c))
			for key := range uint64(2000) {
				choice := p.Choose(&Request{Key: key}, c)
				if choice.Reason != LeastLoad {
					t.Fatalf("reason %v, want %v", choice.Reason, LeastLoad)
				}
				got[choice.Index]++
			}
			for i, n := range got {
				if want := !slices.Contains(tt.never, i); (n > 0) != want {
					t.Errorf("worker %d was chosen %d times, want more than none: %v", i, n, want)
				}
			}
		})
	}
}

// Both draws must be uniform and distinct: of four strictly ordered workers the
// lightest is in half of all pairs, the next wins a third, the next a sixth.
func TestPowerOfTwoDrawsAllPairs(t *testing.T) {
	const requests = 60_000
	c := loaded(30, 10, 0, 20)
	p := build(t, "power_of_two", DefaultOptions(), c)
	got := make([]int, len(c))
	for range requests {
		got[p.Choose(&Request{Key: 1}, c).Index]++
	}
	want := []int{0, requests / 3, requests / 2, requests / 6}
	for i := range got {
		if got[i] < want[i]*95/100 || got[i] > want[i]*105/100 {
			t.Errorf("worker %d won %d, want about %d", i, got[i], want[i])
		}
	}
}
