package prefixtree

// Reuse says what a worker was known to hold of a key before an Insert of it.
type Reuse struct {
	Blocks   int    // of the key, from its start
	Distance int    // blocks that the worker has used as lately as the last of those, about; 0 unless ages are tracked
	Before   uint32 // the insert that used the last of those; without meaning when Blocks is 0
	Now      uint32 // this insert; inserts are numbered in their order, and numbers wrap
}

// Insert notes that a worker holds key from now on, and makes its path the
// most recent of the worker. Where the key ends inside an edge that the worker
// holds, the whole edge becomes recent.
//
// An insert adds at most 16384 blocks, and paths have at most 1024 edges.
// Insert works with the cells that are free and evicts afterwards, a bounded
// number of entries at a time, to have a reserve again. Where one of these is
// too little, the tree keeps the prefix of key that it has got to; the next
// insert of the same key goes on from there. An empty key and a worker that
// isn't below MaxWorkers are ignored.
func (t *Tree) Insert(key []uint64, worker uint32) Reuse {
	if len(key) == 0 || worker >= MaxWorkers {
		return Reuse{Now: t.now}
	}
	t.now++
	r, _ := t.learn(key, uint16(worker))
	t.trim()
	return r
}

// learn is Insert without eviction. It also returns the number of blocks of key
// that the worker is known to hold afterwards.
func (t *Tree) learn(key []uint64, id uint16) (r Reuse, known int) {
	r.Now = t.now
	c := t.enroll(id)
	if c == 0 {
		return r, 0
	}
	a := t.ages(t.worker(c))
	a.turn(t.now)
	p := t.descend(key)
	e := t.reuse(&r, &a, p, id)
	known = p.depth + p.common
	if e != 0 && p.part == t.holders(e/cellSlots).node && known == len(key) {
		t.touch(p.part, &a, id, 0)
	} else {
		at, depth, missing := t.reach(p, id)
		t.touch(at, &a, id, missing)
		if depth == known {
			known += t.extend(at, key[known:], &a, id, maxPath-p.nodes-min(p.common, 1))
		} else {
			known = depth
		}
	}
	t.settle(c)
	return r, known
}

// reuse fills in r for a key that leads to p, and returns the worker's entry of the
// last block that it holds, or 0.
func (t *Tree) reuse(r *Reuse, a *ages, p place, id uint16) (e entry) {
	c, depth := p.part, p.depth+p.common
	if c == 0 {
		c = p.node
	}
	for c != 0 {
		if e = t.lookup(c, id); e != 0 {
			r.Blocks, r.Before = depth, t.link(e).stamp
			r.Distance = a.distance(r.Before)
			return e
		}
		n := t.node(c)
		if c == p.part {
			depth -= p.common
		} else {
			depth -= int(n.length)
		}
		c = n.parent
	}
	return 0
}

// reach returns the deepest node on the path of a key that a worker can be
// made a holder of with the cells there are, the depth of its end, and how
// many nodes up from it the worker is missing from. It splits an edge that
// matches in part.
func (t *Tree) reach(p place, id uint16) (at ref, depth, missing int) {
	at, depth = p.node, p.depth
	for c := at; c != 0 && t.lookup(c, id) == 0; c = t.node(c).parent {
		missing++
	}
	for ; addCells*missing > t.room; missing-- {
		n := t.node(at)
		at, depth = n.parent, depth-int(n.length)
	}
	if p.part == 0 || t.room < addCells*(missing+1)+splitCells+t.copyCells(t.node(p.part)) {
		return at, depth, missing
	}
	at = t.split(p.part, p.common)
	if t.lookup(at, id) == 0 {
		missing++
	}
	return at, depth + p.common, missing
}

// touch puts the entries of a worker from a node up to the root in front of
// its ring, the first block foremost. The worker is missing from the deepest
// of these nodes and is added there.
func (t *Tree) touch(c ref, a *ages, id uint16, missing int) {
	ring := t.workers[id] * cellSlots
	for c != 0 {
		n := t.node(c)
		var e entry
		if missing > 0 {
			if n.holding > packedMax && !n.indexed && t.room >= addCells*(int(n.holding)+missing) {
				t.buildIndex(n)
			}
			e = t.add(n, id)
			a.use(int(n.length))
			missing--
		} else {
			e = t.lookup(c, id)
			a.reuse(t.link(e).stamp, int(n.length))
			t.unlink(e)
		}
		t.insertAfter(e, ring)
		t.link(e).stamp = t.now
		c = n.parent
	}
}

// extend makes a worker that holds a node, or the root, hold the blocks that
// follow, which no child of the node starts with, by a number of new nodes at
// most. It returns how many blocks it added.
func (t *Tree) extend(at ref, key []uint64, a *ages, id uint16, nodes int) int {
	key = key[:min(len(key), maxNew)]
	taken := 0
	behind := t.workers[id] * cellSlots
	if at != 0 {
		behind = t.lookup(at, id)
		if n := t.node(at); n.children == 0 && n.holding == 1 {
			taken = t.grow(n, key)
		}
	}
	for ; taken < len(key) && nodes > 0; nodes-- {
		c := t.take(nodeCells)
		if c == 0 {
			break
		}
		n := t.node(c)
		*n = node{self: c, worker: id, holding: 1, parent: at}
		taken += t.grow(n, key[taken:])
		t.attach(c)
		if at != 0 {
			t.node(at).children++
		}
		t.nodes++
		t.entries++
		e := c * cellSlots
		t.insertAfter(e, behind)
		t.link(e).stamp = t.now
		at, behind = c, e
	}
	a.use(taken)
	return taken
}

// splitCells is the most cells that split takes besides copyCells.
const splitCells = 2

// split puts a node with the first m blocks of an edge and with all its
// holders above it and returns it.
func (t *Tree) split(c ref, m int) ref {
	low := t.node(c)
	u := t.take(nodeCells)
	up := t.node(u)
	*up = node{self: u, worker: noWorker, parent: low.parent, children: 1}
	t.detach(c)
	t.cut(up, low, m)
	low.parent = u
	t.attach(u)
	t.attach(c)
	t.copyHolders(up, low)
	t.nodes++
	return u
}
