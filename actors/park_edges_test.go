package actors

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A pair that is parked is given another one when its decode worker is lost, too: it
// would be sent to one that nobody is sent to.
func TestParkedPairLosesItsDecodeWorker(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(t *testing.T, r *Registry, url string)
	}{
		{"sick", func(_ *testing.T, r *Registry, url string) {
			for range 3 {
				r.ReportHealth(url, errDown)
			}
		}},
		{"removed", func(t *testing.T, r *Registry, url string) { remove(t, r, url) }},
		{"drained", func(t *testing.T, r *Registry, url string) {
			if _, err := r.DrainWorkers(url); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, "least_work", 0, nil)
				of := func(i int, role Role) Spec {
					return Spec{URL: base(i), Base: base(i), Rank: NoRank, Roles: RolesOf(role)}
				}
				join(t, r, of(0, Prefill), of(1, Decode))
				type pairCall struct {
					prefill, decode Lease
					err             error
					done            <-chan struct{}
				}
				pair := func(blocks int) *pairCall {
					x := new(pairCall)
					q := prompt(r, blocks)
					x.done = inBackground(func() { x.prefill, x.decode, x.err = r.AcquirePair(q) })
					synctest.Wait()
					return x
				}
				first, parked := pair(20), pair(30)
				join(t, r, of(2, Decode))
				tc.lose(t, r, base(1))
				if v := view(t, r, base(2)); v.InPhase[Reserved] != 1 {
					t.Errorf("%d reserved at the other decode worker, want that of the parked pair", v.InPhase[Reserved])
				}
				checkParked(t, r)
				first.prefill.FirstByte(now(r))
				<-parked.done
				if parked.err != nil || parked.decode.URL != base(2) {
					t.Errorf("decodes at %q (%v), want %s", parked.decode.URL, parked.err, base(2))
				}
				for _, x := range []*pairCall{first, parked} {
					x.prefill.Release(Completed, now(r))
					x.decode.Release(Moved, now(r))
				}
				if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
					t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
				}
			})
		})
	}
}

// A retry that was paid for when it was parked is not refused when it moves on.
func TestParkedRetryMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) { o.Retries = RetryOptions{Floor: 1} })
		first := r.call(prompt(r, 20))
		q := prompt(r, 5)
		q.Retry = true
		x := r.call(q)
		onLoop(t, r, func(s *state) { // others spend the rest
			for s.budget.allows(s.opts.Room.Now()) {
				s.budget.spend()
			}
		})
		join(t, r, spec(base(1)))
		remove(t, r, base(0))
		wantAnswer(t, x, nil)
		workOff(r, first, x)
	})
}

// What is parked is learnt by the tree though the request didn't come through it.
func TestParkedPromptIsLearntLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parkingRouter(t)
		defer r.Halt()
		join(t, r, spec(base(0)))
		ask := func(first uint64) (<-chan struct{}, *Lease) {
			q := &Request{Key: make([]uint64, 20), Stream: true}
			for i := range q.Key {
				q.Key[i] = first + uint64(i)
			}
			l := new(Lease)
			return inBackground(func() { *l, _ = r.Acquire(q) }), l
		}
		_, a := ask(1000)
		synctest.Wait()
		before := r.tree.Stats().Entries
		never := make(chan TreeStats)
		r.tree.send(treeMessage{kind: treeStats, stats: never})
		synctest.Wait()
		for len(r.tree.inbox) < cap(r.tree.inbox) {
			r.tree.inbox <- treeMessage{kind: treeLearn}
		}
		done, b := ask(2000)
		synctest.Wait()
		if got := snap(t, r.Registry).Room.Parked; got != 1 {
			t.Fatalf("%d parked, want 1", got)
		}
		<-never
		synctest.Wait()
		a.FirstByte(1)
		<-done
		synctest.Wait()
		if got := r.tree.Stats().Entries; got <= before {
			t.Errorf("the tree has %d entries, %d without the prompt that was parked: it was never learnt", got, before)
		}
		a.Release(Completed, 2)
		b.Release(Completed, 2)
	})
}

// Of many that are sent at a time the short ones go first, too.
func TestManyStartInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		first := r.call(prompt(r, 20))
		var all []*call
		for _, blocks := range []int{3, 1, 0, 4, 0, 1, 0, 1, 2, 0, 0, 1, 5, 0, 0, 1, 0, 6, 0, 2} {
			all = append(all, r.call(prompt(r, blocks)))
		}
		var got []int
		first.lease.FirstByte(now(r))
		onLoop(t, r, func(s *state) {
			for n := s.workers[0].silent.first; n != 0; n = s.slots[n-1].nextShare {
				got = append(got, s.slots[n-1].pending)
			}
		})
		if want := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("blocks of those sent: %v, want %v", got, want)
		}
		checkParked(t, r)
		workOff(r, first)
		for _, x := range all {
			workOff(r, x)
		}
		checkParked(t, r)
	})
}

// One that is sent on for another while the line of a lost worker is moved is left
// alone then.
func TestParkedSentOnWhileMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) { o.Breaker.Timeout = 0 }) // half open at once, so it is chosen again
		first := r.call(prompt(r, 20))
		all := []*call{r.call(prompt(r, 8)), r.call(prompt(r, 9)), r.call(prompt(r, 10))}
		onLoop(t, r, func(s *state) {
			s.room.queue.parked += maxParked // so one that comes sends another one on
			s.moveBreaker(&s.workers[0], BreakerOpen)
		})
		onLoop(t, r, func(s *state) { s.room.queue.parked -= maxParked })
		workOff(r, first)
		for _, x := range all {
			workOff(r, x)
		}
		checkParked(t, r)
	})
}

// What was parked at a worker that goes waits for room where the others have none, and
// is admitted once.
func TestParkedMovesToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) {
			o.Room = RoomOptions{MaxLive: 9, MaxPerWorker: 3, QueueSize: 1, QueueTimeout: time.Minute, Now: o.Room.Now}
		})
		first := r.call(prompt(r, 20))
		all := []*call{r.call(prompt(r, 8)), r.call(prompt(r, 9))}
		join(t, r, spec(base(1)))
		full := []*call{r.call(prompt(r, 1)), r.call(prompt(r, 1)), r.call(prompt(r, 1))}
		remove(t, r, base(0))
		wantAnswer(t, all[1], ErrQueueFull) // the queue has one place
		if s := snap(t, r).Room; s.Waiting[0] != 1 || s.Parked != 0 || s.Admitted != 6 {
			t.Errorf("%d wait for room, %d are parked, %d admitted, want 1, 0 and 6", s.Waiting[0], s.Parked, s.Admitted)
		}
		workOff(r, full...)
		wantAnswer(t, all[0], nil)
		if all[0].lease.URL != base(1) {
			t.Errorf("sent to %s, want %s", all[0].lease.URL, base(1))
		}
		workOff(r, first, all[0])
		all[1].q.Admission.Release(now(r))
		if s := snap(t, r); s.Live != 0 || s.Refused != 0 || s.Room.Admitted != 0 {
			t.Errorf("%d leases live, %d refused, %d admitted, want none", s.Live, s.Refused, s.Room.Admitted)
		}
		checkParked(t, r)
	})
}
