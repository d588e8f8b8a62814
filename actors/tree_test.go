package actors

import (
	"errors"
	"sync/atomic"
	"testing"

	"loadstar/actors/policy"
)

// key returns a prompt of n blocks, of which the first shared are those of every
// other key.
func key(shared, n int, own uint64) []uint64 {
	k := make([]uint64, n)
	h := uint64(1)
	for i := range k {
		if i >= shared {
			h ^= own
		}
		h = (h ^ h>>29) * 0x9e3779b97f4a7c15
		k[i] = h
	}
	return k
}

// routedFleet is a router with a tree over n healthy workers.
func routedFleet(t testing.TB, n int) *Router {
	t.Helper()
	r := startRouter(t, "cache_aware", 4<<20)
	for i := range n {
		join(t, r, spec(base(i)))
	}
	return r
}

// statsOf waits until the tree has done what it was told before.
func statsOf(t testing.TB, r *Router) TreeStats {
	t.Helper()
	s, ok := r.TreeStats()
	if !ok {
		t.Fatal("the router has no tree")
	}
	return s
}

// matchAt is how much of a key the tree knows of one worker.
func matchAt(t testing.TB, r *Router, k []uint64, id WorkerID) int {
	t.Helper()
	q := &Request{Key: k}
	l, err := r.tree.AcquireFor(q, nil)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	l.Release(Completed, 0)
	for _, h := range q.hits {
		if h.Worker == uint32(id) {
			return int(h.Blocks)
		}
	}
	return 0
}

// A prompt goes where its beginning went before, and the decision says how much
// of it is known there.
func TestHintsArrive(t *testing.T) {
	r := routedFleet(t, 8)
	k := key(0, 100, 7)
	first := acquire(t, r, Request{Key: k, Head: k[0]})
	if d := first.Decision; d.Match != 0 || d.Blocks != 100 || d.Reason != policy.PrefixMiss {
		t.Errorf("first decision = %+v, want a miss of 100 blocks", d)
	}
	for i, tc := range []struct {
		name  string
		key   []uint64
		match int
	}{
		{"the same", k, 100},
		{"a beginning of it", k[:50], 50},
		{"more of it", append(k[:100:100], key(0, 40, 9)...), 100},
	} {
		l := acquire(t, r, Request{Key: tc.key, Head: uint64(i) << 32})
		if l.URL != first.URL {
			t.Errorf("%s went to %s, want %s", tc.name, l.URL, first.URL)
		}
		if d := l.Decision; d.Match != tc.match || d.Reason != policy.PrefixHit {
			t.Errorf("%s: decision = %+v, want a hit of %d blocks", tc.name, d, tc.match)
		}
	}
	if other := acquire(t, r, Request{Key: key(0, 100, 8)}); other.Decision.Match != 0 {
		t.Errorf("match of another prompt = %d, want 0", other.Decision.Match)
	}
	if none := acquire(t, r, Request{}); none.Decision.Blocks != 0 {
		t.Errorf("blocks of a request without a key = %d, want 0", none.Decision.Blocks)
	}
}

// A worker that comes back starts without credit, and so does one that gets the
// number of a worker that is gone.
func TestTreeForgetsTheRemoved(t *testing.T) {
	t.Run("comes back", func(t *testing.T) {
		r := routedFleet(t, 1)
		k := key(0, 100, 7)
		acquire(t, r, Request{Key: k})
		remove(t, r, base(0))
		id := join(t, r, spec(base(0)))[0]
		if got := matchAt(t, r, k, id); got != 0 {
			t.Errorf("match after coming back = %d, want 0", got)
		}
		until(t, "an empty tree", func() bool { return statsOf(t, r).Entries == 0 })
	})
	t.Run("a number's next bearer", func(t *testing.T) {
		r := routedFleet(t, 1)
		k := key(0, 100, 7)
		l := acquire(t, r, Request{Key: k})
		l.Release(Completed, 0)
		remove(t, r, base(0))
		id := join(t, r, spec(base(1)))[0]
		if id != l.Worker {
			t.Fatalf("the next worker has number %d, want %d: the test is about its reuse", id, l.Worker)
		}
		if got := matchAt(t, r, k, id); got != 0 {
			t.Errorf("match of the next bearer = %d, want 0", got)
		}
	})
	t.Run("with the removal", func(t *testing.T) {
		r := routedFleet(t, 1)
		acquire(t, r, Request{Key: key(0, 100, 7)})
		remove(t, r, base(0))
		until(t, "an empty tree", func() bool { return statsOf(t, r).Entries == 0 })
	})
	t.Run("taught after the removal", func(t *testing.T) {
		r := routedFleet(t, 1)
		k := key(0, 100, 7)
		l := acquire(t, r, Request{})
		remove(t, r, base(0))
		r.tree.Insert(k, l.Worker) // by a request that was granted before
		id := join(t, r, spec(base(0)))[0]
		if got := matchAt(t, r, k, id); got != 0 {
			t.Errorf("match after coming back = %d, want 0", got)
		}
	})
	t.Run("at once, however much there is", func(t *testing.T) {
		r := routedFleet(t, 1)
		id := view(t, r.Registry, base(0)).ID
		fillTree(t, r, id)
		k := key(0, 30, 7)
		r.tree.Insert(k, id)
		letGo := holdTree(t, r.tree)
		r.Forget(id)
		done := inBackground(func() {
			if got := matchAt(t, r, k, id); got != 0 {
				t.Errorf("match = %d, want 0", got)
			}
		})
		until(t, "the question", func() bool { return len(r.tree.inbox) == 2 })
		letGo()
		finish(t, "a question of a worker that is being forgotten", done)
	})
	t.Run("others keep theirs", func(t *testing.T) {
		r := routedFleet(t, 2)
		a, b := view(t, r.Registry, base(0)).ID, view(t, r.Registry, base(1)).ID
		k := key(0, 100, 7)
		r.tree.Insert(k, a)
		r.tree.Insert(k[:60], b)
		r.Forget(a)
		until(t, "one to be forgotten", func() bool { return matchAt(t, r, k, a) == 0 })
		if got := matchAt(t, r, k, b); got != 60 {
			t.Errorf("match of the other worker = %d, want 60", got)
		}
	})
}

// fillTree teaches the tree some 200 prompts of one worker and returns how many
// entries they take.
func fillTree(t *testing.T, r *Router, id WorkerID) int {
	t.Helper()
	const prompts = 200
	for i := range uint64(prompts) {
		for !r.tree.Insert(key(4, 20, 1000+i), id) {
			statsOf(t, r)
		}
	}
	n := statsOf(t, r).Entries
	if n < prompts {
		t.Fatalf("%d entries, want %d or more", n, prompts)
	}
	return n
}

// Forgetting goes on however busy the tree is: a worker that has got the number
// of one that is gone must not live on its credit while the load lasts.
func TestForgettingUnderLoad(t *testing.T) {
	r := routedFleet(t, 1)
	id := view(t, r.Registry, base(0)).ID
	before := fillTree(t, r, id)
	// Messages wait from the first that follows to the last that asks.
	letGo := holdTree(t, r.tree)
	go r.Forget(id)
	until(t, "the order to forget", func() bool { return len(r.tree.inbox) == 1 })
	replies := make(chan TreeStats, treeInboxSize)
	for len(r.tree.inbox) < treeInboxSize {
		r.tree.send(treeMessage{kind: treeStats, stats: replies})
	}
	letGo()
	entries := before
	for range treeInboxSize - 1 {
		entries = (<-replies).Entries
	}
	if entries > 0 {
		t.Errorf("%d entries of %d are left after %d messages, want 0", entries, before, treeInboxSize-1)
	}
}

// What is ordered to be forgotten many times is remembered once.
func TestForgetIsBounded(t *testing.T) {
	r := routedFleet(t, 1)
	finish(t, "forgetting", inBackground(func() {
		for range 100 * treeInboxSize {
			r.Forget(0, 1, 0)
		}
	}))
	if got := statsOf(t, r).Entries; got != 0 {
		t.Errorf("entries = %d, want 0", got)
	}
}

// The caller has its key back at once and may use it for the next request.
func TestInsertCopiesTheKey(t *testing.T) {
	r := routedFleet(t, 1)
	id := view(t, r.Registry, base(0)).ID
	letGo := holdTree(t, r.tree)
	k := key(0, 30, 7)
	mine := append([]uint64(nil), k...)
	if !r.tree.Insert(mine, id) {
		t.Fatal("Insert into an empty inbox = false, want true")
	}
	for i := range mine {
		mine[i] = 99
	}
	letGo()
	if got := matchAt(t, r, k, id); got != 30 {
		t.Errorf("match = %d, want 30: what was inserted before the key was changed", got)
	}
	if got := matchAt(t, r, []uint64{99, 99}, id); got != 0 {
		t.Errorf("match of what the key was changed to = %d, want 0", got)
	}
}

func TestInsertOfNothing(t *testing.T) {
	r := routedFleet(t, 1)
	if !r.tree.Insert(nil, 0) {
		t.Error("Insert of an empty key = false, want true: there is nothing to take")
	}
	if got := statsOf(t, r); got.Entries != 0 || got.Nodes != 0 {
		t.Errorf("stats = %+v, want nothing held", got)
	}
}

func TestTreeStats(t *testing.T) {
	r := routedFleet(t, 2)
	empty := statsOf(t, r)
	if empty.Entries != 0 || empty.Nodes != 0 || empty.Dropped != 0 || empty.Evicted != 0 {
		t.Errorf("stats of an empty tree = %+v, want nothing held", empty)
	}
	r.tree.Insert(key(10, 50, 1), 0)
	r.tree.Insert(key(10, 50, 2), 0)
	r.tree.Insert(key(10, 50, 2), 1)
	got := statsOf(t, r)
	if got.Nodes != 3 || got.Entries != 5 || got.Bytes < empty.Bytes {
		t.Errorf("stats = %+v, want 3 nodes and 5 entries: a stem with two ends, one of them shared", got)
	}
	if _, ok := startRouter(t, "random", 1<<20).TreeStats(); ok {
		t.Error("a router without a tree has stats, want none")
	}
}

// The tree keeps within its bytes, whatever is put in.
func TestTreeIsBounded(t *testing.T) {
	const limit = 1 << 20
	r := startRouter(t, "cache_aware", limit)
	join(t, r, spec(base(0)))
	for i := range uint64(20000) {
		r.tree.Insert(key(2, 40, i+100), 0)
		if i%100 == 0 {
			if s := statsOf(t, r); s.Bytes > limit+limit/20 {
				t.Fatalf("%d bytes after %d prompts, want at most %d and a twentieth", s.Bytes, i, limit)
			}
		}
	}
	if s := statsOf(t, r); s.Evicted == 0 {
		t.Errorf("stats = %+v, want some evicted: the test must fill the tree", s)
	}
}

// A tree without room costs the hint, not the request, and loses no lease.
func TestBusyTreeIsLeftOut(t *testing.T) {
	r := routedFleet(t, 2)
	k := key(0, 50, 7)
	l := acquire(t, r, Request{Key: k})
	l.Release(Completed, 0)
	if got := matchAt(t, r, k, l.Worker); got != 50 {
		t.Fatalf("match = %d, want 50", got)
	}
	letGo := holdTree(t, r.tree)
	for len(r.tree.inbox) < treeInboxSize {
		r.tree.send(treeMessage{kind: treeStats, stats: make(chan TreeStats, 1)})
	}
	finish(t, "a request beside a full tree", inBackground(func() {
		for range 10 {
			got := acquire(t, r, Request{Key: k})
			if got.Decision.Match != 0 {
				t.Errorf("match = %d, want 0: the tree was not asked", got.Decision.Match)
			}
			got.Release(Completed, 0)
		}
		if r.tree.Insert(k, 0) {
			t.Error("Insert into a full inbox = true, want false")
		}
	}))
	letGo()
	statsOf(t, r)
	if got := matchAt(t, r, k, l.Worker); got != 50 {
		t.Errorf("match when the tree has room again = %d, want 50", got)
	}
	wantBalanced(t, r.Registry)
	if got := snap(t, r.Registry).Live; got != 0 {
		t.Errorf("live = %d, want 0", got)
	}
}

// A registry without room makes the handler wait, not the tree, and the hint
// that the tree has given is used all the same.
func TestBusyRegistryBehindTheTree(t *testing.T) {
	r := routedFleet(t, 4)
	k := key(0, 50, 7)
	first := acquire(t, r, Request{Key: k})
	first.Release(Completed, 0)
	statsOf(t, r)

	letGo := holdLoop(t, r.Registry)
	fillInbox(r.Registry)
	const callers = 20
	var matched atomic.Int64
	done := make(chan struct{}, callers)
	for range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			l, err := r.Acquire(&Request{Key: k})
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			if l.URL == first.URL && l.Decision.Match == 50 {
				matched.Add(1)
			}
			l.Release(Completed, 0)
		}()
	}
	// The tree is not held up: it answers while the registry does not.
	until(t, "the tree to be turned away", func() bool { return statsOf(t, r).Dropped == callers })
	letGo()
	all := inBackground(func() {
		for range callers {
			<-done
		}
	})
	finish(t, "a request behind a full registry", all)
	if got := matched.Load(); got != callers {
		t.Errorf("%d requests went to %s with a match of 50, want %d", got, first.URL, callers)
	}
	wantLoad(t, r.Registry, first.URL, 0)
}

// Both inboxes full, and the actors end: everyone gets an answer.
func TestStopWithBothInboxesFull(t *testing.T) {
	r := routedFleet(t, 1)
	k := key(0, 50, 7)
	treeGo, loopGo := holdTree(t, r.tree), holdLoop(t, r.Registry)
	const callers = 64
	done := make(chan struct{}, 2*callers)
	ask := func() {
		defer func() { done <- struct{}{} }()
		l, err := r.Acquire(&Request{Key: k})
		switch {
		case err == nil:
			l.Release(Completed, 0)
		case !errors.Is(err, ErrStopped):
			t.Errorf("Acquire: %v, want a lease or %v", err, ErrStopped)
		}
	}
	for range callers { // these wait in the tree's inbox
		go ask()
	}
	until(t, "the tree's inbox to fill", func() bool { return len(r.tree.inbox) == callers })
	for len(r.tree.inbox) < treeInboxSize {
		r.tree.send(treeMessage{kind: treeStats, stats: make(chan TreeStats, 1)})
	}
	fillInbox(r.Registry)
	for range callers { // and these before the registry's
		go ask()
	}
	stopped := inBackground(func() { _ = r.Halt() })
	treeGo()
	loopGo()
	finish(t, "stopping with full inboxes", stopped)
	finish(t, "a caller", inBackground(func() {
		for range 2 * callers {
			<-done
		}
	}))
	finish(t, "a call of a tree that has ended", inBackground(func() {
		for range 2 * treeInboxSize {
			if _, err := r.Acquire(&Request{Key: k}); !errors.Is(err, ErrStopped) {
				t.Errorf("Acquire: %v, want %v", err, ErrStopped)
				return
			}
			r.tree.Insert(k, 0)
			r.Forget(0)
		}
		r.tree.Stop()
		r.TreeStats()
	}))
}

// A tree that ends while the registry has a request of its doesn't cut the
// caller off: the lease that the registry may grant must find its holder.
func TestTreeEndsBeforeTheAnswer(t *testing.T) {
	r := routedFleet(t, 1)
	letGo := holdLoop(t, r.Registry)
	q := &Request{Key: key(0, 50, 7)}
	q.ready()
	r.tree.send(treeMessage{kind: treeRoute, request: q, reply: q.reply})
	until(t, "the registry to have the request", func() bool { return len(r.inbox) == 1 })
	r.tree.Stop()
	got := make(chan grant, 1)
	go func() { got <- r.tree.wait(q, nil) }()
	letGo()
	g := <-got
	if g.err != nil || g.url != base(0) {
		t.Errorf("answer = %s, %v, want a lease at %s", g.url, g.err, base(0))
	}
	wantLoad(t, r.Registry, base(0), 1)
}
