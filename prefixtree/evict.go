package prefixtree

// evictSteps bounds the entries one insert evicts.
const evictSteps = 64

// Forget drops up to steps entries of a worker, least recent first, and
// reports whether none are left. What remains is always a set of prefixes, so
// between two calls the tree is merely behind. Dropped entries don't count as
// evicted. Steps of 64 take some tens of microseconds.
func (t *Tree) Forget(id uint32, steps int) bool {
	return t.dropWhile(id, steps, func(*worker) bool { return true })
}

// ForgetUntil is Forget for the entries that were last used by the insert with a
// number or before, and reports whether none of those are left.
func (t *Tree) ForgetUntil(id, stamp uint32, steps int) bool {
	return t.dropWhile(id, steps, func(w *worker) bool {
		return int32(t.link(w.ring.prev).stamp-stamp) <= 0
	})
}

// Shrink is Forget as long as the worker holds at least a number of blocks without
// the entry that would be dropped. The tree must track ages.
func (t *Tree) Shrink(id uint32, blocks, steps int) bool {
	return t.dropWhile(id, steps, func(w *worker) bool {
		n := t.node(t.holders(w.ring.prev / cellSlots).node)
		return int(w.blocks)-int(n.length) >= blocks
	})
}

// dropWhile drops up to steps entries of a worker, least recent first, while the
// last one is to go, and reports whether that is over.
func (t *Tree) dropWhile(id uint32, steps int, goes func(w *worker) bool) bool {
	if id >= MaxWorkers || t.workers[id] == 0 {
		return true
	}
	c := t.workers[id]
	ring := c * cellSlots
	w := t.worker(c)
	for ; steps > 0 && w.ring.prev != ring && goes(w); steps-- {
		t.drop(w, w.ring.prev)
	}
	left := w.ring.prev != ring && goes(w)
	t.settle(c)
	return !left
}

// trim evicts the least recent entries until the reserve is there again and
// nothing is older than maxAge, but no more than evictSteps of them.
func (t *Tree) trim() {
	for range evictSteps {
		c := t.stalest
		if c == 0 || t.room >= t.reserve && t.now-t.worker(c).oldest < maxAge {
			return
		}
		w := t.worker(c)
		t.drop(w, w.ring.prev)
		t.evicted++
		t.settle(c)
	}
}

// drop ends an entry of a worker that has none of it below, and its node with the
// last one.
func (t *Tree) drop(w *worker, e entry) {
	c := t.holders(e / cellSlots).node
	n := t.node(c)
	if t.tracks {
		a := t.ages(w)
		a.forget(t.link(e).stamp, int(n.length))
	}
	t.unlink(e)
	t.remove(e)
	if n.holding > 0 {
		return
	}
	t.detach(c)
	if n.parent != 0 {
		t.node(n.parent).children--
	}
	if k := n.lines(); k > 0 {
		t.giveChain(lineCells, n.first, n.tail, k)
	}
	t.give(nodeCells, c)
	t.nodes--
}
