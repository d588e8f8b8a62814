package kvevents

import (
	"fmt"
	"testing"

	"loadstar/actors"
	"loadstar/actors/kvevents/kvtest"
)

// BenchmarkMatch asks for a prompt of 32 000 tokens of which all workers hold the first
// 1000, and one all.
func BenchmarkMatch(b *testing.B) {
	const size, blocks, shared = 16, 2000, 64
	keys := AppendBlocks(nil, tokens(1, size*blocks), size)
	for _, workers := range []int{4, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			x := newIndex([numTiers]float64{1, .8, .6, .3}, 1<<22)
			for i := range workers {
				s := x.open()
				s.setLive(true)
				for k := range blocks {
					if i == 0 || k < shared {
						x.store(s, &change{first: k == 0, hash: uint64(k + 1), parent: uint64(k), content: content(tokens(1+size*k, size))})
					}
				}
				for k := range 10_000 { // what else it holds
					x.store(s, &change{first: true, hash: uint64(1<<20 + k), content: uint64(i<<32 + k)})
				}
			}
			for b.Loop() {
				x.match(keys, 0)
			}
		})
	}
}

// BenchmarkQuery is a question to the index and its answer.
func BenchmarkQuery(b *testing.B) {
	e := Start(Options{BlockSize: 16})
	defer e.Stop()
	q := actors.ExactQuery{Blocks: AppendBlocks(nil, tokens(1, 1600), 16)}
	b.ReportAllocs()
	for b.Loop() {
		e.Match(&q)
	}
}

// BenchmarkBlocks hashes a prompt of 32 000 tokens.
func BenchmarkBlocks(b *testing.B) {
	ids := tokens(1, 32_000)
	var dst []uint64
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendBlocks(dst[:0], ids, 16)
	}
}

// BenchmarkEvents decodes and stores a batch of 512 blocks of 16 tokens.
func BenchmarkEvents(b *testing.B) {
	const n, size = 512, 16
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = 1<<63 + uint64(i)
	}
	batch := kvtest.Batch(kvtest.Event("BlockStored", kvtest.Stored(nil, size, tokens(1000, n*size), hashes...)...))
	x := newIndex([numTiers]float64{1}, 1<<20)
	s := x.open()
	d := decoder{size: size, send: func(e event) bool {
		for i := range e.changes {
			x.store(s, &e.changes[i])
		}
		return true
	}}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.batch(batch); err != nil {
			b.Fatal(err)
		}
	}
}
