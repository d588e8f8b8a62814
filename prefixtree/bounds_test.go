package prefixtree

import (
	"maps"
	"runtime"
	"slices"
	"testing"
)

// A key of 8 MB is known after eight inserts.
func TestLongKey(t *testing.T) {
	const length = 131072
	key := chain(nil, 1, length)
	tree := New(64 << 20)
	for n := maxNew; n <= length; n += maxNew {
		tree.Insert(key, 1)
		if got, want := tree.Match(key, nil), []Hit{{1, uint32(n)}}; !slices.Equal(got, want) {
			t.Errorf("Match = %v, want %v", got, want)
		}
	}
	if got, want := tree.Nodes(), length/maxEdge; got != want {
		t.Errorf("%d nodes, want %d", got, want)
	}
	check(t, tree)
}

// Two workers in turn make each block of a key an edge of its own. The path
// stops at its bound, and what is below goes on to be known only that far.
func TestLongPath(t *testing.T) {
	const length = 3000
	key := chain(nil, 1, length)
	tree := New(64 << 20)
	for n := range length {
		tree.Insert(key[:n+1], uint32(n%2))
	}
	check(t, tree)
	if got, want := tree.Nodes(), maxPath; got != want {
		t.Errorf("%d nodes, want %d", got, want)
	}
	tree.Insert(key, 5)
	if got, want := hitMap(t, tree.Match(key, nil)), map[uint32]int{0: maxPath, 1: maxPath, 5: maxPath}; !maps.Equal(got, want) {
		t.Errorf("Match = %v, want %v", got, want)
	}
	check(t, tree)
}

// Where the last edge that a path has room for is cut, nothing can be added
// below the cut.
func TestCutAtTheEndOfAPath(t *testing.T) {
	key := chain(nil, 1, maxPath+49)
	tree := New(64 << 20)
	for n := 1; n < maxPath; n++ {
		tree.Insert(key[:n], uint32(n%2))
	}
	tree.Insert(key, 0)
	branch := chain(key[:maxPath+19], 2, 10)
	_, known := tree.learn(branch, 7)
	check(t, tree)
	if want := maxPath + 19; known != want {
		t.Errorf("learnt %d blocks, want %d", known, want)
	}
	if got := hitMap(t, tree.Match(branch, nil)); got[7] != known {
		t.Errorf("Match = %v, want %d at worker 7", got, known)
	}
	if got, want := tree.Nodes(), maxPath+1; got != want {
		t.Errorf("%d nodes, want %d", got, want)
	}
}

// Cutting edges can push nodes beyond the bound of a path. They are out of
// reach from then on and must go in their turn.
func TestPathPushedBeyondItsBound(t *testing.T) {
	key := chain(nil, 1, maxPath*maxEdge)
	tree := New(64 << 20)
	for range len(key) / maxNew {
		tree.Insert(key, 1)
	}
	if got, want := tree.Match(key, nil), []Hit{{1, maxPath * maxEdge}}; !slices.Equal(got, want) {
		t.Fatalf("Match = %v, want %v", got, want)
	}
	tree.Insert(key[:10], 2)
	tree.Insert(key, 3)
	check(t, tree)
	known := (maxPath - 1) * maxEdge
	if got, want := hitMap(t, tree.Match(key, nil)), map[uint32]int{1: known, 2: 10, 3: known}; !maps.Equal(got, want) {
		t.Errorf("Match = %v, want %v", got, want)
	}
	for tree.Entries() > 0 {
		evictOne(tree)
		if tree.Entries()%300 == 0 {
			check(t, tree)
		}
	}
}

// However few cells there are, running out of them in the middle of a split,
// of an index or of a new path leaves the tree whole.
func TestEveryRoom(t *testing.T) {
	base := chain(nil, 1, 90)
	for cells := 2; cells < 500; cells += 3 {
		tree := newTree(cells)
		tree.reserve = 1 // so that everything runs dry
		for w := range uint32(120) {
			tree.Insert(base, w*3)
		}
		check(t, tree)
		for n := uint64(80); n > 0; n -= 20 {
			tree.Insert(chain(base[:n], n, 40), uint32(n))
			check(t, tree)
			tree.Insert(base[:n+5], 1000)
			check(t, tree)
		}
	}
}

// The tree keeps its limit at every step, uses most of it, and says what the
// heap says.
func TestBytes(t *testing.T) {
	for _, limit := range []int{64 << 10, 300 << 10, 1 << 20, 24 << 20} {
		p := newPrompts(200, 128, 90)
		key := make([]uint64, p.length)
		before := heapBytes()
		tree := New(limit)
		for id := range uint64(limit / 200) {
			p.write(key, id)
			tree.Insert(key, spread(p, id, 100))
			if got := tree.Bytes(); got > limit {
				t.Fatalf("limit %d: %d bytes after %d inserts", limit, got, id+1)
			}
		}
		grown := heapBytes() - before
		got := tree.Bytes()
		if got < limit*92/100 {
			t.Errorf("limit %d: uses only %d bytes", limit, got)
		}
		if slack := got/50 + 64<<10; grown < got-slack || grown > got+slack {
			t.Errorf("limit %d: tree says %d bytes, heap grew by %d", limit, got, grown)
		}
		if tree.Evicted() == 0 {
			t.Errorf("limit %d: nothing evicted", limit)
		}
		check(t, tree)
		runtime.KeepAlive(tree)
		runtime.KeepAlive(p)
	}
}

// Limits too small for anything make a tree that takes no harm.
func TestTinyLimits(t *testing.T) {
	key := chain(nil, 1, 300)
	for _, limit := range []int{-1, 0, 1, 1000, 33 << 10, 34 << 10, 35 << 10, 36 << 10, 40 << 10} {
		tree := New(limit)
		for i := range uint64(300) {
			tree.Insert(chain(key[:i], i, 40), uint32(i%7))
			tree.Match(key, nil)
			check(t, tree)
		}
		if floor := New(0).Bytes(); tree.Bytes() > max(limit, floor) {
			t.Errorf("limit %d: %d bytes", limit, tree.Bytes())
		}
	}
}

// A key far beyond the budget is kept in part, at the price of a bounded
// number of entries, and asking again and again doesn't empty the tree.
func TestTooLongKey(t *testing.T) {
	tree := New(1 << 20)
	for i := range uint64(2000) {
		tree.Insert(chain(nil, i, 100), uint32(i%8))
	}
	before, evicted := tree.Entries(), tree.Evicted()
	long := chain(nil, 9999, 1_000_000)
	tree.Insert(long, 3)
	check(t, tree)
	if gone := tree.Evicted() - evicted; gone > evictSteps {
		t.Errorf("one insert evicted %d entries, want at most %d", gone, evictSteps)
	}
	if got := tree.Match(long, nil); len(got) != 1 || got[0].Blocks < 1000 {
		t.Errorf("Match = %v, want a prefix at worker 3", got)
	}
	if tree.Entries() < before/2 {
		t.Errorf("%d entries left of %d", tree.Entries(), before)
	}
}

func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
