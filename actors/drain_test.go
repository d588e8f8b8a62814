package actors

import (
	"errors"
	"testing"
)

func drainOne(t *testing.T, r *Registry, url string) Drain {
	t.Helper()
	drains, err := r.DrainWorkers(url)
	if err != nil || len(drains) != 1 {
		t.Fatalf("DrainWorkers(%s) = %d drains, %v, want one", url, len(drains), err)
	}
	return drains[0]
}

// wantOver checks how a drain has ended, or with nil that it hasn't.
func wantOver(t *testing.T, d *Drain, want any) {
	t.Helper()
	var got any
	select {
	case v := <-d.Over():
		got = v
	default:
	}
	if got != want {
		t.Errorf("the drain of %s is over: %v, want %v", d.URL, got, want)
	}
}

// A worker that drains gets nothing more, is a member and is checked until its
// last lease has ended.
func TestDrain(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	drainEvents(r)
	leases := acquireN(t, r, 4) // two at each
	d := drainOne(t, r, base(0))
	if d.Leases != 2 || d.Base != base(0) {
		t.Errorf("drain of %s with %d leases, want %s with 2", d.Base, d.Leases, base(0))
	}
	for range 6 {
		if l := acquire(t, r, Request{}); l.URL != base(1) {
			t.Fatalf("acquired at %s, which drains", l.URL)
		}
	}
	if v := view(t, r, base(0)); !v.Member || !v.Healthy || !v.Draining || v.Usable() || v.Load != 2 {
		t.Errorf("member = %v, healthy = %v, draining = %v, usable = %v, load = %d, want true, true, true, false, 2", v.Member, v.Healthy, v.Draining, v.Usable(), v.Load)
	}
	if h := r.Health(0); h.Usable[Regular] != 1 || h.Members[Regular] != 2 || h.Draining != 1 || len(h.Unusable) != 0 {
		t.Errorf("health = %+v, want 1 usable of 2, one draining and none unusable", h)
	}
	for range 3 {
		r.ReportHealth(base(0), errDown)
	}
	if v := view(t, r, base(0)); v.Healthy || v.Load != 2 {
		t.Errorf("after bad checks: healthy = %v, load = %d, want false and 2", v.Healthy, v.Load)
	}
	for _, l := range leases {
		if l.URL == base(0) {
			wantOver(t, &d, nil)
			l.Release(Completed, 0)
		}
	}
	wantBalanced(t, r)
	wantOver(t, &d, true)
	if known(t, r, base(0)) {
		t.Error("the worker is known after its last lease, want it gone")
	}
	all := drainEvents(r)
	for k, want := range map[EventKind]int{WorkerDraining: 1, WorkerRemoved: 1, WorkerRetired: 1, WorkerUndrained: 0} {
		if got := countEvents(all, k); got != want {
			t.Errorf("%d events of kind %d, want %d", got, k, want)
		}
	}
}

func TestDrainEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		act    func(t *testing.T, r *Registry, d *Drain)
		over   any
		member bool // and gets requests
		load   int
	}{
		{"not yet", func(*testing.T, *Registry, *Drain) {}, nil, true, 1},
		{"taken back", func(t *testing.T, r *Registry, _ *Drain) {
			if err := r.UndrainWorkers(base(0)); err != nil {
				t.Fatal(err)
			}
		}, false, true, 1},
		{"begun anew", func(t *testing.T, r *Registry, d *Drain) {
			drainOne(t, r, base(0))
			if r.EndDrain(d) {
				t.Error("EndDrain of a drain that is over = true, want false")
			}
		}, false, true, 1},
		{"removed", func(t *testing.T, r *Registry, _ *Drain) { remove(t, r, base(0)) }, false, false, 1},
		{"its time is over", func(t *testing.T, r *Registry, d *Drain) {
			if !r.EndDrain(d) || r.EndDrain(d) {
				t.Error("EndDrain twice, want true and then false")
			}
		}, false, false, 1},
		{"its time is over after it was taken back", func(t *testing.T, r *Registry, d *Drain) {
			if err := r.UndrainWorkers(base(0)); err != nil || r.EndDrain(d) {
				t.Errorf("UndrainWorkers: %v, and EndDrain must be false", err)
			}
		}, false, true, 1},
		{"another worker has its number", func(t *testing.T, r *Registry, d *Drain) {
			l := snap(t, r)
			remove(t, r, base(0))
			add(t, r, spec(base(9)))
			if len(l.Workers) != 2 || r.EndDrain(d) {
				t.Error("EndDrain = true, want false")
			}
		}, false, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := fleet(t, "round_robin", 2)
			var held Lease
			for _, l := range acquireN(t, r, 2) {
				if l.URL == base(0) {
					held = l
				}
			}
			d := drainOne(t, r, base(0))
			tc.act(t, r, &d)
			wantOver(t, &d, tc.over)
			if v := view(t, r, base(0)); v.Member != tc.member || v.Load != tc.load {
				t.Errorf("member = %v, load = %d, want %v and %d", v.Member, v.Load, tc.member, tc.load)
			}
			held.Release(Completed, 0)
			wantBalanced(t, r)
		})
	}
}

func TestDrainIdleAndUnknown(t *testing.T) {
	r := fleet(t, "random", 1)
	d := drainOne(t, r, base(0))
	wantOver(t, &d, true)
	if known(t, r, base(0)) {
		t.Error("an idle worker is known after its drain, want it gone")
	}
	if _, err := r.DrainWorkers(base(0)); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("DrainWorkers of one that is gone: %v, want %v", err, ErrUnknownWorker)
	}
	if err := r.UndrainWorkers(base(0)); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("UndrainWorkers of one that is gone: %v, want %v", err, ErrUnknownWorker)
	}
	if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
	}
	join(t, r, spec(base(0)))
	if v := view(t, r, base(0)); v.Draining {
		t.Error("a worker that was added again drains, want not")
	}
}

// All ranks at a base URL drain, and each goes by itself.
func TestDrainRanks(t *testing.T) {
	r := start(t, options("round_robin"))
	join(t, r, Expand(Spec{Base: base(0)}, 2)...)
	l := acquire(t, r, Request{})
	drains, err := r.DrainWorkers(base(0))
	if err != nil || len(drains) != 2 {
		t.Fatalf("DrainWorkers = %d drains, %v, want 2", len(drains), err)
	}
	for i := range drains {
		if drains[i].URL == l.URL {
			wantOver(t, &drains[i], nil)
		} else {
			wantOver(t, &drains[i], true)
		}
	}
	l.Release(Completed, 0)
	if n := len(snap(t, r).Workers); n != 0 {
		t.Errorf("%d workers, want none", n)
	}
}

// A reservation at a worker that drains may begin there, and only a worker that
// is out of order loses it.
func TestDrainKeepsReservations(t *testing.T) {
	for _, tc := range []struct {
		name string
		down bool
		want string
	}{
		{"well", false, base(1)},
		{"sick", true, base(2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, options("power_of_two"))
			p, d, e := spec(base(0)), spec(base(1)), spec(base(2))
			p.Roles, d.Roles, e.Roles = RolesOf(Prefill), RolesOf(Decode), RolesOf(Decode)
			join(t, r, p, d)
			_, reserved, err := r.AcquirePair(&Request{Key: make([]uint64, 4)})
			if err != nil {
				t.Fatal(err)
			}
			join(t, r, e)
			dr := drainOne(t, r, base(1))
			if dr.Leases != 1 {
				t.Errorf("drain with %d leases, want the reserved one", dr.Leases)
			}
			wantOver(t, &dr, nil)
			for range 3 {
				if tc.down {
					r.ReportHealth(base(1), errDown)
				}
			}
			begun, err := reserved.Begin(&Request{Movable: true})
			if err != nil || begun.URL != tc.want {
				t.Fatalf("Begin at %s, %v, want %s", begun.URL, err, tc.want)
			}
			begun.Release(Completed, 0)
			wantBalanced(t, r)
			wantOver(t, &dr, true)
		})
	}
}

// The floor protects those that are left: one that drains is no reserve.
func TestDrainAndTheFloor(t *testing.T) {
	o := options("round_robin")
	o.Breaker.FailureThreshold = 1
	r := start(t, o)
	for i := range 4 {
		join(t, r, spec(base(i)))
	}
	held := acquireN(t, r, 4)
	drainOne(t, r, base(0))
	drainOne(t, r, base(1))
	for _, l := range held {
		if l.URL == base(2) || l.URL == base(3) {
			l.Release(ConnectFailed, 1)
		}
	}
	if h := r.Health(2); h.Usable[Regular] != 1 {
		t.Errorf("%d of the two that are left may get requests, want 1: half of them", h.Usable[Regular])
	}
}

// Requests that wait for a place go on to other workers, or fail where there are
// none.
func TestDrainAndTheWaitingRoom(t *testing.T) {
	o := options("round_robin")
	o.Room = RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: patience, Now: func() int64 { return 0 }}
	r := start(t, o)
	join(t, r, spec(base(0)))
	l := acquire(t, r, Request{})
	failed := make(chan error, 1)
	go func() {
		_, err := r.Acquire(&Request{})
		failed <- err
	}()
	until(t, "the request to wait", func() bool { return snap(t, r).Room.Waits == 1 })
	drainOne(t, r, base(0))
	if err := <-failed; !errors.Is(err, ErrNoWorker) {
		t.Errorf("the request that waited: %v, want %v", err, ErrNoWorker)
	}
	l.Release(Completed, 0)
	wantBalanced(t, r)
}
