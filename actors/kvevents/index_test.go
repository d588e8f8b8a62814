package kvevents

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowIndex is the obvious index: for each stream the blocks by the engine's hash, each
// with all tokens up to it.
type slowIndex struct {
	streams []map[uint64]*slowBlock
}

type slowBlock struct {
	path  string // seed and contents from the first block on
	tiers map[tier]bool
}

func (x *slowIndex) credit(stream int, paths []string, weights [numTiers]float64) float64 {
	sum := 0.
	for _, p := range paths {
		best := -1.
		for _, b := range x.streams[stream] {
			for t := range b.tiers {
				if b.path == p {
					best = max(best, weights[t])
				}
			}
		}
		if best < 0 {
			break
		}
		sum += best
	}
	return sum
}

// FuzzIndex compares the index with the slow one, on few contents, streams and hashes so
// that they meet.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 7))
		weights := [numTiers]float64{1, .8, .6, .3}
		n := 1 + r.IntN(5)
		if seed%4 == 0 {
			n = 70 // more than a shard has
		}
		x := newIndex(weights, 1<<20)
		slow := &slowIndex{streams: make([]map[uint64]*slowBlock, n)}
		slots := make([]*slot, n)
		for i := range slots {
			slots[i], slow.streams[i] = x.open(), map[uint64]*slowBlock{}
			slots[i].setLive(true)
		}
		adapters := []uint64{0, nameSeed([]byte("a")), nameSeed([]byte("b"))}
		// The engine's hash stands for all tokens up to a block, so it is made from them.
		hash := func(path string) uint64 { return nameSeed([]byte(path)) }
		path := func(seed uint64, contents ...byte) string { return string(append([]byte{byte(seed)}, contents...)) }
		for range 300 {
			i := r.IntN(n)
			if r.IntN(60) == 0 {
				slots[i], slow.streams[i] = x.renew(slots[i], true), map[uint64]*slowBlock{}
			}
			seed := adapters[r.IntN(3)]
			var contents []byte
			for range 1 + r.IntN(4) {
				contents = append(contents, byte(r.IntN(2)))
			}
			at := tier(r.IntN(int(numTiers)))
			if r.IntN(2) == 0 {
				at = device
			}
			p := path(seed, contents...)
			c := change{tier: at, hash: hash(p), content: uint64(contents[len(contents)-1]) + 1000, seed: seed, first: len(contents) == 1}
			before := path(seed, contents[:len(contents)-1]...)
			c.parent = hash(before)
			_, known := slow.streams[i][c.parent]
			b := slow.streams[i][c.hash]
			if c.removed = r.IntN(3) == 0; c.removed {
				want := kindUnknown
				if b != nil && b.tiers[at] {
					want = kindRemoved
					if delete(b.tiers, at); len(b.tiers) == 0 {
						delete(slow.streams[i], c.hash)
					}
				}
				if got := x.remove(slots[i], &c); got != want {
					t.Fatalf("removing gave %s, want %s", kindNames[got], kindNames[want])
				}
			} else {
				want := kindStored
				switch {
				case !c.first && !known:
					want = kindOrphaned
				case b == nil:
					slow.streams[i][c.hash] = &slowBlock{p, map[tier]bool{at: true}}
				default:
					b.tiers[at] = true
				}
				if got := x.store(slots[i], &c); got != want {
					t.Fatalf("storing gave %s, want %s", kindNames[got], kindNames[want])
				}
			}
			x.drop(r.IntN(4))

			asked := adapters[r.IntN(3)]
			var keys []uint64
			var paths []string
			var prompt []byte
			h := uint64(0)
			for range r.IntN(6) {
				prompt = append(prompt, byte(r.IntN(2)))
				h = link(h, uint64(prompt[len(prompt)-1])+1000)
				keys, paths = append(keys, h), append(paths, path(asked, prompt...))
			}
			if _, ok := x.adapters[asked]; !ok {
				for k := range paths {
					paths[k] = path(0, prompt[:k+1]...)
				}
			}
			x.match(keys, asked)
			for k := range slots {
				want := slow.credit(k, paths, weights)
				if got := slots[k].credit; math.Abs(got-want) > 1e-9 {
					t.Fatalf("stream %d has %v of %q, want %v", k, got, prompt, want)
				}
			}
		}
		for i := range slots {
			x.close(slots[i])
		}
		x.drop(1 << 20)
		if x.blocks != 0 || len(x.leaving) != 0 {
			t.Fatalf("%d blocks and %d streams are left, want none", x.blocks, len(x.leaving))
		}
		for _, sh := range x.shards {
			for i, held := range sh.held {
				if len(held) != 0 {
					t.Fatalf("%d blocks are held in tier %d, want none", len(held), i)
				}
			}
			if slices.ContainsFunc(sh.slots[:], func(s *slot) bool { return s != nil }) || sh.live != 0 {
				t.Fatal("a slot is left, want none")
			}
		}
	})
}

func TestIndexIsBounded(t *testing.T) {
	x := newIndex([numTiers]float64{1}, 3)
	s := x.open()
	s.whole = true
	for i, want := range []kind{kindStored, kindStored, kindStored, kindFull} {
		if got := x.store(s, &change{hash: uint64(i), content: uint64(i), first: true}); got != want {
			t.Errorf("block %d: %s, want %s", i, kindNames[got], kindNames[want])
		}
	}
	if got := x.store(s, &change{hash: 1, content: 1, first: true}); got != kindStored {
		t.Errorf("a block that is known: %s, want stored", kindNames[got])
	}
	if s.whole {
		t.Error("what is known counts as whole, want not: there was no room for a block")
	}
	x.remove(s, &change{removed: true, hash: 0})
	if got := x.store(s, &change{hash: 9, content: 9, first: true}); got != kindStored {
		t.Errorf("a block after another was removed: %s, want stored", kindNames[got])
	}
}

// A hash that the engine gives to other tokens stands for those from then on.
func TestHashThatIsUsedAgain(t *testing.T) {
	x := newIndex([numTiers]float64{1}, 3)
	s := x.open()
	s.setLive(true)
	x.store(s, &change{hash: 1, content: 1, first: true})
	x.store(s, &change{hash: 1, content: 2, first: true})
	for c, want := range map[uint64]float64{1: 0, 2: 1} {
		if x.match([]uint64{link(0, c)}, 0); s.credit != want {
			t.Errorf("content %d: %v blocks, want %v", c, s.credit, want)
		}
	}
	if x.blocks != 1 {
		t.Errorf("%d blocks, want 1", x.blocks)
	}
}

func TestAppendBlocks(t *testing.T) {
	a := AppendBlocks(nil, tokens(1, 23), 4)
	b := AppendBlocks(nil, append(tokens(1, 8), 99, 10, 11, 12), 4)
	if len(a) != 5 || len(b) != 3 || a[0] != b[0] || a[1] != b[1] || a[2] == b[2] {
		t.Errorf("blocks %x and %x, want 5 and 3 that begin with the same two", a, b)
	}
	if c := AppendBlocks(nil, append(tokens(5, 4), tokens(1, 4)...), 4); c[1] == a[1] {
		t.Error("blocks can be exchanged")
	}
	long := tokens(1, 1000)
	if content(long) == content(append(slices.Clone(long[:999]), 0)) || content(long) != content(slices.Clone(long)) {
		t.Error("a long block's last token doesn't count, or its hash isn't fixed")
	}
}
