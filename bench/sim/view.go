package sim

import (
	"loadstar/bench/lru"
	"loadstar/prefixtree"
)

// view is what the router thinks that workers have cached.
type view interface {
	// Match appends the longest known prefix of a prompt per worker.
	Match(chain []uint64, dst []prefixtree.Hit) []prefixtree.Hit
	// Insert notes that a worker has a prompt from now on.
	Insert(chain []uint64, worker uint32)
}

func (s *Settings) view() view {
	if s.ViewBlocks == 0 {
		return treeView{prefixtree.New(s.ViewBytes)}
	}
	v := make(blockView, s.Workers)
	for i := range v {
		v[i] = lru.New(s.ViewBlocks)
	}
	return v
}

// treeView is the router's own.
type treeView struct{ *prefixtree.Tree }

func (v treeView) Insert(chain []uint64, worker uint32) { v.Tree.Insert(chain, worker) }

// blockView remembers a number of blocks for each worker, as the workers' caches
// do.
type blockView []*lru.Cache

func (v blockView) Match(chain []uint64, dst []prefixtree.Hit) []prefixtree.Hit {
	for i, known := range v {
		if n := known.Known(chain); n > 0 {
			dst = append(dst, prefixtree.Hit{Worker: uint32(i), Blocks: uint32(n)})
		}
	}
	return dst
}

func (v blockView) Insert(chain []uint64, worker uint32) { v[worker].Add(chain) }
