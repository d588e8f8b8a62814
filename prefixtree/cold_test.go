package prefixtree

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
)

var coldPrompts = flag.Int("cold.prompts", 200_000, "prompts of TestColdPrompts, none of which was seen before")

// TestColdPrompts: prompts that nobody ever sends again fill the tree to its limit
// and not beyond, and what the process holds doesn't grow once it is full.
func TestColdPrompts(t *testing.T) {
	const limit, workers = 16 << 20, 64
	tree := New(limit)
	rng := rand.New(rand.NewPCG(1, 2))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	var half uint64
	var hits [workers]Hit
	alike := uint32(0) // blocks of a prompt that were taken for those of another
	for i := range *coldPrompts {
		key := make([]uint64, 1+rng.IntN(64))
		for j := range key {
			key[j] = rng.Uint64()
		}
		for _, h := range tree.Match(key, hits[:0]) {
			alike = max(alike, h.Blocks)
		}
		tree.Insert(key, uint32(rng.IntN(workers)))
		if n := tree.Bytes(); n > limit*105/100 {
			t.Fatalf("%d bytes after %d prompts, want at most 5 %% above %d", n, i+1, limit)
		}
		if i == *coldPrompts/2 {
			half = heap()
		}
	}
	end := heap()
	if tree.Evicted() == 0 || end > half+half/10 {
		t.Errorf("%d bytes in use at the end and %d half-way, with %d entries evicted; want no growth of a full tree", end, half, tree.Evicted())
	}
	if alike > 2 {
		t.Errorf("%d blocks of a new prompt are known, want none but by accident", alike)
	}
	t.Logf("%d prompts: %d bytes by the tree's count, %d in use half-way, %d at the end; %d nodes, %d evicted",
		*coldPrompts, tree.Bytes(), half, end, tree.Nodes(), tree.Evicted())
}
