//go:build !race

package prefixtree

import "testing"

// A match with room in dst allocates nothing, nor does an insert once the
// tree has its memory: the router's garbage collector must not notice either.
func TestAllocations(t *testing.T) {
	const workers = 40
	p := newPrompts(50, 256, 179)
	tree := filled(p, shapes[1], 5000, workers, 1<<20)
	key := make([]uint64, p.length)
	hits := make([]Hit, 0, workers)
	id := uint64(0)
	next := func() {
		id++
		p.write(key, id)
	}
	if got := testing.AllocsPerRun(2000, func() { next(); hits = tree.Match(key, hits[:0]) }); got != 0 {
		t.Errorf("Match allocates %v times, want 0", got)
	}
	if got := testing.AllocsPerRun(2000, func() { next(); tree.Insert(key, spread(p, id, workers)) }); got != 0 {
		t.Errorf("Insert into a full tree allocates %v times, want 0", got)
	}
	if got := testing.AllocsPerRun(100, func() { tree.Forget(3, 1) }); got != 0 {
		t.Errorf("Forget allocates %v times, want 0", got)
	}
	growing := New(64 << 20)
	if got := testing.AllocsPerRun(20000, func() { next(); growing.Insert(key, spread(p, id, workers)) }); got != 0 {
		t.Errorf("Insert into a growing tree allocates %v times on average, want 0", got)
	}
}
