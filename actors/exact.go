package actors

import (
	"cmp"
	"slices"

	"loadstar/prefixtree"
)

// Exact knows what workers hold in their caches, from what they tell of it, where the
// tree only has what they were sent.
type Exact interface {
	// Match fills in what is held of a prompt. It waits for nothing but its owner,
	// and not for one that is busy.
	Match(q *ExactQuery)

	// Join says that a worker is a member, and Leave that it is none any more. Its
	// number may be another's by then, who has joined: Leave is nothing to that one.
	Join(id WorkerID, url string)
	Leave(id WorkerID, url string)
}

// ExactQuery asks how much of a prompt workers hold. Its owner may use it again once
// Match has returned.
type ExactQuery struct {
	Model   []byte
	Blocks  []uint64 // chained hashes of the prompt's blocks of tokens
	Outcome ExactOutcome
	Hits    []ExactHit    // of each worker that can be spoken for, by rising number
	Reply   chan struct{} // capacity one; who answers makes it
}

// ExactHit is how much of a prompt a worker holds.
type ExactHit struct {
	Worker WorkerID
	Blocks float64 // leading ones; less for those that lie further away
	Sure   bool    // it holds no more; else it may
}

// ExactOutcome is what became of a query.
type ExactOutcome uint8

// Outcomes.
const (
	ExactHeld        ExactOutcome = iota + 1 // somebody holds some of the prompt
	ExactMissed                              // nobody does
	ExactOtherModel                          // the prompt is for a model of which nothing is told
	ExactUnavailable                         // nobody can be spoken for, or the owner is busy
)

// ask asks x for q, if the prompt's tokens are known.
func (q *Request) ask(x Exact) {
	e := &q.exact
	e.Hits = e.Hits[:0]
	if x == nil || len(q.Tokens) == 0 || q.TokenBlocks <= 0 {
		return
	}
	e.Model, e.Blocks, e.Outcome = q.Model, q.Tokens, ExactUnavailable
	x.Match(e)
	e.Model, e.Blocks = nil, nil
}

// correct puts what is known exactly in the place of what the tree says. Where more
// may be held than is known, the longer one stands. A hit may be of no blocks then.
func (q *Request) correct(hits []prefixtree.Hit) []prefixtree.Hit {
	exact := q.exact.Hits
	if len(exact) == 0 {
		return hits
	}
	for k := range hits {
		h := &hits[k]
		i, ok := slices.BinarySearchFunc(exact, WorkerID(h.Worker), func(e ExactHit, id WorkerID) int { return cmp.Compare(e.Worker, id) })
		if !ok {
			continue
		}
		if blocks := q.blocksOf(&exact[i]); exact[i].Sure || blocks > h.Blocks {
			h.Blocks = blocks
		}
		exact[i].Blocks = 0
	}
	for i := range exact {
		if blocks := q.blocksOf(&exact[i]); blocks > 0 {
			hits = append(hits, prefixtree.Hit{Worker: uint32(exact[i].Worker), Blocks: blocks})
		}
	}
	return hits
}

// blocksOf is what a worker holds in blocks of the routing key.
func (q *Request) blocksOf(e *ExactHit) uint32 {
	return uint32(min(e.Blocks*float64(len(q.Key))/q.TokenBlocks, float64(len(q.Key))))
}

// join tells Exact, if there is one, of members. Somebody may have removed one
// meanwhile, and told of that before.
func (r *Router) join(ids []WorkerID, specs []Spec) {
	if r.exact == nil {
		return
	}
	for i, id := range ids {
		url, base := specs[i].URL, specs[i].Base
		r.exact.Join(id, url)
		if !slices.ContainsFunc(r.At(base), func(w WorkerAt) bool { return w.ID == id && w.URL == url && w.Member }) {
			r.leave(id, url, base)
		}
	}
}

// leave tells Exact, if there is one, that a worker is no member any more. Somebody may
// have added it again meanwhile, and told of that before.
func (r *Router) leave(id WorkerID, url, base string) {
	if r.exact == nil {
		return
	}
	r.exact.Leave(id, url)
	for _, w := range r.At(base) {
		if w.ID == id && w.Member {
			r.exact.Join(id, w.URL)
		}
	}
}
