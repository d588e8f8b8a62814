package sim

import (
	"fmt"
	"time"

	"loadstar/actors/learn"
	"loadstar/actors/policy"
	"loadstar/prefixtree"
)

// router does what Loadstar does with a request: it asks the view which worker has
// how much of the prompt, has the policy choose by that and by the loads of that
// moment, counts a lease and the blocks to be prefilled, and notes that the worker
// will have the prompt.
type router struct {
	policy  policy.Policy
	view    view // nil for a policy that doesn't look at prefixes
	workers []policy.Candidate
	hits    []prefixtree.Hit
	granted int
	backlog int   // blocks sent to a worker and not begun to be answered, from which on others wait; 0 for no bound
	sent    []int // of each worker
	silent  []int // requests that they are of
}

// lease is what a request counts for at a worker.
type lease struct {
	worker  int
	pending int // blocks granted and not given back
	parked  bool
	name    learn.Lease
}

func newRouter(s *Settings, rule Rule, seed uint64) (*router, error) {
	p, prefixes, err := rule.make(seed)
	if err != nil {
		return nil, err
	}
	r := &router{policy: p, sent: make([]int, s.Workers), silent: make([]int, s.Workers)}
	if rule.parks() && s.GiveBack != AtEnd { // of those no first byte tells
		r.backlog = s.backlog()
	}
	if prefixes {
		r.view = s.view()
	}
	var members []policy.Member
	for i, pace := range s.paces() {
		url := fmt.Sprintf("http://worker-%d-%d:8000", seed, i) // with each seed, ties go elsewhere
		members = append(members, policy.Member{ID: uint32(i), URL: url})
		r.workers = append(r.workers, policy.Candidate{ID: uint32(i), URL: url, Hash: policy.Hash(url), Cost: 1, Pace: pace})
	}
	if k, keeps := p.(policy.MemberKeeper); keeps {
		k.SetMembers(members)
	}
	return r, nil
}

// grant chooses a worker.
func (r *router) grant(q *request, now time.Duration) lease {
	for i := range r.workers {
		r.workers[i].Match = 0
	}
	if r.view != nil {
		r.hits = r.view.Match(q.chain, r.hits[:0])
		for _, h := range r.hits {
			r.workers[h.Worker].Match = min(int(h.Blocks), len(q.chain))
		}
	}
	asked := policy.Request{Key: q.head(), Blocks: len(q.chain), Now: int64(now)}
	w := &r.workers[r.policy.Choose(&asked, r.workers).Index]
	l := lease{worker: int(w.ID), pending: len(q.chain) - w.Match, parked: r.isFed(int(w.ID))}
	if !l.parked {
		r.count(&l)
	}
	w.Load++
	w.Pending += l.pending
	r.granted++
	l.name = learn.Lease{Gen: uint64(r.granted), Slot: uint32(r.granted)}
	if r.view != nil {
		r.view.Insert(l.name, q.chain, w.ID)
	}
	return l
}

// isFed reports whether a worker has been sent as much as it should have at a time.
func (r *router) isFed(worker int) bool {
	return r.backlog > 0 && r.sent[worker] >= r.backlog && r.silent[worker] >= policy.LeastSent
}

// count counts a lease's blocks as sent.
func (r *router) count(l *lease) {
	if l.pending > 0 {
		r.sent[l.worker] += l.pending
		r.silent[l.worker]++
	}
}

// start sends a parked lease's request on.
func (r *router) start(l *lease) {
	l.parked = false
	r.count(l)
}

// begun gives the prompt work of a lease back: its answer has begun.
func (r *router) begun(l *lease) {
	r.workers[l.worker].Pending -= l.pending
	if l.pending > 0 {
		r.sent[l.worker] -= l.pending
		r.silent[l.worker]--
	}
	l.pending = 0
}

// release ends a lease, whose worker tells how many blocks of the prompt it had
// cached.
func (r *router) release(l *lease, blocks, cached int) {
	if r.view != nil {
		r.view.Hear(l.name, blocks, cached)
	}
	r.begun(l)
	r.workers[l.worker].Load--
}
