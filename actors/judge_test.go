package actors

import "testing"

// wantJudged checks what a worker's breaker has learnt.
func wantJudged(t *testing.T, r *Registry, url, when string, good, bad uint64) {
	t.Helper()
	if v := view(t, r, url); v.CBGood != good || v.CBBad != bad {
		t.Errorf("%s: %s has %d successes and %d failures, want %d and %d", when, url, v.CBGood, v.CBBad, good, bad)
	}
}

func TestReleaseUnjudgedEndsTheLease(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	l := acquire(t, r, Request{Key: key(0, 5, 1)})
	l.ReleaseUnjudged(ServerError, 0)
	wantLoad(t, r, base(0), 0)
	v := view(t, r, base(0))
	if v.Pending != 0 || v.Outcomes[ServerError] != 1 {
		t.Errorf("pending = %d, outcomes = %v, want 0 and one server_error", v.Pending, v.Outcomes)
	}
	for _, again := range []func(){func() { l.Release(Completed, 0) }, func() { l.ReleaseUnjudged(Completed, 0) }} {
		before := snap(t, r).Refused
		again()
		if got := snap(t, r).Refused; got != before+1 {
			t.Errorf("refused = %d after a second release, want %d", got, before+1)
		}
	}
	wantJudged(t, r, base(0), "unjudged", 0, 0)
}

func TestJudgeCountsOnce(t *testing.T) {
	for _, tc := range []struct {
		name      string
		do        func(t *testing.T, r *Registry, l Lease)
		good, bad uint64
	}{
		{"a failure", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(ServerError, 0) }, 0, 1},
		{"a success", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(Completed, 0) }, 1, 0},
		{"neither", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(ClientGone, 0) }, 0, 0},
		{"twice", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(ServerError, 0); l.Judge(ServerError, 0) }, 0, 1},
		{"neither, then a failure", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(ClientGone, 0); l.Judge(ServerError, 0) }, 0, 0},
		{"no cause at all", func(_ *testing.T, _ *Registry, l Lease) { l.Judge(numCauses+3, 0) }, 0, 0},
		{"after other leases", func(t *testing.T, r *Registry, l Lease) {
			for range 10 {
				x := acquire(t, r, Request{})
				x.ReleaseUnjudged(ServerError, 0)
			}
			l.Judge(ServerError, 0)
		}, 0, 1},
		{"while another lease is live", func(t *testing.T, r *Registry, l Lease) {
			acquire(t, r, Request{})
			l.Judge(ServerError, 0)
			wantLoad(t, r, base(0), 1)
		}, 0, 1},
		{"when the worker was removed and added again", func(t *testing.T, r *Registry, l Lease) {
			remove(t, r, base(0))
			join(t, r, spec(base(0)))
			l.Judge(ServerError, 0)
		}, 0, 0},
		{"when another worker has its number", func(t *testing.T, r *Registry, l Lease) {
			remove(t, r, base(0))
			join(t, r, spec(base(1)), spec(base(0)))
			l.Judge(ServerError, 0)
			wantJudged(t, r, base(1), "the other", 0, 0)
		}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := fleet(t, "round_robin", 1)
			l := acquire(t, r, Request{})
			l.ReleaseUnjudged(ServerError, 0)
			tc.do(t, r, l)
			wantJudged(t, r, base(0), tc.name, tc.good, tc.bad)
			wantBalanced(t, r)
		})
	}
}

// Only an ended lease that was released for it can be judged.
func TestJudgeOfOthersCountsNothing(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	l := acquire(t, r, Request{})
	l.Judge(ServerError, 0) // live
	wantLoad(t, r, base(0), 1)
	l.Release(Completed, 0)
	l.Judge(ServerError, 0) // judged when it was released
	wantJudged(t, r, base(0), "judged at its release", 1, 0)
	var none Lease
	none.Judge(ServerError, 0)
	none.ReleaseUnjudged(ServerError, 0)
	none.Progress(0)
	if got := snap(t, r).Refused; got != 0 {
		t.Errorf("refused = %d, want 0", got)
	}
}

// A trial's place is free when its lease has ended; what it shows comes later.
func TestJudgedTrial(t *testing.T) {
	o := options("round_robin")
	o.Breaker.SuccessThreshold = 1
	r := start(t, o)
	join(t, r, spec(base(0)))
	trip(t, r, o, base(0))
	now := int64(o.Breaker.Timeout)
	first := acquire(t, r, Request{Now: now})
	first.ReleaseUnjudged(ServerError, now)
	second := acquire(t, r, Request{Now: now})
	first.Judge(ServerError, now)
	if got := view(t, r, base(0)).Breaker; got != BreakerOpen {
		t.Errorf("breaker = %v after a trial judged bad, want open", got)
	}
	second.Release(ClientGone, now)
}

// Leases that nobody judges hold their slots only until there are too many.
func TestAwaitingIsBounded(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	var leases []Lease
	for range 3 * maxAwaiting {
		l := acquire(t, r, Request{})
		l.ReleaseUnjudged(ServerError, 0)
		leases = append(leases, l)
	}
	onLoop(t, r, func(s *state) {
		if got, most := len(s.slots), maxAwaiting+1; got > most {
			t.Errorf("%d slots after %d leases one after another, want at most %d", got, len(leases), most)
		}
	})
	for i := range leases {
		leases[i].Judge(Completed, 0) // good, so that nothing opens
	}
	wantJudged(t, r, base(0), "those in time", maxAwaiting, 0)
	onLoop(t, r, func(s *state) {
		if got := len(s.freeSlots); got != len(s.slots) {
			t.Errorf("%d slots are free, want all %d", got, len(s.slots))
		}
	})
}

// What was judged long ago is not given up a second time.
func TestJudgedSlotsAreFreedOnce(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	for range 2*maxAwaiting + 1 {
		l := acquire(t, r, Request{})
		l.ReleaseUnjudged(Completed, 0)
		l.Judge(Completed, 0)
	}
	onLoop(t, r, func(s *state) {
		if len(s.slots) != 1 || len(s.freeSlots) != 1 {
			t.Errorf("%d slots, %d free, want one that is free once", len(s.slots), len(s.freeSlots))
		}
	})
	wantJudged(t, r, base(0), "each in its time", 2*maxAwaiting+1, 0)
}

// Poison: requests that every worker answers with an error, each charged to the
// request, leave all breakers closed. What a lone worker does is its own fault.
func TestPoisonOpensNothing(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	for i := range int64(24) {
		now := i * second // slowly, so that the budget allows every retry
		first := acquire(t, r, Request{})
		first.ReleaseUnjudged(ServerError, 0)
		second := acquire(t, r, Request{Exclude: []WorkerID{first.Worker}, Retry: true, Now: now})
		if second.Worker == first.Worker {
			t.Fatalf("the retry went to %s again", first.URL)
		}
		second.ReleaseUnjudged(ServerError, 0)
	}
	for i := range 2 {
		if got := view(t, r, base(i)).Breaker; got != BreakerClosed {
			t.Errorf("breaker of %s = %v, want closed", base(i), got)
		}
	}
}
