package actors

import (
	"errors"
	"testing"
	"time"
)

// fail has one worker's leases fail until its breaker should be open.
func fail(t testing.TB, r *Registry, o Options, id WorkerID, now int64) {
	t.Helper()
	onLoop(t, r, func(s *state) {
		for range o.Breaker.FailureThreshold {
			s.giveBack(s.grant(id, Plain, work{}, now), UpstreamReset, now)
		}
	})
}

func breakers(t testing.TB, r *Registry) (states map[string]BreakerState) {
	t.Helper()
	states = map[string]BreakerState{}
	for _, w := range snap(t, r).Workers {
		states[w.URL] = w.Breaker
	}
	return states
}

func countOpen(states map[string]BreakerState) (n int) {
	for _, s := range states {
		if s != BreakerClosed {
			n++
		}
	}
	return n
}

// However many workers fail, breakers keep out no more than a share of them.
func TestFloor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		workers int
		share   float64
		want    int
	}{
		{"a lone worker has no floor", 1, 0, 1},
		{"one of two", 2, 0, 1},
		{"one of three", 3, 0, 1},
		{"two of four", 4, 0, 2},
		{"half of many", 9, 0.5, 4},
		{"a quarter", 8, 0.25, 2},
		{"a quarter of few is none", 3, 0.25, 0},
		{"a share that is no binary fraction", 100, 0.29, 29},
		{"all but one", 5, 1, 4},
		{"more than all is all but one", 5, 7, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("round_robin")
			o.Breaker.MaxOpenShare = tc.share
			r := start(t, o)
			var ids []WorkerID
			for i := range tc.workers {
				ids = append(ids, join(t, r, spec(base(i)))...)
			}
			for range 3 {
				for _, id := range ids {
					fail(t, r, o, id, 0)
				}
			}
			if got := countOpen(breakers(t, r)); got != tc.want {
				t.Errorf("%d breakers are open, want %d", got, tc.want)
			}
		})
	}
}

// A spared breaker is told of, once in a while, and counts from zero.
func TestSparedBreaker(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	ids := join(t, r, spec(base(0)), spec(base(1)))
	fail(t, r, o, ids[0], 0)
	drainEvents(r)
	fail(t, r, o, ids[1], 1)
	want := Event{Kind: BreakerSpared, URL: base(1), Detail: "too many workers are out", InRow: 5, Failures: 5}
	if got := drainEvents(r); len(got) != 1 || got[0] != want {
		t.Errorf("events = %v, want %v alone", got, want)
	}
	onLoop(t, r, func(s *state) {
		if b := &s.workers[ids[1]].breaker; b.failures != 0 || b.recent != (window{}) {
			t.Errorf("a spared breaker holds %d failures and %+v, want nothing", b.failures, b.recent.sum)
		}
	})
	fail(t, r, o, ids[1], 2)
	if got := drainEvents(r); len(got) != 0 {
		t.Errorf("events = %v when it is spared again at once, want none", got)
	}
	fail(t, r, o, ids[1], 1+int64(o.Breaker.Timeout))
	if got := drainEvents(r); countEvents(got, BreakerSpared) != 1 {
		t.Errorf("events = %v when it is spared again later, want one more", got)
	}
	if got := view(t, r, base(1)).CBSpared; got != 3 {
		t.Errorf("spared %d times, want 3", got)
	}
}

// Each role has its own floor, and who serves two must be spared in both.
func TestFloorByRole(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	both := join(t, r, roleSpec(base(0), Prefill, Decode))[0]
	p := join(t, r, roleSpec(base(1), Prefill))[0]
	d := join(t, r, roleSpec(base(2), Decode))[0]
	fail(t, r, o, p, 0)
	fail(t, r, o, both, 0)
	fail(t, r, o, d, 0)
	got := breakers(t, r)
	if got[base(0)] != BreakerClosed || got[base(1)] != BreakerOpen || got[base(2)] != BreakerOpen {
		t.Errorf("breakers = %v, want only that of %s closed", got, base(0))
	}
}

// Workers that checks call sick don't count, and when they leave too few of the
// others the breakers that have been open for longest close.
func TestFloorFollowsHealth(t *testing.T) {
	sick := func(r *Registry, o Options, url string) {
		for range o.Health.FailureThreshold {
			r.ReportHealth(url, errDown)
		}
	}
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, r *Registry, o Options)
		want map[string]BreakerState // of those that aren't closed
	}{
		{"nothing", func(*testing.T, *Registry, Options) {}, map[string]BreakerState{base(0): BreakerOpen, base(1): BreakerOpen}},
		{"a third one fails", func(t *testing.T, r *Registry, o Options) { fail(t, r, o, 2, 5) }, map[string]BreakerState{base(0): BreakerOpen, base(1): BreakerOpen}},
		{"a sick one fails", func(t *testing.T, r *Registry, o Options) {
			sick(r, o, base(0))
			fail(t, r, o, 2, 5) // one of three healthy ones is open
		}, map[string]BreakerState{base(0): BreakerOpen, base(1): BreakerOpen}},
		{"one that is closed falls sick", func(t *testing.T, r *Registry, o Options) { sick(r, o, base(3)) }, map[string]BreakerState{base(1): BreakerOpen}},
		{"both closed ones fall sick", func(t *testing.T, r *Registry, o Options) { sick(r, o, base(2)); sick(r, o, base(3)) }, map[string]BreakerState{base(1): BreakerOpen}},
		{"one that is closed is removed", func(t *testing.T, r *Registry, _ Options) { remove(t, r, base(3)) }, map[string]BreakerState{base(1): BreakerOpen}},
		{"one that is closed gets another role", func(t *testing.T, r *Registry, _ Options) {
			if err := r.SetRoles(base(3), RolesOf(Decode)); err != nil {
				t.Fatal(err)
			}
		}, map[string]BreakerState{base(1): BreakerOpen}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("round_robin")
			r := start(t, o)
			join(t, r, spec(base(0)), spec(base(1)), spec(base(2)), spec(base(3)))
			fail(t, r, o, 0, 1)
			fail(t, r, o, 1, 2)
			tc.do(t, r, o)
			for url, got := range breakers(t, r) {
				if got != tc.want[url] {
					t.Errorf("breaker of %s = %v, want %v", url, got, tc.want[url])
				}
			}
			if _, err := r.Acquire(&Request{}); err != nil {
				t.Errorf("Acquire: %v, want a lease: the floor leaves somebody", err)
			}
		})
	}
}

// A sick worker whose breaker is open is out of the count until it is well.
func TestFloorWhenASickWorkerComesBack(t *testing.T) {
	o := options("round_robin")
	o.Health.FailureThreshold, o.Health.SuccessThreshold = 1, 1
	r := start(t, o)
	join(t, r, spec(base(0)), spec(base(1)), spec(base(2)))
	r.ReportHealth(base(0), errDown)
	fail(t, r, o, 0, 1) // it counts for nothing
	fail(t, r, o, 1, 2) // one of the two that are well
	if got := countOpen(breakers(t, r)); got != 2 {
		t.Fatalf("%d breakers are open, want 2: one of them is of a sick worker", got)
	}
	r.ReportHealth(base(0), nil) // two of three would be out
	want := map[string]BreakerState{base(0): BreakerClosed, base(1): BreakerOpen, base(2): BreakerClosed}
	for url, got := range breakers(t, r) {
		if got != want[url] {
			t.Errorf("breaker of %s = %v, want %v", url, got, want[url])
		}
	}
}

// A lone worker's breaker opens: there is no floor under a fleet of one.
func TestNoFloorForOne(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	join(t, r, spec(base(0)))
	add(t, r, spec(base(1))) // never healthy: no fleet yet
	trip(t, r, o, base(0))
	if _, err := r.Acquire(&Request{Now: int64(time.Second)}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
	}
}
