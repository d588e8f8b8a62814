package peers

import (
	"context"
	"time"

	"loadstar/actors"
)

// Bounds of what is passed on to the prefix tree.
const (
	hintsSize     = 16      // messages that wait for it
	maxHintBlocks = 1 << 18 // in a second, which takes it some 15 ms
)

// hints is prompts that another router has placed.
type hints struct {
	all    []actors.Placement
	blocks int // of all of them
}

// giveHints brings hints to the tree until ctx ends.
func (a *Actor) giveHints(ctx context.Context) {
	b := hintBudget{left: maxHintBlocks, at: a.opts.Now()}
	for {
		select {
		case h := <-a.hints:
			taken := 0
			if b.spend(h.blocks, a.opts.Now()) {
				taken = a.fleet.Hint(h.all)
			}
			if n := len(h.all) - taken; n > 0 {
				a.send(dropped{Surplus, uint64(n)})
			}
		case <-ctx.Done():
			return
		}
	}
}

// hintBudget is a bucket of blocks.
type hintBudget struct {
	left int64
	at   int64
}

// spend takes n blocks out if they are there.
func (b *hintBudget) spend(n int, now int64) bool {
	gained := min(now-b.at, int64(time.Second)) * maxHintBlocks / int64(time.Second)
	b.left, b.at = min(b.left+gained, maxHintBlocks), now
	if int64(n) > b.left {
		return false
	}
	b.left -= int64(n)
	return true
}
