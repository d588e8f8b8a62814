//go:build !race

package actors

import "testing"

// Nor does a prefill and decode pair.
func TestPairAllocatesNothing(t *testing.T) {
	r := startRouter(t, "cache_aware", 1<<20)
	for i := range 16 {
		join(t, r, roleSpec(base(i), []Role{Prefill, Decode}[i%2]))
	}
	q := &Request{Key: key(0, 128, 1), Movable: true}
	pair := func() {
		q.Now++
		p, d, err := r.AcquirePair(q)
		if err != nil {
			t.Fatalf("AcquirePair: %v", err)
		}
		p.FirstByte()
		p.Release(Completed, q.Now)
		if d, err = d.Begin(q); err != nil {
			t.Fatalf("Begin: %v", err)
		}
		d.Release(Completed, q.Now)
	}
	for range 100 {
		pair()
	}
	if got := testing.AllocsPerRun(2000, pair); got != 0 {
		t.Errorf("%v allocations for a pair, want 0", got)
	}
}

// A pair of Acquire and Release allocates nothing, on either way to the registry
// and in either actor: what is measured counts every goroutine.
func TestAcquireReleaseAllocatesNothing(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		key          []uint64
	}{
		{"round_robin", "round_robin", nil},
		{"power_of_two", "power_of_two", nil},
		{"cache_aware without a key", "cache_aware", nil},
		{"cache_aware through the tree", "cache_aware", key(0, 128, 1)},
		{"least_work through the tree", "least_work", key(0, 128, 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startRouter(t, tc.policy, 1<<20)
			for i := range 16 {
				join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Model: "m"})
			}
			exclude := []WorkerID{3}
			q := &Request{Key: tc.key, Model: []byte("m"), Exclude: exclude}
			pair := func() {
				q.Now++
				l, err := r.Acquire(q)
				if err != nil {
					t.Fatalf("Acquire: %v", err)
				}
				l.FirstByte()
				l.Release(Completed, q.Now)
			}
			for range 100 { // scratch space grows and pools fill
				pair()
			}
			if got := testing.AllocsPerRun(2000, pair); got != 0 {
				t.Errorf("%v allocations for a pair, want 0", got)
			}
		})
	}
}
