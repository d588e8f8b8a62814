package actors

import (
	"errors"
	"fmt"
	"testing"

	"loadstar/actors/policy"
)

// startRouter returns a router without workers that ends with the test.
func startRouter(t testing.TB, policyName string, treeBytes int) *Router {
	t.Helper()
	r, err := NewRouter(RouterOptions{Options: options(policyName), TreeBytes: treeBytes})
	if err != nil {
		t.Fatalf("NewRouter: %v", err)
	}
	t.Cleanup(func() { r.Halt() }) // with leases live, if the test wants it so
	return r
}

// A router has a tree, and asks for keys and first bytes, where a policy reads
// them, role by role.
func TestRouterAsksForWhatPoliciesRead(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			prefixes := name == "cache_aware" || name == "least_work" || name == "kv_aware"
			r := startRouter(t, name, 1<<20)
			if got := r.NeedsKey(Regular); got != prefixes {
				t.Errorf("NeedsKey = %v, want %v", got, prefixes)
			}
			if got, want := r.NeedsFirstByte(Regular), name == "least_work" || name == "kv_aware"; got != want {
				t.Errorf("NeedsFirstByte = %v, want %v", got, want)
			}
			if _, got := r.TreeStats(); got != prefixes {
				t.Errorf("has a tree = %v, want %v", got, prefixes)
			}
		})
	}
	o := options("random")
	o.Policy[Prefill] = "cache_aware"
	r, err := NewRouter(RouterOptions{Options: o, TreeBytes: 1 << 20})
	if err != nil {
		t.Fatalf("NewRouter: %v", err)
	}
	defer r.Halt()
	if r.NeedsKey(Regular) || !r.NeedsKey(Prefill) || r.NeedsKey(Decode) {
		t.Error("keys are needed for other roles than prefill, want for it alone")
	}
	// A role that reads no prefixes teaches the tree nothing.
	join(t, r, spec(base(0)))
	acquire(t, r, Request{Key: key(0, 10, 1)})
	if got := statsOf(t, r).Entries; got != 0 {
		t.Errorf("entries = %d, want 0", got)
	}
}

// Load is counted under every policy, the same way.
func TestLoadUnderEveryPolicy(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			const workers, requests = 3, 15
			r := startRouter(t, name, 1<<20)
			for i := range workers {
				join(t, r, spec(base(i)))
			}
			at := map[string]int{}
			var leases []Lease
			for i := range uint64(requests) {
				k := key(0, 20, i)
				l := acquire(t, r, Request{Key: k, Head: k[0], Session: fmt.Appendf(nil, "header:s:%d", i)})
				at[l.URL]++
				leases = append(leases, l)
			}
			for i := range workers {
				wantLoad(t, r.Registry, base(i), at[base(i)])
			}
			for i := range leases {
				leases[i].Release(Completed, 0)
				at[leases[i].URL]--
				wantLoad(t, r.Registry, leases[i].URL, at[leases[i].URL])
			}
			if got := snap(t, r.Registry).Refused; got != 0 {
				t.Errorf("refused = %d, want 0", got)
			}
		})
	}
}

// New prefixes spread over an idle fleet, and each stays where it was placed.
func TestNewPrefixesSpreadAndStay(t *testing.T) {
	const workers, prefixes = 4, 128
	for _, name := range []string{"cache_aware", "least_work"} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t, name, 16<<20)
			for i := range workers {
				join(t, r, spec(base(i)))
			}
			at, home := map[string]int{}, make([]string, prefixes)
			for i := range home {
				k := key(0, 60, uint64(i)+500)
				l := acquire(t, r, Request{Key: k, Head: k[3]})
				l.Release(Completed, 0)
				home[i] = l.URL
				at[l.URL]++
			}
			for url, n := range at {
				if n < prefixes*15/100 || n > prefixes*40/100 {
					t.Errorf("%s got %d of %d new prefixes, want 15 to 40 in a hundred", url, n, prefixes)
				}
			}
			statsOf(t, r) // the tree has learnt it all
			stayed := 0
			for i := range home {
				k := append(key(0, 60, uint64(i)+500), key(0, 5, 77)...)
				l := acquire(t, r, Request{Key: k, Head: k[3]})
				l.Release(Completed, 0)
				if l.URL == home[i] {
					stayed++
				}
			}
			if stayed*100 < prefixes*95 {
				t.Errorf("%d of %d prefixes stayed, want 95 in a hundred", stayed, prefixes)
			}
		})
	}
}

// The same Request goes through the tree and past it, in any order, and never
// carries a hint from one call to the next.
func TestRequestIsUsedAgain(t *testing.T) {
	r := routedFleet(t, 2)
	q := &Request{Key: key(0, 40, 3)}
	for i := range 20 {
		q.Key = q.Key[:40]
		l, err := r.Acquire(q)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		if want := 40; i > 0 && l.Decision.Match != want {
			t.Errorf("match = %d, want %d", l.Decision.Match, want)
		}
		l.Release(Completed, 0)
		q.Key = q.Key[:0]
		l, err = r.Acquire(q)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		if l.Decision.Match != 0 {
			t.Errorf("match without a key = %d, want 0", l.Decision.Match)
		}
		l.Release(Completed, 0)
		statsOf(t, r)
	}
}

// The tree gives each request its own hints.
func TestHintsAreOfThisRequest(t *testing.T) {
	r := routedFleet(t, 1)
	k := key(0, 40, 3)
	r.tree.Insert(k, 0)
	q := new(Request)
	for _, tc := range []struct {
		key  []uint64
		want int
	}{{k, 1}, {key(0, 40, 4), 0}, {k, 1}, {k, 1}} {
		q.Key = tc.key
		l, err := r.tree.AcquireFor(q, nil)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		l.Release(Completed, 0)
		if got := len(q.hits); got != tc.want {
			t.Errorf("%d hints, want %d", got, tc.want)
		}
	}
}

// An error of the registry comes through the tree as it is, and teaches the tree
// nothing.
func TestRefusalThroughTheTree(t *testing.T) {
	r := startRouter(t, "cache_aware", 1<<20)
	add(t, r, spec(base(0)))
	for range 3 {
		if _, err := r.Acquire(&Request{Key: key(0, 40, 3)}); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
		}
	}
	if got := statsOf(t, r).Entries; got != 0 {
		t.Errorf("entries = %d, want 0", got)
	}
	r.ReportHealth(base(0), nil)
	acquire(t, r, Request{Key: key(0, 40, 3)})
}

// Stop tells of the leases it had to leave, and only then.
func TestRouterStop(t *testing.T) {
	r := routedFleet(t, 1)
	l := acquire(t, r, Request{Key: key(0, 40, 3)})
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(t.Context()) }()
	until(t, "the drain to begin", func() bool { return snap(t, r.Registry).Draining })
	if _, err := r.Acquire(&Request{Key: key(0, 40, 3)}); !errors.Is(err, ErrStopped) {
		t.Errorf("Acquire while stopping: %v, want %v", err, ErrStopped)
	}
	l.Release(Completed, 0)
	finish(t, "Stop", inBackground(func() {
		if err := <-stopped; err != nil {
			t.Errorf("Stop: %v, want no error: no lease is live", err)
		}
	}))
	if err := r.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v, want no error", err)
	}
}
