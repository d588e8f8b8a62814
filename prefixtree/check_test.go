package prefixtree

import (
	"fmt"
	"maps"
	"testing"
)

// inspector walks everything a tree holds and notes each cell it meets, so
// that a cell in two places or in none is found.
type inspector struct {
	t     *testing.T
	tree  *Tree
	seen  map[ref]string
	nodes map[ref]map[uint16]entry // holders by node
	found map[holding]bool
}

// check fails the test when an invariant of the tree doesn't hold, and
// returns what the tree holds.
func check(t *testing.T, tree *Tree) map[holding]bool {
	t.Helper()
	in := &inspector{t, tree, map[ref]string{}, map[ref]map[uint16]entry{}, map[holding]bool{}}
	for i, head := range tree.buckets {
		for c := head; c != 0; c = tree.node(c).chain {
			n := tree.node(c)
			in.mark(c, "table")
			if tree.bucket(n.parent, n.head[0]) != &tree.buckets[i] {
				in.errorf("cell %d is in the wrong bucket", c)
			}
			in.edge(c)
			in.nodes[c] = in.holders(c)
		}
	}
	in.families()
	var workers []ref
	for id, c := range tree.workers {
		if c != 0 {
			in.mark(c, "worker")
			if w := tree.worker(c); tree.tracks {
				in.mark(w.starts, "starts of spans")
				in.mark(w.counts, "spans")
			}
			workers = append(workers, c)
			if w := tree.worker(c); w.id != uint32(id) {
				in.errorf("worker %d at the place of %d", w.id, id)
			}
		}
	}
	entries := in.rings(workers)
	if n := in.heap(); n != len(workers) {
		in.errorf("heap has %d workers, there are %d", n, len(workers))
	}
	if entries != tree.entries || len(in.nodes) != tree.nodes {
		in.errorf("found %d entries, %d nodes; counted %d, %d", entries, len(in.nodes), tree.entries, tree.nodes)
	}
	idle, fresh := 0, 0
	for _, p := range tree.pools {
		for c := p.freed; c != 0; c = tree.line(c).next {
			in.mark(c, "free")
			idle++
		}
		fresh += int(p.end - p.next)
	}
	made := -1 // cell 0
	for _, c := range tree.chunks {
		made += len(c)
	}
	if made > 0 && len(in.seen)+fresh != made {
		in.errorf("%d cells in use or free and %d fresh, of %d", len(in.seen), fresh, made)
	}
	if got := tree.size - 1 - (len(in.seen) - idle); tree.room != max(got, 0) {
		in.errorf("room for %d cells, counted %d", got, tree.room)
	}
	for i, w := range tree.seen {
		if w != 0 {
			in.errorf("seen[%d] = %x between calls", i, w)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return in.found
}

func (in *inspector) errorf(format string, args ...any) {
	in.t.Helper()
	in.t.Errorf("broken tree: "+format, args...)
}

func (in *inspector) mark(c ref, as string) {
	in.t.Helper()
	if was, ok := in.seen[c]; ok {
		in.t.Fatalf("broken tree: cell %d is %s and %s", c, was, as)
	}
	if c == 0 || int(c) >= in.tree.size {
		in.t.Fatalf("broken tree: cell %d as %s, of %d", c, as, in.tree.size)
	}
	in.seen[c] = as
}

// edge checks the hashes of a node.
func (in *inspector) edge(c ref) {
	n := in.tree.node(c)
	if n.self != c || n.length < 1 || n.length > maxEdge || n.skip >= lineHashes {
		in.errorf("node %d: self %d, length %d, skip %d", c, n.self, n.length, n.skip)
		return
	}
	lines, last := 0, ref(0)
	for l := n.first; l != 0; l = in.tree.line(l).next {
		in.mark(l, "line")
		lines, last = lines+1, l
	}
	if lines != n.lines() || last != n.tail {
		in.errorf("node %d has %d lines up to %d, should have %d up to %d", c, lines, last, n.lines(), n.tail)
		return
	}
	if got := in.tree.hash(n, int(n.length)-1); got != n.last {
		in.errorf("node %d: last hash %x, noted as %x", c, got, n.last)
	}
}

// holders checks the holders of a node and returns their entries.
func (in *inspector) holders(c ref) map[uint16]entry {
	n := in.tree.node(c)
	hs := map[uint16]entry{}
	put := func(id uint16, e entry) {
		if _, ok := hs[id]; ok || id >= MaxWorkers {
			in.errorf("node %d holds worker %d twice or not at all", c, id)
		}
		hs[id] = e
		in.found[holding{uint32(id), n.last, int(n.length)}] = true
		if got := in.tree.lookup(c, id); got != e {
			in.errorf("node %d: lookup(%d) = %d, want %d", c, id, got, e)
		}
	}
	slots := func(h ref) {
		in.mark(h, "holders")
		if in.tree.holders(h).node != c {
			in.errorf("holders %d belong to %d, want %d", h, in.tree.holders(h).node, c)
		}
		used := 0
		for k, id := range in.tree.holders(h).worker {
			if id != noWorker {
				put(id, h*cellSlots+entry(k))
				used++
			}
		}
		if used == 0 || used < cellSlots && !n.indexed && h != n.more {
			in.errorf("holders %d of node %d use %d slots", h, c, used)
		}
	}
	if n.worker != noWorker {
		put(n.worker, c*cellSlots)
	}
	switch {
	case n.indexed && n.more == 0:
		in.errorf("node %d has an empty index", c)
	case n.indexed:
		in.pages(n.more, slots)
	default:
		for h := n.more; h != 0; h = in.tree.holders(h).next {
			slots(h)
		}
	}
	if len(hs) != int(n.holding) || len(hs) == 0 {
		in.errorf("node %d has %d holders, counted %d", c, len(hs), n.holding)
	}
	return hs
}

func (in *inspector) pages(c ref, slots func(ref)) {
	bases := map[uint32]bool{}
	for ; c != 0; c = in.tree.page(c).next {
		in.mark(c, "page")
		p := in.tree.page(c)
		if bases[p.base] || p.bits == [4]uint64{} {
			in.errorf("page %d is double or empty", c)
		}
		bases[p.base] = true
		for i, x := range p.index {
			var bits uint64
			if x != 0 {
				in.mark(x, "index")
				for g, h := range in.tree.index(x) {
					if h == 0 {
						continue
					}
					slots(h)
					for k, id := range in.tree.holders(h).worker {
						want := uint16(p.base<<8) + uint16(i<<6+g<<2+k)
						if id == want {
							bits |= 1 << (id & 63)
						} else if id != noWorker {
							in.errorf("worker %d in the slot of %d", id, want)
						}
					}
				}
			}
			if bits != p.bits[i] || (x != 0) != (bits != 0) {
				in.errorf("page %d, word %d: %x, want %x", c, i, p.bits[i], bits)
			}
		}
	}
}

// families checks parents, children and that no worker holds a node without
// holding its parent.
func (in *inspector) families() {
	children := map[ref]uint32{}
	for c, hs := range in.nodes {
		n := in.tree.node(c)
		if n.parent == 0 {
			continue
		}
		children[n.parent]++
		above, ok := in.nodes[n.parent]
		if !ok {
			in.errorf("node %d has no parent %d", c, n.parent)
		}
		for id := range hs {
			if above[id] == 0 {
				in.errorf("worker %d holds node %d but not %d above", id, c, n.parent)
			}
		}
	}
	for c := range in.nodes {
		if n := in.tree.node(c); n.children != children[c] {
			in.errorf("node %d has %d children, counted %d", c, children[c], n.children)
		}
	}
}

// rings checks that each worker's ring has its entries, more recent ones and
// parents in front, and returns how many entries there are.
func (in *inspector) rings(workers []ref) int {
	total := 0
	for _, c := range workers {
		w := in.tree.worker(c)
		id := uint16(w.id)
		ring := c * cellSlots
		place := map[ref]int{0: -1}
		var byAge [spanCount]uint32
		held, a := uint32(0), in.tree.ages(w)
		stamp := in.tree.now
		for e := w.ring.next; e != ring; e = in.tree.link(e).next {
			l := in.tree.link(e)
			n := in.tree.holders(e / cellSlots).node
			if in.nodes[n][id] != e {
				in.errorf("entry %d in the ring of worker %d isn't at node %d", e, id, n)
				return total
			}
			if in.tree.link(l.next).prev != e || in.tree.link(l.prev).next != e {
				in.errorf("ring of worker %d is torn at %d", id, e)
			}
			if int32(stamp-l.stamp) < 0 {
				in.errorf("ring of worker %d: stamp %d behind %d", id, l.stamp, stamp)
			}
			stamp = l.stamp
			if _, ok := place[in.tree.node(n).parent]; !ok {
				in.errorf("ring of worker %d: node %d is in front of its parent", id, n)
			}
			place[n] = len(place)
			total++
			held += uint32(in.tree.node(n).length)
			if a.worker != nil {
				byAge[a.at(l.stamp)] += uint32(in.tree.node(n).length)
			}
		}
		if a.worker != nil && held != w.blocks {
			in.errorf("worker %d holds %d blocks, counted %d", id, held, w.blocks)
		}
		for i, want := range byAge {
			if i < int(w.filled) && a.counts[i] != want || i >= int(w.filled) && want != 0 {
				in.errorf("span %d of worker %d has %d blocks, counted %d", i, id, want, a.counts[i])
			}
		}
		if len(place) == 1 || !w.queued || w.oldest != stamp {
			in.errorf("worker %d: %d entries, queued %v, oldest %d, want %d", id, len(place)-1, w.queued, w.oldest, stamp)
		}
	}
	held := 0
	for _, hs := range in.nodes {
		held += len(hs)
	}
	if held != total {
		in.errorf("%d entries at nodes, %d in rings", held, total)
	}
	return total
}

// heap checks the order and links of the heap and returns its size.
func (in *inspector) heap() int {
	if in.tree.stalest == 0 {
		return 0
	}
	n := 0
	todo := []ref{in.tree.stalest}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n++
		before := c
		for k := in.tree.worker(c).child; k != 0; k = in.tree.worker(k).sibling {
			w := in.tree.worker(k)
			if w.back != before || int32(w.oldest-in.tree.worker(c).oldest) < 0 {
				in.errorf("worker %d is out of order in the heap", w.id)
				return n
			}
			before = k
			todo = append(todo, k)
		}
	}
	return n
}

// sameHoldings fails the test when the tree and the slow tree differ.
func sameHoldings(t *testing.T, got, want map[holding]bool) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for h := range got {
		if !want[h] {
			t.Errorf("tree has %+v, the slow tree not", h)
		}
	}
	for h := range want {
		if !got[h] {
			t.Errorf("slow tree has %+v, the tree not", h)
		}
	}
	t.FailNow()
}

func (h holding) String() string {
	return fmt.Sprintf("worker %d: %d blocks to %08x", h.worker, h.length, h.last)
}
