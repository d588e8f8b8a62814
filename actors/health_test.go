package actors

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors/policy"
)

// Load is what the live leases say it is. Twelve health cycles of any kind
// leave five requests in flight at five, under every policy.
func TestHealthCyclesLeaveLoadAlone(t *testing.T) {
	const (
		cycles   = 12
		inFlight = 5
	)
	cases := []struct {
		name    string
		down    func(n int) bool // whether the n-th check fails, from 0
		hangs   bool             // a check that fails does so at its timeout
		healthy bool             // verdict after the last cycle
	}{
		{"always up", func(int) bool { return false }, false, true},
		{"dies after the first", func(n int) bool { return n > 0 }, false, false},
		{"flaps every cycle", func(n int) bool { return n%2 == 1 }, false, true},
		{"recovers at the end", func(n int) bool { return n > 0 && n < cycles-2 }, false, true},
		{"slower than its timeout", func(n int) bool { return n > 0 }, true, false},
	}
	for _, name := range policy.Names() {
		for _, tc := range cases {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := options(name)
					o.Health.FailureThreshold = 2
					r := start(t, o)
					url := base(0)
					add(t, r, spec(url))
					var ended atomic.Int64 // checks
					check := func(ctx context.Context) error {
						n := ended.Load()
						defer ended.Add(1)
						if !tc.down(int(n)) {
							return nil
						}
						if tc.hangs {
							<-ctx.Done()
							return ctx.Err()
						}
						return errDown
					}
					p := NewProber(r, o.Health)
					defer p.Stop()
					p.Watch(url, check)
					synctest.Wait() // the first check has reported

					leases := acquireN(t, r, inFlight)
					for ended.Load() < cycles {
						time.Sleep(time.Second) // fake: returns at once
						synctest.Wait()
						wantLoad(t, r, url, inFlight)
					}
					if got := view(t, r, url).Healthy; got != tc.healthy {
						t.Errorf("healthy = %v, want %v", got, tc.healthy)
					}
					for i := range leases {
						leases[i].Release(Completed, 0)
						wantLoad(t, r, url, inFlight-1-i)
					}
					if got := snap(t, r).Refused; got != 0 {
						t.Errorf("refused = %d, want 0", got)
					}
				})
			})
		}
	}
}

// A worker that goes sick keeps the requests it has, gets no new one, and has
// its load unchanged when it is back.
func TestSickAndBackKeepsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options("power_of_two")
		r := start(t, o)
		url := base(0)
		add(t, r, spec(url))
		var sick atomic.Bool
		check := func(context.Context) error {
			if sick.Load() {
				return errDown
			}
			return nil
		}
		p := NewProber(r, o.Health)
		defer p.Stop()
		p.Watch(url, check)
		synctest.Wait()
		leases := acquireN(t, r, 3)

		sick.Store(true)
		awaitHealth(t, r, url, false)
		wantLoad(t, r, url, 3)
		if _, err := r.Acquire(&Request{}); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire at a sick fleet: %v, want %v", err, ErrNoWorker)
		}
		leases[0].Release(Completed, 0) // an answer from a worker that fails its checks is still an answer
		wantLoad(t, r, url, 2)

		sick.Store(false)
		awaitHealth(t, r, url, true)
		wantLoad(t, r, url, 2)
		leases[0] = acquire(t, r, Request{})
		wantLoad(t, r, url, 3)
		for i := range leases {
			leases[i].Release(Completed, 0)
		}
		wantLoad(t, r, url, 0)
	})
}

// awaitHealth lets fake time pass until a worker's health is as wanted.
func awaitHealth(t *testing.T, r *Registry, url string, want bool) {
	t.Helper()
	for range 120 {
		if view(t, r, url).Healthy == want {
			return
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
	t.Fatalf("%s is not healthy=%v after two minutes", url, want)
}

func TestHealthThresholds(t *testing.T) {
	for _, tc := range []struct {
		name    string
		checks  string // of a new worker: + good, - bad
		want    string // health after each: + healthy, - not
		changes int
	}{
		{"the first good check is enough", "+", "+", 1},
		{"never good is never healthy", "-----", "-----", 0},
		{"first good check after many bad ones", "----+", "----+", 1},
		{"two bad checks are not three", "+--+--+", "+++++++", 1},
		{"three bad checks in a row", "+---", "+++-", 2},
		{"back with two good ones in a row", "+---+-++", "+++----+", 3},
		{"good ones must be in a row", "+---+-+-+-", "+++-------", 2},
		{"bad ones count anew after recovery", "+---++--+---", "+++--++++++-", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("random").Health
			var h health
			got, changes := "", 0
			for _, c := range tc.checks {
				reason := ""
				if c == '-' {
					reason = "down"
				}
				if h.report(&o, reason) {
					changes++
				}
				if h.reason != reason {
					t.Errorf("reason = %q, want %q", h.reason, reason)
				}
				got += map[bool]string{true: "+", false: "-"}[h.healthy]
			}
			if got != tc.want {
				t.Errorf("health after %s = %s, want %s", tc.checks, got, tc.want)
			}
			if changes != tc.changes {
				t.Errorf("%d changes were reported, want %d", changes, tc.changes)
			}
		})
	}
}

// Each change of health is told once, with its reason and the load at that
// moment.
func TestHealthChangesAreEvents(t *testing.T) {
	r := fleet(t, "random", 1)
	acquireN(t, r, 2)
	drainEvents(r)
	for range 5 {
		r.ReportHealth(base(0), errDown)
	}
	for range 5 {
		r.ReportHealth(base(0), nil)
	}
	want := []Event{
		{Kind: WorkerUnhealthy, URL: base(0), Detail: "down", Load: 2},
		{Kind: WorkerHealthy, URL: base(0), Load: 2},
	}
	if got := drainEvents(r); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
}

// A new worker that is not well is told of once, with the reason.
func TestUnreadyIsAnEvent(t *testing.T) {
	r := start(t, options("random"))
	add(t, r, spec(base(0)))
	drainEvents(r)
	for range 5 {
		r.ReportHealth(base(0), errDown)
	}
	r.ReportHealth(base(0), nil)
	want := []Event{{Kind: WorkerUnready, URL: base(0), Detail: "down"}, {Kind: WorkerHealthy, URL: base(0)}}
	if got := drainEvents(r); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
}

// A check speaks for everything at its base URL, and for nothing else.
func TestHealthIsPerBase(t *testing.T) {
	r := start(t, options("random"))
	join(t, r, Expand(Spec{Base: base(0)}, 2)...)
	join(t, r, spec(base(1)))
	for range 3 {
		r.ReportHealth(base(0), errDown)
	}
	for _, w := range snap(t, r).Workers {
		if got, want := w.Healthy, w.Base == base(1); got != want {
			t.Errorf("%s healthy = %v, want %v", w.URL, got, want)
		}
	}
	if r.ReportHealth(base(7), nil) {
		t.Error("a base URL without workers is healthy, want not")
	}
}
