package prefixtree

import (
	"cmp"
	"maps"
	"slices"
)

// slowTree is the obvious tree: pointers, maps, and a search through
// everything for the entry to evict.
type slowTree struct {
	root slowNode
	now  uint64
}

type slowNode struct {
	parent   *slowNode
	depth    int // blocks above this node
	blocks   []uint64
	children map[uint64]*slowNode
	touched  map[uint32]uint64 // worker to the insert that touched it last
}

func (s *slowTree) child(n *slowNode, blocks []uint64) *slowNode {
	c := &slowNode{
		parent: n, depth: n.depth + len(n.blocks), blocks: blocks,
		children: map[uint64]*slowNode{}, touched: map[uint32]uint64{},
	}
	if n.children == nil {
		n.children = map[uint64]*slowNode{}
	}
	n.children[blocks[0]] = c
	return c
}

func sharedBlocks(a, b []uint64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (s *slowTree) insert(key []uint64, worker uint32) {
	s.now++
	n := &s.root
	for len(key) > 0 {
		c := n.children[key[0]]
		if c == nil {
			break
		}
		m := sharedBlocks(c.blocks, key)
		_, holds := c.touched[worker]
		if m < len(c.blocks) && (m < len(key) || !holds) {
			up := s.child(n, c.blocks[:m:m])
			up.touched = maps.Clone(c.touched)
			c.parent, c.depth, c.blocks = up, c.depth+m, c.blocks[m:]
			up.children[c.blocks[0]] = c
			c = up
		}
		n, key = c, key[m:]
	}
	for p := n; p != &s.root; p = p.parent {
		p.touched[worker] = s.now
	}
	if n != &s.root && len(n.children) == 0 && len(n.touched) == 1 {
		k := min(maxEdge-len(n.blocks), len(key))
		n.blocks = append(slices.Clip(n.blocks), key[:k]...)
		key = key[k:]
	}
	for len(key) > 0 {
		k := min(maxEdge, len(key))
		n = s.child(n, slices.Clone(key[:k]))
		n.touched[worker] = s.now
		key = key[k:]
	}
}

func (s *slowTree) match(key []uint64) map[uint32]int {
	known := map[uint32]int{}
	n := &s.root
	for len(key) > 0 {
		c := n.children[key[0]]
		if c == nil {
			break
		}
		m := sharedBlocks(c.blocks, key)
		for w := range c.touched {
			known[w] = c.depth + m
		}
		if m < len(c.blocks) {
			break
		}
		n, key = c, key[m:]
	}
	return known
}

type slowEntry struct {
	node   *slowNode
	worker uint32
}

func (s *slowTree) all() []slowEntry {
	var es []slowEntry
	todo := []*slowNode{&s.root}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = slices.AppendSeq(todo[:len(todo)-1], maps.Values(n.children))
		for w := range n.touched {
			es = append(es, slowEntry{n, w})
		}
	}
	return es
}

// evict drops the k least recent of the entries that pass, leaves first.
func (s *slowTree) evict(k int, pass func(worker uint32) bool) {
	es := slices.DeleteFunc(s.all(), func(e slowEntry) bool { return !pass(e.worker) })
	slices.SortFunc(es, func(a, b slowEntry) int {
		return cmp.Or(
			cmp.Compare(a.node.touched[a.worker], b.node.touched[b.worker]),
			cmp.Compare(b.node.depth, a.node.depth),
		)
	})
	for _, e := range es[:min(k, len(es))] {
		delete(e.node.touched, e.worker)
		if len(e.node.touched) == 0 {
			delete(e.node.parent.children, e.node.blocks[0])
		}
	}
}

// oldest is the entry of a worker that goes next, and how many blocks it holds.
func (s *slowTree) oldest(worker uint32) (e slowEntry, blocks int) {
	for _, x := range s.all() {
		if x.worker != worker {
			continue
		}
		blocks += len(x.node.blocks)
		if e.node == nil || cmp.Or(
			cmp.Compare(x.node.touched[worker], e.node.touched[worker]),
			cmp.Compare(e.node.depth, x.node.depth),
		) < 0 {
			e = x
		}
	}
	return e, blocks
}

// reuse is what a worker holds of a key, with the insert that used the last block of
// it, and how many blocks were used by that one and since.
func (s *slowTree) reuse(key []uint64, worker uint32) (blocks int, before uint64, distance int) {
	n := &s.root
	for len(key) > 0 {
		c := n.children[key[0]]
		if c == nil || c.touched[worker] == 0 {
			break
		}
		m := sharedBlocks(c.blocks, key)
		blocks, before = blocks+m, c.touched[worker]
		if m < len(c.blocks) {
			break
		}
		n, key = c, key[m:]
	}
	for _, e := range s.all() {
		if e.worker == worker && e.node.touched[worker] >= before {
			distance += len(e.node.blocks)
		}
	}
	return blocks, before, distance
}

// holding is what either tree says of one entry.
type holding struct {
	worker uint32
	last   uint32 // hash of the node's last block
	length int
}

func (s *slowTree) holdings() map[holding]bool {
	hs := map[holding]bool{}
	for _, e := range s.all() {
		hs[holding{e.worker, uint32(e.node.blocks[len(e.node.blocks)-1]), len(e.node.blocks)}] = true
	}
	return hs
}
