package prefixtree

import (
	"math/bits"
	"math/rand/v2"
)

// table finds the child of a node by the hash of the child's first block.
// Chains run through the cells. Bucket heads are allocated once, in
// proportion to the cells there can be, so the table never grows and a chain
// stays short even when every cell is a node.
//
// Clients choose the hashes, so buckets depend on a secret of this process.
// Two nodes with the same parent and hash can't exist, so there is nothing
// to pile up in one bucket on purpose.
type table struct {
	buckets []ref
	seed    [2]uint64
}

// bucketShare is how many cells there are for each bucket. A node of a long
// prompt has six cells and more, so chains are mostly of length one.
const bucketShare = 2

func newTable(cells int) table {
	return table{
		buckets: make([]ref, cells/bucketShare+1),
		seed:    [2]uint64{rand.Uint64(), rand.Uint64() | 1},
	}
}

func (t *table) bucket(parent ref, hash uint32) *ref {
	x := uint64(parent)<<32 | uint64(hash)
	hi, lo := bits.Mul64(x^t.seed[0], t.seed[1])
	return &t.buckets[(hi^lo)>>32*uint64(len(t.buckets))>>32]
}

// find returns the node with that parent and first hash, or 0.
func (t *Tree) find(parent ref, hash uint32) ref {
	c := *t.bucket(parent, hash)
	for c != 0 {
		n := t.node(c)
		if n.head[0] == hash && n.parent == parent {
			return c
		}
		c = n.chain
	}
	return 0
}

// attach enters a node under its parent and first hash.
func (t *Tree) attach(c ref) {
	n := t.node(c)
	b := t.bucket(n.parent, n.head[0])
	n.chain = *b
	*b = c
}

// detach removes a node from the table. Parent and first hash must be those
// it was attached with.
func (t *Tree) detach(c ref) {
	n := t.node(c)
	at := t.bucket(n.parent, n.head[0])
	for *at != c {
		at = &t.node(*at).chain
	}
	*at = n.chain
}
