package actors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Two requests that run while their worker is removed and added again are
// still counted, and end as if nothing had happened.
func TestRemoveAndAddAgainKeepsLoad(t *testing.T) {
	r := fleet(t, "power_of_two", 1)
	url := base(0)
	leases := acquireN(t, r, 2)
	id := view(t, r, url).ID

	removed := remove(t, r, url)
	if len(removed) != 1 || removed[0].Leases != 2 || removed[0].ID != id || removed[0].URL != url {
		t.Errorf("removed = %+v, want %s with 2 leases", removed, url)
	}
	v := view(t, r, url)
	if v.Member || v.Load != 2 || v.Usable() {
		t.Errorf("after Remove: member = %v, load = %d, usable = %v, want false, 2, false", v.Member, v.Load, v.Usable())
	}
	if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire at a removed worker: %v, want %v", err, ErrNoWorker)
	}

	ids := add(t, r, spec(url))
	if ids[0] != id {
		t.Errorf("id after coming back = %d, want %d", ids[0], id)
	}
	v = view(t, r, url)
	if !v.Member || v.Healthy || v.Proven || v.Load != 2 {
		t.Errorf("after Add: member = %v, healthy = %v, proven = %v, load = %d, want true, false, false, 2", v.Member, v.Healthy, v.Proven, v.Load)
	}
	if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire before a check of the new process: %v, want %v", err, ErrNoWorker)
	}
	r.ReportHealth(url, nil)
	third := acquire(t, r, Request{})
	wantLoad(t, r, url, 3)

	leases[0].Release(Completed, 0)
	leases[1].Release(UpstreamTruncated, 0)
	wantLoad(t, r, url, 1)
	third.Release(Completed, 0)
	wantLoad(t, r, url, 0)
	if got := snap(t, r).Refused; got != 0 {
		t.Errorf("refused = %d, want 0", got)
	}
}

// A worker's entry goes when it is removed and idle, in whichever order, and
// not before.
func TestRetiredOnlyWhenRemovedAndIdle(t *testing.T) {
	t.Run("idle, then removed", func(t *testing.T) {
		r := fleet(t, "round_robin", 1)
		l := acquire(t, r, Request{})
		l.Release(Completed, 0)
		if !known(t, r, base(0)) {
			t.Error("an idle member is unknown, want known")
		}
		drainEvents(r)
		remove(t, r, base(0))
		if known(t, r, base(0)) {
			t.Error("a removed and idle worker is known, want unknown")
		}
		wantEvents(t, r, WorkerRemoved, WorkerRetired)
	})
	t.Run("removed, then idle", func(t *testing.T) {
		r := fleet(t, "round_robin", 1)
		leases := acquireN(t, r, 2)
		drainEvents(r)
		remove(t, r, base(0))
		leases[0].Release(Completed, 0)
		if !known(t, r, base(0)) {
			t.Error("a worker with a lease live is unknown, want known")
		}
		wantEvents(t, r, WorkerRemoved)
		leases[1].Release(Completed, 0)
		if known(t, r, base(0)) {
			t.Error("a removed and idle worker is known, want unknown")
		}
		wantEvents(t, r, WorkerRetired)
		leases[1].Release(Completed, 0)
		if got := snap(t, r).Refused; got != 1 {
			t.Errorf("refused = %d, want 1: the worker is gone, the ticket is spent", got)
		}
	})
	t.Run("reserved counts as live", func(t *testing.T) {
		r := start(t, options("round_robin"))
		join(t, r, Spec{URL: base(0), Base: base(0), Rank: NoRank, Roles: RolesOf(Decode)})
		tk := reserve(t, r, 0)
		remove(t, r, base(0))
		if !known(t, r, base(0)) {
			t.Error("a worker with a reserved lease is unknown, want known")
		}
		(&Lease{ticket: tk, registry: r}).Release(Completed, 0)
		if known(t, r, base(0)) {
			t.Error("a removed and idle worker is known, want unknown")
		}
	})
}

// reserve grants a reserved lease, as a pair of prefill and decode would.
func reserve(t *testing.T, r *Registry, id WorkerID) ticket {
	t.Helper()
	var tk ticket
	onLoop(t, r, func(s *state) { tk = s.grant(id, Reserved, work{}, 0) })
	return tk
}

func wantEvents(t *testing.T, r *Registry, want ...EventKind) {
	t.Helper()
	var got []EventKind
	for _, e := range drainEvents(r) {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
}

// A number goes to another worker only when its last bearer is removed and
// idle, and brings nothing of that one with it.
func TestWorkerIDReuse(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	l := acquire(t, r, Request{})
	busy, idle := l.URL, base(0)
	if idle == busy {
		idle = base(1)
	}
	idleID := view(t, r, idle).ID
	for range 2 { // teach it something
		old := acquireAt(t, r, idle)
		old.Release(ServerError, 0)
	}
	remove(t, r, busy)
	remove(t, r, idle)

	fresh := "http://fresh:1"
	ids := join(t, r, spec(fresh))
	if ids[0] != idleID {
		t.Errorf("id of the next worker = %d, want %d: that of the worker that is gone", ids[0], idleID)
	}
	v := view(t, r, fresh)
	if v.Granted != 0 || v.CBBad != 0 || v.Outcomes != ([numCauses]uint64{}) || v.Load != 0 || v.Pending != 0 {
		t.Errorf("new worker = %+v, want nothing of its number's last bearer", v)
	}
	if got := join(t, r, spec("http://another:1")); got[0] == l.Worker {
		t.Errorf("id %d was given away while a lease of its bearer is live", l.Worker)
	}
	wantLoad(t, r, busy, 1)
	l.Release(Completed, 0)
	if known(t, r, busy) {
		t.Error("a removed and idle worker is known, want unknown")
	}
	wantDistinctIDs(t, r)
}

// acquireAt takes a lease at one worker, by excluding all others.
func acquireAt(t *testing.T, r *Registry, url string) Lease {
	t.Helper()
	var q Request
	for _, w := range snap(t, r).Workers {
		if w.URL != url {
			q.Exclude = append(q.Exclude, w.ID)
		}
	}
	l := acquire(t, r, q)
	if l.URL != url {
		t.Fatalf("acquired at %s, want %s", l.URL, url)
	}
	return l
}

func wantDistinctIDs(t *testing.T, r *Registry) {
	t.Helper()
	bearer := map[WorkerID]string{}
	for _, w := range snap(t, r).Workers {
		if other, ok := bearer[w.ID]; ok {
			t.Errorf("%s and %s both have the number %d", other, w.URL, w.ID)
		}
		bearer[w.ID] = w.URL
	}
}

func TestAddRefusals(t *testing.T) {
	twice := spec("http://twice:1")
	for _, tc := range []struct {
		name  string
		specs []Spec
		want  error
		text  string
	}{
		{"a member", []Spec{spec(base(0))}, ErrDuplicate, base(0)},
		{"a new one and a member", []Spec{spec("http://new:1"), spec(base(0))}, ErrDuplicate, base(0)},
		{"the same one twice", []Spec{twice, twice}, ErrDuplicate, "http://twice:1"},
		{"one more than may be", Expand(Spec{Base: "http://ranks:1"}, 4), ErrTooMany, "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("round_robin")
			o.MaxWorkers = 5
			r := start(t, o)
			join(t, r, spec(base(0)))
			join(t, r, spec(base(1)))
			ids, err := r.Add(tc.specs)
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("Add: %v, want %v with %q", err, tc.want, tc.text)
			}
			if len(ids) != 0 {
				t.Errorf("ids = %v, want none", ids)
			}
			if got := len(snap(t, r).Workers); got != 2 {
				t.Errorf("%d workers after an Add that was refused, want 2: all or none", got)
			}
			// What was refused has left nothing behind.
			join(t, r, Expand(Spec{Base: "http://ranks:1"}, 3)...)
			for _, url := range []string{base(0), base(1), "http://ranks:1"} {
				remove(t, r, url)
			}
			if got := len(snap(t, r).Workers); got != 0 {
				t.Errorf("%d workers after all were removed, want 0", got)
			}
			join(t, r, spec(base(0)))
			join(t, r, spec(base(1)))
			wantDistinctIDs(t, r)
		})
	}
}

// Only members take up room: a removed worker whose requests still run keeps
// nobody out.
func TestMaxWorkersCountsMembers(t *testing.T) {
	o := options("round_robin")
	o.MaxWorkers = 1
	r := start(t, o)
	join(t, r, spec(base(0)))
	acquire(t, r, Request{})
	remove(t, r, base(0))
	join(t, r, spec(base(1)))
	if _, err := r.Add([]Spec{spec(base(0))}); !errors.Is(err, ErrTooMany) {
		t.Errorf("Add of one that comes back to a full fleet: %v, want %v", err, ErrTooMany)
	}
	wantLoad(t, r, base(0), 1)
}

func TestRemoveRefusals(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	acquire(t, r, Request{})
	for _, url := range []string{"http://nobody:1", "", base(0) + "@0"} {
		_, err := r.Remove(url)
		if !errors.Is(err, ErrUnknownWorker) || !strings.Contains(fmt.Sprint(err), url) {
			t.Errorf("Remove(%q): %v, want %v with the URL", url, err, ErrUnknownWorker)
		}
	}
	remove(t, r, base(0))
	if _, err := r.Remove(base(0)); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("second Remove: %v, want %v", err, ErrUnknownWorker)
	}
	wantLoad(t, r, base(0), 1)
}

func TestExpand(t *testing.T) {
	for _, tc := range []struct {
		n    int
		want []string
	}{
		{0, []string{"http://a:1 -1"}},
		{1, []string{"http://a:1 -1"}},
		{3, []string{"http://a:1@0 0", "http://a:1@1 1", "http://a:1@2 2"}},
	} {
		var got []string
		for _, s := range Expand(Spec{Base: "http://a:1", Model: "m"}, tc.n) {
			if s.Base != "http://a:1" || s.Model != "m" {
				t.Errorf("spec = %+v, want base and model kept", s)
			}
			got = append(got, fmt.Sprint(s.URL, " ", s.Rank))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("Expand(%d) = %v, want %v", tc.n, got, tc.want)
		}
	}
}

// Ranks are workers of their own with one address.
func TestRanks(t *testing.T) {
	ranks := func(t *testing.T) *Registry {
		r := start(t, options("round_robin"))
		join(t, r, Expand(Spec{Base: base(0)}, 3)...)
		join(t, r, spec(base(1)))
		return r
	}
	rank := func(i int) string { return fmt.Sprintf("%s@%d", base(0), i) }

	t.Run("each has its own load", func(t *testing.T) {
		r := ranks(t)
		leases := acquireN(t, r, 8)
		for i := range 3 {
			wantLoad(t, r, rank(i), 2)
		}
		for i := range leases {
			if leases[i].URL == rank(1) {
				leases[i].Release(Completed, 0)
			}
		}
		wantLoad(t, r, rank(0), 2)
		wantLoad(t, r, rank(1), 0)
		wantLoad(t, r, rank(2), 2)
	})
	t.Run("removing the base removes all", func(t *testing.T) {
		r := ranks(t)
		acquireN(t, r, 4)
		removed := remove(t, r, base(0))
		var urls []string
		for _, w := range removed {
			urls = append(urls, w.URL)
			if w.Leases != 1 || w.Base != base(0) {
				t.Errorf("removed = %+v, want 1 lease at %s", w, base(0))
			}
		}
		slices.Sort(urls)
		if want := []string{rank(0), rank(1), rank(2)}; !slices.Equal(urls, want) {
			t.Errorf("removed %v, want %v", urls, want)
		}
		for i := range 3 {
			if v := view(t, r, rank(i)); v.Member || v.Load != 1 {
				t.Errorf("%s: member = %v, load = %d, want false and 1", rank(i), v.Member, v.Load)
			}
		}
		wantLoad(t, r, base(1), 1)
		if r.ReportHealth(base(0), nil) {
			t.Error("a base URL without members is healthy, want not")
		}
	})
	t.Run("removing one rank leaves the others", func(t *testing.T) {
		r := ranks(t)
		acquireN(t, r, 4)
		if removed := remove(t, r, rank(1)); len(removed) != 1 || removed[0].URL != rank(1) {
			t.Errorf("removed = %+v, want %s alone", removed, rank(1))
		}
		for i := range 3 {
			v := view(t, r, rank(i))
			if got, want := v.Member, i != 1; got != want {
				t.Errorf("%s member = %v, want %v", rank(i), got, want)
			}
			if v.Load != 1 {
				t.Errorf("load of %s = %d, want 1", rank(i), v.Load)
			}
		}
		if removed := remove(t, r, base(0)); len(removed) != 2 {
			t.Errorf("removing the base then removed %d, want the 2 that are left", len(removed))
		}
		join(t, r, spec(rank(1))) // with another base, as nobody should, but safely
		wantLoad(t, r, rank(1), 1)
	})
}

// What a lease of an earlier membership does teaches the breaker nothing: the
// process at that address may be another one.
func TestBreakerIgnoresEarlierMembership(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	url := base(0)
	before := acquireN(t, r, 10)
	remove(t, r, url)
	join(t, r, spec(url))
	for i := range before {
		before[i].Release(ConnectFailed, 0)
	}
	v := view(t, r, url)
	if v.Breaker != BreakerClosed || v.CBBad != 0 {
		t.Errorf("breaker = %v after %d failures counted, want closed after 0", v.Breaker, v.CBBad)
	}
	if got := v.Outcomes[ConnectFailed]; got != 10 {
		t.Errorf("connect_failed = %d, want 10: outcomes are counted all the same", got)
	}
	after := acquireN(t, r, 5)
	for i := range after {
		after[i].Release(ConnectFailed, 0)
	}
	if got := view(t, r, url).Breaker; got != BreakerOpen {
		t.Errorf("breaker = %v after 5 failures of this membership, want open", got)
	}
}

// A trial request of an earlier membership takes none of the trial places of a
// later one, nor does its return give one back.
func TestTrialsOfAnEarlierMembership(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	url := base(0)
	join(t, r, spec(url))
	trip := func(at int64) {
		t.Helper()
		for range o.Breaker.FailureThreshold {
			l := acquire(t, r, Request{Now: at})
			l.Release(ServerError, at)
		}
	}
	trip(0)
	halfOpen := int64(o.Breaker.Timeout)
	old := acquire(t, r, Request{Now: halfOpen})
	remove(t, r, url)
	join(t, r, spec(url))
	trip(halfOpen)
	later := 2 * halfOpen
	for range o.Breaker.SuccessThreshold {
		acquire(t, r, Request{Now: later})
	}
	old.Release(Completed, later)
	if _, err := r.Acquire(&Request{Now: later}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire beyond the trial limit: %v, want %v", err, ErrNoWorker)
	}
	if got := view(t, r, url).Breaker; got != BreakerHalfOpen {
		t.Errorf("breaker = %v, want half_open", got)
	}
}
