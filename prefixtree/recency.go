package prefixtree

// Each worker has its entries in a ring, most recent first. An insert touches
// the entries of its path from the deepest to the first block, so an entry is
// always in front of those below it and the last of a ring is a leaf.

// maxAge is the age in inserts at which an entry is dropped even when there
// is room. Stamps are compared by their difference, which needs all of them
// within half the range of a uint32; no worker has a block in its cache that
// was last asked for two billion requests ago.
const maxAge = 1 << 31

// insertAfter puts an entry that is in no ring behind another.
func (t *Tree) insertAfter(e, at entry) {
	a := t.link(at)
	l := t.link(e)
	l.prev, l.next = at, a.next
	t.link(a.next).prev = e
	a.next = e
}

// unlink takes an entry out of its ring.
func (t *Tree) unlink(e entry) {
	l := t.link(e)
	t.link(l.prev).next = l.next
	t.link(l.next).prev = l.prev
}

// move makes to take the place of from in its ring.
func (t *Tree) move(from, to entry) {
	l := t.link(to)
	*l = *t.link(from)
	t.link(l.prev).next = to
	t.link(l.next).prev = to
}

// workerCells is the most cells that enroll takes.
const workerCells = 3

// enroll returns the cell of a worker, made when there is none, or 0 when
// there are no cells for it.
func (t *Tree) enroll(id uint16) ref {
	if c := t.workers[id]; c != 0 {
		return c
	}
	if t.room == 0 || t.tracks && t.room < workerCells {
		return 0
	}
	c := t.take(nodeCells)
	ring := c * cellSlots
	w := t.worker(c)
	*w = worker{ring: link{prev: ring, next: ring}, id: uint32(id)}
	if t.tracks {
		w.starts, w.counts, w.filled = t.take(nodeCells), t.take(nodeCells), 1
		*t.spans(w.counts) = spans{}
	}
	t.workers[id] = c
	t.words = max(t.words, int(id>>6)+1)
	return c
}

// settle puts a worker whose ring may have changed at its place among the
// others, and ends one without entries.
func (t *Tree) settle(c ref) {
	w := t.worker(c)
	last := w.ring.prev
	if last == c*cellSlots {
		if w.queued {
			t.dequeue(c)
		}
		t.workers[w.id] = 0
		if t.tracks {
			t.give(nodeCells, w.starts)
			t.give(nodeCells, w.counts)
		}
		t.give(nodeCells, c)
		return
	}
	oldest := t.link(last).stamp
	if w.queued {
		if w.oldest == oldest {
			return
		}
		t.dequeue(c)
	}
	w.oldest = oldest
	t.enqueue(c)
}
