package policy

import (
	"math"
	"testing"
)

func TestCacheAware(t *testing.T) {
	tests := []struct {
		name    string
		blocks  int
		loads   []int
		matches []int
		change  func(*Options)
		want    []int // any of these workers
		reason  Reason
	}{
		{name: "longest prefix", blocks: 10, loads: []int{5, 9, 0}, matches: []int{4, 8, 0}, want: []int{1}, reason: PrefixHit},
		{name: "least load among the longest", blocks: 10, loads: []int{5, 3, 0}, matches: []int{8, 8, 7}, want: []int{1}, reason: PrefixHit},
		{name: "tie among the longest", blocks: 10, loads: []int{3, 3, 0}, matches: []int{8, 8, 7}, want: []int{0, 1}, reason: PrefixHit},
		{name: "share equal to the threshold is a miss", blocks: 10, loads: []int{5, 1, 0}, matches: []int{3, 0, 0}, want: []int{2}, reason: PrefixMiss},
		{name: "share just above the threshold", blocks: 100, loads: []int{5, 1, 0}, matches: []int{31, 0, 0}, want: []int{0}, reason: PrefixHit},
		{
			name: "threshold 0 takes any prefix", blocks: 100, loads: []int{5, 1, 0}, matches: []int{1, 0, 0}, want: []int{0}, reason: PrefixHit,
			change: func(o *Options) { o.CacheThreshold = 0 },
		},
		{
			name: "threshold 0 and no prefix", blocks: 100, loads: []int{5, 1, 1}, matches: []int{0, 0, 0}, want: []int{1, 2}, reason: PrefixMiss,
			change: func(o *Options) { o.CacheThreshold = 0 },
		},
		{
			name: "threshold 1 takes none", blocks: 10, loads: []int{5, 1, 0}, matches: []int{10, 0, 0}, want: []int{2}, reason: PrefixMiss,
			change: func(o *Options) { o.CacheThreshold = 1 },
		},
		{name: "imbalance beats a whole prefix", blocks: 10, loads: []int{70, 3, 2}, matches: []int{10, 0, 0}, want: []int{2}, reason: LoadImbalance},
		{name: "apart by the absolute threshold only", blocks: 10, loads: []int{64, 0, 0}, matches: []int{10, 0, 0}, want: []int{0}, reason: PrefixHit},
		{name: "one more", blocks: 10, loads: []int{65, 0, 0}, matches: []int{10, 0, 0}, want: []int{1, 2}, reason: LoadImbalance},
		{name: "at the relative threshold", blocks: 10, loads: []int{300, 200, 200}, matches: []int{10, 0, 0}, want: []int{0}, reason: PrefixHit},
		{name: "above the relative threshold", blocks: 10, loads: []int{301, 200, 201}, matches: []int{10, 0, 0}, want: []int{1}, reason: LoadImbalance},
		{name: "no key", blocks: 0, loads: []int{4, 2, 3}, matches: []int{0, 0, 0}, want: []int{1}, reason: PrefixMiss},
		{name: "no key and imbalance", blocks: 0, loads: []int{400, 2, 3}, matches: []int{0, 0, 0}, want: []int{1}, reason: PrefixMiss},
		{name: "one worker", blocks: 10, loads: []int{400}, matches: []int{0}, want: []int{0}, reason: PrefixMiss},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			if tt.change != nil {
				tt.change(&o)
			}
			c := loaded(tt.loads...)
			low, high := math.MaxInt, 0
			for i := range c {
				c[i].Match = tt.matches[i]
				low, high = min(low, c[i].Load), max(high, c[i].Load)
			}
			imbalanced := high-low > o.BalanceAbs && float64(high) > 1.5*float64(low)
			p := build(t, "cache_aware", o, c)
			chosen := map[int]bool{}
			for key := range uint64(64) {
				got := p.Choose(&Request{Key: key, Blocks: tt.blocks}, c)
				chosen[got.Index] = true
				if want := (Choice{got.Index, tt.reason, high, low, imbalanced}); got != want {
					t.Fatalf("key %d: %+v, want %+v", key, got, want)
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
