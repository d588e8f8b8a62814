package prefixtree

// packedMax is how many holders besides the first a node keeps in a plain
// chain before it gets an index. Looking through a chain is cheaper than the
// index as long as it is short, and takes a quarter of the memory.
const packedMax = 8 * cellSlots

// addCells is the most cells that add takes.
const addCells = 3

// lookup returns the entry of a worker at a node, or 0.
func (t *Tree) lookup(c ref, id uint16) entry {
	n := t.node(c)
	if n.worker == id {
		return c * cellSlots
	}
	if n.indexed {
		return t.lookupIndexed(n, id)
	}
	for h := n.more; h != 0; {
		p := t.holders(h)
		for k, w := range p.worker {
			if w == id {
				return h*cellSlots + entry(k)
			}
		}
		h = p.next
	}
	return 0
}

// add makes a worker a holder of a node and returns its entry, in no ring
// yet. The worker must not hold it, and addCells cells must be there.
func (t *Tree) add(n *node, id uint16) entry {
	t.entries++
	n.holding++
	if n.worker == noWorker {
		n.worker = id
		return n.self * cellSlots
	}
	if n.indexed {
		return t.addIndexed(n, id)
	}
	return t.addPacked(n, id)
}

// addPacked uses the first cell of the chain, the only one with free slots.
func (t *Tree) addPacked(n *node, id uint16) entry {
	if n.more != 0 {
		h := t.holders(n.more)
		for k, w := range h.worker {
			if w == noWorker {
				h.worker[k] = id
				return n.more*cellSlots + entry(k)
			}
		}
	}
	c := t.takeHolders(n)
	t.holders(c).next = n.more
	t.holders(c).worker[0] = id
	n.more = c
	return c * cellSlots
}

func (t *Tree) takeHolders(n *node) ref {
	c := t.take(nodeCells)
	*t.holders(c) = holders{node: n.self, worker: [cellSlots]uint16{noWorker, noWorker, noWorker, noWorker}}
	return c
}

// remove ends a worker's holding of a node; the entry must be out of its ring.
func (t *Tree) remove(e entry) {
	c := e / cellSlots
	n := t.node(t.holders(c).node)
	t.entries--
	n.holding--
	switch {
	case c == n.self:
		n.worker = noWorker
	case n.indexed:
		t.removeIndexed(n, e)
	default:
		t.removePacked(n, e)
	}
}

// removePacked fills the gap from the first cell, so that all others stay
// full.
func (t *Tree) removePacked(n *node, e entry) {
	h := t.holders(n.more)
	k := cellSlots - 1
	for h.worker[k] == noWorker {
		k--
	}
	if from := n.more*cellSlots + entry(k); from != e {
		to := t.holders(e / cellSlots)
		to.worker[e%cellSlots] = h.worker[k]
		t.move(from, e)
	}
	h.worker[k] = noWorker
	if k == 0 {
		c := n.more
		n.more = h.next
		t.give(nodeCells, c)
	}
}

// copyCells is how many cells copyHolders takes at most.
func (t *Tree) copyCells(n *node) int {
	if n.indexed {
		return t.indexCells(n)
	}
	return (int(n.holding) + cellSlots - 1) / cellSlots
}

// copyHolders gives up, a node without holders, those of low. Every new entry
// goes in front of the one it was copied from: up becomes the parent of low,
// and a parent is never less recent.
func (t *Tree) copyHolders(up, low *node) {
	up.indexed = low.indexed
	if low.worker != noWorker {
		t.copyEntry(up, low.worker, low.self*cellSlots)
	}
	if low.indexed {
		t.copyIndex(up, low)
		return
	}
	for h := low.more; h != 0; h = t.holders(h).next {
		t.copySlots(up, h)
	}
}

// copySlots copies the entries of one cell of holders.
func (t *Tree) copySlots(up *node, h ref) {
	for k, id := range t.holders(h).worker {
		if id != noWorker {
			t.copyEntry(up, id, h*cellSlots+entry(k))
		}
	}
}

func (t *Tree) copyEntry(up *node, id uint16, from entry) {
	e := t.add(up, id)
	t.insertAfter(e, t.link(from).prev)
	t.link(e).stamp = t.link(from).stamp
}
