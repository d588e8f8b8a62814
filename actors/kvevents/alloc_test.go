//go:build !race

package kvevents

import (
	"testing"

	"loadstar/actors"
	"loadstar/actors/kvevents/kvtest"
)

// A question and its answer allocate nothing, nor does hashing the prompt.
func TestMatchAllocatesNothing(t *testing.T) {
	r := listen(t, kvtest.New(t), false)
	r.pub.Publish(stored(100, 1, nil, 50))
	r.awaitCount(kindStored, 50)
	ids := tokens(1, 50*testSize)
	var q actors.ExactQuery
	var blocks []uint64
	ask := func() {
		blocks = AppendBlocks(blocks[:0], ids, testSize)
		q.Blocks, q.Hits = blocks, q.Hits[:0]
		r.Match(&q)
	}
	ask()
	if len(q.Hits) != 1 || q.Hits[0].Blocks != 50 {
		t.Fatalf("hits %v, want one of 50 blocks", q.Hits)
	}
	if got := testing.AllocsPerRun(1000, ask); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
