package prefixtree

import "math/bits"

// A node with many holders has an index: pages of 256 workers with a bit for
// each, so that a match takes a word of workers at a time, and under each page
// up to four cells that lead to the holders of four neighbouring workers.

// pageOf returns the page of a worker, or 0.
func (t *Tree) pageOf(n *node, id uint16) ref {
	c := n.more
	for c != 0 {
		p := t.page(c)
		if p.base == uint32(id>>8) {
			return c
		}
		c = p.next
	}
	return 0
}

func (t *Tree) lookupIndexed(n *node, id uint16) entry {
	c := t.pageOf(n, id)
	if c == 0 {
		return 0
	}
	p := t.page(c)
	i := id >> 6 & 3
	if p.bits[i]>>(id&63)&1 == 0 {
		return 0
	}
	return t.index(p.index[i])[id>>2&15]*cellSlots + entry(id&3)
}

func (t *Tree) addIndexed(n *node, id uint16) entry {
	c := t.pageOf(n, id)
	if c == 0 {
		c = t.take(nodeCells)
		*t.page(c) = page{base: uint32(id >> 8), next: n.more}
		n.more = c
	}
	p := t.page(c)
	i := id >> 6 & 3
	if p.index[i] == 0 {
		p.index[i] = t.take(nodeCells)
		*t.index(p.index[i]) = index{}
	}
	h := &t.index(p.index[i])[id>>2&15]
	if *h == 0 {
		*h = t.takeHolders(n)
	}
	p.bits[i] |= 1 << (id & 63)
	t.holders(*h).worker[id&3] = id
	return *h*cellSlots + entry(id&3)
}

// removeIndexed gives back every cell that the last worker left.
func (t *Tree) removeIndexed(n *node, e entry) {
	h := t.holders(e / cellSlots)
	id := h.worker[e%cellSlots]
	h.worker[e%cellSlots] = noWorker

	c := t.pageOf(n, id)
	p := t.page(c)
	i := id >> 6 & 3
	p.bits[i] &^= 1 << (id & 63)
	if p.bits[i]>>(id&60)&15 != 0 {
		return
	}
	t.index(p.index[i])[id>>2&15] = 0
	t.give(nodeCells, e/cellSlots)
	if p.bits[i] != 0 {
		return
	}
	t.give(nodeCells, p.index[i])
	p.index[i] = 0
	if p.bits != [4]uint64{} {
		return
	}
	at := &n.more
	for *at != c {
		at = &t.page(*at).next
	}
	*at = p.next
	t.give(nodeCells, c)
	n.indexed = n.more != 0
}

// buildIndex turns the chain of holders of a node into an index. It takes at
// most addCells cells for each.
func (t *Tree) buildIndex(n *node) {
	h := n.more
	n.indexed, n.more = true, 0
	for h != 0 {
		old := t.holders(h)
		for k, id := range old.worker {
			if id != noWorker {
				t.move(h*cellSlots+entry(k), t.addIndexed(n, id))
			}
		}
		next := old.next
		t.give(nodeCells, h)
		h = next
	}
}

// indexCells is the number of cells of an index and its holders.
func (t *Tree) indexCells(n *node) int {
	cells := 0
	for c := n.more; c != 0; c = t.page(c).next {
		cells++
		for _, b := range t.page(c).bits {
			if b != 0 {
				b |= b >> 1
				b |= b >> 2
				cells += 1 + bits.OnesCount64(b&0x1111111111111111)
			}
		}
	}
	return cells
}

// copyIndex copies the entries of an index to up.
func (t *Tree) copyIndex(up, low *node) {
	for c := low.more; c != 0; c = t.page(c).next {
		for _, i := range t.page(c).index {
			if i == 0 {
				continue
			}
			for _, h := range t.index(i) {
				if h != 0 {
					t.copySlots(up, h)
				}
			}
		}
	}
}
