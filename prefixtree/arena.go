package prefixtree

import "unsafe"

// chunkCells cells are allocated at a time: 32 KiB, large enough that the
// garbage collector sees few objects and small enough to clear in
// microseconds.
const (
	chunkShift = 9
	chunkCells = 1 << chunkShift
)

// A pool is the source of one kind of cells. What a match reads lies in
// chunks apart from the lines, which it mostly skips: there are several times
// as many lines, and a node among them would be a page of its own to the
// processor. A pool that has run dry takes from the other, so this is no
// partition.
type pool struct {
	freed     ref // chain of cells given back
	next, end ref // cells of the newest chunk not handed out yet
}

// Kinds of pools.
const (
	nodeCells = iota // all but lines
	lineCells
)

// arena hands out cells up to a fixed number and takes them back. Chunks hold
// no pointers and never move, so the garbage collector doesn't scan them and
// views stay valid.
type arena struct {
	chunks [][]cell // capacity for all of them from the start
	pools  [2]pool
	size   int // cells the budget allows, cell 0 included
	room   int // cells that can still be taken
}

func newArena(size int) arena {
	return arena{
		chunks: make([][]cell, 0, (size+chunkCells-1)/chunkCells),
		size:   size,
		room:   max(size-1, 0),
	}
}

// take returns a cell with undefined content, or 0 when there is none.
func (a *arena) take(kind int) ref {
	if a.room == 0 {
		return 0
	}
	a.room--
	p := &a.pools[kind]
	if p.freed == 0 && p.next == p.end {
		p = a.refill(p, &a.pools[1-kind])
	}
	c := p.freed
	if c != 0 {
		p.freed = a.line(c).next
		return c
	}
	p.next++
	return p.next - 1
}

// refill gives an empty pool a new chunk and returns it, or returns the other
// pool when there is none.
func (a *arena) refill(p, other *pool) *pool {
	start := len(a.chunks) * chunkCells
	n := min(a.size-start, chunkCells)
	if n <= 0 {
		return other
	}
	a.chunks = append(a.chunks, make([]cell, n))
	p.next, p.end = ref(max(start, 1)), ref(start+n)
	if p.next == p.end {
		return other
	}
	return p
}

// give takes a cell back.
func (a *arena) give(kind int, c ref) { a.giveChain(kind, c, c, 1) }

// giveChain takes n cells back that are linked as lines from first to last.
func (a *arena) giveChain(kind int, first, last ref, n int) {
	p := &a.pools[kind]
	a.line(last).next = p.freed
	p.freed = first
	a.room += n
}

// bytes is the memory of all chunks and their directory.
func (a *arena) bytes() int {
	n := cap(a.chunks) * int(unsafe.Sizeof(a.chunks[0]))
	if k := len(a.chunks); k > 0 {
		n += ((k-1)*chunkCells + len(a.chunks[k-1])) * cellBytes
	}
	return n
}

func (a *arena) cell(c ref) unsafe.Pointer {
	return unsafe.Pointer(&a.chunks[c>>chunkShift][c&(chunkCells-1)])
}

func (a *arena) node(c ref) *node       { return (*node)(a.cell(c)) }
func (a *arena) holders(c ref) *holders { return (*holders)(a.cell(c)) }
func (a *arena) line(c ref) *line       { return (*line)(a.cell(c)) }
func (a *arena) page(c ref) *page       { return (*page)(a.cell(c)) }
func (a *arena) index(c ref) *index     { return (*index)(a.cell(c)) }
func (a *arena) worker(c ref) *worker   { return (*worker)(a.cell(c)) }
func (a *arena) spans(c ref) *spans     { return (*spans)(a.cell(c)) }
func (a *arena) link(e entry) *link {
	return &a.holders(e / cellSlots).link[e%cellSlots]
}
