package actors

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// parking returns a registry with n healthy workers that are sent 10 blocks at a
// time. Its clock is that of the test's bubble.
func parking(t testing.TB, policyName string, n int, more func(o *Options)) *Registry {
	t.Helper()
	o := parkingOptions(policyName)
	if more != nil {
		more(&o)
	}
	r := start(t, o)
	for i := range n {
		join(t, r, spec(base(i)))
	}
	return r
}

func parkingOptions(policyName string) Options {
	o := options(policyName)
	began := time.Now()
	o.Backlog, o.Room.Now = BacklogOptions{10, 1, time.Second}, func() int64 { return int64(time.Since(began)) }
	return o
}

// parkingRouter is a router with such a registry, under least_work, and no worker.
func parkingRouter(t testing.TB) *Router {
	t.Helper()
	r, err := NewRouter(RouterOptions{Options: parkingOptions("least_work"), TreeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// prompt is a streamed request for a prompt of so many blocks, that comes now.
func prompt(r *Registry, blocks int) *Request {
	return &Request{Key: make([]uint64, blocks), Stream: true, Now: now(r)}
}

// now is the time of a registry's clock.
func now(r *Registry) (ns int64) {
	reply := make(chan struct{}, 1)
	ask(r, hook(func(s *state) { ns = s.opts.Room.Now(); reply <- struct{}{} }), reply)
	return ns
}

// workOff has calls begin to be answered, and end.
func workOff(r *Registry, all ...*call) {
	for _, x := range all {
		x.lease.FirstByte(now(r))
		x.end(now(r))
		synctest.Wait()
	}
}

// sent are those of the calls that don't wait any more.
func sent(all []*call) (at []int) {
	for i, x := range all {
		if !x.waits() {
			at = append(at, i)
		}
	}
	return at
}

// A worker is sent so much at a time, and of what is parked the short ones go first.
// What is parked is no load.
func TestShortPromptsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		first := r.call(prompt(r, 30))
		wantAnswer(t, first, nil)
		var all []*call
		for _, blocks := range []int{20, 3, 8, 100, 1} {
			all = append(all, r.call(prompt(r, blocks)))
		}
		if got := sent(all); len(got) != 0 {
			t.Fatalf("of those behind a long prompt %v were sent, want none", got)
		}
		wantLoad(t, r, base(0), 1)
		if v := view(t, r, base(0)); v.InPhase[Parked] != 5 || v.Pending != 162 {
			t.Errorf("%d parked, %d blocks pending, want 5 and 162", v.InPhase[Parked], v.Pending)
		}
		workOff(r, first) // room for 1, 3 and 8, which come to 12
		if got, want := sent(all), []int{1, 2, 4}; !slices.Equal(got, want) {
			t.Fatalf("sent when the first prompt was worked off: %v, want %v", got, want)
		}
		wantLoad(t, r, base(0), 3)
		workOff(r, all[1])
		if got := sent(all); len(got) != 4 || !slices.Contains(got, 0) {
			t.Fatalf("sent with 9 blocks at the worker: %v, want the one of 20, too", got)
		}
		workOff(r, all[0], all[2], all[4])
		if all[3].waits() {
			t.Fatal("the longest waits for nothing")
		}
		workOff(r, all[3])
		wantLoad(t, r, base(0), 0)
		if v := view(t, r, base(0)); v.Pending != 0 {
			t.Errorf("%d blocks pending, want none", v.Pending)
		}
	})
}

// Who has waited long goes before a shorter one that comes, and a class counts like
// an interval of waiting.
func TestParkedWaitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		first := r.call(prompt(r, 50))
		long := r.call(prompt(r, 15))
		time.Sleep(900 * time.Millisecond)
		short := r.call(prompt(r, 10))
		urgent := prompt(r, 21)
		urgent.Class = 7
		high := r.call(urgent)
		var order []string
		for _, x := range []*call{first, nil, nil} {
			if x != nil {
				workOff(r, x)
			}
			for name, c := range map[string]*call{"long": long, "short": short, "high": high} {
				if !c.waits() && !slices.Contains(order, name) {
					order = append(order, name)
					workOff(r, c)
				}
			}
		}
		if want := []string{"high", "long", "short"}; !slices.Equal(order, want) {
			t.Errorf("order: %v, want %v", order, want)
		}
		if got := short.q.Waited(); got < 0 || long.q.Waited() < 900*time.Millisecond {
			t.Errorf("waited %v and %v, want nothing and 0.9 s", got, long.q.Waited())
		}
	})
}

// A long prompt is sent before shorter ones in the end.
func TestParkedNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		at := r.call(prompt(r, 20))
		long := r.call(prompt(r, 5000))
		began := time.Now()
		for long.waits() && time.Since(began) < time.Minute {
			next := r.call(prompt(r, 20))
			time.Sleep(time.Second / 2)
			workOff(r, at)
			at = next
		}
		if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
			t.Errorf("sent after %v, want the bound of half a minute", took)
		}
		workOff(r, at, long)
		checkParked(t, r)
	})
}

// A prompt that its worker has put aside, or forgotten, keeps nobody waiting.
func TestOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		lost := r.call(prompt(r, 100))
		a, b := r.call(prompt(r, 9)), r.call(prompt(r, 10))
		time.Sleep(1010 * time.Millisecond)
		if a.waits() || !b.waits() {
			t.Fatal("after a second without an answer one should be sent")
		}
		a.lease.FirstByte(now(r))
		if b.waits() {
			t.Fatal("waits for a prompt that others overtake")
		}
		checkParked(t, r)
		c := r.call(prompt(r, 1))
		if !c.waits() {
			t.Error("isn't parked behind the last one sent")
		}
		lost.lease.FirstByte(now(r)) // after all
		if !c.waits() {
			t.Error("sent when one was answered that doesn't count any more")
		}
		workOff(r, b)
		if c.waits() {
			t.Error("waits for nothing")
		}
		for _, x := range []*call{lost, a, c} {
			x.end(now(r))
		}
		checkParked(t, r)
		if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
			t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
		}
	})
}

// A worker has one request to work on and others for when that is done, however long
// it is.
func TestLeastSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) { o.Backlog.Requests = 3 })
		first := r.call(prompt(r, 100))
		var all []*call
		for range 4 {
			all = append(all, r.call(prompt(r, 50)))
		}
		if got, want := sent(all), []int{0, 1}; !slices.Equal(got, want) {
			t.Errorf("sent behind the first: %v, want %v", got, want)
		}
		workOff(r, first)
		if got, want := sent(all), []int{0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("sent behind the second: %v, want %v", got, want)
		}
		workOff(r, all[:3]...)
		workOff(r, all[3])
		checkParked(t, r)
	})
}

// What is parked, and what is not.
func TestWhatIsParked(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy string
		before int // blocks at the worker
		change func(q *Request)
		want   bool
	}{
		{"behind as much as is sent", "least_work", 10, nil, true},
		{"behind less", "least_work", 9, nil, false},
		{"under kv_aware", "kv_aware", 10, nil, true},
		{"under a policy that knows no pending work", "power_of_two", 10, nil, false},
		{"an answer that tells no first byte", "least_work", 10, func(q *Request) { q.Stream = false }, false},
		{"the router's own", "least_work", 10, func(q *Request) { q.Own = true }, false},
		{"one that another worker has failed", "least_work", 10, func(q *Request) { q.Exclude = []WorkerID{7} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, tc.policy, 1, nil)
				first := r.call(prompt(r, tc.before))
				q := prompt(r, 1)
				if tc.change != nil {
					tc.change(q)
				}
				x := r.call(q)
				if got := x.waits(); got != tc.want {
					t.Errorf("waits: %v, want %v", got, tc.want)
				}
				workOff(r, first)
				workOff(r, x)
			})
		})
	}
	t.Run("behind an answer that tells no first byte", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := parking(t, "least_work", 1, nil)
			q := prompt(r, 1000)
			q.Stream = false
			first, x := r.call(q), r.call(prompt(r, 1))
			if x.waits() {
				t.Error("waits for what nobody will tell of")
			}
			workOff(r, first, x)
		})
	})
}

// Whoever ends the wait, nothing stays counted.
func TestParkedEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(q *Request)
		end    func(t *testing.T, r *Registry, x *call)
		want   error
	}{
		{"the client leaves", nil, func(_ *testing.T, _ *Registry, x *call) { close(x.c) }, ErrClientLeft},
		{"its deadline comes", func(q *Request) { q.Deadline = q.Now + second/2 }, func(*testing.T, *Registry, *call) { time.Sleep(600 * time.Millisecond) }, ErrDeadline},
		{"its worker has answered nothing for a while", nil, func(*testing.T, *Registry, *call) { time.Sleep(1100 * time.Millisecond) }, nil},
		{"the last worker goes", nil, func(t *testing.T, r *Registry, _ *call) { remove(t, r, base(0)) }, ErrNoWorker},
		{"the last worker is sick", nil, func(_ *testing.T, r *Registry, _ *call) {
			for range 3 {
				r.ReportHealth(base(0), errDown)
			}
		}, ErrNoWorker},
		{"the router drains", nil, func(_ *testing.T, r *Registry, _ *call) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			r.Drain(ctx)
		}, nil},
		{"the router ends", nil, func(_ *testing.T, r *Registry, _ *call) { _ = r.Halt() }, ErrStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, "least_work", 1, nil)
				first := r.call(prompt(r, 50))
				q := prompt(r, 7)
				if tc.change != nil {
					tc.change(q)
				}
				x := r.call(q)
				if !x.waits() {
					t.Fatal("isn't parked")
				}
				tc.end(t, r, x)
				wantAnswer(t, x, tc.want)
				select {
				case <-r.Done():
					return
				default:
				}
				if s := snap(t, r); tc.want != nil && s.Live != 1 {
					t.Errorf("%d leases live, want that of the first alone", s.Live)
				}
				workOff(r, first)
				if tc.want == nil {
					workOff(r, x)
				}
				if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
					t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
				}
			})
		})
	}
}

// What is parked at a worker that is taken out goes to another one, and what a
// worker that drains has parked doesn't keep it.
func TestParkedMovesOn(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(t *testing.T, r *Registry, url string)
		kept bool // the worker stays in the fleet
	}{
		{"sick", func(_ *testing.T, r *Registry, url string) {
			for range 3 {
				r.ReportHealth(url, errDown)
			}
		}, true},
		{"removed", func(t *testing.T, r *Registry, url string) { remove(t, r, url) }, false},
		{"cut off by its breaker", func(t *testing.T, r *Registry, _ string) {
			onLoop(t, r, func(s *state) { s.moveBreaker(&s.workers[0], BreakerOpen) })
		}, true},
		{"wedged", func(t *testing.T, r *Registry, _ string) { onLoop(t, r, func(s *state) { s.wedge(&s.workers[0], 0) }) }, true},
		{"drained", func(t *testing.T, r *Registry, url string) {
			if _, err := r.DrainWorkers(url); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := parking(t, "least_work", 1, nil)
				first := r.call(prompt(r, 20))
				all := []*call{r.call(prompt(r, 8)), r.call(prompt(r, 9)), r.call(prompt(r, 10))}
				join(t, r, spec(base(1)))
				if got := sent(all); len(got) != 0 {
					t.Fatalf("%v are sent, want all parked", got)
				}
				tc.lose(t, r, base(0))
				if got, want := sent(all), []int{0, 1}; !slices.Equal(got, want) {
					t.Fatalf("sent: %v, want %v: the other has room for these", got, want)
				}
				for _, x := range all[:2] {
					if x.lease.URL != base(1) {
						t.Errorf("sent to %s, want %s", x.lease.URL, base(1))
					}
				}
				wantLoad(t, r, base(1), 2)
				workOff(r, first)
				if got := known(t, r, base(0)); got != tc.kept {
					t.Errorf("the lost worker is known: %v, want %v", got, tc.kept)
				}
				workOff(r, all...)
				wantLoad(t, r, base(1), 0)
				if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
					t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
				}
			})
		})
	}
}

// Where all others are at their limit, what was parked at a worker that goes is told
// so, and charged to nobody twice where there is one.
func TestParkedMovesOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) { o.Room.MaxPerWorker = 3 })
		first := r.call(prompt(r, 20))
		all := []*call{r.call(prompt(r, 8)), r.call(prompt(r, 9))}
		join(t, r, spec(base(1)))
		full := []*call{r.call(prompt(r, 1)), r.call(prompt(r, 1))}
		before := snap(t, r).RetryTokens
		remove(t, r, base(0))
		wantAnswer(t, all[0], nil)
		wantAnswer(t, all[1], ErrQueueFull)
		if got := snap(t, r).RetryTokens; got != before {
			t.Errorf("the budget of retries went from %v to %v, for a request that was counted when it came", before, got)
		}
		workOff(r, first, all[0], full[0], full[1])
		if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
			t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
		}
	})
}

// Of more than may be parked, each that comes sends another one on.
func TestParkedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, nil)
		first := r.call(prompt(r, 20))
		onLoop(t, r, func(s *state) { s.room.queue.parked += maxParked })
		a := r.call(prompt(r, 9))
		if a.waits() {
			t.Error("parked, with no place and nobody to send on")
		}
		onLoop(t, r, func(s *state) { s.room.queue.parked -= maxParked })
		b := r.call(prompt(r, 8))
		onLoop(t, r, func(s *state) { s.room.queue.parked += maxParked - 1 })
		c := r.call(prompt(r, 3))
		if b.waits() || !c.waits() {
			t.Errorf("the first waits: %v, the other: %v, want the first sent on", b.waits(), c.waits())
		}
		onLoop(t, r, func(s *state) { s.room.queue.parked -= maxParked - 1 })
		workOff(r, first, a, b, c)
		checkParked(t, r)
	})
}

// A pair whose prefill is parked holds its place for decode, and gives both back.
func TestParkedPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 0, nil)
		join(t, r, Spec{URL: base(0), Base: base(0), Rank: NoRank, Roles: RolesOf(Prefill)}, Spec{URL: base(1), Base: base(1), Rank: NoRank, Roles: RolesOf(Decode)})
		type pairCall struct {
			prefill, decode Lease
			err             error
			left            client
			done            <-chan struct{}
		}
		pair := func(blocks int) *pairCall {
			x := &pairCall{left: make(client)}
			q := prompt(r, blocks)
			x.done = inBackground(func() { x.prefill, x.decode, x.err = r.AcquirePairFor(q, x.left) })
			synctest.Wait()
			return x
		}
		first, second, third := pair(20), pair(30), pair(5)
		<-first.done
		if v, d := view(t, r, base(0)), view(t, r, base(1)); v.Load != 1 || v.InPhase[Parked] != 2 || d.Load != 0 || d.InPhase[Reserved] != 3 {
			t.Fatalf("prefill %v, decode %v, want one running and two parked, and three reserved", v.InPhase, d.InPhase)
		}
		close(third.left)
		<-third.done
		if d := view(t, r, base(1)); !errors.Is(third.err, ErrClientLeft) || d.InPhase[Reserved] != 2 {
			t.Errorf("%v, %d reserved, want %v and 2", third.err, d.InPhase[Reserved], ErrClientLeft)
		}
		first.prefill.FirstByte(0)
		<-second.done
		if v := view(t, r, base(0)); v.InPhase[Prefilling] != 2 || v.InPhase[Parked] != 0 {
			t.Errorf("prefill %v, want both running", v.InPhase)
		}
		for _, x := range []*pairCall{first, second} {
			x.prefill.Release(Completed, 0)
			if _, err := x.decode.Begin(&Request{Role: Decode}); err != nil {
				t.Error(err)
			}
			x.decode.Release(Completed, 0)
		}
		if s := snap(t, r); s.Live != 0 || s.Refused != 0 {
			t.Errorf("%d leases live, %d refused, want none", s.Live, s.Refused)
		}
	})
}

// Who has waited for room may be parked then, and leave.
func TestParkedAfterTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking(t, "least_work", 1, func(o *Options) {
			o.Room = RoomOptions{MaxLive: 2, QueueSize: 9, QueueTimeout: time.Minute, Now: o.Room.Now}
		})
		a, b := r.call(prompt(r, 20)), r.call(prompt(r, 4))
		c, d := r.call(prompt(r, 5)), r.call(prompt(r, 6))
		if s := snap(t, r).Room; s.Waiting[0] != 2 || s.Parked != 1 {
			t.Fatalf("%d wait for room, %d are parked, want 2 and 1", s.Waiting[0], s.Parked)
		}
		close(b.c)
		wantAnswer(t, b, ErrClientLeft)
		b.q.Admission.Release(0)
		if s := snap(t, r).Room; s.Waiting[0] != 1 || s.Parked != 1 || s.Admitted != 2 {
			t.Fatalf("%d wait for room, %d are parked, %d admitted, want 1, 1 and 2", s.Waiting[0], s.Parked, s.Admitted)
		}
		close(c.c)
		wantAnswer(t, c, ErrClientLeft)
		c.q.Admission.Release(0)
		workOff(r, a, d)
		if s := snap(t, r); s.Live != 0 || s.Refused != 0 || s.Room.Admitted != 0 || s.Room.Parked != 0 {
			t.Errorf("%d leases live, %d refused, %d admitted, %d parked, want none", s.Live, s.Refused, s.Room.Admitted, s.Room.Parked)
		}
	})
}

// Whatever happens in whatever order, the sums are those of the leases, nobody is
// parked at a worker with room, and nothing is left at the end.
func TestParkingKeepsCount(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r := parking(t, "least_work", 3, func(o *Options) {
				if seed%2 == 1 {
					o.Room = RoomOptions{MaxLive: 30, MaxPerWorker: 12, QueueSize: 8, QueueTimeout: 20 * time.Second, Now: o.Room.Now}
				}
			})
			var calls []*call
			for range 400 {
				switch op := rng.IntN(20); {
				case op < 8:
					q := prompt(r, 1+rng.IntN(30))
					q.Head, q.Stream, q.Class = rng.Uint64(), rng.IntN(5) > 0, uint8(rng.IntN(3))
					if rng.IntN(6) == 0 {
						q.Deadline = q.Now + int64(1+rng.IntN(8))*second
					}
					calls = append(calls, r.call(q))
				case op < 14 && len(calls) > 0:
					k := rng.IntN(len(calls))
					x := calls[k]
					switch {
					case x.waits() && rng.IntN(2) == 0:
						close(x.c)
						<-x.done
						x.end(now(r)) // it may have been served meanwhile
						calls = slices.Delete(calls, k, k+1)
					case x.waits():
					case x.err != nil:
						x.q.Admission.Release(now(r))
						calls = slices.Delete(calls, k, k+1)
					case rng.IntN(2) == 0:
						x.lease.FirstByte(now(r))
					default:
						x.end(now(r))
						calls = slices.Delete(calls, k, k+1)
					}
				case op < 16:
					var err error
					if rng.IntN(3) == 0 {
						err = errDown
					}
					r.ReportHealth(base(rng.IntN(3)), err)
				case op == 16:
					url := base(rng.IntN(3))
					if _, err := r.Remove(url); err != nil {
						join(t, r, spec(url))
					}
				default:
					time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
				}
				synctest.Wait()
				checkParked(t, r)
			}
			for _, x := range calls {
				if x.waits() {
					close(x.c)
					<-x.done
				}
				if x.err != nil {
					x.lease = Lease{}
				}
				x.end(now(r))
			}
			synctest.Wait()
			if s := snap(t, r); s.Live != 0 || s.Refused != 0 || s.Room.Admitted != 0 || s.Room.Parked != 0 {
				t.Errorf("seed %d: %d leases live, %d refused, %d admitted, %d parked, want none", seed, s.Live, s.Refused, s.Room.Admitted, s.Room.Parked)
			}
			checkParked(t, r)
		})
	}
}

// checkParked checks the sums of parked and sent shares against the leases.
func checkParked(t *testing.T, r *Registry) {
	t.Helper()
	wantBalanced(t, r)
	onLoop(t, r, func(s *state) {
		type sums struct{ pending, sent, parked, leases int }
		want := map[WorkerID]sums{}
		for i := range s.slots {
			sl := &s.slots[i]
			if !sl.live {
				continue
			}
			w := want[sl.worker]
			w.pending += sl.pending
			switch {
			case sl.phase == Parked:
				w.parked += sl.pending
				w.leases++
			case sl.sent:
				w.sent += sl.pending
			}
			want[sl.worker] = w
		}
		parked := 0
		for i := range s.workers {
			w := &s.workers[i]
			if got := (sums{w.pending, w.sent, w.parked, w.inPhase[Parked]}); got != want[WorkerID(i)] {
				t.Errorf("worker %d has %+v, want %+v", i, got, want[WorkerID(i)])
			}
			if len(w.line) != w.inPhase[Parked] {
				t.Errorf("worker %d has a line of %d, want %d", i, len(w.line), w.inPhase[Parked])
			}
			if len(w.line) > 0 && (!s.isFed(w) || w.isLost()) {
				t.Errorf("worker %d with %d blocks has %d parked, lost %v", i, w.sent, len(w.line), w.isLost())
			}
			sent := 0
			for n := w.silent.first; n != 0; n = s.slots[n-1].nextShare {
				if sl := &s.slots[n-1]; sl.live && sl.sent && sl.worker == WorkerID(i) {
					sent += sl.pending
				}
			}
			if sent != w.sent {
				t.Errorf("worker %d: those not heard of have %d blocks, want %d", i, sent, w.sent)
			}
			for at, x := range w.line {
				if x.at != at || x.worker != WorkerID(i) || s.find(x.lease) == nil {
					t.Errorf("worker %d: the one at %d stands at %d of worker %d", i, at, x.at, x.worker)
				}
			}
			parked += len(w.line)
		}
		if s.room.queue.parked != parked {
			t.Errorf("%d parked, want %d", s.room.queue.parked, parked)
		}
	})
}

// Requests with a prompt that is parked follow it.
func TestParkedPromptIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parkingRouter(t)
		defer r.Halt()
		join(t, r, spec(base(0)), spec(base(1)))
		ask := func(first uint64) (*Request, <-chan struct{}, *Lease) {
			q := &Request{Key: make([]uint64, 20), Stream: true}
			for i := range q.Key {
				q.Key[i] = first + uint64(i)
			}
			l := new(Lease)
			done := inBackground(func() { *l, _ = r.Acquire(q) })
			synctest.Wait()
			return q, done, l
		}
		_, _, a := ask(1000)
		_, _, b := ask(2000)
		if a.URL == b.URL {
			t.Fatalf("both at %s", a.URL)
		}
		c, _, _ := ask(3000)
		again, done, _ := ask(3000)
		if again.placed.worker != c.placed.worker || again.placed.decision.Match != 20 {
			t.Errorf("parked at %d with %d blocks cached, want %d with 20", again.placed.worker, again.placed.decision.Match, c.placed.worker)
		}
		entries := r.tree.Stats().Entries
		a.FirstByte(1)
		b.FirstByte(1)
		<-done
		synctest.Wait()
		if got := r.tree.Stats().Entries; got != entries {
			t.Errorf("the tree has %d entries, %d when they were parked: each is learnt once", got, entries)
		}
	})
}
