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

// filled returns a tree that was told count prompts.
func filled(p *prompts, s shape, count, workers, limit int) *Tree {
	t := New(limit)
	key := make([]uint64, p.length)
	for id := range uint64(count) {
		p.write(key, id)
		t.Insert(key, s.route(p, id, workers))
	}
	return t
}

func counts() []int {
	if *million {
		return []int{100_000, 1_000_000}
	}
	return []int{100_000}
}

// shape is a way in which prompts share their first 70 % and are routed.
type shape struct {
	name   string
	groups func(count int) int
	route  func(p *prompts, id uint64, workers int) uint32
}

var shapes = []shape{
	{"affine", func(count int) int { return count / 20 }, affine},
	{"spread", func(count int) int { return count / 20 }, spread},
	{"system", func(int) int { return 1 }, spread},
}

// spread routes with no regard to prefixes, the worst a policy can do.
func spread(_ *prompts, id uint64, workers int) uint32 {
	return uint32(id * 0xd6e8feb86659fd93 >> 33 % uint64(workers))
}

// affine keeps a group at one worker but for every eighth prompt.
func affine(p *prompts, id uint64, workers int) uint32 {
	if id%8 == 0 {
		return spread(p, id, workers)
	}
	return spread(p, id%uint64(len(p.groups)), workers)
}

// BenchmarkMatchInsert is what a request costs: Match and the Insert that
// follows, for 16 kB prompts, 70 % shared, with the memory for as many prompts
// as it says. "again" repeats known prompts, "new" brings new ones, each of
// which evicts an old one.
//
// Batches of operations are timed, and the figure is the median batch. Run it
// with -benchtime 5x: every run repeats the same batches and each counts with
// its shortest time, so that other work on the machine counts for less.
func BenchmarkMatchInsert(b *testing.B) {
	for _, count := range counts() {
		for _, s := range shapes {
			for _, workers := range []int{4, 64, 512} {
				for _, kind := range []string{"again", "new"} {
					name := fmt.Sprintf("%s/prompts=%d/workers=%d/%s", s.name, count, workers, kind)
					b.Run(name, func(b *testing.B) { matchInsert(b, s, count, workers, kind == "new") })
				}
			}
		}
	}
}

func matchInsert(b *testing.B, s shape, count, workers int, fresh bool) {
	const size, batches = 256, 200
	hits := make([]Hit, 0, workers)
	keys := make([][]uint64, size)
	for k := range keys {
		keys[k] = make([]uint64, 256)
	}
	ids := make([]uint64, size)
	found := 0
	var took [batches]time.Duration
	for round := range b.N {
		p := newPrompts(s.groups(count), 256, 179)
		tree := filled(p, s, count, workers, count*430)
		next := uint64(count)
		for i := range took {
			for k := range keys {
				ids[k] = uint64(count) - 1 - p.rng.Uint64N(uint64(count/2))
				if fresh {
					ids[k] = next
					next++
				}
				p.write(keys[k], ids[k])
			}
			start := time.Now()
			for k, key := range keys {
				hits = tree.Match(key, hits[:0])
				found += len(hits)
				tree.Insert(key, s.route(p, ids[k], workers))
			}
			if d := time.Since(start); round == 0 || d < took[i] {
				took[i] = d
			}
		}
	}
	slices.Sort(took[:])
	b.ReportMetric(float64(took[batches/2].Nanoseconds())/size, "ns/op")
	b.ReportMetric(float64(found)/float64(b.N*batches*size), "hits/op")
}

// BenchmarkMemory reports what the heap grows by for each distinct byte of
// prompt.
func BenchmarkMemory(b *testing.B) {
	for _, s := range shapes {
		for _, length := range []int{256, 64, 32, 16} {
			b.Run(fmt.Sprintf("%s/prompt=%dkB", s.name, length*blockBytes/1024), func(b *testing.B) {
				const count = 100_000
				shared := length * 7 / 10
				p := newPrompts(s.groups(count), length, shared)
				for range b.N {
					before := heapBytes()
					tree := filled(p, s, count, 64, 1<<30)
					grown := heapBytes() - before
					distinct := float64((count*(length-shared) + len(p.groups)*shared) * blockBytes)
					// The table is sized for the limit; count the share in use.
					table := float64(len(tree.buckets)*4) * float64(tree.room) / float64(tree.size)
					b.ReportMetric((float64(grown)-table)/distinct, "bytes/byte")
					b.ReportMetric(0, "ns/op")
					runtime.KeepAlive(tree)
				}
			})
		}
	}
}
