package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// client is one that leaves when its channel is closed.
type client chan struct{}

func (c client) Leaving() <-chan struct{} { return c }

// roomy returns a registry with n healthy workers and limits. Its clock is that of
// the test's bubble.
func roomy(t testing.TB, n int, room RoomOptions) *Registry {
	t.Helper()
	o := options("power_of_two")
	began := time.Now()
	room.Now = func() int64 { return int64(time.Since(began)) }
	o.Room = room
	r := start(t, o)
	for i := range n {
		join(t, r, spec(base(i)))
	}
	return r
}

// call is one request in the background.
type call struct {
	q     *Request
	c     client
	lease Lease
	err   error
	done  <-chan struct{}
}

func (r *Registry) call(q *Request) *call {
	x := &call{q: q, c: make(client)}
	x.done = inBackground(func() { x.lease, x.err = r.AcquireFor(q, x.c) })
	synctest.Wait()
	return x
}

func (x *call) waits() bool {
	synctest.Wait()
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

func (x *call) end(now int64) {
	x.lease.Release(Completed, now)
	x.q.Admission.Release(now)
}

func wantAnswer(t *testing.T, x *call, want error) {
	t.Helper()
	if x.waits() {
		t.Fatalf("waits, want %v", want)
	}
	if !errors.Is(x.err, want) {
		t.Fatalf("answer: %v, want %v", x.err, want)
	}
}

// A request is admitted until its admission is released, however many leases it
// has meanwhile.
func TestAdmissionOutlivesLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 2, RoomOptions{MaxLive: 1, QueueSize: 4, QueueTimeout: time.Minute})
		first := r.call(&Request{})
		wantAnswer(t, first, nil)
		second := r.call(&Request{})
		for range 3 { // attempts
			first.lease.Release(ConnectFailed, 0)
			if !second.waits() {
				t.Fatal("another request was admitted between two attempts of the first")
			}
			l, err := r.Acquire(first.q)
			if err != nil {
				t.Fatalf("a retry under its admission: %v", err)
			}
			first.lease = l
		}
		if s := snap(t, r).Room; s.Admitted != 1 || s.Admissions != 1 || s.Waiting[0] != 1 {
			t.Errorf("%+v, want one admitted once and one waiting", s)
		}
		first.lease.Release(Completed, 0)
		if !second.waits() {
			t.Fatal("another request was admitted before the body's end")
		}
		first.q.Admission.Release(0)
		wantAnswer(t, second, nil)
		second.end(0)
		first.q.Admission.Release(0) // a second time
		if s := snap(t, r); s.Room.Admitted != 0 || s.Refused != 1 {
			t.Errorf("%d admitted, %d refused, want 0 and 1", s.Room.Admitted, s.Refused)
		}
	})
}

// What a worker may have bounds it, and who waits is given the worker that is
// free first.
func TestWorkerLimitBindsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 3, RoomOptions{MaxPerWorker: 2, QueueSize: 4, QueueTimeout: time.Minute})
		var running []*call
		for range 6 {
			x := r.call(&Request{})
			wantAnswer(t, x, nil)
			running = append(running, x)
		}
		waiting := r.call(&Request{Now: 5})
		if !waiting.waits() {
			t.Fatal("a seventh request was served")
		}
		running[4].lease.Release(Completed, 7)
		wantAnswer(t, waiting, nil)
		if waiting.lease.URL != running[4].lease.URL {
			t.Errorf("served at %s, want %s", waiting.lease.URL, running[4].lease.URL)
		}
		if got := waiting.q.Waited(); got != 2 {
			t.Errorf("waited %v, want 2ns", got)
		}
	})
}

// Whatever makes room wakes who waits for it.
func TestWhatWakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		wake func(t *testing.T, r *Registry, running *call)
		want error
	}{
		{"a release", func(_ *testing.T, _ *Registry, x *call) { x.lease.Release(Completed, 1) }, nil},
		{"a new worker", func(t *testing.T, r *Registry, _ *call) { join(t, r, spec(base(7))) }, nil},
		{"a worker that gets well", func(_ *testing.T, r *Registry, _ *call) { r.ReportHealth(base(1), nil) }, nil},
		{"a worker's new role", func(t *testing.T, r *Registry, _ *call) {
			if err := r.SetRoles(base(2), RolesOf(Regular)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a breaker whose time is over", func(*testing.T, *Registry, *call) { time.Sleep(31 * time.Second) }, nil},
		{"the last worker's illness", func(_ *testing.T, r *Registry, _ *call) {
			for range 3 {
				r.ReportHealth(base(0), errDown)
				r.ReportHealth(base(3), errDown)
			}
		}, ErrNoWorker},
		{"the last worker's removal", func(t *testing.T, r *Registry, _ *call) { remove(t, r, base(3)); remove(t, r, base(0)) }, ErrNoWorker},
		{"the longest wait", func(*testing.T, *Registry, *call) { time.Sleep(41 * time.Second) }, ErrQueueTimeout},
		{"a drain", func(_ *testing.T, r *Registry, _ *call) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			r.Drain(ctx)
		}, ErrStopped},
		{"the end", func(_ *testing.T, r *Registry, _ *call) { _ = r.Halt() }, ErrStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := roomy(t, 1, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: 40 * time.Second})
				add(t, r, spec(base(1)))
				join(t, r, roleSpec(base(2), Prefill))
				join(t, r, spec(base(3)))
				running := r.call(&Request{})
				other := r.call(&Request{})
				wantAnswer(t, running, nil)
				wantAnswer(t, other, nil)
				if running.lease.URL == base(3) {
					running, other = other, running
				}
				if tc.name == "a breaker whose time is over" { // of a worker that is free
					other.lease.Release(ServerError, 0)
					for range options("").Breaker.FailureThreshold - 1 {
						other = r.call(&Request{})
						wantAnswer(t, other, nil)
						other.lease.Release(ServerError, 0)
					}
				}
				waiting := r.call(&Request{})
				if !waiting.waits() {
					t.Fatalf("served: %v", waiting.err)
				}
				tc.wake(t, r, running)
				wantAnswer(t, waiting, tc.want)
				if tc.want != nil && refusals(r) != 1 {
					t.Errorf("%d refusals, want 1", refusals(r))
				}
			})
		})
	}
}

// refusals is how many refusals the room has counted, or 1 once there is nobody left
// to ask.
func refusals(r *Registry) (n uint64) {
	s, err := r.Snapshot(0)
	if err != nil {
		return 1
	}
	for _, k := range s.Room.Refusals {
		n += k
	}
	return n
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{MaxLive: 1, QueueSize: 1, QueueTimeout: 10 * time.Second})
		running := r.call(&Request{})
		late := r.call(&Request{Now: second, Deadline: second})
		wantAnswer(t, late, ErrDeadline)
		waiting := r.call(&Request{Deadline: 4 * second})
		full := r.call(&Request{})
		wantAnswer(t, full, ErrQueueFull)
		if got := full.q.RetryAfter(); got < 1 || got > maxRetryAfter {
			t.Errorf("retry after %d s, want 1 to %d", got, maxRetryAfter)
		}
		time.Sleep(3 * time.Second)
		if !waiting.waits() {
			t.Fatalf("answered before its deadline: %v", waiting.err)
		}
		time.Sleep(time.Second + 2*tickEvery)
		wantAnswer(t, waiting, ErrDeadline)
		gone := r.call(&Request{})
		close(gone.c)
		wantAnswer(t, gone, ErrClientLeft)
		if !gone.q.ClientLeft() {
			t.Error("the request doesn't tell that its client left")
		}
		own := r.call(&Request{Own: true})
		wantAnswer(t, own, nil)
		own.lease.Release(Completed, 0)
		if own.q.Admission != (Admission{}) {
			t.Error("the router's own request was admitted")
		}
		running.end(0)
		got := snap(t, r).Room.Refusals
		want := [numRefusals]uint64{RefusedFull: 1, RefusedDeadline: 2, RefusedLeft: 1}
		if got != want {
			t.Errorf("refusals %v, want %v", got, want)
		}
	})
}

// A request whose deadline is sooner than its turn is refused at once, and told
// when to come back.
func TestDeadlineIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{MaxLive: 2, QueueSize: 100, QueueTimeout: time.Hour})
		began := time.Now()
		now := func() int64 { return int64(time.Since(began)) }
		var running, waiting []*call
		for range 22 {
			waiting = append(waiting, r.call(&Request{}))
		}
		running, waiting = waiting[:2], waiting[2:]
		for range 10 { // two end each second
			time.Sleep(time.Second)
			for range 2 {
				running[0].end(now())
				running = append(running[1:], waiting[0])
				waiting = waiting[1:]
				wantAnswer(t, running[1], nil)
			}
		}
		for range 10 {
			waiting = append(waiting, r.call(&Request{Now: now()}))
		}
		soon := r.call(&Request{Now: now(), Deadline: now() + 3*second})
		wantAnswer(t, soon, ErrDeadline)
		if got := soon.q.RetryAfter(); got < 4 || got > 7 {
			t.Errorf("retry after %d s, want about 5: eleven at two a second", got)
		}
		higher := r.call(&Request{Now: now(), Deadline: now() + 3*second, Class: 1})
		if !higher.waits() {
			t.Errorf("who is next was refused: %v", higher.err)
		}
		for _, x := range append(waiting, higher) {
			close(x.c)
			wantAnswer(t, x, ErrClientLeft)
		}
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{RatePerSecond: 10, Burst: 2, QueueSize: 100, QueueTimeout: time.Minute})
		var all []*call
		for range 12 {
			all = append(all, r.call(&Request{}))
		}
		served := func() (n int) {
			for _, x := range all {
				if !x.waits() {
					n++
				}
			}
			return n
		}
		for _, want := range []int{2, 7, 12} {
			if got := served(); got != want {
				t.Errorf("%d were served by now, want %d", got, want)
			}
			time.Sleep(500*time.Millisecond + 2*tickEvery)
		}
	})
}

// A pair waits for both workers and holds neither meanwhile; a reservation counts.
func TestPairWaitsForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 0, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
		join(t, r, roleSpec(base(0), Prefill), roleSpec(base(1), Decode), roleSpec(base(2), Decode))
		q := &Request{Key: make([]uint64, 4)}
		prefill, decode, err := r.AcquirePair(q)
		if err != nil {
			t.Fatal(err)
		}
		var p, d Lease
		second := &Request{Key: make([]uint64, 4)}
		done := inBackground(func() { p, d, err = r.AcquirePairFor(second, make(client)) })
		synctest.Wait()
		if got := snap(t, r); got.Live != 2 || got.Room.Waiting[0] != 1 {
			t.Fatalf("%d live, %v wait, want 2 live and 1 waiting", got.Live, got.Room.Waiting)
		}
		prefill.Release(Completed, 0)
		finish(t, "the second pair", done)
		if err != nil || p.URL != base(0) || d.URL == decode.URL {
			t.Errorf("%s and %s, %v; want %s and another than %s", p.URL, d.URL, err, base(0), decode.URL)
		}
		if _, err := decode.Begin(&Request{Movable: true}); err != nil {
			t.Errorf("Begin at a worker whose limit its own reservation reaches: %v", err)
		}
	})
}

// One worker of two roles with one place isn't both halves of a pair.
func TestPairNeedsTwoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 0, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Second})
		join(t, r, roleSpec(base(0), Prefill, Decode))
		if _, _, err := r.AcquirePair(&Request{}); !errors.Is(err, ErrQueueTimeout) {
			t.Errorf("AcquirePair: %v, want %v", err, ErrQueueTimeout)
		}
		wantLoad(t, r, base(0), 0)
	})
}

// A request that only one worker can go on with waits for it, though another is
// free.
func TestPinnedWaitsForItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 2, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
		holder := r.call(&Request{})
		wantAnswer(t, holder, nil)
		holder.lease.Pin(77)
		pinned := r.call(&Request{Pin: 77})
		if !pinned.waits() {
			t.Fatalf("served at %s", pinned.lease.URL)
		}
		wantAnswer(t, r.call(&Request{}), nil) // who isn't pinned passes it
		holder.lease.Release(Completed, 0)
		wantAnswer(t, pinned, nil)
		if pinned.lease.URL != holder.lease.URL {
			t.Errorf("served at %s, want %s", pinned.lease.URL, holder.lease.URL)
		}
	})
}

// Clients that leave while their requests are called get a lease or an error, and
// nothing is lost or counted twice.
func TestLeaveRacesWithCall(t *testing.T) {
	const callers, rounds = 16, 300
	r := roomy(t, 2, RoomOptions{MaxLive: 3, MaxPerWorker: 2, QueueSize: callers, QueueTimeout: time.Minute})
	var wg sync.WaitGroup
	for k := range callers {
		wg.Go(func() {
			q := new(Request)
			for n := range rounds {
				c := make(client)
				go func() {
					for range (n * 7 * k) % 50 {
						<-inBackground(func() {})
					}
					close(c)
				}()
				q.Now, q.Admission = int64(n), Admission{}
				l, err := r.AcquireFor(q, c)
				switch {
				case err == nil:
					l.Release(Completed, q.Now)
					q.Admission.Release(q.Now)
				case !errors.Is(err, ErrClientLeft) || !q.ClientLeft():
					t.Errorf("AcquireFor: %v", err)
				}
			}
		})
	}
	finish(t, "a caller", inBackground(wg.Wait))
	s := snap(t, r)
	if s.Live != 0 || s.Refused != 0 || s.Room.Admitted != 0 || s.Room.Waiting != [Classes]int{} {
		t.Errorf("%d live, %d refused, %+v, want all at rest", s.Live, s.Refused, s.Room)
	}
}

func TestRoomOptions(t *testing.T) {
	now := func() int64 { return 0 }
	for _, tc := range []struct {
		name string
		o    RoomOptions
		ok   bool
	}{
		{"off", RoomOptions{}, true},
		{"no queue", RoomOptions{MaxLive: 1}, true},
		{"all", RoomOptions{1, 1, 1, 1, 1, 1, 1, now}, true},
		{"no clock", RoomOptions{MaxLive: 1, QueueSize: 1, QueueTimeout: 1}, false},
		{"no end", RoomOptions{MaxLive: 1, QueueSize: 1, Now: now}, false},
		{"too long", RoomOptions{QueueSize: maxQueueSize + 1, QueueTimeout: 1}, false},
		{"negative", RoomOptions{MaxPerWorker: -1}, false},
	} {
		if err := tc.o.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want valid %v", tc.name, err, tc.ok)
		}
	}
}

func TestPace(t *testing.T) {
	type at struct{ begin, from, to, every int64 } // in tenths of a second
	for _, tc := range []struct {
		name  string
		ends  at
		now   int64
		want  time.Duration
		known bool
	}{
		{"nothing yet", at{0, 0, 0, 1}, 5, 500 * time.Millisecond, false},
		{"two a second", at{0, 5, 200, 5}, 200, 500 * time.Millisecond, true},
		{"a burst after a pause", at{990, 991, 1000, 1}, 1000, 100 * time.Millisecond, true},
		{"long ago", at{0, 1, 10, 1}, 900, 9 * time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const tenth = second / 10
			p := pace{began: tc.ends.begin * tenth}
			for n := tc.ends.from; n < tc.ends.to; n += tc.ends.every {
				p.note(n * tenth)
			}
			ns, known := p.each(tc.now * tenth)
			if got := time.Duration(ns); known != tc.known || got < tc.want*3/4 || got > tc.want*5/4 {
				t.Errorf("one ends each %v, known %v, want %v, %v", got, known, tc.want, tc.known)
			}
		})
	}
}

func TestRefusalNames(t *testing.T) {
	var names []string
	for _, x := range Refusals() {
		names = append(names, fmt.Sprint(x))
	}
	slices.Sort(names)
	if got := len(slices.Compact(names)); got != int(numRefusals) || names[0] == "" {
		t.Errorf("%d names of %d refusals: %q", got, numRefusals, names)
	}
}

// rude is a client whose channel can't be had.
type rude struct{}

func (rude) Leaving() <-chan struct{} { panic(errDown) }

// A handler that panics while its request waits leaves nothing behind, whether that
// waits for room or is parked.
func TestPanicWhileWaiting(t *testing.T) {
	for _, tc := range []struct {
		name string
		room RoomOptions
	}{
		{"for room", RoomOptions{MaxLive: 1, QueueSize: 4, QueueTimeout: time.Minute}},
		{"parked", RoomOptions{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, "least_work", 1, func(o *Options) {
					tc.room.Now = o.Room.Now
					o.Room = tc.room
				})
				first := r.call(prompt(r, 20))
				again := func(q *Request) {
					defer func() {
						if got := recover(); got != any(errDown) {
							t.Errorf("recovered %v, want %v", got, errDown)
						}
					}()
					_, _ = r.AcquireFor(q, rude{})
				}
				again(prompt(r, 3))
				// One whose lease is on its way by then has to give that back.
				q := prompt(r, 3)
				letGo := holdLoop(t, r)
				done := inBackground(func() { again(q) })
				synctest.Wait()
				workOff := inBackground(func() {
					first.lease.FirstByte(0)
					first.end(0)
				})
				synctest.Wait()
				letGo()
				<-done
				<-workOff
				synctest.Wait()
				s := snap(t, r)
				if s.Live != 0 || s.Refused != 0 || s.Room.Admitted != 0 || s.Room.Parked != 0 || s.Room.Waiting != [Classes]int{} {
					t.Errorf("%d live, %d refused, %+v, want nothing left", s.Live, s.Refused, s.Room)
				}
			})
		})
	}
}
