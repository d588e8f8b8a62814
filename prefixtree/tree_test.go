package prefixtree

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// chain returns a key of n blocks that starts with the blocks of base. Equal
// names after equal bases make equal blocks.
func chain(base []uint64, name uint64, n int) []uint64 {
	key := slices.Clone(base)
	rng := rand.New(rand.NewPCG(name, uint64(len(base))))
	for range n {
		key = append(key, rng.Uint64())
	}
	return key
}

func TestMatch(t *testing.T) {
	system := chain(nil, 1, 40)
	chat := chain(system, 2, 100)
	type told struct {
		key    []uint64
		worker uint32
	}
	tests := []struct {
		name string
		told []told
		ask  []uint64
		want map[uint32]int
	}{
		{"nothing known", nil, chat, map[uint32]int{}},
		{"empty key", []told{{chat, 1}}, nil, map[uint32]int{}},
		{"whole key", []told{{chat, 1}}, chat, map[uint32]int{1: 140}},
		{"longer than known", []told{{chat, 1}}, chain(chat, 3, 7), map[uint32]int{1: 140}},
		{"shorter than known", []told{{chat, 1}}, chat[:99], map[uint32]int{1: 99}},
		{"unlike from the first block", []told{{chat, 1}}, chain(nil, 9, 5), map[uint32]int{}},
		{"unlike inside an edge", []told{{chat, 1}}, chain(chat[:77], 9, 50), map[uint32]int{1: 77}},
		{"first block only", []told{{chat, 1}}, chain(chat[:1], 9, 50), map[uint32]int{1: 1}},
		{"each worker its own depth", []told{{chat, 1}, {system, 2}, {chat[:70], 3}, {chain(system, 5, 9), 4}}, chat, map[uint32]int{1: 140, 2: 40, 3: 70, 4: 40}},
		{"a shorter key doesn't shorten", []told{{chat, 1}, {system, 1}}, chat, map[uint32]int{1: 140}},
		{"a turn more", []told{{system, 1}, {chat, 1}, {chain(chat, 3, 30), 1}}, chain(chat, 3, 30), map[uint32]int{1: 170}},
		{"more than an edge holds", []told{{chain(nil, 7, 5000), 1}}, chain(nil, 7, 5000), map[uint32]int{1: 5000}},
		{"largest worker id", []told{{chat, MaxWorkers - 1}}, chat, map[uint32]int{MaxWorkers - 1: 140}},
		{"too large a worker id", []told{{chat, MaxWorkers}, {chat, 1 << 31}}, chat, map[uint32]int{}},
		{"empty key told", []told{{nil, 1}}, chat, map[uint32]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := New(1 << 20)
			for _, x := range tt.told {
				tree.Insert(x.key, x.worker)
				check(t, tree)
			}
			if got := hitMap(t, tree.Match(tt.ask, nil)); !maps.Equal(got, tt.want) {
				t.Errorf("Match = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMatchAppends(t *testing.T) {
	tree := New(1 << 20)
	key := chain(nil, 1, 10)
	tree.Insert(key, 7)
	got := tree.Match(key, []Hit{{1, 2}})
	if want := []Hit{{1, 2}, {7, 10}}; !slices.Equal(got, want) {
		t.Errorf("Match = %v, want %v", got, want)
	}
}

// A conversation at one worker is one edge however many turns it has, and a
// second worker makes it two.
func TestConversationGrowsInPlace(t *testing.T) {
	tree := New(1 << 20)
	key := chain(nil, 1, 5)
	for turn := range uint64(40) {
		tree.Insert(key, 3)
		key = chain(key, turn, 12)
	}
	if got, want := tree.Nodes(), 1; got != want {
		t.Errorf("%d nodes after 40 turns, want %d", got, want)
	}
	tree.Insert(key[:100], 4)
	tree.Insert(key, 3)
	if got, want := tree.Nodes(), 2; got != want {
		t.Errorf("%d nodes with a second worker, want %d", got, want)
	}
	if got, want := tree.Entries(), 3; got != want {
		t.Errorf("%d entries with a second worker, want %d", got, want)
	}
	check(t, tree)
}

// Edges are cut at every place, before and after they were cut elsewhere, so
// that all ways in which hashes lie in lines come up.
func TestCutEverywhere(t *testing.T) {
	const length = 64
	whole := chain(nil, 1, length)
	for first := 1; first < length; first++ {
		for second := 1; second < length; second++ {
			tree := newTree(100)
			tree.Insert(whole, 0)
			for i, n := range []int{first, second} {
				branch := chain(whole[:n], uint64(2+i), 1)
				tree.Insert(branch, 0)
				if got, want := tree.Match(branch, nil), []Hit{{0, uint32(n + 1)}}; !slices.Equal(got, want) {
					t.Fatalf("cut at %d and %d: Match = %v, want %v", first, second, got, want)
				}
			}
			if got, want := tree.Match(whole, nil), []Hit{{0, length}}; !slices.Equal(got, want) {
				t.Fatalf("cut at %d and %d: Match = %v, want %v", first, second, got, want)
			}
			for n := 1; n < length; n += 7 {
				if got, want := tree.Match(chain(whole[:n], 4, 20), nil), []Hit{{0, uint32(n)}}; !slices.Equal(got, want) {
					t.Fatalf("cut at %d and %d: Match = %v, want %v", first, second, got, want)
				}
			}
			check(t, tree)
		}
	}
}

// A node passes from one holder to thousands and back, with other ids each
// time, while a second node above it gets the same holders by a split.
func TestManyHolders(t *testing.T) {
	key := chain(nil, 1, 50)
	for _, step := range []uint32{1, 3, 4, 64, 257} {
		tree := newTree(100_000)
		want := map[uint32]int{}
		var order []uint32
		for w := uint32(0); w < MaxWorkers && len(want) < 3000; w += step {
			tree.Insert(key, w)
			want[w] = 50
			order = append(order, w)
		}
		tree.Insert(chain(key[:20], 2, 5), 5*step)
		check(t, tree)
		if got := hitMap(t, tree.Match(key, nil)); !maps.Equal(got, want) {
			t.Fatalf("step %d: %d hits, want %d", step, len(got), len(want))
		}
		for _, c := range tree.buckets {
			for ; c != 0; c = tree.node(c).chain {
				if n := tree.node(c); n.holding > 2*packedMax && !n.indexed {
					t.Errorf("step %d: a node with %d holders has no index", step, n.holding)
				}
			}
		}
		rand.Shuffle(len(order)-1, func(i, j int) { order[i+1], order[j+1] = order[j+1], order[i+1] })
		for len(order) > 0 { // the holder kept in the node goes last
			w := order[len(order)-1]
			order = order[:len(order)-1]
			for !tree.Forget(w, 1) {
				continue
			}
			delete(want, w)
			if len(order)%500 == 0 || len(order) < 3 {
				check(t, tree)
				if got := hitMap(t, tree.Match(key, nil)); !maps.Equal(got, want) {
					t.Fatalf("step %d: %d hits, want %d", step, len(got), len(want))
				}
			}
		}
		if tree.Entries() != 0 || tree.Nodes() != 0 || tree.room != tree.size-1 {
			t.Errorf("step %d: %d entries and %d nodes left, room for %d of %d cells", step, tree.Entries(), tree.Nodes(), tree.room, tree.size-1)
		}
	}
}

// Hundreds of workers know a key to as many depths; each has one hit.
func TestMatchManyDepths(t *testing.T) {
	tree := New(8 << 20)
	rng := rand.New(rand.NewPCG(3, 4))
	key := chain(nil, 1, 400)
	want := map[uint32]int{}
	for w := range uint32(600) {
		want[w] = []int{400, 300, 299, 17, 1 + rng.IntN(400)}[rng.IntN(5)]
		tree.Insert(key[:want[w]], w)
	}
	check(t, tree)
	for n := 1; n <= len(key); n += 13 {
		cut := map[uint32]int{}
		for w, k := range want {
			cut[w] = min(k, n)
		}
		if got := hitMap(t, tree.Match(key[:n], nil)); !maps.Equal(got, cut) {
			t.Fatalf("Match of %d blocks = %v, want %v", n, got, cut)
		}
	}
}

// Nodes that begin with the same hash under many parents share buckets and
// must not be mixed up.
func TestSameHashUnderManyParents(t *testing.T) {
	tree := New(1 << 20)
	const parents, shared = 1000, 77
	for i := uint64(100); i < 100+parents; i++ {
		tree.Insert([]uint64{i}, 1)
		if i%2 == 0 {
			tree.Insert([]uint64{i, shared}, 2)
		}
	}
	check(t, tree)
	for i := uint64(100); i < 100+parents; i++ {
		want := map[uint32]int{1: 1}
		if i%2 == 0 {
			want[2] = 2
		}
		if got := hitMap(t, tree.Match([]uint64{i, shared}, nil)); !maps.Equal(got, want) {
			t.Fatalf("Match under parent %d = %v, want %v", i, got, want)
		}
	}
}

func TestRecency(t *testing.T) {
	a, b, c := chain(nil, 1, 100), chain(nil, 2, 100), chain(nil, 3, 100)
	known := func(tree *Tree) string {
		s := ""
		for i, key := range [][]uint64{a, b, c} {
			if len(tree.Match(key, nil)) > 0 {
				s += string(rune('a' + i))
			}
		}
		return s
	}
	tests := []struct {
		name string
		do   func(tree *Tree)
		want string // after one eviction
	}{
		{"oldest first", func(*Tree) {}, "bc"},
		{"an insert refreshes", func(tree *Tree) { tree.Insert(a, 1) }, "ac"},
		{"a match doesn't", func(tree *Tree) { tree.Match(a, nil) }, "bc"},
		{"an insert of a prefix refreshes the edge", func(tree *Tree) { tree.Insert(a[:10], 1) }, "ac"},
		{"across workers", func(tree *Tree) { tree.Insert(a, 1); tree.Insert(b, 2) }, "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := New(1 << 20)
			tree.Insert(a, 1)
			tree.Insert(b, 2)
			tree.Insert(c, 3)
			tt.do(tree)
			evictOne(tree)
			check(t, tree)
			if got := known(tree); got != tt.want {
				t.Errorf("after an eviction %q are known, want %q", got, tt.want)
			}
		})
	}
}

// evictOne evicts one entry as trim does.
func evictOne(tree *Tree) {
	c := tree.stalest
	tree.drop(tree.worker(c), tree.worker(c).ring.prev)
	tree.settle(c)
}

// Order must survive the counter's wrap, and what is older than the counter
// can tell goes.
func TestStampsWrap(t *testing.T) {
	tree := New(1 << 20)
	tree.now = ^uint32(0) - 1
	for i := range uint64(4) { // stamps 2^32-1, 0, 1, 2
		tree.Insert(chain(nil, i, 10), uint32(i))
		check(t, tree)
	}
	for i := range uint64(4) {
		if got := tree.Match(chain(nil, i, 10), nil); len(got) != 1 {
			t.Errorf("key %d is gone before its turn", i)
		}
		evictOne(tree)
		if got := tree.Match(chain(nil, i, 10), nil); len(got) != 0 {
			t.Errorf("key %d is still there after its turn", i)
		}
	}

	tree.Insert(chain(nil, 7, 10), 1)
	tree.now += 1<<31 - 2
	tree.Insert(chain(nil, 8, 10), 2)
	if got, want := tree.Entries(), 2; got != want {
		t.Errorf("%d entries just below the greatest age, want %d", got, want)
	}
	tree.Insert(chain(nil, 9, 10), 2)
	check(t, tree)
	if got := tree.Match(chain(nil, 7, 10), nil); len(got) != 0 {
		t.Errorf("an entry older than 2^31 inserts is still there")
	}
}

func TestForget(t *testing.T) {
	tree := New(8 << 20)
	for i := range uint64(1000) {
		tree.Insert(chain(chain(nil, i%10, 20), i, 30), uint32(i%4))
	}
	for !tree.Forget(2, 64) {
		check(t, tree)
	}
	for i := range uint64(1000) {
		for _, h := range tree.Match(chain(chain(nil, i%10, 20), i, 30), nil) {
			if h.Worker == 2 {
				t.Fatalf("worker 2 still has %d blocks of key %d", h.Blocks, i)
			}
		}
	}
	if !tree.Forget(2, 1) || !tree.Forget(77, 1) || !tree.Forget(MaxWorkers, 1) {
		t.Error("Forget of a worker without entries is false, want true")
	}
	if tree.Forget(1, 0) {
		t.Error("Forget in no steps is true, want false")
	}
	if got, want := tree.Evicted(), uint64(0); got != want {
		t.Errorf("%d entries evicted by Forget, want %d", got, want)
	}
	tree.Insert(chain(nil, 3, 20), 2)
	if got := hitMap(t, tree.Match(chain(nil, 3, 20), nil)); got[2] != 20 {
		t.Errorf("a worker used again has %d blocks, want 20", got[2])
	}
}
