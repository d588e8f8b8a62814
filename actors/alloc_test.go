//go:build !race

package actors

import (
	"testing"
	"time"

	"loadstar/actors/learn"
)

// Nor does a prefill and decode pair.
func TestPairAllocatesNothing(t *testing.T) {
	r := startRouter(t, "cache_aware", 1<<20)
	for i := range 16 {
		join(t, r, roleSpec(base(i), []Role{Prefill, Decode}[i%2]))
	}
	q := &Request{Key: key(0, 128, 1), Movable: true}
	pair := func() {
		q.Now++
		p, d, err := r.AcquirePair(q)
		if err != nil {
			t.Fatalf("AcquirePair: %v", err)
		}
		p.FirstByte(0)
		p.Release(Completed, q.Now)
		if d, err = d.Begin(q); err != nil {
			t.Fatalf("Begin: %v", err)
		}
		d.Release(Completed, q.Now)
	}
	for range 100 {
		pair()
	}
	if got := testing.AllocsPerRun(2000, pair); got != 0 {
		t.Errorf("%v allocations for a pair, want 0", got)
	}
}

// Nor does what contains damage, all of it switched on: a retry, its judgement, signs
// of life, and a fleet in which one worker is wedged and one in slow start.
func TestContainmentAllocatesNothing(t *testing.T) {
	o := contained("power_of_two")
	o.WedgedAfter = time.Second
	o.Breaker.Timeout = time.Hour
	o.Retries = RetryOptions{Ratio: 1, Floor: 1000}
	o.SlowStart = time.Hour
	r := start(t, o)
	for i := range 8 {
		join(t, r, spec(base(i)))
	}
	flap(t, r, o, base(1))
	hold(t, r, 2, 1)
	q, retry := new(Request), &Request{Retry: true}
	pair := func() {
		q.Now += int64(100 * time.Millisecond)
		retry.Now = q.Now
		l, err := r.Acquire(q)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		l.ReleaseUnjudged(ServerError, q.Now)
		again, err := r.Acquire(retry)
		if err != nil {
			t.Fatalf("Acquire of the retry: %v", err)
		}
		again.FirstByte(0)
		again.Progress(q.Now)
		again.Release(Completed, q.Now)
		l.Judge(Completed, q.Now)
		l.Judge(Completed, q.Now)
	}
	for range 2000 {
		pair()
	}
	if v := view(t, r, base(2)); !v.Wedged {
		t.Errorf("%s isn't wedged, want it for this test", base(2))
	}
	if v := view(t, r, base(1)); !v.Slow {
		t.Errorf("%s isn't in slow start, want it for this test", base(1))
	}
	if got := testing.AllocsPerRun(2000, pair); got != 0 {
		t.Errorf("%v allocations for a request and its retry, want 0", got)
	}
}

// A pair of Acquire and Release allocates nothing, on either way to the registry
// and in either actor: what is measured counts every goroutine.
func TestAcquireReleaseAllocatesNothing(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		key          []uint64
	}{
		{"round_robin", "round_robin", nil},
		{"power_of_two", "power_of_two", nil},
		{"cache_aware without a key", "cache_aware", nil},
		{"cache_aware through the tree", "cache_aware", key(0, 128, 1)},
		{"least_work through the tree", "least_work", key(0, 128, 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startRouter(t, tc.policy, 1<<20)
			for i := range 16 {
				join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Model: "m"})
			}
			exclude := []WorkerID{3}
			q := &Request{Key: tc.key, Model: []byte("m"), Exclude: exclude}
			pair := func() {
				q.Now++
				l, err := r.Acquire(q)
				if err != nil {
					t.Fatalf("Acquire: %v", err)
				}
				l.FirstByte(q.Now)
				r.Learn(&l, learn.Usage{Prompt: 16 * len(tc.key)})
				l.Release(Completed, q.Now)
			}
			for range 100 { // scratch space grows and pools fill
				pair()
			}
			if got := testing.AllocsPerRun(2000, pair); got != 0 {
				t.Errorf("%v allocations for a pair, want 0", got)
			}
		})
	}
}

// Nor does one for a model that some of the workers serve.
func TestModelsAllocateNothing(t *testing.T) {
	for _, policy := range []string{"round_robin", "least_work", "sticky_least_loaded"} {
		t.Run(policy, func(t *testing.T) {
			r := startRouter(t, policy, 1<<20)
			for i := range 16 {
				join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Model: []string{"m", "n"}[i%2]})
			}
			q := &Request{Model: []byte("m"), Session: []byte("s"), Key: key(0, 16, 1)}
			pair := func() {
				q.Now++
				l, err := r.Acquire(q)
				if err != nil {
					t.Fatalf("Acquire: %v", err)
				}
				l.Release(Completed, q.Now)
			}
			for range 100 {
				pair()
			}
			if got := testing.AllocsPerRun(2000, pair); got != 0 {
				t.Errorf("%v allocations for a pair, want 0", got)
			}
		})
	}
}

// Nor do limits, whether or not a request has to wait for them.
func TestRoomAllocatesNothing(t *testing.T) {
	o := options("power_of_two")
	o.Room = RoomOptions{
		MaxLive: 2, MaxPerWorker: 2, RatePerSecond: 1e9, QueueSize: 8, QueueTimeout: time.Hour,
		Now: func() int64 { return 0 },
	}
	s, err := newState(o, make(chan Event, eventsSize))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := s.add([]Spec{spec(base(i))}); err != nil {
			t.Fatal(err)
		}
		s.reportHealth(base(i), "")
	}
	var all [4]Request
	run := func() {
		for i := range all {
			q := &all[i]
			q.Now++
			q.Tenant = uint64(i)
			q.Admission = Admission{}
			q.ready()
			s.arrive(q, q.reply, false)
			<-q.reply
		}
		for i := range all {
			q := &all[i]
			if q.queued {
				<-q.reply
			}
			s.giveBack(q.grant.ticket, Completed, q.Now)
			s.callIn()
			s.dismiss(q.pass, q.Now)
			s.callIn()
		}
	}
	for range 100 {
		run()
	}
	if got := testing.AllocsPerRun(1000, run); got != 0 {
		t.Errorf("%v allocations for four requests, want 0", got)
	}
	if s.room.waits < 2000 || s.room.admitted != 0 {
		t.Errorf("%d waits, %d admitted, want two a run and none", s.room.waits, s.room.admitted)
	}
}

// Nor do an explanation and shadow policies, once there is memory for them.
func TestExplainedChoicesAllocateNothing(t *testing.T) {
	r := shadowed(t, "least_work", 20, "cache_aware", "random", "consistent_hash", "sticky_least_loaded")
	q := &Request{Key: key(0, 64, 1), Session: []byte("header:x-session-id:1"), Explain: &Explanation{Most: 16}}
	pair := func() {
		q.Head++
		q.Explain.Clear()
		l, err := r.Acquire(q)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		l.Release(Completed, q.Now)
	}
	for range 200 {
		pair()
	}
	if got := testing.AllocsPerRun(2000, pair); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
