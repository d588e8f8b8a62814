package prefixtree

import "math"

// Each worker's blocks are counted by when they were used last, in a few spans of
// its inserts, so that it is known about how many blocks it has used since it used
// a given one: where that one stands in a cache that drops what was used longest
// ago. Spans grow with their age, so the error is a share of the answer.
//
// Entries don't know their span; it is found by their stamp. A block moves from
// one span to another when its entry is touched, and goes with its entry.

const (
	spanCells = 2 // cells of a worker's spans
	spanCount = spanCells * 8

	// A span is full with a share of the worker's blocks, or with so many that a
	// finer one tells nothing.
	spanShare = 64
	spanLeast = 32
)

// span is how many blocks were used last from an insert on, until the next span.
type span struct {
	start  uint32 // stamp; means nothing in the oldest
	blocks uint32
}

// spans is a part of a worker's spans.
type spans [8]span

// span returns one of a worker's spans; the oldest is number 0.
func (t *Tree) span(w *worker, i int) *span {
	return &t.spans(w.spans[i/8])[i%8]
}

// spanAt returns the number of the span that a stamp lies in.
func (t *Tree) spanAt(w *worker, stamp uint32) int {
	i := int(w.filled) - 1
	for i > 0 && int32(stamp-t.span(w, i).start) < 0 {
		i--
	}
	return i
}

// turnSpans makes the spans ready for an insert: what it uses lies in the newest.
// Starts so old that stamps could wrap around them are given up.
func (t *Tree) turnSpans(w *worker) {
	for w.filled > 1 && t.now-t.span(w, 1).start >= maxAge/2 {
		t.joinSpan(w, 1)
	}
	if t.span(w, int(w.filled)-1).blocks >= max(w.blocks/spanShare, spanLeast) {
		t.openSpan(w)
	}
}

// used notes that a worker uses blocks in the insert under way that it hasn't held.
func (t *Tree) used(w *worker, blocks int) {
	t.span(w, int(w.filled)-1).blocks += uint32(blocks)
	w.blocks += uint32(blocks)
}

// unused notes that a worker no longer holds blocks that it used last at stamp, or
// that it uses them again.
func (t *Tree) unused(w *worker, stamp uint32, blocks int) {
	t.span(w, t.spanAt(w, stamp)).blocks -= uint32(blocks)
	w.blocks -= uint32(blocks)
}

// openSpan begins a span with the insert under way, and joins two others if there
// are as many as there may be.
func (t *Tree) openSpan(w *worker) {
	if w.filled == spanCount {
		t.joinSpan(w, t.spareSpan(w))
	}
	w.filled++
	*t.span(w, int(w.filled)-1) = span{start: t.now}
}

// spareSpan returns the span that says least beside the one before it: the two are
// small for how much has been used since.
func (t *Tree) spareSpan(w *worker) int {
	at, least := 0, math.Inf(1)
	newer := 1.0
	for i := spanCount - 1; i > 0; i-- {
		both := float64(t.span(w, i).blocks) + float64(t.span(w, i-1).blocks)
		if share := both / newer; share <= least {
			at, least = i, share
		}
		newer += float64(t.span(w, i).blocks)
	}
	return at
}

// joinSpan joins a span to the one before it.
func (t *Tree) joinSpan(w *worker, at int) {
	t.span(w, at-1).blocks += t.span(w, at).blocks
	for ; at < int(w.filled)-1; at++ {
		*t.span(w, at) = *t.span(w, at+1)
	}
	w.filled--
}

// distance is how many blocks a worker has used since stamp, at most: those of the
// stamp's own span count.
func (t *Tree) distance(w *worker, stamp uint32) int {
	sum := uint32(0)
	for i, last := int(w.filled)-1, t.spanAt(w, stamp); i >= last; i-- {
		sum += t.span(w, i).blocks
	}
	return int(sum)
}
