package actors

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// The first return counts, whichever copy of the lease makes it; any other is
// refused, counted and told.
func TestDoubleReleaseIsRefused(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	first := acquire(t, r, Request{})
	second := acquire(t, r, Request{})
	again := first // a copy
	drainEvents(r)

	first.Release(Completed, 0)
	wantLoad(t, r, base(0), 1)
	again.Release(ClientGone, 0)
	first.Release(Aborted, 0)
	wantLoad(t, r, base(0), 1)

	if got := snap(t, r).Refused; got != 2 {
		t.Errorf("refused = %d, want 2", got)
	}
	outcomes := view(t, r, base(0)).Outcomes
	if outcomes[Completed] != 1 || outcomes[ClientGone] != 0 || outcomes[Aborted] != 0 {
		t.Errorf("outcomes = %v, want one completed: a refused return has no outcome", outcomes)
	}
	var details []string
	for _, e := range drainEvents(r) {
		if e.Kind == ReturnRefused {
			details = append(details, e.Detail)
		}
	}
	if got, want := fmt.Sprint(details), "[client_gone aborted]"; got != want {
		t.Errorf("refusals told = %s, want %s", got, want)
	}
	second.Release(Completed, 0)
	wantLoad(t, r, base(0), 0)
}

// A slot is used again; the ticket of its last bearer opens nothing.
func TestSpentTicketDoesNotEndTheNextLease(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	old := acquire(t, r, Request{})
	old.Release(Completed, 0)
	next := acquire(t, r, Request{})
	if old.ticket.slot != next.ticket.slot {
		t.Fatalf("slots %d and %d, want the same one: the test is about its reuse", old.ticket.slot, next.ticket.slot)
	}
	old.FirstByte(0)
	old.Release(Aborted, 0)
	wantLoad(t, r, base(0), 1)
	next.Release(Completed, 0)
	wantLoad(t, r, base(0), 0)
	if got := snap(t, r).Refused; got != 1 {
		t.Errorf("refused = %d, want 1", got)
	}
}

// A lease that was never granted, such as that beside an error, ends nothing.
func TestZeroLease(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	held := acquire(t, r, Request{})
	var none Lease
	none.FirstByte(0)
	none.Release(Completed, 0)

	for i, forged := range []ticket{{}, {gen: 1, slot: 99}, {gen: 99}} {
		l := Lease{registry: r, ticket: forged}
		l.FirstByte(0)
		l.Release(Completed, 0)
		wantLoad(t, r, base(0), 1)
		if got, want := snap(t, r).Refused, uint64(i+1); got != want {
			t.Errorf("refused = %d, want %d: ticket %v names no lease", got, want, forged)
		}
	}
	held.Release(Completed, 0)
	wantLoad(t, r, base(0), 0)
}

// What is not a cause counts as the pessimistic one. It must not bring down the
// loop, and with it the router.
func TestUnknownCauseAndRole(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	l := acquire(t, r, Request{})
	l.Release(numCauses, 0)
	l.Release(255, 0)
	v := view(t, r, base(0))
	if v.Load != 0 || v.Outcomes[Aborted] != 1 {
		t.Errorf("load = %d, aborted = %d, want 0 and 1", v.Load, v.Outcomes[Aborted])
	}
	if _, err := r.Add([]Spec{{URL: base(1), Base: base(1), Rank: NoRank, Roles: 1 << numRoles}}); err == nil {
		t.Error("Add of a worker with a role that isn't one: no error")
	}
	if _, err := r.Acquire(&Request{Role: numRoles}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire for a role that isn't one: %v, want %v", err, ErrNoWorker)
	}
}

// Releases may come from anywhere and in any number: each lease counts once.
func TestReleaseFromManyGoroutines(t *testing.T) {
	const (
		goroutines = 16
		leasesEach = 50
		copies     = 4
	)
	r := fleet(t, "power_of_two", 3)
	leases := acquireN(t, r, goroutines*leasesEach)
	var wg sync.WaitGroup
	for g := range goroutines {
		for range copies {
			wg.Go(func() {
				for i := range leasesEach {
					l := leases[g*leasesEach+i]
					l.Release(Completed, 0)
				}
			})
		}
	}
	wg.Wait()
	for i := range 3 {
		wantLoad(t, r, base(i), 0)
	}
	if got, want := snap(t, r).Refused, uint64(len(leases)*(copies-1)); got != want {
		t.Errorf("refused = %d, want %d", got, want)
	}
}

// A lease may outlive its registry: giving it back then neither blocks nor
// panics, however many there are.
func TestReleaseAfterHalt(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	leases := acquireN(t, r, 3)
	err := r.Halt()
	if want := "the registry stopped with 3 leases live"; err == nil || err.Error() != want {
		t.Errorf("Halt: %v, want %s", err, want)
	}
	finish(t, "a release after Halt", inBackground(func() {
		for range inboxSize {
			for i := range leases {
				leases[i].FirstByte(0)
				leases[i].Release(Completed, 0)
			}
		}
	}))
}

// Every method of a registry that has ended answers at once.
func TestEverythingAfterHalt(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	if err := r.Halt(); err != nil {
		t.Fatalf("Halt: %v", err)
	}
	finish(t, "a call after Halt", inBackground(func() {
		q := new(Request)
		for range 2 * inboxSize {
			if _, err := r.Acquire(q); !errors.Is(err, ErrStopped) {
				t.Errorf("Acquire: %v, want %v", err, ErrStopped)
				return
			}
		}
		for name, call := range map[string]func() error{
			"Add":      func() error { _, err := r.Add([]Spec{spec(base(1))}); return err },
			"Remove":   func() error { _, err := r.Remove(base(0)); return err },
			"Snapshot": func() error { _, err := r.Snapshot(0); return err },
			"Leases":   func() error { _, err := r.Leases(0); return err },
		} {
			if err := call(); !errors.Is(err, ErrStopped) {
				t.Errorf("%s: %v, want %v", name, err, ErrStopped)
			}
		}
		if r.ReportHealth(base(0), nil) {
			t.Error("ReportHealth: healthy, want not")
		}
		if r.FinishSession([]byte("s")) {
			t.Error("FinishSession: found, want not")
		}
		r.Drain(t.Context())
		if err := r.Halt(); err != nil {
			t.Errorf("second Halt: %v", err)
		}
	}))
}

// A goroutine sees its own release take effect before its next question.
func TestOwnMessagesAreInOrder(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	for range 200 {
		l := acquire(t, r, Request{})
		if got := view(t, r, base(0)).Load; got != 1 {
			t.Fatalf("load after Acquire = %d, want 1", got)
		}
		l.Release(Completed, 0)
		if got := view(t, r, base(0)).Load; got != 0 {
			t.Fatalf("load after Release = %d, want 0", got)
		}
	}
}

// Pending is the prompt work granted and not yet prefilled: it ends at the
// first byte of the answer or with the lease, and once.
func TestPendingWork(t *testing.T) {
	r := fleet(t, "least_work", 1)
	wantPending := func(want int) {
		t.Helper()
		if got := view(t, r, base(0)).Pending; got != want {
			t.Errorf("pending = %d, want %d", got, want)
		}
	}
	a := acquire(t, r, Request{Key: make([]uint64, 10)})
	b := acquire(t, r, Request{Key: make([]uint64, 5)})
	wantPending(15)
	a.FirstByte(0)
	wantPending(5)
	a.FirstByte(0)
	wantPending(5)
	a.Release(Completed, 0)
	wantPending(5)
	b.Release(ConnectFailed, 0)
	wantPending(0)
	b.FirstByte(0)
	wantPending(0)
}

func TestLeaseSaysWhereAndWhy(t *testing.T) {
	r := start(t, options("round_robin"))
	handle := new(int)
	specs := Expand(Spec{Base: base(0), Handle: handle}, 2)
	ids := join(t, r, specs...)
	seen := map[string]bool{}
	for range 2 {
		l := acquire(t, r, Request{Key: make([]uint64, 7)})
		i := l.Rank
		if i < 0 || i > 1 || l.URL != specs[i].URL || l.Worker != ids[i] || l.Handle != handle {
			t.Errorf("lease = %+v, want that of a worker added", l)
		}
		if d := l.Decision; d.Blocks != 7 || d.Candidates != 2 || d.Match != 0 {
			t.Errorf("decision = %+v, want 7 blocks, 2 candidates, no match", d)
		}
		seen[l.URL] = true
	}
	if len(seen) != 2 {
		t.Errorf("round robin chose %v, want both ranks", seen)
	}
}

func TestLeasesAndAges(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	acquire(t, r, Request{Now: 3 * second})
	young := acquire(t, r, Request{Now: 7 * second})
	views, err := r.Leases(10 * second)
	if err != nil {
		t.Fatalf("Leases: %v", err)
	}
	got := map[LeaseView]bool{}
	for _, v := range views {
		got[v] = true
	}
	for _, want := range []LeaseView{{base(0), Plain, 7 * time.Second}, {base(0), Plain, 3 * time.Second}} {
		if !got[want] || len(views) != 2 {
			t.Errorf("leases = %v, want %v among two", views, want)
		}
	}
	young.Release(Completed, 0)
	s, err := r.Snapshot(20 * second)
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	if want := 17 * time.Second; s.OldestLease != want {
		t.Errorf("oldest lease = %v, want %v", s.OldestLease, want)
	}
}

// Events are offered, never waited for: a reader that is late costs events,
// which are counted, and nothing else.
func TestEventsAreDroppedNotWaitedFor(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	drainEvents(r)
	l := acquire(t, r, Request{})
	l.Release(Completed, 0)
	const extra = 10
	finish(t, "a release whose event finds no room", inBackground(func() {
		for range eventsSize + extra {
			l.Release(Completed, 0)
		}
	}))
	s := snap(t, r)
	if s.EventsDropped != extra {
		t.Errorf("events dropped = %d, want %d", s.EventsDropped, extra)
	}
	if s.Refused != eventsSize+extra {
		t.Errorf("refused = %d, want %d: the count is exact where events aren't", s.Refused, eventsSize+extra)
	}
	if got := countEvents(drainEvents(r), ReturnRefused); got != eventsSize {
		t.Errorf("%d events, want %d", got, eventsSize)
	}
}
