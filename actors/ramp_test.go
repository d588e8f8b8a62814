package actors

import (
	"testing"
	"time"
)

// flap has a worker fall sick and get well again.
func flap(t testing.TB, r *Registry, o Options, url string) {
	t.Helper()
	for range o.Health.FailureThreshold {
		r.ReportHealth(url, errDown)
	}
	for range o.Health.SuccessThreshold {
		r.ReportHealth(url, nil)
	}
	if v := view(t, r, url); !v.Healthy || !v.Proven {
		t.Fatalf("%s is not healthy again", url)
	}
}

// hold puts live leases on a worker.
func hold(t testing.TB, r *Registry, id WorkerID, n int) {
	t.Helper()
	onLoop(t, r, func(s *state) {
		for range n {
			s.grant(id, Plain, work{}, 0)
		}
	})
}

// takes counts how many leases a worker is given before somebody else is
// preferred who is much busier.
func takes(t testing.TB, r *Registry, url string, now int64) int {
	t.Helper()
	for n := 0; ; n++ {
		l := acquire(t, r, Request{Now: now})
		if l.URL != url || n > 1000 {
			l.Release(ClientGone, now)
			return n
		}
	}
}

// A worker that comes back takes one request at a time, then as many as its
// share of the time allows, then what the policy gives it.
func TestSlowStart(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   time.Duration // since its first request
		want int           // of a mean load of 40 at the others
	}{
		{"at once", 0, 1},
		{"a moment later", 200 * time.Millisecond, 1},
		{"a tenth", time.Second, 4},
		{"rounded down", 1900 * time.Millisecond, 7},
		{"half", 5 * time.Second, 20},
		{"nearly over", 9990 * time.Millisecond, 39},
	} {
		for _, back := range []string{"healthy", "breaker"} {
			t.Run(tc.name+", "+back, func(t *testing.T) {
				o := contained("power_of_two")
				o.WedgedAfter = 0
				r := start(t, o)
				ids := join(t, r, spec(base(0)), spec(base(1)), spec(base(2)))
				now := int64(o.Breaker.Timeout)
				if back == "healthy" {
					flap(t, r, o, base(0))
				} else {
					fail(t, r, o, ids[0], 0)
					onLoop(t, r, func(s *state) {
						for range o.Breaker.SuccessThreshold {
							s.permits(&s.workers[ids[0]], now)
							s.giveBack(s.grant(ids[0], Plain, work{}, now), Completed, now)
						}
					})
				}
				if v := view(t, r, base(0)); !v.Slow || !v.Usable() {
					t.Fatalf("slow = %v, usable = %v, want both", v.Slow, v.Usable())
				}
				hold(t, r, ids[1], 30)
				hold(t, r, ids[2], 50)
				first := acquire(t, r, Request{Now: now})
				first.Release(Completed, now)
				// A look at all candidates, for power_of_two sees only two of them.
				onLoop(t, r, func(s *state) {
					got, q := 0, Request{Now: now + int64(tc.at)}
					for {
						c := s.candidates(&q, Regular)
						if i, ok := placeOf(c, uint32(ids[0])); !ok || c[i].Load > 1000 {
							break
						}
						s.grant(ids[0], Plain, work{}, q.Now)
						got++
					}
					if got != tc.want {
						t.Errorf("takes %d requests at a time, want %d", got, tc.want)
					}
				})
			})
		}
	}
}

// Slow start ends, and the pool takes the worker as one of many again.
func TestSlowStartEnds(t *testing.T) {
	o := contained("power_of_two")
	o.WedgedAfter = 0
	r := start(t, o)
	ids := join(t, r, spec(base(0)), spec(base(1)))
	flap(t, r, o, base(0))
	hold(t, r, ids[1], 40)
	now := 100 * second // it begins with the next request, whenever that is
	if got := takes(t, r, base(0), now); got != 1 {
		t.Errorf("takes %d requests at first, want 1", got)
	}
	now += int64(o.SlowStart)
	if got := takes(t, r, base(0), now); got != 40-1 && got != 40 {
		t.Errorf("takes %d more requests when it is over, want as many as the other has", got)
	}
	if view(t, r, base(0)).Slow {
		t.Error("slow start isn't over, want it to be")
	}
	onLoop(t, r, func(s *state) {
		q := Request{Now: now}
		if s.candidates(&q, Regular); s.pools[Regular].unsettled != 0 || len(s.pools[Regular].ready) != 2 {
			t.Errorf("pool = %+v, want two that are ready", s.pools[Regular])
		}
	})
}

func TestNoSlowStart(t *testing.T) {
	for _, tc := range []struct {
		name string
		off  bool
		do   func(t *testing.T, r *Registry, o Options)
	}{
		{"switched off", true, func(t *testing.T, r *Registry, o Options) { flap(t, r, o, base(0)) }},
		{"healthy for the first time", false, func(*testing.T, *Registry, Options) {}},
		{"removed and added again", false, func(t *testing.T, r *Registry, o Options) {
			flap(t, r, o, base(0))
			remove(t, r, base(0))
			join(t, r, spec(base(0)))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := contained("power_of_two")
			if tc.off {
				o.SlowStart = 0
			}
			r := start(t, o)
			ids := join(t, r, spec(base(1)), spec(base(0)))
			hold(t, r, ids[0], 40)
			tc.do(t, r, o)
			if got := takes(t, r, base(0), 0); got < 39 {
				t.Errorf("takes %d requests, want as many as the other has", got)
			}
		})
	}
}

// Where nobody else may serve, a worker in slow start serves all.
func TestSlowStartAlone(t *testing.T) {
	o := contained("round_robin")
	r := start(t, o)
	join(t, r, spec(base(0)), spec(base(1)))
	flap(t, r, o, base(0))
	flap(t, r, o, base(1))
	for range 20 {
		acquire(t, r, Request{})
	}
	for range o.Health.FailureThreshold {
		r.ReportHealth(base(1), errDown)
	}
	for range 20 {
		acquire(t, r, Request{})
	}
	// The one that isn't in slow start has failed this request.
	r2 := start(t, o)
	ids := join(t, r2, spec(base(0)), spec(base(1)))
	flap(t, r2, o, base(0))
	for range 5 {
		if l := acquire(t, r2, Request{Exclude: ids[1:]}); l.URL != base(0) {
			t.Errorf("acquired at %s, which is excluded, want %s", l.URL, base(0))
		}
	}
}

// A reservation is no second request in the eyes of its own Begin.
func TestSlowStartKeepsReservation(t *testing.T) {
	o := contained("power_of_two")
	r := start(t, o)
	join(t, r, roleSpec(base(0), Prefill), roleSpec(base(1), Decode), roleSpec(base(2), Decode))
	hold(t, r, 2, 1)
	flap(t, r, o, base(1))
	_, d := acquirePair(t, r, Request{})
	if d.URL != base(1) {
		t.Fatalf("reserved at %s, want %s, which is idle", d.URL, base(1))
	}
	if got := begin(t, d, Request{Movable: true}); got.URL != base(1) {
		t.Errorf("decodes at %s, want %s where it was reserved", got.URL, base(1))
	}
}
