package learn

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"loadstar/prefixtree"
)

// cache is a worker's: blocks, of which it drops those used longest ago.
type cache struct {
	size int
	page int // tokens of its own blocks
	at   map[uint64]*list.Element
	used list.List // the last one first
}

func newCache(size int) *cache { return &cache{size: size, page: 16, at: map[uint64]*list.Element{}} }

// serve prefills a prompt, and returns how many tokens of it were cached. A token is
// four bytes, and a template adds 30 in front.
func (c *cache) serve(key []uint64) Usage {
	hit := 0
	for hit < len(key) && c.at[key[hit]] != nil {
		hit++
	}
	c.touch(key)
	const perBlock, template = 16, 30
	u := Usage{Prompt: len(key)*perBlock + template}
	if hit > 0 {
		u.Cached = (hit*perBlock + template) / c.page * c.page
	}
	return u
}

func (c *cache) touch(key []uint64) {
	for i := len(key) - 1; i >= 0; i-- {
		if e := c.at[key[i]]; e != nil {
			c.used.MoveToFront(e)
		} else {
			c.at[key[i]] = c.used.PushFront(key[i])
		}
	}
	for len(c.at) > c.size {
		delete(c.at, c.used.Remove(c.used.Back()).(uint64))
	}
}

func (c *cache) clear() {
	clear(c.at)
	c.used.Init()
}

// key is a prompt of n blocks that shares the first ones with others.
func key(shared, n int, own uint64) []uint64 {
	k := make([]uint64, n)
	h := uint64(1)
	for i := range k {
		if i >= shared {
			h ^= own
		}
		h = (h ^ h>>29) * 0x9e3779b97f4a7c15
		k[i] = h
	}
	return k
}

// lab is a learner with one worker, and conversations that come to it.
type lab struct {
	t     *testing.T
	tree  *prefixtree.Tree
	l     *Learner
	cache *cache
	rng   *rand.Rand
	talks [][]uint64
	next  uint64
	slots uint32
	asked int  // requests
	wrong int  // predictions of which the worker had less than half
	blind bool // the tree isn't told what was learnt
}

func newLab(t *testing.T, size int) *lab {
	t.Helper()
	tree := prefixtree.New(64 << 20)
	return &lab{
		t: t, tree: tree, l: New(tree, func(model string) bool { return model != "no name" }),
		cache: newCache(size), rng: rand.New(rand.NewPCG(1, uint64(size))),
	}
}

// talk opens conversations that share one of three system prompts.
func (b *lab) talk(n int) {
	for range n {
		b.talks = append(b.talks, key(0, 40, uint64(len(b.talks)%3)+1))
	}
}

// grant lets the tree see a prompt.
func (b *lab) grant(prompt []uint64) Lease {
	b.slots++
	tk := Lease{Gen: uint64(b.slots), Slot: b.slots % 50}
	hits := b.tree.Match(prompt, nil)
	r := b.tree.Insert(prompt, 7)
	if len(hits) > 0 && int(hits[0].Blocks) != r.Blocks {
		b.t.Fatalf("a match of %d blocks, and %d at the insert", hits[0].Blocks, r.Blocks)
	}
	b.l.Note(tk, prompt, []byte("m"), 7, r)
	return tk
}

// answer lets the worker answer it.
func (b *lab) answer(tk Lease, prompt []uint64) {
	before := b.l.misses
	b.hear(tk, b.cache.serve(prompt))
	b.asked++
	b.wrong += int(b.l.misses - before)
	if k := b.l.workers[7]; k != nil && b.blind {
		k.size = 0
	}
}

// hear has the tree forget what a restart has lost.
func (b *lab) hear(tk Lease, u Usage) {
	worker, until, restarted := b.l.Hear(tk, u)
	for restarted && !b.tree.ForgetUntil(worker, until, 64) {
	}
}

// turn has a random conversation go on by a turn, or begin anew.
func (b *lab) turn() {
	i := b.rng.IntN(len(b.talks))
	if len(b.talks[i]) > 200 {
		b.talks[i] = key(0, 40, uint64(i%3)+1)
	}
	for range 5 + b.rng.IntN(15) {
		b.next++
		b.talks[i] = append(b.talks[i], b.next*0x9e3779b97f4a7c15)
	}
	b.answer(b.grant(b.talks[i]), b.talks[i])
}

func (b *lab) turns(n int) (wrong float64) {
	b.asked, b.wrong = 0, 0
	for range n {
		b.turn()
	}
	return float64(b.wrong) / float64(b.asked)
}

func (b *lab) size() int {
	if k := b.l.workers[7]; k != nil {
		return k.size
	}
	return 0
}

// The size of a cache is learnt, if it is too small for what comes, and the tree
// holds about as much and predicts little that isn't there.
func TestLearnCacheSize(t *testing.T) {
	for _, tc := range []struct {
		size, talks int
		known       bool
	}{
		{size: 1000, talks: 60, known: true},
		{size: 2500, talks: 60, known: true},
		{size: 2500, talks: 200, known: true},
		{size: 50_000, talks: 60}, // all of them fit
	} {
		t.Run(fmt.Sprintf("%d blocks for %d", tc.size, tc.talks), func(t *testing.T) {
			b := newLab(t, tc.size)
			b.talk(tc.talks)
			b.turns(1000)
			wrong := b.turns(3000)
			blind := newLab(t, tc.size)
			blind.talk(tc.talks)
			blind.blind = true
			blind.turns(1000)
			first := blind.turns(3000)
			held, size := b.tree.Blocks(7), b.size()
			t.Logf("%.3f wrong, learning %.3f; learnt %d, holds %d; %d restarts", first, wrong, size, held, b.l.restarts)
			if b.l.restarts > 0 {
				t.Errorf("%d restarts found, want none", b.l.restarts)
			}
			if !tc.known {
				if size != 0 || b.l.misses > 0 {
					t.Errorf("a size of %d learnt from %d misses, want none", size, b.l.misses)
				}
				return
			}
			if size < tc.size*9/10 || size > tc.size*3/2 {
				t.Errorf("a size of %d learnt, want %d or somewhat more", size, tc.size)
			}
			if held > size+1024 {
				t.Errorf("the tree holds %d blocks, want no more than %d and an edge", held, size)
			}
			if wrong > first/2 {
				t.Errorf("%.3f of the predictions are wrong, and %.3f of those of a tree that learns nothing; want half as many at most", wrong, first)
			}
		})
	}
}

// A cache that grows, as that of another process may, is found out.
func TestLearnCacheGrows(t *testing.T) {
	b := newLab(t, 1000)
	b.talk(60)
	b.turns(2000)
	if b.size() == 0 {
		t.Fatal("no size learnt, want one for this test")
	}
	b.cache.size = 9000
	b.turns(4000)
	if got := b.size(); got != 0 {
		t.Errorf("a size of %d learnt, want none: everything fits", got)
	}
	if held := b.tree.Blocks(7); held < 5000 {
		t.Errorf("the tree holds %d blocks, want all that is there", held)
	}
}

// So is one that grows when all prompts come again at a distance that the tree, shrunk
// to what the worker kept before, doesn't reach: nothing is predicted then that could
// come true or fail. Nor does a worker that lies for a while blind the tree for ever.
func TestLearnRecovers(t *testing.T) {
	const blocks = 60
	for _, talks := range []int{20, 100} {
		for _, tc := range []struct {
			name  string
			spoil func(*cache)
			lie   func(*Usage)
		}{
			{"a cache that was small", func(c *cache) { c.clear(); c.size = 300 }, nil},
			{"a worker that said that nothing was cached", nil, func(u *Usage) { u.Cached = 0 }},
		} {
			t.Run(fmt.Sprintf("%s, %d prompts", tc.name, talks), func(t *testing.T) {
				b := newLab(t, 1<<20)
				for i := range talks {
					b.talks = append(b.talks, key(8, blocks, uint64(i)+1))
				}
				round := func(n int, lie func(*Usage)) {
					for i := range n {
						prompt := b.talks[i%talks]
						lease, u := b.grant(prompt), b.cache.serve(prompt)
						if lie != nil {
							lie(&u)
						}
						b.hear(lease, u)
					}
				}
				round(3*talks, nil)
				if tc.spoil != nil {
					tc.spoil(b.cache)
				}
				round(400+3*talks, tc.lie)
				if b.size() == 0 || b.size() > talks*blocks {
					t.Fatalf("a size of %d learnt, want one below %d for this test", b.size(), talks*blocks)
				}
				b.cache.size = 1 << 20
				round(400+talks, nil)
				hits := b.l.hits
				round(100, nil)
				if got := b.l.hits - hits; got != 100 {
					t.Errorf("%d of 100 predictions come true, want all: a size of %d is believed in", got, b.size())
				}
			})
		}
	}
}

// A worker that finds what other routers have sent it loses its size now and then, and
// learns it again.
func TestLearnFinds(t *testing.T) {
	k := &keeps{size: 1000}
	for range sizeFinds - 1 {
		k.find()
	}
	takeIn(k, report{false, 1, 500, 3000})
	for range sizeFinds - 1 {
		k.find()
	}
	if k.size != 1000 {
		t.Errorf("a size of %d while predictions fail, want 1000", k.size)
	}
	if k.find(); k.size != 0 {
		t.Errorf("a size of %d after %d finds in a row, want none", k.size, sizeFinds)
	}
	if takeIn(k, row(7, report{false, 1, 500, 3000})...); k.size != 0 {
		t.Errorf("a size of %d after 7 misses, want none: those before count no more", k.size)
	}
	if takeIn(k, report{false, 1, 500, 3000}); k.size == 0 {
		t.Error("no size after 8 misses, want one")
	}
}

// A worker that has lost its cache is noticed, whatever it is that still comes, and
// what it has seen since is not forgotten.
func TestLearnRestart(t *testing.T) {
	for _, size := range []int{5000, 9000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := newLab(t, size)
			b.talk(60)
			b.turns(2000)
			for n := range 3 {
				before := b.tree.Blocks(7)
				var late []Lease // granted before, and answered when it is known
				var prompts [][]uint64
				for i := range 20 {
					prompts = append(prompts, slices.Clone(b.talks[i]))
					late = append(late, b.grant(prompts[i]))
				}
				b.cache.clear()
				turns := 0
				for ; b.l.restarts == uint64(n) && turns < 400; turns++ {
					b.turn()
				}
				if b.l.restarts != uint64(n)+1 || turns > 40 {
					t.Fatalf("%d restarts found after %d turns, want %d soon", b.l.restarts, turns, n+1)
				}
				for i := range late {
					b.answer(late[i], prompts[i])
				}
				b.turn()
				if held := b.tree.Blocks(7); held > before/2 || held < 100 {
					t.Errorf("%d blocks held, of %d before: want those since the restart", held, before)
				}
				if wrong := b.turns(600); wrong > .12 {
					t.Errorf("%.3f of the predictions are wrong after it, want few", wrong)
				}
				if got := b.l.restarts; got != uint64(n)+1 {
					t.Fatalf("%d restarts found, want %d", got, n+1)
				}
			}
		})
	}
}

// What teaches nothing: answers that don't tell, prompts that are no text, crowds
// that come before the first of them is prefilled.
func TestLearnNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		usage func(u Usage) Usage
	}{
		{"cached tokens are not told", func(u Usage) Usage { u.Cached = -1; return u }},
		{"more bytes than tokens have", func(u Usage) Usage { u.Prompt, u.Cached = u.Prompt/40, 0; return u }},
		{"more tokens than bytes", func(u Usage) Usage { u.Prompt, u.Cached = u.Prompt*40, 0; return u }},
		{"no tokens", func(Usage) Usage { return Usage{} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newLab(t, 9000)
			b.talk(10)
			b.turns(300)
			hits, size := b.l.hits, b.size()
			for range 300 {
				prompt := b.talks[b.rng.IntN(10)]
				b.hear(b.grant(prompt), tc.usage(Usage{Prompt: len(prompt) * 16, Cached: 0}))
			}
			if b.l.hits != hits || b.l.misses+b.l.restarts > 0 || b.size() != size {
				t.Errorf("%d hits, %d misses, %d restarts and a size of %d, want %d, none, none and %d", b.l.hits, b.l.misses, b.l.restarts, b.size(), hits, size)
			}
		})
	}
	t.Run("crowds", func(t *testing.T) {
		b := newLab(t, 1<<20)
		b.talk(10)
		b.turns(300)
		for crowd := range uint64(20) {
			prompt := key(0, 100, 100+crowd)
			var tickets []Lease
			for range 40 {
				tickets = append(tickets, b.grant(prompt))
			}
			for _, tk := range tickets { // none of them found anything
				b.hear(tk, Usage{Prompt: len(prompt) * 16})
			}
			b.cache.touch(prompt)
		}
		if b.l.restarts > 0 || b.l.misses > 0 {
			t.Errorf("%d restarts and %d misses found, want none", b.l.restarts, b.l.misses)
		}
	})
	t.Run("a prompt of no lease", func(t *testing.T) {
		b := newLab(t, 9000)
		b.talk(1)
		b.turns(3)
		for b.slots%50 != 49 {
			b.turn()
		}
		tk := b.grant(b.talks[0])
		b.l.Note(Lease{}, b.talks[0], nil, 8, b.tree.Insert(b.talks[0], 8))
		hits := b.l.hits
		b.hear(tk, b.cache.serve(b.talks[0]))
		if tk.Slot != 0 || b.l.hits != hits+1 {
			t.Errorf("%d hits with slot %d, want %d with 0", b.l.hits, tk.Slot, hits+1)
		}
	})
	t.Run("told twice, or for another", func(t *testing.T) {
		b := newLab(t, 9000)
		b.talk(1)
		b.turns(3)
		tk := b.grant(b.talks[0])
		hits := b.l.hits
		other := Lease{Gen: tk.Gen + 1, Slot: tk.Slot}
		for i, told := range []Lease{other, {}, tk, tk, tk} {
			b.hear(told, Usage{Prompt: 16 * len(b.talks[0]), Cached: 16 * len(b.talks[0])})
			if want := hits + uint64(i/2-i/4); b.l.hits != want {
				t.Errorf("%d hits when %v has told, want %d", b.l.hits, told, want)
			}
		}
	})
}

// A model's tokens are measured, and only so many models'.
func TestLearnTokens(t *testing.T) {
	b := newLab(t, 9000)
	b.talk(1)
	b.turns(1)
	prompt := b.talks[0]
	for range 400 {
		b.hear(b.grant(prompt), Usage{Prompt: len(prompt) * 20})
	}
	if got := b.l.models[0].bytes; got < 3.19 || got > 3.21 {
		t.Errorf("%v bytes a token, want 3.2", got)
	}
	b.l.measure([]byte("no name"), 4)
	b.l.measure(nil, 4)
	if len(b.l.models) != 2 || b.l.models[1].model != "" {
		t.Errorf("models %v, want m and that without a name", b.l.models)
	}
	for i := range 2 * maxMeasured {
		b.slots++
		tk := Lease{Gen: uint64(b.slots), Slot: 3}
		b.l.Note(tk, prompt, fmt.Appendf(nil, "m%d", i), 7, b.tree.Insert(prompt, 7))
		b.hear(tk, Usage{Prompt: len(prompt) * 16, Cached: -1})
	}
	if got := len(b.l.models); got != maxMeasured {
		t.Errorf("%d models, want %d", got, maxMeasured)
	}
}

// Distances fall into buckets that end behind them.
func TestAges(t *testing.T) {
	for d := 1; d < 1<<22; d += 1 + d/50 {
		age := ageOf(d)
		if ageEnd(age) < d-1 && age < ageCount-1 || age > 0 && ageEnd(age-1) > d {
			t.Fatalf("distance %d is in bucket %d, of %d to %d", d, age, ageEnd(age-1), ageEnd(age))
		}
	}
}
