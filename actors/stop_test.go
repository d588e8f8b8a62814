package actors

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// front is what callers see of a registry, alone or behind a router.
type front interface {
	acquirer
	adder
	Drain(ctx context.Context) bool
	Snapshot(now int64) (Snapshot, error)
}

// Callers that keep coming while the actors stop all get an answer, and from
// the moment at which the drain is over none gets a lease. A call that comes at
// the very end, when the loop may never see it, must not wait for it, nor may
// the loop touch what that caller has taken back: callers use their Request
// again at once, which the race detector watches.
func TestStopUnderFire(t *testing.T) {
	const callers = 16
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	registry := func(t *testing.T) (front, *Registry) {
		r := start(t, options("round_robin"))
		return r, r
	}
	router := func(t *testing.T) (front, *Registry) {
		r := startRouter(t, "cache_aware", 1<<20)
		return r, r.Registry
	}
	for _, tc := range []struct {
		name  string
		start func(t *testing.T) (front, *Registry)
		drain bool
		stop  func(f front) error
	}{
		{"registry drains and halts", registry, true, func(f front) error { return f.(*Registry).Halt() }},
		{"registry halts at once", registry, false, func(f front) error { return f.(*Registry).Halt() }},
		{"router stops", router, true, func(f front) error { return f.(*Router).Stop(t.Context()) }},
		{"router stops at once", router, false, func(f front) error { return f.(*Router).Stop(over) }},
		{"router halts", router, false, func(f front) error { return f.(*Router).Halt() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range rounds {
				f, r := tc.start(t)
				for i := range 3 {
					join(t, f, spec(base(i)))
				}
				var (
					drained, halted atomic.Bool
					granted         atomic.Uint64
					wg              sync.WaitGroup
				)
				for c := range callers {
					wg.Go(func() {
						keys := [2][]uint64{{1, 2, uint64(c)}, {1, 3, uint64(c)}}
						q := new(Request)
						for refused := 0; refused < 4; {
							q.Key, q.Now = keys[q.Now%2], q.Now+1
							late := drained.Load()
							l, err := f.Acquire(q)
							switch {
							case err == nil && late:
								t.Error("a lease was granted after the drain")
								fallthrough
							case err == nil:
								granted.Add(1)
								l.Release(Completed, 0)
							case !errors.Is(err, ErrStopped):
								t.Errorf("Acquire: %v, want %v", err, ErrStopped)
								return
							case halted.Load():
								refused++
							default:
								runtime.Gosched() // a loop that has ended refuses without a wait
							}
						}
					})
				}
				runtime.Gosched()
				if tc.drain {
					if !f.Drain(t.Context()) {
						t.Error("not idle after Drain, want idle")
					}
					drained.Store(true)
					if s := snap(t, r); s.Live != 0 || !s.Draining || s.Granted != s.Returned || s.Refused != 0 {
						t.Errorf("after Drain: %+v, want no lease live and none refused", s)
					}
				}
				finish(t, "stopping", inBackground(func() {
					if err := tc.stop(f); err != nil && tc.drain {
						t.Errorf("stop after a drain: %v, want no error", err)
					}
				}))
				halted.Store(true)
				finish(t, "a caller", inBackground(wg.Wait))
			}
		})
	}
}

// Drain waits for the last lease, at whichever worker it is, and not longer.
func TestDrainWaitsForLeases(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	leases := acquireN(t, r, 3)
	leases = append(leases, Lease{ticket: reserve(t, r, 0), registry: r})
	remove(t, r, base(1))
	idle := make(chan bool, 1)
	go func() { idle <- r.Drain(t.Context()) }()
	until(t, "the drain to begin", func() bool { return snap(t, r).Draining })
	for i := range leases {
		select {
		case <-idle:
			t.Fatalf("Drain returned with %d leases live", len(leases)-i)
		default:
		}
		if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrStopped) {
			t.Errorf("Acquire while draining: %v, want %v", err, ErrStopped)
		}
		leases[i].Release(Completed, 0)
	}
	select {
	case ok := <-idle:
		if !ok {
			t.Error("Drain = false, want true")
		}
	case <-time.After(patience):
		t.Fatal("Drain hangs with no lease live")
	}
	if err := r.Halt(); err != nil {
		t.Errorf("Halt: %v", err)
	}
}

// Drain gives up with its context, refuses from then on all the same, and may
// be called again, by any number.
func TestDrainGivesUp(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	l := acquire(t, r, Request{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r.Drain(ctx) {
		t.Error("Drain = true with a lease live, want false")
	}
	if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrStopped) {
		t.Errorf("Acquire: %v, want %v", err, ErrStopped)
	}
	wantLoad(t, r, base(0), 1)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if !r.Drain(t.Context()) {
				t.Error("a later Drain = false, want true")
			}
		})
	}
	l.Release(Completed, 0)
	finish(t, "a later Drain", inBackground(wg.Wait))
	wantLoad(t, r, base(0), 0)
	finish(t, "Drain of what is idle", inBackground(func() { r.Drain(t.Context()) }))
}

// While a registry drains, all but granting goes on: health, membership and
// looking.
func TestDrainingStillAnswers(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	l := acquire(t, r, Request{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Drain(ctx)
	join(t, r, spec(base(1)))
	remove(t, r, base(0))
	wantLoad(t, r, base(0), 1)
	l.Release(Completed, 0)
	if known(t, r, base(0)) {
		t.Error("a removed and idle worker is known, want unknown")
	}
}

// A full inbox makes callers wait and loses nothing; stopping while it is full
// answers them all.
func TestFullInbox(t *testing.T) {
	const callers = 32
	for _, tc := range []struct {
		name string
		halt bool
	}{
		{"the loop goes on", false},
		{"the loop halts", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := fleet(t, "round_robin", 1)
			held := acquireN(t, r, callers)
			letGo := holdLoop(t, r)
			if tc.halt {
				left := make(chan int, 1)
				r.trySend(message{kind: kindControl, control: halt{left}})
			}
			fillInbox(r)
			var granted atomic.Int64
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					l, err := r.Acquire(new(Request))
					switch {
					case err == nil:
						granted.Add(1)
						l.Release(Completed, 0)
					case !errors.Is(err, ErrStopped):
						t.Errorf("Acquire: %v, want a lease or %v", err, ErrStopped)
					}
				})
				wg.Go(func() { held[i].Release(Completed, 0) })
				wg.Go(func() { _, _ = r.Snapshot(0) })
				wg.Go(func() { r.ReportHealth(base(0), nil) })
			}
			letGo()
			finish(t, "a caller", inBackground(wg.Wait))
			if tc.halt {
				if got := granted.Load(); got != 0 {
					t.Errorf("%d leases were granted behind halt, want 0", got)
				}
				return
			}
			if got := granted.Load(); got != callers {
				t.Errorf("%d leases were granted, want %d", got, callers)
			}
			wantLoad(t, r, base(0), 0)
		})
	}
}

// Two that halt one registry both return; one of them learns of the leases.
func TestHaltTwice(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	acquireN(t, r, 2)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- r.Halt() }()
	}
	told := 0
	for range 2 {
		select {
		case err := <-errs:
			if err != nil {
				told++
			}
		case <-time.After(patience):
			t.Fatal("Halt hangs")
		}
	}
	if told != 1 {
		t.Errorf("%d calls of Halt told of live leases, want 1", told)
	}
	select {
	case <-r.Done():
	default:
		t.Error("Done is open after Halt, want closed")
	}
}

// holdSweep makes r halt and then wait in the sweep of its inbox, at a reply that
// nobody takes yet. The function it returns takes it.
func holdSweep(t *testing.T, r *Registry) (letGo func()) {
	t.Helper()
	unread := make(chan struct{})
	hold := holdLoop(t, r)
	r.trySend(message{kind: kindControl, control: halt{make(chan int, 1)}})
	r.trySend(message{kind: kindAcquire, request: new(Request), reply: unread})
	hold()
	finish(t, "closing done before the sweep", r.done)
	return func() { <-unread }
}

// Done closes before the inbox is swept: whoever sent while it was open is
// swept, and whoever sees it closed need not be.
func TestSweepComesAfterDone(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	letGo := holdSweep(t, r)
	if _, err := r.Acquire(new(Request)); !errors.Is(err, ErrStopped) {
		t.Errorf("Acquire during the sweep: %v, want %v", err, ErrStopped)
	}
	letGo()
}

// A Request whose answer was not waited for may be used at another registry. The
// answer that still comes is none to the later question: a lease would be
// granted that nobody holds.
func TestRequestOutlivesRegistry(t *testing.T) {
	first, second := fleet(t, "round_robin", 1), fleet(t, "round_robin", 1)
	letGo := holdSweep(t, first)
	q := new(Request)
	if _, err := first.Acquire(q); !errors.Is(err, ErrStopped) {
		t.Errorf("Acquire during the sweep: %v, want %v", err, ErrStopped)
	}
	letGo()
	until(t, "the sweep", func() bool { return len(first.inbox) == 0 })
	first.Halt()

	hold := holdLoop(t, second)
	got := make(chan error, 1)
	go func() {
		_, err := second.Acquire(q)
		got <- err
	}()
	until(t, "the question", func() bool { return len(second.inbox) == 1 })
	hold()
	if err := <-got; err != nil {
		t.Errorf("Acquire at the second registry: %v, want a lease", err)
	}
	wantLoad(t, second, base(0), 1)
	if n := len(q.reply); n != 0 {
		t.Errorf("%d answers are left over, want 0", n)
	}
}

// A drain isn't over while the last lease moves to another worker: the old one was
// given back before the new one was granted, and the drain ended between the two.
func TestDrainWaitsForMovedLease(t *testing.T) {
	r := split(t, "power_of_two")
	p, d := acquirePair(t, r, Request{})
	p.Release(Completed, 0)
	idle := make(chan struct{})
	r.send(message{kind: kindControl, control: drain{idle}})
	remove(t, r, d.URL)
	begun := begin(t, d, Request{Movable: true})
	if begun.URL == d.URL {
		t.Fatalf("decodes at %s, which was removed", d.URL)
	}
	wantLoad(t, r, begun.URL, 1)
	select {
	case <-idle:
		t.Error("drained with a lease live")
	default:
	}
	begun.Release(Completed, 0)
	finish(t, "the drain", idle)
}
