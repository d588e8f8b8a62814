package prefixtree

// evictSteps bounds the entries one insert evicts.
const evictSteps = 64

// Forget drops up to steps entries of a worker, least recent first, and
// reports whether none are left. What remains is always a set of prefixes, so
// between two calls the tree is merely behind. Dropped entries don't count as
// evicted. Steps of 64 take some tens of microseconds.
func (t *Tree) Forget(worker uint32, steps int) bool {
	if worker >= MaxWorkers || t.workers[worker] == 0 {
		return true
	}
	c := t.workers[worker]
	ring := c * cellSlots
	w := t.worker(c)
	for ; steps > 0 && w.ring.prev != ring; steps-- {
		t.drop(w.ring.prev)
	}
	left := w.ring.prev != ring
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
		t.drop(t.worker(c).ring.prev)
		t.evicted++
		t.settle(c)
	}
}

// drop ends an entry that has none of its worker below it, and its node with
// the last one.
func (t *Tree) drop(e entry) {
	c := t.holders(e / cellSlots).node
	t.unlink(e)
	t.remove(e)
	n := t.node(c)
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
