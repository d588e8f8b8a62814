package prefixtree

import "unsafe"

// maxReserve is the most cells that trim keeps free: 256 KiB, enough for a
// few of the longest inserts.
const maxReserve = 1 << 12

// maxCells is what references to entries can address.
const maxCells = 1 << 30

// Tree remembers which worker holds which prefix. It has no lock: one
// goroutine owns it. The zero value is not usable.
type Tree struct {
	arena
	table

	now     uint32 // inserts so far; wraps
	stalest ref    // worker with the least recent entry, root of the heap
	reserve int    // cells that trim keeps free
	tracks  bool   // ages

	nodes   int
	entries int
	evicted uint64

	workers [MaxWorkers]ref         // cells of those with entries
	seen    [MaxWorkers / 64]uint64 // workers met by the Match under way
	words   int                     // words of seen that can be in use
}

// New returns an empty tree that keeps within limit bytes of memory. Some
// 33 KiB and 3 % of the limit are allocated here and the rest in chunks of
// 32 KiB as it is needed; none is given back. A limit below 64 KiB makes a
// tree that remembers next to nothing, and what exceeds 64 GiB isn't used.
func New(limit int) *Tree {
	const (
		ofCell  = cellBytes + float64(unsafe.Sizeof(ref(0)))/bucketShare
		ofChunk = float64(unsafe.Sizeof([]cell(nil)))
		fixed   = int(unsafe.Sizeof(Tree{})+unsafe.Sizeof(ref(0))) + int(ofChunk)
	)
	return newTree(min(int(float64(max(limit-fixed, 0))/(ofCell+ofChunk/chunkCells)), maxCells))
}

// newTree returns a tree of a number of cells.
func newTree(cells int) *Tree {
	return &Tree{
		arena:   newArena(cells),
		table:   newTable(cells),
		reserve: min(cells/16+8, maxReserve),
	}
}

// Bytes is the memory the tree holds, free cells included: what is compared
// with the limit.
func (t *Tree) Bytes() int {
	return int(unsafe.Sizeof(*t)) + t.bytes() + len(t.buckets)*int(unsafe.Sizeof(ref(0)))
}

// Entries is the number of (node, worker) pairs, the unit of eviction.
func (t *Tree) Entries() int { return t.entries }

// Nodes is the number of edges. Each is a run of up to 1024 blocks.
func (t *Tree) Nodes() int { return t.nodes }

// Evicted is the number of entries that have been evicted so far. Those
// dropped by Forget don't count.
func (t *Tree) Evicted() uint64 { return t.evicted }

// Blocks is the number of blocks that a worker is known to hold. The tree must
// track ages.
func (t *Tree) Blocks(worker uint32) int {
	if worker >= MaxWorkers || t.workers[worker] == 0 {
		return 0
	}
	return int(t.worker(t.workers[worker]).blocks)
}
