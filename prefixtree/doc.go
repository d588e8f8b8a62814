// Package prefixtree remembers which worker holds which prompt prefix in its
// key-value cache.
//
// A key is the chained hashes of a prompt's blocks: key[i] names everything up
// to and including block i, so equal key[i] means equal key[:i+1]. Insert says
// that a worker holds a key, Match returns the longest known prefix of a key at
// every worker, in one walk. The answer is a hint: a worker may have dropped
// what the tree remembers, and hashes may collide.
//
// There is no goroutine, lock or clock here. One goroutine owns a Tree.
//
// # Layout
//
// The tree is a compressed radix tree. An edge, called node here, is a run of
// up to 1024 blocks that the same workers hold. It keeps 32 bits of each block's
// hash, the first three and the last in the node, the others in lines of 15.
// Because hashes are chained, comparing an edge's last hash settles the whole
// edge, and the last hash of each line finds the place where a key leaves it:
// cost follows nodes, not blocks. A leaf with one holder grows in place, so a
// conversation at one worker stays one node.
//
// Everything lies in cells of 64 bytes, a cache line: nodes, lines, further
// holders of a node, the index over them when they are many, and what is known
// of each worker. One size for all means that no shift in the workload can
// strand memory in the wrong kind of record, so the limit can be kept exactly
// without moving anything. Cells come in chunks of 32 KiB that hold no pointers
// and never move: the garbage collector has nothing to scan, and no growth
// copies what is there. Nodes and lines prefer chunks of their own kind, since
// a match reads few lines and would find one node to a page among them.
//
// A child is found by (parent, first hash) in a table whose bucket heads are
// allocated once, in proportion to the limit, so it never needs to grow.
// The bucket depends on a secret of the process: clients choose their prompts
// and so the hashes.
//
// # Who holds what
//
// The first holder of a node is kept in the node itself, which is all that most
// nodes need. Up to 32 more are packed into a chain of cells. Beyond that there
// is a bit set over the workers, from which a match takes 64 at a time, and a
// radix index to the entries. A match goes from the deepest node up and skips
// whom it has met, so it writes each worker once, where it knows most.
//
// # Recency and eviction
//
// An entry is one worker's hold on one node. Each worker has a ring of its
// entries. Insert touches its path from the leaf to the root, so parents are
// always in front of what is below them, the last of a ring is a leaf, and what
// is left after any number of evictions is a set of prefixes. A heap of the
// workers by their oldest entry gives the least recent entry of all. Match
// touches nothing: policies ask without acting.
//
// Recency is a counter of inserts. It is 32 bits wide and wraps; an entry that
// was last touched 2^31 inserts ago is evicted even when there is room, which
// keeps differences meaningful.
//
// Where ages are tracked, each worker's blocks are also counted by the insert that
// used them last, in a few spans in two more cells, so that Insert can say how far
// down in the worker's own order of last use a key stood.
//
// Insert takes from a reserve of free cells (a sixteenth of the limit, at most
// 256 KiB) and evicts afterwards, at most 64 entries at a time, until the
// reserve is back. So an insert never evicts what it walks on, its time is
// bounded, and a key that is larger than the reserve is kept in part instead of
// emptying the tree.
//
// # Bounds
//
// Match and Insert take time in proportion to the nodes on the key's path, of
// which there are at most 1024, plus the hits, plus the new blocks, of which
// one insert adds at most 16384. Paths have a handful of nodes unless someone
// sends the prefixes of a long prompt one by one, and nothing recurses. Cutting
// an edge copies its holders, some tens of nanoseconds each.
//
// Unlike blocks with equal 32 bits at the start of an edge or at the place of
// comparison are taken for equal, once in 2^32. A client that makes colliding
// 64-bit hashes on purpose gets wrong hints about its own prompts.
package prefixtree
