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
	spanCount = cellBytes / 4

	// A span is full with a share of the worker's blocks, or with so many that a
	// finer one tells nothing.
	spanShare = 64
	spanLeast = 32
)

// spans is a number for each of a worker's spans; the oldest is number 0.
type spans [spanCount]uint32

// ages is where a worker's spans are. Its zero value counts nothing.
type ages struct {
	*worker
	starts *spans // first stamp of each; means nothing in the oldest
	counts *spans // blocks
}

// TrackAges has the tree, in which nothing must be yet, know distances and how many
// blocks workers hold. That costs an Insert some tens of nanoseconds.
func (t *Tree) TrackAges() { t.tracks = true }

func (t *Tree) ages(w *worker) ages {
	if !t.tracks {
		return ages{}
	}
	return ages{w, t.spans(w.starts), t.spans(w.counts)}
}

// at returns the number of the span that a stamp lies in.
func (a *ages) at(stamp uint32) int {
	i := int(a.filled) - 1
	for i > 0 && int32(stamp-a.starts[i&(spanCount-1)]) < 0 {
		i--
	}
	return i
}

// turn makes the spans ready for the insert with a stamp: what it uses lies in the
// newest. Starts so old that stamps could wrap around them are given up.
func (a *ages) turn(stamp uint32) {
	if a.worker == nil {
		return
	}
	for a.filled > 1 && stamp-a.starts[1] >= maxAge/2 {
		a.join(1)
	}
	if a.counts[a.filled-1] >= max(a.blocks/spanShare, spanLeast) {
		a.open(stamp)
	}
}

// use notes that the worker uses blocks in the insert under way that it hasn't held.
func (a *ages) use(blocks int) {
	if a.worker != nil {
		a.counts[a.filled-1] += uint32(blocks)
		a.blocks += uint32(blocks)
	}
}

// reuse notes that the worker uses blocks again in the insert under way that it used
// last at stamp.
func (a *ages) reuse(stamp uint32, blocks int) {
	if a.worker != nil {
		a.counts[a.at(stamp)] -= uint32(blocks)
		a.counts[a.filled-1] += uint32(blocks)
	}
}

// forget notes that the worker no longer holds blocks that it used last at stamp.
func (a *ages) forget(stamp uint32, blocks int) {
	if a.worker != nil {
		a.counts[a.at(stamp)] -= uint32(blocks)
		a.blocks -= uint32(blocks)
	}
}

// open begins a span with the insert under way, and joins two others if there are
// as many as there may be.
func (a *ages) open(stamp uint32) {
	if a.filled == spanCount {
		a.join(a.spare())
	}
	a.starts[a.filled], a.counts[a.filled] = stamp, 0
	a.filled++
}

// spare returns the span that says least beside the one before it: the two are
// small for how much has been used since.
func (a *ages) spare() int {
	at, least := 0, math.Inf(1)
	newer := 1.0
	for i := spanCount - 1; i > 0; i-- {
		both := float64(a.counts[i]) + float64(a.counts[i-1])
		if share := both / newer; share <= least {
			at, least = i, share
		}
		newer += float64(a.counts[i])
	}
	return at
}

// join joins a span to the one before it.
func (a *ages) join(at int) {
	a.counts[at-1] += a.counts[at]
	copy(a.counts[at:a.filled], a.counts[at+1:a.filled])
	copy(a.starts[at:a.filled], a.starts[at+1:a.filled])
	a.filled--
}

// distance is how many blocks the worker has used since stamp, about: of the stamp's
// own span half count.
func (a *ages) distance(stamp uint32) int {
	if a.worker == nil {
		return 0
	}
	at := a.at(stamp)
	sum := a.counts[at] / 2
	for _, n := range a.counts[at+1 : a.filled] {
		sum += n
	}
	return int(sum)
}
