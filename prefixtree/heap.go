package prefixtree

// The workers with entries form a pairing heap by their oldest stamp, so that
// the least recent entry of all is at hand. Its links lie in the workers'
// cells, which makes it free of allocation and of a bound of its own.

// meld joins two heaps, either of which may be empty.
func (t *Tree) meld(a, b ref) ref {
	if a == 0 {
		return b
	}
	if b == 0 {
		return a
	}
	wa, wb := t.worker(a), t.worker(b)
	if int32(wb.oldest-wa.oldest) < 0 {
		a, b, wa, wb = b, a, wb, wa
	}
	wb.sibling, wb.back = wa.child, a
	if wa.child != 0 {
		t.worker(wa.child).back = b
	}
	wa.child = b
	return a
}

// meldAll joins the heaps of a list of siblings in two passes.
func (t *Tree) meldAll(first ref) ref {
	var pairs ref
	for first != 0 {
		a, b := first, t.worker(first).sibling
		first = 0
		if b != 0 {
			first = t.worker(b).sibling
		}
		m := t.meld(a, b)
		t.worker(m).sibling = pairs
		pairs = m
	}
	var all ref
	for pairs != 0 {
		next := t.worker(pairs).sibling
		all = t.meld(all, pairs)
		pairs = next
	}
	return all
}

func (t *Tree) enqueue(c ref) {
	w := t.worker(c)
	w.child, w.sibling, w.back, w.queued = 0, 0, 0, true
	t.stalest = t.meld(t.stalest, c)
}

func (t *Tree) dequeue(c ref) {
	w := t.worker(c)
	w.queued = false
	below := t.meldAll(w.child)
	if c == t.stalest {
		t.stalest = below
		return
	}
	if before := t.worker(w.back); before.child == c {
		before.child = w.sibling
	} else {
		before.sibling = w.sibling
	}
	if w.sibling != 0 {
		t.worker(w.sibling).back = w.back
	}
	t.stalest = t.meld(t.stalest, below)
}
