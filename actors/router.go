package actors

import (
	"context"
	"slices"

	"loadstar/actors/learn"
	"loadstar/actors/policy"
)

// RouterOptions configures a Router.
type RouterOptions struct {
	Options
	TreeBytes int // memory that the prefix tree may hold

	KeepPlacements bool // for Placed

	Exact Exact // asked for policies that go by it; nil for none
}

// Router is the front of the actors for those who handle requests: a Registry
// with the Tree that gives its policies their hints.
type Router struct {
	*Registry
	tree       *Tree           // nil when no policy reads prefixes
	firstBytes [numRoles]bool  // roles whose policy, or a shadow, reads pending prompt work, or all when wedged workers are looked for
	prefixes   [numRoles]bool  // roles whose policy, or a shadow, reads prefixes
	exacts     [numRoles]Exact // asked for requests of a role; nil for none
	exact      Exact           // nil if it isn't asked at all
	progress   bool            // wedged workers are looked for
	affinities [numRoles]bool  // roles whose policy keeps sessions by Request.Affinity
}

// NewRouter starts the actors, without workers. Call Stop to end them.
func NewRouter(o RouterOptions) (*Router, error) {
	registry, err := NewRegistry(o.Options)
	if err != nil {
		return nil, err
	}
	r := &Router{Registry: registry, progress: o.WedgedAfter > 0}
	for role, name := range o.Policy {
		r.prefixes[role] = policy.NeedsPrefixes(name) || slices.ContainsFunc(o.Shadows, policy.NeedsPrefixes)
		if policy.NeedsExact(name) && o.Exact != nil {
			r.exacts[role], r.exact = o.Exact, o.Exact
		}
		r.firstBytes[role] = policy.NeedsWork(name) || r.progress || slices.ContainsFunc(o.Shadows, policy.NeedsWork)
		r.affinities[role] = policy.NeedsAffinity(name, o.PolicyOptions) && Role(role) != Prefill
		if r.prefixes[role] && r.tree == nil {
			r.tree = newTree(registry, o.TreeBytes, o.KeepPlacements)
		}
	}
	return r, nil
}

// NeedsKey reports whether the policy for a role reads the routing key's blocks. Then
// the tree learns from what workers tell of leases of this role, too; see Learn.
func (r *Router) NeedsKey(role Role) bool { return r.prefixes[role] }

// NeedsAffinity reports whether the policy for a role reads Request.Affinity.
func (r *Router) NeedsAffinity(role Role) bool { return r.affinities[role] }

// NeedsFirstByte reports whether a lease of this role should be told when the
// worker's answer begins.
func (r *Router) NeedsFirstByte(role Role) bool { return r.firstBytes[role] }

// Learn tells what the worker of a lease has told of the prompt that it has worked
// off by itself, before the lease is released. It does nothing for a short prompt.
func (r *Router) Learn(l *Lease, u learn.Usage) {
	if r.tree != nil && l.Decision.Blocks >= learn.LeastBlocks {
		r.tree.learn(l.ticket, u)
	}
}

// NeedsTokens reports whether the policy for a role goes by the tokens of a prompt.
func (r *Router) NeedsTokens(role Role) bool { return r.exacts[role] != nil }

// NeedsProgress reports whether leases should be told of their streams' progress.
func (r *Router) NeedsProgress() bool { return r.progress }

// Acquire is AcquireFor a client that never leaves.
func (r *Router) Acquire(q *Request) (Lease, error) { return r.AcquireFor(q, nil) }

// AcquireFor chooses a worker, counts the caller in its load, and lets the tree
// learn that this worker will have seen the prompt; see Registry.AcquireFor.
func (r *Router) AcquireFor(q *Request, c Client) (Lease, error) {
	q.hits = q.hits[:0]
	if r.tree == nil || len(q.Key) == 0 || !r.prefixes[q.Role] && !r.readsBeside(q) {
		return r.Registry.AcquireFor(q, c)
	}
	q.ask(r.exacts[q.Role])
	l, err := r.tree.AcquireFor(q, c)
	if err == nil {
		l.Decision.Best = q.best()
		if r.prefixes[q.served] {
			r.insert(q, &l)
		}
	}
	return l, err
}

// readsBeside reports whether q may go to a regular worker that is chosen by prefixes.
func (r *Router) readsBeside(q *Request) bool { return q.Beside && r.prefixes[Regular] }

// best is the longest prefix of q's prompt that any worker is thought to have.
func (q *Request) best() int {
	most := uint32(0)
	for i := range q.hits {
		most = max(most, q.hits[i].Blocks)
	}
	return min(int(most), len(q.Key))
}

// AcquirePair is AcquirePairFor a client that never leaves.
func (r *Router) AcquirePair(q *Request) (prefill, decode Lease, err error) {
	return r.AcquirePairFor(q, nil)
}

// AcquirePairFor chooses a worker to prefill a request and one to decode it, and
// lets the tree learn that both will have seen the prompt; see
// Registry.AcquirePairFor.
func (r *Router) AcquirePairFor(q *Request, c Client) (prefill, decode Lease, err error) {
	q.hits = q.hits[:0]
	if r.tree == nil || len(q.Key) == 0 || !r.prefixes[Prefill] && !r.prefixes[Decode] && !r.readsBeside(q) {
		return r.Registry.AcquirePairFor(q, c)
	}
	x := r.exacts[Prefill]
	if x == nil {
		x = r.exacts[Decode]
	}
	q.ask(x)
	prefill, decode, err = r.tree.AcquirePairFor(q, c)
	if err != nil {
		return prefill, decode, err
	}
	split := prefill.registry != nil
	decode.Decision.Best = q.best()
	prefill.Decision.Best = decode.Decision.Best
	if split && r.prefixes[Prefill] {
		r.insert(q, &prefill)
	}
	switch {
	case !r.prefixes[q.served]:
	case split: // it gets the prompt from elsewhere, whatever it has
		r.tree.Insert(q.Key, decode.Worker)
	default:
		r.insert(q, &decode)
	}
	return prefill, decode, nil
}

// insert lets the tree learn that the worker of a lease will have seen the prompt. It
// may know that of one that was parked and not moved.
func (r *Router) insert(q *Request, l *Lease) {
	if q.learnt && q.placed.ticket == l.ticket {
		return
	}
	r.tree.insert(treeInsert, q.Key, l.Worker, q.Model, l.ticket, cap(r.tree.inbox))
}

// Add is Registry.Add. A number that is new to its worker has nothing to do
// with what the tree may still hold of its last bearer.
func (r *Router) Add(specs []Spec) ([]WorkerID, error) {
	ids, err := r.Registry.Add(specs)
	r.Forget(ids...)
	r.join(ids, specs)
	return ids, err
}

// Remove is Registry.Remove. A worker that comes back starts without credit.
func (r *Router) Remove(url string) ([]Removed, error) {
	removed, err := r.Registry.Remove(url)
	for _, w := range removed {
		r.Forget(w.ID)
		r.leave(w.ID, w.URL, w.Base)
	}
	return removed, err
}

// EndDrain is Registry.EndDrain, with what Remove does beside.
func (r *Router) EndDrain(d *Drain) bool {
	ended := r.Registry.EndDrain(d)
	if ended {
		r.Drained(d)
	}
	return ended
}

// Drained drops what is known of a worker whose drain has ended its membership.
func (r *Router) Drained(d *Drain) {
	r.Forget(d.ID)
	r.leave(d.ID, d.URL, d.Base)
}

// Forget drops what the tree knows of workers, for when their caches are gone.
func (r *Router) Forget(ids ...WorkerID) {
	if r.tree == nil {
		return
	}
	for _, id := range ids {
		r.tree.Forget(id)
	}
}

// TreeStats returns the sizes of the prefix tree; false when there is none.
func (r *Router) TreeStats() (TreeStats, bool) {
	if r.tree == nil {
		return TreeStats{}, false
	}
	return r.tree.Stats(), true
}

// Stop refuses new leases, waits for live ones to come back or for ctx, and
// ends the actors. It returns an error if leases were still live.
func (r *Router) Stop(ctx context.Context) error {
	r.Drain(ctx)
	return r.Halt()
}

// Halt ends the actors, whatever is live. It returns an error if leases were.
// The tree goes first, for it passes requests on to the registry.
func (r *Router) Halt() error {
	if r.tree != nil {
		r.tree.Stop()
	}
	return r.Registry.Halt()
}
