package actors

import (
	"context"

	"loadstar/actors/policy"
)

// RouterOptions configures a Router.
type RouterOptions struct {
	Options
	TreeBytes int // memory that the prefix tree may hold
}

// Router is the front of the actors for those who handle requests: a Registry
// with the Tree that gives its policies their hints.
type Router struct {
	*Registry
	tree       *Tree          // nil when no policy reads prefixes
	firstBytes [numRoles]bool // roles whose policy reads pending prompt work, or all when wedged workers are looked for
	prefixes   [numRoles]bool // roles whose policy reads prefixes
	progress   bool           // wedged workers are looked for
}

// NewRouter starts the actors, without workers. Call Stop to end them.
func NewRouter(o RouterOptions) (*Router, error) {
	registry, err := NewRegistry(o.Options)
	if err != nil {
		return nil, err
	}
	r := &Router{Registry: registry, progress: o.WedgedAfter > 0}
	for role, name := range o.Policy {
		r.prefixes[role] = policy.NeedsPrefixes(name)
		r.firstBytes[role] = policy.NeedsWork(name) || r.progress
		if r.prefixes[role] && r.tree == nil {
			r.tree = newTree(registry, o.TreeBytes)
		}
	}
	return r, nil
}

// NeedsKey reports whether the policy for a role reads the routing key's blocks.
func (r *Router) NeedsKey(role Role) bool { return r.prefixes[role] }

// NeedsFirstByte reports whether a lease of this role should be told when the
// worker's answer begins.
func (r *Router) NeedsFirstByte(role Role) bool { return r.firstBytes[role] }

// NeedsProgress reports whether leases should be told of their streams' progress.
func (r *Router) NeedsProgress() bool { return r.progress }

// Acquire is AcquireFor a client that never leaves.
func (r *Router) Acquire(q *Request) (Lease, error) { return r.AcquireFor(q, nil) }

// AcquireFor chooses a worker, counts the caller in its load, and lets the tree
// learn that this worker will have seen the prompt; see Registry.AcquireFor.
func (r *Router) AcquireFor(q *Request, c Client) (Lease, error) {
	q.hits = q.hits[:0]
	if r.tree == nil || !r.prefixes[q.Role] || len(q.Key) == 0 {
		return r.Registry.AcquireFor(q, c)
	}
	l, err := r.tree.AcquireFor(q, c)
	if err == nil {
		r.tree.Insert(q.Key, l.Worker)
	}
	return l, err
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
	if r.tree == nil || len(q.Key) == 0 || !r.prefixes[Prefill] && !r.prefixes[Decode] {
		return r.Registry.AcquirePairFor(q, c)
	}
	prefill, decode, err = r.tree.AcquirePairFor(q, c)
	if err != nil {
		return prefill, decode, err
	}
	if prefill.registry != nil && r.prefixes[Prefill] {
		r.tree.Insert(q.Key, prefill.Worker)
	}
	if r.prefixes[Decode] {
		r.tree.Insert(q.Key, decode.Worker)
	}
	return prefill, decode, nil
}

// Add is Registry.Add. A number that is new to its worker has nothing to do
// with what the tree may still hold of its last bearer.
func (r *Router) Add(specs []Spec) ([]WorkerID, error) {
	ids, err := r.Registry.Add(specs)
	r.Forget(ids...)
	return ids, err
}

// Remove is Registry.Remove. A worker that comes back starts without credit.
func (r *Router) Remove(url string) ([]Removed, error) {
	removed, err := r.Registry.Remove(url)
	for _, w := range removed {
		r.Forget(w.ID)
	}
	return removed, err
}

// EndDrain is Registry.EndDrain, with what Remove does beside.
func (r *Router) EndDrain(d *Drain) bool {
	ended := r.Registry.EndDrain(d)
	if ended {
		r.Forget(d.ID)
	}
	return ended
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
