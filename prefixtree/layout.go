package prefixtree

import "unsafe"

// Everything the tree remembers lives in cells of one size, so that what one
// kind of record gives back any other can take: a shift from few long prompts
// to many short ones can't strand memory. A cell is read through one of the
// views below; which one applies is always known from where the reference
// came from.
const (
	cellBytes  = 64
	headHashes = 3  // hashes of an edge that its node keeps itself
	lineHashes = 15 // hashes of an edge in each further cell
	cellSlots  = 4  // entries in a cell of holders

	// maxEdge bounds the blocks of one edge, and with it the cells that
	// finding the split of an edge walks.
	maxEdge = 1024

	// maxPath bounds the nodes on a path, and with it the time of every
	// operation. Edges are long, so only someone who sends the prefixes of a
	// prompt one by one can come near.
	maxPath = 1024

	// maxNew bounds the blocks that one insert adds: 1 MiB of prompt at 64
	// bytes a block.
	maxNew = 1 << 14

	// MaxWorkers is one more than the largest worker id a Tree keeps.
	MaxWorkers = 1 << 13

	noWorker = ^uint16(0)
)

type (
	// cell is eight-byte aligned, which the bit sets of page need.
	cell [cellBytes / 8]uint64

	// ref is the number of a cell; 0 is none, and as a parent the root.
	ref = uint32

	// entry names one (node, worker) record: the cell it is in, times
	// cellSlots, plus its slot there; 0 is none.
	entry = uint32
)

// link is an entry's place in the ring of its worker, most recent first.
type link struct {
	prev, next entry
	stamp      uint32 // Tree.now of the insert that touched it last
}

// node is one edge of the tree with the workers that hold it. Its first slots
// lie where those of holders do, so that the holder kept in the node is an
// entry like any other.
type node struct {
	self    ref    // holders.node
	more    ref    // further holders: a chain of holders, or of pages when indexed
	worker  uint16 // holders.worker[0]; noWorker when the slot is empty
	holding uint16 // workers that hold the node
	length  uint16 // blocks on the edge, 1 to maxEdge
	skip    uint8  // hashes of the first line that are not the edge's
	indexed bool   // more is a chain of pages
	link    link   // holders.link[0]

	parent   ref
	chain    ref // next in the same bucket of the table
	children uint32
	last     uint32 // hash of the edge's last block
	first    ref    // line with the hash after head, 0 when head holds all
	tail     ref    // line with the last hash
	head     [headHashes]uint32
}

// holders is four more entries of a node. In an indexed node the slots belong
// to four workers with neighbouring ids, elsewhere to any.
type holders struct {
	node   ref
	next   ref
	worker [cellSlots]uint16
	link   [cellSlots]link
}

// line is a run of an edge's hashes. A free cell is a line too, so that the
// lines of an edge are given back by joining two chains.
type line struct {
	hash [lineHashes]uint32
	next ref
}

// page lists 256 workers of an indexed node: bit i of bits is worker
// base*256+i, and index leads to its entry.
type page struct {
	bits  [4]uint64
	index [4]ref // each an index of 64 workers
	base  uint32
	next  ref
	_     [2]uint32
}

// index leads to the holders of 16 groups of four workers.
type index [16]ref

// worker is what the tree knows of one worker: the ring of its entries and
// its place in the heap of workers.
type worker struct {
	starts, counts ref    // its spans
	filled         uint32 // spans in use
	blocks         uint32 // that it holds
	ring           link   // next is the most recent entry, prev the oldest

	id                   uint32
	child, sibling, back ref
	oldest               uint32 // stamp of ring.prev while queued
	queued               bool   // in the heap
	_                    [15]byte
}

// The views must cover a cell exactly and agree where they overlap.
var (
	_ [cellBytes]byte = [unsafe.Sizeof(node{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(holders{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(line{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(page{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(index{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(worker{})]byte{}
	_ [cellBytes]byte = [unsafe.Sizeof(spans{})]byte{}

	_ [unsafe.Offsetof(node{}.worker)]byte = [unsafe.Offsetof(holders{}.worker)]byte{}
	_ [unsafe.Offsetof(node{}.link)]byte   = [unsafe.Offsetof(holders{}.link)]byte{}
	_ [unsafe.Offsetof(worker{}.ring)]byte = [unsafe.Offsetof(holders{}.link)]byte{}
)
