package actors

import (
	"testing"
	"testing/synctest"
	"time"
)

// vigil is a registry that looks for wedged workers, with a lease held at each.
type vigil struct {
	t      *testing.T
	r      *Registry
	o      Options
	leases []Lease
	now    int64
}

func newVigil(t *testing.T, workers int, set func(o *Options)) *vigil {
	t.Helper()
	o := contained("round_robin")
	if set != nil {
		set(&o)
	}
	v := &vigil{t: t, r: start(t, o), o: o}
	for i := range workers {
		join(t, v.r, spec(base(i)))
	}
	for len(v.leases) < workers {
		v.leases = append(v.leases, acquire(t, v.r, Request{}))
	}
	return v
}

// pass lets time pass in steps of a second, in each of which some leases have
// progress and somebody asks for a worker.
func (v *vigil) pass(d time.Duration, lively ...int) {
	v.t.Helper()
	for end := v.now + int64(d); v.now < end; {
		v.now += second
		for _, i := range lively {
			v.leases[i].Progress(v.now)
		}
		v.visit()
	}
}

// visit has the registry see the time, and its request is gone at once.
func (v *vigil) visit() {
	v.t.Helper()
	l := acquire(v.t, v.r, Request{Now: v.now})
	l.Release(ClientGone, v.now)
}

func (v *vigil) want(when string, wedged ...bool) {
	v.t.Helper()
	for i, want := range wedged {
		url := ""
		for _, w := range snap(v.t, v.r).Workers {
			if int(w.ID) == i {
				url = w.URL
			}
		}
		w := view(v.t, v.r, url)
		if w.Wedged != want || want && (w.Reason != "wedged" || w.Usable()) {
			v.t.Errorf("%s: %s wedged = %v, reason %q, usable %v, want %v", when, url, w.Wedged, w.Reason, w.Usable(), want)
		}
	}
}

// What a worker held before it held nothing is not counted against it, though it
// holds something again before the next look.
func TestEmptiedBetweenLooks(t *testing.T) {
	v := newVigil(t, 2, nil)
	v.pass(v.o.WedgedAfter-2*time.Second, 0)
	v.leases[1].Release(ClientGone, v.now)
	again := acquire(t, v.r, Request{Now: v.now})
	for again.URL != base(1) {
		again.Release(ClientGone, v.now)
		again = acquire(t, v.r, Request{Now: v.now})
	}
	v.pass(v.o.WedgedAfter-time.Second, 0)
	v.want("before its time", false, false)
	v.pass(3*time.Second, 0)
	v.want("after it", false, true)
}

func TestWedgedWorker(t *testing.T) {
	v := newVigil(t, 3, nil)
	v.pass(v.o.WedgedAfter-time.Second, 0, 2)
	v.want("before its time", false, false, false)
	drainEvents(v.r)
	v.pass(4*time.Second, 0, 2)
	v.want("after it", false, true, false)
	want := Event{Kind: WorkerWedged, URL: base(1), Load: 1}
	if got := drainEvents(v.r); len(got) != 1 || got[0] != want {
		t.Errorf("events = %v, want %v alone", got, want)
	}
	for range 6 {
		if l := acquire(t, v.r, Request{Now: v.now}); l.URL == base(1) {
			t.Errorf("acquired at %s, want any other", l.URL)
		}
	}
	for range 5 {
		v.r.ReportHealth(base(1), nil)
	}
	v.want("after good checks", false, true, false)
	if h := v.r.Health(v.now); h.Usable[Regular] != 2 {
		t.Errorf("%d workers are usable, want 2", h.Usable[Regular])
	}
}

// What brings a wedged worker back, and what doesn't.
func TestWedgedWorkerComesBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(v *vigil)
		back bool
		slow bool
	}{
		{"progress", func(v *vigil) { v.leases[1].Progress(v.now) }, true, true},
		{"first byte", func(v *vigil) { v.leases[1].FirstByte(0) }, true, true},
		{"an answer", func(v *vigil) { v.leases[1].Release(Completed, v.now) }, true, true},
		{"an error for an answer", func(v *vigil) { v.leases[1].Release(ServerError, v.now) }, true, true},
		{"an answer yet to be judged", func(v *vigil) { v.leases[1].ReleaseUnjudged(ServerError, v.now) }, true, true},
		{"falling sick", func(v *vigil) {
			for range v.o.Health.FailureThreshold {
				v.r.ReportHealth(base(1), errDown)
			}
		}, true, false},
		{"falling sick and getting well", func(v *vigil) { flap(v.t, v.r, v.o, base(1)) }, true, true},
		{"removal", func(v *vigil) { remove(v.t, v.r, base(1)); join(v.t, v.r, spec(base(1))) }, true, false},
		{"good checks", func(v *vigil) { v.r.ReportHealth(base(1), nil) }, false, false},
		{"a client that leaves", func(v *vigil) { v.leases[1].Release(ClientGone, v.now) }, false, false},
		{"a timeout", func(v *vigil) { v.leases[1].Release(UpstreamTimeout, v.now) }, false, false},
		{"a lease of an earlier membership", func(v *vigil) {
			old := v.leases[1]
			remove(v.t, v.r, base(1))
			join(v.t, v.r, spec(base(1)))
			hold(v.t, v.r, 1, 1)
			v.pass(v.o.WedgedAfter+4*time.Second, 0, 2)
			old.Progress(v.now)
		}, false, false},
		{"a spent lease", func(v *vigil) {
			v.leases[1].Release(ClientGone, v.now)
			v.leases[1].Progress(v.now)
			v.leases[1].FirstByte(0)
		}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newVigil(t, 3, nil)
			v.pass(v.o.WedgedAfter+3*time.Second, 0, 2)
			v.want("at first", false, true, false)
			drainEvents(v.r)
			tc.do(v)
			v.want("then", false, !tc.back, false)
			if got := view(t, v.r, base(1)).Slow; got != tc.slow {
				t.Errorf("slow = %v, want %v", got, tc.slow)
			}
			v.pass(time.Second, 0, 2)
			v.want("a second later", false, !tc.back, false)
		})
	}
}

func TestNotWedged(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(v *vigil)
		set  func(o *Options)
	}{
		{"switched off", func(v *vigil) { v.pass(time.Minute, 0, 2) }, func(o *Options) { o.WedgedAfter = 0 }},
		{"nobody gives a sign", func(v *vigil) { v.pass(time.Minute) }, nil},
		{"nobody gives a sign any more", func(v *vigil) { v.pass(3*time.Second, 0, 1, 2); v.pass(time.Minute) }, nil},
		{"now and then progress", func(v *vigil) {
			for range 10 {
				v.pass(6*time.Second, 0, 2)
				v.leases[1].Progress(v.now)
			}
		}, nil},
		{"holds nothing", func(v *vigil) {
			v.leases[1].Release(ClientGone, v.now)
			v.pass(time.Minute, 0, 2)
		}, nil},
		{"has just been given its first request", func(v *vigil) {
			v.leases[1].Release(ClientGone, v.now)
			v.pass(time.Minute, 0, 2)
			hold(v.t, v.r, 1, 1)
			v.pass(7*time.Second, 0, 2)
		}, nil},
		{"only its own other role is lively", func(v *vigil) {
			if v.r.SetRoles(base(0), RolesOf(Prefill)) != nil || v.r.SetRoles(base(2), RolesOf(Prefill)) != nil {
				v.t.Fatal("SetRoles")
			}
			v.pass(time.Minute, 0, 2)
		}, nil},
		{"the only one of a role", func(v *vigil) {
			if v.r.SetRoles(base(1), RolesOf(Regular, Decode)) != nil {
				v.t.Fatal("SetRoles")
			}
			v.pass(time.Minute, 0, 2)
		}, nil},
		{"the floor", func(v *vigil) { fail(v.t, v.r, v.o, 0, v.now); v.pass(15*time.Second, 2) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newVigil(t, 3, tc.set)
			tc.do(v)
			v.want("then", false, false, false)
		})
	}
}

// Silence keeps out no more workers than breakers may, and they count together.
func TestWedgedFloor(t *testing.T) {
	v := newVigil(t, 6, nil)
	v.pass(20*time.Second, 5)
	n := 0
	for _, w := range snap(t, v.r).Workers {
		if w.Wedged {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of 6 workers are wedged, want 3", n)
	}
	fail(t, v.r, v.o, 5, v.now)
	if got := countOpen(breakers(t, v.r)); got != 0 {
		t.Errorf("%d breakers are open beside them, want 0", got)
	}
	remove(t, v.r, base(5))
	remove(t, v.r, base(4))
	n = 0
	for _, w := range snap(t, v.r).Workers {
		if w.Member && w.Wedged {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of 4 workers are wedged, want 2", n)
	}
}

// A wedged worker that holds nothing gets one request at a time, in the end, to
// show that it is well with.
func TestWedgedTrial(t *testing.T) {
	v := newVigil(t, 3, nil)
	v.pass(v.o.WedgedAfter+3*time.Second, 0, 2)
	v.leases[1].Release(ClientGone, v.now)
	asked := func(n int) (leases []Lease) {
		for range n {
			if l := acquire(t, v.r, Request{Now: v.now}); l.URL == base(1) {
				leases = append(leases, l)
			}
		}
		return leases
	}
	if got := asked(9); len(got) != 0 {
		t.Errorf("%d requests before its time, want none", len(got))
	}
	v.now += int64(v.o.Breaker.Timeout)
	got := asked(9)
	if len(got) != 1 {
		t.Fatalf("%d requests at a time, want 1", len(got))
	}
	got[0].FirstByte(0)
	v.want("after the trial", false, false, false)
}

// However many requests time out at a wedged worker, those that it held and one
// trial behind another, its breaker stays closed, and the first sign of life brings
// it back. What tells more than silence counts.
func TestWedgedTimeoutsAreKnown(t *testing.T) {
	for _, tc := range []struct {
		name  string
		trial Cause
		want  BreakerState
	}{
		{"silence", UpstreamTimeout, BreakerClosed},
		{"nobody listens", ConnectFailed, BreakerOpen},
		{"resets", UpstreamReset, BreakerOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVigil(t, 3, nil)
				held := []Lease{v.leases[1]}
				for range 2 * v.o.Breaker.FailureThreshold {
					l := acquire(t, v.r, Request{Exclude: []WorkerID{0, 2}})
					held = append(held, l)
				}
				v.pass(v.o.WedgedAfter+3*time.Second, 0, 2)
				v.want("at first", false, true, false)
				for _, l := range held {
					l.Release(UpstreamTimeout, v.now)
				}
				if got := view(t, v.r, base(1)); got.Breaker != BreakerClosed || got.CBBad != 0 {
					t.Fatalf("breaker %v with %d failures after the requests that it held, want closed with none", got.Breaker, got.CBBad)
				}
				v.now += int64(v.o.Breaker.Timeout)
				trial := func() Lease {
					t.Helper()
					for range 3 { // in turn
						l := acquire(t, v.r, Request{Now: v.now})
						if l.URL == base(1) {
							return l
						}
						l.Release(ClientGone, v.now)
					}
					t.Fatal("a wedged worker gets no trial")
					return Lease{}
				}
				for range v.o.Breaker.FailureThreshold {
					l := trial()
					v.now += second
					l.Release(tc.trial, v.now)
				}
				if got := view(t, v.r, base(1)).Breaker; got != tc.want {
					t.Fatalf("breaker %v after trials that end as %v, want %v", got, tc.trial, tc.want)
				}
				if tc.want == BreakerOpen {
					return
				}
				l := trial()
				l.FirstByte(0)
				v.want("after a sign of life", false, false, false)
				if w := view(t, v.r, base(1)); !w.Usable() {
					t.Error("the worker is well and not usable")
				}
				l.Release(UpstreamTimeout, v.now) // in the middle of the answer: that is new
				if got := view(t, v.r, base(1)).CBBad; got != 1 {
					t.Errorf("%d failures of a worker that isn't wedged any more, want 1", got)
				}
			})
		})
	}
}

// A trial of a wedged worker whose breaker is half open decides nothing by its
// silence, and gives its place up.
func TestWedgedTrialHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVigil(t, 3, nil)
		v.pass(v.o.WedgedAfter+3*time.Second, 0, 2)
		v.leases[1].Release(ClientGone, v.now)
		onLoop(t, v.r, func(s *state) { s.moveBreaker(&s.workers[1], BreakerHalfOpen) })
		v.now += int64(v.o.Breaker.Timeout)
		for range 2 * v.o.Breaker.SuccessThreshold {
			l := acquire(t, v.r, Request{Now: v.now, Exclude: []WorkerID{0, 2}})
			if l.URL != base(1) {
				t.Fatalf("acquired at %s, want a trial at %s", l.URL, base(1))
			}
			l.Release(UpstreamTimeout, v.now)
		}
		if got := view(t, v.r, base(1)); got.Breaker != BreakerHalfOpen || !got.Wedged {
			t.Errorf("breaker %v, wedged %v, want half_open and wedged", got.Breaker, got.Wedged)
		}
	})
}

// Looks stay few and bounded, whatever the times are.
func TestLooksWithOddTimes(t *testing.T) {
	v := newVigil(t, 2, func(o *Options) { o.WedgedAfter = 1 })
	for _, now := range []int64{-5, 1 << 62, 0, 1<<62 + 1} {
		v.now = now
		v.visit()
	}
}

// Requests are enough to look by: nobody need send progress.
func TestWedgedByRequestsAlone(t *testing.T) {
	v := newVigil(t, 2, nil)
	for range 12 {
		v.now += second
		v.leases[0].FirstByte(0)
		v.visit()
	}
	v.want("after silence", false, true)
}
