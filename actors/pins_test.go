package actors

import (
	"testing"

	"loadstar/actors/policy"
)

// What only one worker holds is asked of that worker, under every policy and
// whatever its load.
func TestPinnedGoesToItsHolder(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			r := fleet(t, name, 5)
			first := acquire(t, r, Request{Head: 12345, Session: []byte("header:s:1")})
			first.Pin(77)
			for i := range uint64(20) {
				l := acquire(t, r, Request{Pin: 77, Head: i << 40})
				if l.URL != first.URL || l.Decision.Reason != policy.Pinned {
					t.Fatalf("request %d went to %s (%v), want %s (pinned)", i, l.URL, l.Decision.Reason, first.URL)
				}
			}
			wantLoad(t, r, first.URL, 21)
			if l := acquire(t, r, Request{Pin: 78}); l.Decision.Reason == policy.Pinned {
				t.Error("a name that nobody holds is pinned, want the policy's choice")
			}
			if l := acquire(t, r, Request{}); l.Decision.Reason == policy.Pinned {
				t.Error("a request without a pin is pinned, want the policy's choice")
			}
		})
	}
}

// A pin ends with the membership in which it was made: the process that held
// what it names is gone.
func TestPinEndsWithMembership(t *testing.T) {
	pinned := func(t *testing.T, r *Registry) bool {
		t.Helper()
		l := acquire(t, r, Request{Pin: 77})
		defer l.Release(Completed, 0)
		return l.Decision.Reason == policy.Pinned
	}
	t.Run("removed", func(t *testing.T) {
		r := fleet(t, "round_robin", 2)
		l := acquire(t, r, Request{})
		l.Pin(77)
		remove(t, r, l.URL)
		if pinned(t, r) {
			t.Error("pinned to a worker that was removed, want not")
		}
	})
	t.Run("back with leases live", func(t *testing.T) {
		r := fleet(t, "round_robin", 2)
		l := acquire(t, r, Request{})
		l.Pin(77)
		remove(t, r, l.URL)
		join(t, r, spec(l.URL))
		if pinned(t, r) {
			t.Error("pinned to a worker that was removed and came back, want not")
		}
	})
	t.Run("back after it was idle", func(t *testing.T) {
		r := fleet(t, "round_robin", 1)
		l := acquire(t, r, Request{})
		l.Pin(77)
		l.Release(Completed, 0)
		remove(t, r, l.URL)
		join(t, r, spec(l.URL))
		if pinned(t, r) {
			t.Error("pinned to a worker that was forgotten and came back, want not")
		}
	})
	t.Run("a number's next bearer", func(t *testing.T) {
		r := fleet(t, "round_robin", 1)
		l := acquire(t, r, Request{})
		l.Pin(77)
		l.Release(Completed, 0)
		remove(t, r, base(0))
		if id := join(t, r, spec(base(1)))[0]; id != l.Worker {
			t.Fatalf("the next worker has number %d, want %d: the test is about its reuse", id, l.Worker)
		}
		if pinned(t, r) {
			t.Error("pinned to the next bearer of a worker's number, want not")
		}
	})
	t.Run("a lease of the membership before", func(t *testing.T) {
		r := fleet(t, "round_robin", 1)
		l := acquire(t, r, Request{})
		remove(t, r, base(0))
		join(t, r, spec(base(0)))
		l.Pin(77)
		if pinned(t, r) {
			t.Error("pinned by a lease of an earlier membership, want not")
		}
	})
}

// A pin is a wish: where its worker may not serve, another is asked, and says
// that it doesn't know.
func TestPinYields(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	l := acquire(t, r, Request{})
	l.Pin(77)
	wantElsewhere := func(when string, q Request) {
		t.Helper()
		q.Pin = 77
		got := acquire(t, r, q)
		if got.URL == l.URL || got.Decision.Reason == policy.Pinned {
			t.Errorf("%s: went to %s (%v), want the other worker", when, got.URL, got.Decision.Reason)
		}
		got.Release(Completed, 0)
	}
	wantElsewhere("excluded", Request{Exclude: []WorkerID{l.Worker}})
	for range 3 {
		r.ReportHealth(l.URL, errDown)
	}
	wantElsewhere("sick", Request{})
	for range 2 {
		r.ReportHealth(l.URL, nil)
	}
	if got := acquire(t, r, Request{Pin: 77}); got.URL != l.URL {
		t.Errorf("well again: went to %s, want %s", got.URL, l.URL)
	}
}

// Only who holds a lease says what its worker holds.
func TestWhoPins(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	spent := acquire(t, r, Request{})
	spent.Release(Completed, 0)
	spent.Pin(77)
	var none Lease
	none.Pin(77)
	if l := acquire(t, r, Request{Pin: 77}); l.Decision.Reason == policy.Pinned {
		t.Error("pinned by a lease that is over, want not")
	}
	a, b := acquire(t, r, Request{}), acquire(t, r, Request{})
	a.Pin(5)
	b.Pin(5)
	if l := acquire(t, r, Request{Pin: 5}); l.URL != b.URL {
		t.Errorf("pinned to %s, want %s: the last word", l.URL, b.URL)
	}
	a.Pin(0) // names nothing
	if l := acquire(t, r, Request{}); l.Decision.Reason == policy.Pinned {
		t.Error("a request without a pin is pinned, want the policy's choice")
	}
}

// There are so many pins and no more; the oldest go first.
func TestPinsAreBounded(t *testing.T) {
	const extra = 1000
	var p pins
	for k := range uint64(maxPins + extra) {
		p.put(k+1, pin{worker: WorkerID(k)})
		p.put(k/2+1, pin{worker: WorkerID(k / 2)}) // one that may be there or gone
		if len(p.at) > maxPins || len(p.ring) > maxPins || len(p.at) != len(p.ring) {
			t.Fatalf("%d pins and %d in the ring after %d, want at most %d of each and as many", len(p.at), len(p.ring), k+1, maxPins)
		}
	}
	for _, k := range []uint64{1, 2, extra / 2} {
		if _, ok := p.at[k]; ok {
			t.Errorf("pin %d of %d is there, want the oldest gone", k, maxPins+extra)
		}
	}
	for _, k := range []uint64{2 * extra, maxPins, maxPins + extra} {
		if got, ok := p.at[k]; !ok || got.worker != WorkerID(k-1) {
			t.Errorf("pin %d = %v, %v, want worker %d", k, got, ok, k-1)
		}
	}
}
