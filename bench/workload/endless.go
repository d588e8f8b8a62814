package workload

import "fmt"

// maxBlocks is how many different blocks the endless cache remembers, at about 20
// bytes each.
const maxBlocks = 1 << 22

// Endless is a cache that all workers share and that forgets nothing. Make one with
// NewEndless.
type Endless struct {
	known map[uint64]struct{}
	limit int
}

// NewEndless is an empty endless cache.
func NewEndless() *Endless { return &Endless{known: make(map[uint64]struct{}), limit: maxBlocks} }

// Take is how many blocks a prompt begins with that are known, and remembers all of
// its blocks. It is an error if the workload has too many different ones.
func (e *Endless) Take(blocks []uint64) (hits int, err error) {
	chain := uint64(0)
	for _, id := range blocks {
		chain = extend(chain, id)
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

// Chain appends to dst, for each of a prompt's blocks, a hash of all ids up to it.
func Chain(dst, blocks []uint64) []uint64 {
	chain := uint64(0)
	for _, id := range blocks {
		chain = extend(chain, id)
		dst = append(dst, chain)
	}
	return dst
}

// extend is the hash of what chain stands for and then id. It is one to one in id
// for each chain, so only different starts can collide.
func extend(chain, id uint64) uint64 { return Mix(Mix(chain+0x9e3779b97f4a7c15) ^ id) }

// Mix spreads x over 64 bits (the finalizer of splitmix64), one to one.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
