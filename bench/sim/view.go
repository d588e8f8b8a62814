package sim

import (
	"math"

	"loadstar/actors/learn"
	"loadstar/bench/lru"
	"loadstar/prefixtree"
)

// view is what the router thinks that workers have cached.
type view interface {
	// Match appends the longest known prefix of a prompt per worker.
	Match(chain []uint64, dst []prefixtree.Hit) []prefixtree.Hit
	// Insert notes that a worker has the prompt of a lease from now on.
	Insert(lease learn.Lease, chain []uint64, worker uint32)
	// Hear takes in how many of the blocks of a lease's prompt were cached.
	Hear(lease learn.Lease, blocks, cached int)
}

func (s *Settings) view() view {
	if s.ViewBlocks == 0 {
		v := treeView{tree: prefixtree.New(s.ViewBytes)}
		if !s.NoUsage {
			v.learner = learn.New(v.tree, func(string) bool { return false })
		}
		return v
	}
	v := make(blockView, s.Workers)
	for i := range v {
		v[i] = lru.New(s.ViewBlocks)
	}
	return v
}

// treeView is the router's own, with what it learns from usage.
type treeView struct {
	tree    *prefixtree.Tree
	learner *learn.Learner // nil if answers tell none
}

func (v treeView) Match(chain []uint64, dst []prefixtree.Hit) []prefixtree.Hit {
	return v.tree.Match(chain, dst)
}

func (v treeView) Insert(lease learn.Lease, chain []uint64, worker uint32) {
	known := v.tree.Insert(chain, worker)
	if v.learner != nil {
		v.learner.Note(lease, chain, nil, worker, known)
	}
}

func (v treeView) Hear(lease learn.Lease, blocks, cached int) {
	if v.learner == nil {
		return
	}
	const tokens = 16 // of a block
	worker, until, restarted := v.learner.Hear(lease, learn.Usage{Prompt: blocks * tokens, Cached: cached * tokens})
	for restarted && !v.tree.ForgetUntil(worker, until, math.MaxInt) {
	}
}

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

func (v blockView) Insert(_ learn.Lease, chain []uint64, worker uint32) { v[worker].Add(chain) }

func (blockView) Hear(learn.Lease, int, int) {}
