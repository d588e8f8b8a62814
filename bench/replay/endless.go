package replay

import "fmt"

// maxBlocks is how many different blocks the endless cache remembers, at about 20
// bytes each.
const maxBlocks = 1 << 22

// endless is a cache that all workers share and that forgets nothing. A block is
// known by a hash of all ids up to it.
type endless struct {
	known map[uint64]struct{}
	limit int
}

func newEndless() *endless { return &endless{known: make(map[uint64]struct{}), limit: maxBlocks} }

// take is how many blocks a prompt begins with that are known, and remembers all of
// its blocks.
func (e *endless) take(blocks []uint64) (hits int, err error) {
	chain := uint64(0)
	for _, id := range blocks {
		// One to one in id for each chain, so only different starts can collide.
		chain = mix(mix(chain+0x9e3779b97f4a7c15) ^ id)
		if _, hit := e.known[chain]; hit {
			hits++
			continue
		}
		if len(e.known) == e.limit {
			return hits, fmt.Errorf("the workload has more than %d different blocks: ask for less of it with --requests or --seconds", e.limit)
		}
		e.known[chain] = struct{}{}
	}
	return hits, nil
}
