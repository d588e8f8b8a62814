package prefixtree

import (
	"math/bits"
	"slices"
)

// Hit says how much of a key one worker knows.
type Hit struct {
	Worker uint32
	Blocks uint32 // longest known prefix of the key, in blocks; at least 1
}

// place is how far a key leads into the tree.
type place struct {
	node   ref // deepest node all of whose blocks match, 0 is the root
	depth  int // blocks up to the end of node
	part   ref // child of node that matches in part, 0 when there is none
	common int // blocks of part that match
	nodes  int // on the path down to node, at most maxPath
}

func (t *Tree) descend(key []uint64) place {
	var p place
	for p.depth < len(key) && p.nodes < maxPath {
		rest := key[p.depth:]
		c := t.find(p.node, uint32(rest[0]))
		if c == 0 {
			break
		}
		n := t.node(c)
		if k := int(n.length); k > len(rest) || n.last != uint32(rest[k-1]) {
			p.part, p.common = c, t.common(n, rest)
			break
		}
		p.node = c
		p.depth += int(n.length)
		p.nodes++
	}
	return p
}

// Match appends to dst one Hit for each worker that knows at least the first
// block of key, in no particular order, and returns the extended slice. It
// doesn't count as use: a policy may ask without acting, and the Insert that
// follows a decision refreshes what was used. It allocates only when dst has
// too little capacity.
//
// Two keys are told apart by 32 bits of a block's hash at most, so once in
// 2^32 comparisons of unlike blocks a Hit says too much.
func (t *Tree) Match(key []uint64, dst []Hit) []Hit {
	p := t.descend(key)
	// From the deepest node up, so that the first time a worker is met is
	// where it knows most. Those above hold all that those below hold.
	known := 0
	c, depth := p.node, p.depth
	if p.part != 0 {
		dst, known = t.hits(dst, p.part, known, p.depth+p.common)
	}
	for c != 0 {
		n := t.node(c)
		if int(n.holding) > known {
			dst, known = t.hits(dst, c, known, depth)
		}
		depth -= int(n.length)
		c = n.parent
	}
	clear(t.seen[:t.words])
	return dst
}

// hits appends the holders of a node that aren't in seen, adds them to seen
// and returns how many are there.
func (t *Tree) hits(dst []Hit, c ref, known, depth int) ([]Hit, int) {
	n := t.node(c)
	holding := int(n.holding)
	dst = slices.Grow(dst, holding-known)
	if n.worker != noWorker {
		dst = t.hit(dst, n.worker, depth)
	}
	if n.indexed {
		return t.hitsIndexed(dst, n, depth), holding
	}
	for h := n.more; h != 0; h = t.holders(h).next {
		for _, id := range t.holders(h).worker {
			if id != noWorker {
				dst = t.hit(dst, id, depth)
			}
		}
	}
	return dst, holding
}

func (t *Tree) hit(dst []Hit, id uint16, depth int) []Hit {
	word, bit := &t.seen[id>>6], uint64(1)<<(id&63)
	if *word&bit != 0 {
		return dst
	}
	*word |= bit
	return append(dst, Hit{Worker: uint32(id), Blocks: uint32(depth)})
}

func (t *Tree) hitsIndexed(dst []Hit, n *node, depth int) []Hit {
	for c := n.more; c != 0; {
		p := t.page(c)
		for i, b := range p.bits {
			at := p.base*4 + uint32(i)
			fresh := b &^ t.seen[at]
			t.seen[at] |= b
			for ; fresh != 0; fresh &= fresh - 1 {
				id := at*64 + uint32(bits.TrailingZeros64(fresh))
				dst = append(dst, Hit{Worker: id, Blocks: uint32(depth)})
			}
		}
		c = p.next
	}
	return dst
}
