package prefixtree

import "testing"

// The distance of what was used long ago is about what a cache would say that drops
// the least recent block: a sixth and a span too much or too little at most.
func TestDistance(t *testing.T) {
	const prompts, length = 3000, 20
	for _, tc := range []struct {
		name string
		hot  int // prompts in turn with each of which a hot one is used again
	}{
		{"all used once", 0},
		{"some used again and again", 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := New(16 << 20)
			tree.TrackAges()
			at := map[uint64]int{} // by prompt, when it was used last
			for i := range prompts {
				tree.Insert(chain(nil, uint64(i), length), 3)
				at[uint64(i)] = 2 * i
				if tc.hot > 0 {
					hot := uint64(i % min(tc.hot, i+1))
					tree.Insert(chain(nil, hot, length), 3)
					at[hot] = 2*i + 1
				}
			}
			check(t, tree)
			for _, id := range []uint64{prompts - 2, prompts - 10, prompts - 100, prompts / 2, prompts / 4, 20} {
				want := 0
				for _, when := range at {
					if when >= at[id] {
						want += length
					}
				}
				r := &Reuse{}
				a := tree.ages(tree.worker(tree.workers[3]))
				tree.reuse(r, &a, tree.descend(chain(nil, id, length)), 3)
				if off := want/6 + tree.Blocks(3)/spanShare + length; r.Blocks != length || r.Distance < want-off || r.Distance > want+off {
					t.Errorf("prompt %d: %+v, want %d blocks at a distance of %d, about", id, *r, length, want)
				}
			}
			if got, want := tree.Blocks(3), len(at)*length; got != want {
				t.Errorf("%d blocks, want %d", got, want)
			}
		})
	}
}

// A worker whose cache is known to be small is left what fits there, and one that
// has restarted what it has seen since.
func TestShrinkAndForgetUntil(t *testing.T) {
	fill := func() (tree *Tree, stamps []uint32) {
		tree = New(16 << 20)
		tree.TrackAges()
		for i := range uint64(100) {
			stamps = append(stamps, tree.Insert(chain(nil, i, 10), 5).Now)
		}
		return tree, stamps
	}
	known := func(tree *Tree) (n int) {
		for i := range uint64(100) {
			n += len(tree.Match(chain(nil, i, 10), nil))
		}
		return n
	}
	tree, _ := fill()
	if done := tree.Shrink(5, 305, 7); done || known(tree) != 93 {
		t.Errorf("Shrink in 7 steps = %v with %d prompts left, want false with 93", done, known(tree))
	}
	if done := tree.Shrink(5, 305, 1000); !done || known(tree) != 31 || tree.Blocks(5) != 310 {
		t.Errorf("Shrink = %v with %d prompts left, want true with 31: at least 305 blocks", done, known(tree))
	}
	tree, stamps := fill()
	if done := tree.ForgetUntil(5, stamps[59], 1000); !done || known(tree) != 40 {
		t.Errorf("ForgetUntil = %v with %d prompts left, want true with 40", done, known(tree))
	}
	if hits := tree.Match(chain(nil, 59, 10), nil); len(hits) != 0 {
		t.Errorf("Match of the last one forgotten = %v, want none", hits)
	}
	if !tree.Shrink(9, 0, 1) || !tree.ForgetUntil(MaxWorkers, 0, 1) || tree.Blocks(MaxWorkers) != 0 {
		t.Error("a worker that holds nothing has something left")
	}
}

// Starts of spans that are so old that stamps could wrap around them are given up.
func TestSpansWrap(t *testing.T) {
	tree := New(1 << 20)
	tree.TrackAges()
	for i := range uint64(60) {
		tree.Insert(chain(nil, i%7, 50), 1)
		tree.now += 1 << 28
		tree.Insert(chain(nil, i%5+100, 40), 1)
		check(t, tree)
	}
}
