package prefixtree

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// million adds the sizes that take gigabytes and minutes.
var million = flag.Bool("million", false, "also measure with a million prompts")

const blockBytes = 64

// prompts makes keys of a fixed length. Each starts with the blocks of one
// of a number of groups and goes on with blocks of its own.
type prompts struct {
	groups [][]uint64
	length int
	rng    *rand.Rand
}

func newPrompts(groups, length, shared int) *prompts {
	p := &prompts{length: length, rng: rand.New(rand.NewPCG(1, 2))}
	for range groups {
		g := make([]uint64, shared)
		for i := range g {
			g[i] = p.rng.Uint64()
		}
		p.groups = append(p.groups, g)
	}
	return p
}

// write sets key to prompt number id.
func (p *prompts) write(key []uint64, id uint64) {
	n := copy(key, p.groups[id%uint64(len(p.groups))])
	h := (id + 1) * 0x9e3779b97f4a7c15
	for i := range key[n:] {
		h ^= h >> 29
		h *= 0xbf58476d1ce4e5b9
		key[n+i] = h
	}
}

// workerOf spreads the prompts over workers with no regard to prefixes, the
// worst a policy can do.
func workerOf(id uint64, workers int) uint32 {
	return uint32(id * 0xd6e8feb86659fd93 >> 33 % uint64(workers))
}

// batch is a number of keys made before the clock runs.
type batch struct {
	ids  []uint64
	keys [][]uint64
}

func newBatch(p *prompts) *batch {
	b := &batch{ids: make([]uint64, 256)}
	for range b.ids {
		b.keys = append(b.keys, make([]uint64, p.length))
	}
	return b
}

func (b *batch) fill(p *prompts, id func() uint64) {
	for i := range b.ids {
		b.ids[i] = id()
		p.write(b.keys[i], b.ids[i])
	}
}

// filled returns a tree with count prompts in it and a limit that they just
// reach.
func filled(p *prompts, count, workers, limit int) *Tree {
	t := New(limit)
	key := make([]uint64, p.length)
	for id := range uint64(count) {
		p.write(key, id)
		t.Insert(key, workerOf(id, workers))
	}
	return t
}

func counts() []int {
	if *million {
		return []int{100_000, 1_000_000}
	}
	return []int{100_000}
}

// shape is a way in which prompts share their first 70 %.
type shape struct {
	name   string
	groups func(count int) int
}

var shapes = []shape{
	{"groups", func(count int) int { return count / 20 }},
	{"system", func(int) int { return 1 }},
}

// BenchmarkMatchInsert is what a request costs: Match and the Insert that
// follows, for 16 kB prompts, 70 % shared. "again" repeats known prompts,
// "new" brings new ones, each of which evicts an old one. The figure is the
// median of batches, so that other work on the machine counts for less.
func BenchmarkMatchInsert(b *testing.B) {
	const length, shared = 256, 179
	for _, count := range counts() {
		for _, s := range shapes {
			for _, workers := range []int{4, 64, 512} {
				p := newPrompts(s.groups(count), length, shared)
				limit := count * 460
				tree := filled(p, count, workers, limit)
				next := uint64(count)
				run := func(name string, id func() uint64) {
					b.Run(fmt.Sprintf("%s/prompts=%d/workers=%d/%s", s.name, count, workers, name), func(b *testing.B) {
						matchInsert(b, tree, p, workers, id)
					})
				}
				run("again", func() uint64 { return next - 1 - p.rng.Uint64N(uint64(count/2)) })
				run("new", func() uint64 { next++; return next - 1 })
			}
		}
	}
}

func matchInsert(b *testing.B, tree *Tree, p *prompts, workers int, id func() uint64) {
	keys := newBatch(p)
	hits := make([]Hit, 0, workers)
	var spent []float64 // ns of an operation, by batch
	found := 0
	for i := 0; i < b.N; i += len(keys.ids) {
		keys.fill(p, id)
		start := time.Now()
		for k, key := range keys.keys {
			hits = tree.Match(key, hits[:0])
			found += len(hits)
			tree.Insert(key, workerOf(keys.ids[k], workers))
		}
		spent = append(spent, float64(time.Since(start).Nanoseconds())/float64(len(keys.ids)))
	}
	slices.Sort(spent)
	b.ReportMetric(spent[len(spent)/2], "ns/op")
	b.ReportMetric(float64(found)/float64(len(spent)*len(keys.ids)), "hits/op")
}

// BenchmarkMemory reports what the heap grows by for each distinct byte of
// prompt.
func BenchmarkMemory(b *testing.B) {
	for _, length := range []int{256, 64, 32, 16} {
		b.Run(fmt.Sprintf("prompt=%dkB", length*blockBytes/1024), func(b *testing.B) {
			const count = 100_000
			shared := length * 7 / 10
			p := newPrompts(count/20, length, shared)
			for range b.N {
				before := heapBytes()
				tree := filled(p, count, 64, 1<<30)
				grown := heapBytes() - before
				distinct := float64((count*(length-shared) + len(p.groups)*shared) * blockBytes)
				// The table is sized for the limit; count the share in use.
				table := float64(len(tree.buckets)*4) * (1 - float64(tree.size-tree.room)/float64(tree.size))
				b.ReportMetric((float64(grown)-table)/distinct, "bytes/byte")
				b.ReportMetric(0, "ns/op")
				runtime.KeepAlive(tree)
			}
		})
	}
}
