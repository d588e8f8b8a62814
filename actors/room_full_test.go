package actors

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Who gives way when as many wait as may, and to whom.
func TestOutranked(t *testing.T) {
	type wait struct {
		class  uint8
		tenant uint64
		n      int
		at     int64
	}
	const nobody = 0
	for _, tc := range []struct {
		name   string
		waits  []wait
		served uint8 // a class that was served a moment ago
		class  uint8 // of the one that comes
		tenant uint64
		now    int64
		want   uint64 // the number of the one that gives way, counted from 1 as they came
	}{
		{"nobody waits", nil, 0, 7, 1, 0, nobody},
		{"an equal", []wait{{3, 1, 3, 0}}, 0, 3, 1, 0, nobody},
		{"a lower one", []wait{{3, 1, 3, 0}}, 0, 2, 2, 0, nobody},
		{"a higher one, and the youngest gives way", []wait{{3, 1, 3, 0}}, 0, 4, 1, 0, 3},
		{"a higher one of who has most", []wait{{3, 1, 9, 0}, {2, 2, 1, 0}}, 0, 4, 1, 0, 10},
		{"of the lowest class", []wait{{0, 1, 2, 0}, {5, 2, 9, 0}}, 0, 7, 3, 0, 2},
		{"of the lowest class who has most waiting", []wait{{0, 1, 2, 0}, {0, 2, 3, 0}, {5, 1, 2, 0}, {0, 2, 0, 0}}, 0, 7, 3, 0, 2},
		{"a class too high is the highest", []wait{{7, 1, 3, 0}}, 0, 200, 1, 0, nobody},
		{"a lighter tenant", []wait{{0, 1, 3, 0}, {0, 2, 1, 0}}, 0, 0, 2, 0, 3},
		{"a new tenant", []wait{{0, 1, 2, 0}}, 0, 0, 9, 0, 2},
		{"a tenant that would have as many", []wait{{0, 1, 3, 0}, {0, 2, 2, 0}}, 0, 0, 2, 0, nobody},
		{"a new tenant where each has one", []wait{{0, 1, 1, 0}, {0, 2, 1, 0}}, 0, 0, 9, 0, nobody},
		{"the flood itself", []wait{{0, 1, 9, 0}, {0, 2, 1, 0}}, 0, 0, 1, 0, nobody},
		{"who is alone and has risen to it stays", []wait{{0, 1, 1, 0}, {4, 2, 1, 45}}, 0, 4, 3, 45, nobody},
		{"who is alone and has risen above it stays", []wait{{0, 1, 1, 0}, {3, 2, 2, 45}}, 0, 4, 3, 45, 3},
		{"who is alone and has not risen to it", []wait{{0, 1, 1, 0}, {4, 2, 1, 35}}, 0, 4, 3, 35, 1},
		{"those behind one that has risen", []wait{{0, 1, 3, 0}}, 0, 1, 1, 75, 3},
		{"an equal to those behind one that has risen", []wait{{0, 1, 3, 0}}, 0, 0, 1, 75, nobody},
		{"a class that was not served for long", []wait{{7, 1, 3, 80}}, 7, 0, 2, 80, 3},
		{"a class that was not served for nearly so long", []wait{{7, 1, 3, 75}}, 7, 0, 1, 75, nobody},
		{"a class that was not served for long and waits", []wait{{7, 1, 3, 80}, {0, 1, 1, 80}}, 7, 0, 1, 80, nobody},
		{"who waits for a class that was not served for long stays", []wait{{7, 1, 3, 80}, {0, 1, 1, 80}}, 7, 7, 2, 80, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQueue()
			for _, w := range tc.waits {
				for range w.n {
					q.come(w.class, w.tenant, need{}, w.at)
				}
			}
			q.turns[tc.served] = tc.now
			got := uint64(nobody)
			if w := q.outranked(&Request{Class: tc.class, Tenant: tc.tenant}, tc.now); w != nil {
				got = w.seq
			}
			if got != tc.want {
				t.Errorf("%d gives way, want %d", got, tc.want)
			}
		})
	}
}

// offer has a request come to a queue of few places. It reports whether another one
// gave way to it.
func (q *queue) offer(class uint8, tenant uint64, now int64) (pushed bool) {
	if q.size >= q.limit {
		out := q.outranked(&Request{Class: class, Tenant: tenant}, now)
		if out == nil {
			return false
		}
		q.remove(out)
		pushed = true
	}
	q.come(class, tenant, need{}, now)
	return pushed
}

// Whoever comes, nobody is pushed out any more once the tenants have alike.
func TestNobodyIsPushedOutForEver(t *testing.T) {
	for _, tc := range []struct{ places, tenants int }{
		{64, 1},
		{64, 2},
		{64, 36},
		{64, 65},
		{64, 300},
		{2 * maxTenants, 3 * maxTenants}, // of whom some share a place
	} {
		q := newQueue()
		q.limit = tc.places
		for range q.limit {
			q.offer(0, 1, 0)
		}
		pushed := 0
		for i := range 20 * tc.tenants {
			if q.offer(0, uint64(1+i%tc.tenants), 0) {
				pushed++
			}
		}
		if pushed > q.limit || (pushed == 0) != (tc.tenants == 1) {
			t.Errorf("%d of %d places changed hands among %d tenants, want each at most once", pushed, tc.places, tc.tenants)
		}
	}
}

// A flood of a higher class that keeps the queue full leaves each lower class a
// request that is served, again and again.
func TestFullQueueStarvesNobody(t *testing.T) {
	const rounds = 4000
	for _, tc := range []struct {
		name    string
		places  int
		classes []uint8 // beside the flood of class 7
	}{
		{"one class", 2 * Classes, []uint8{0}},
		{"a single place", 1, []uint8{0}},
		{"all classes", 2 * Classes, []uint8{0, 1, 2, 3, 4, 5, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQueue()
			q.limit = tc.places
			last := map[uint8]int64{}
			for now := range int64(rounds) {
				for range 3 {
					q.offer(7, 1, now)
				}
				for _, c := range tc.classes {
					q.offer(c, 2, now)
				}
				for range 3 {
					q.offer(7, 1, now)
				}
				q.tries++
				w := q.next(now)
				class := w.lane.class
				q.served(w, now)
				q.remove(w)
				last[class] = now
				for _, c := range tc.classes {
					// A class has its place after Classes intervals and its turn after as
					// many again, and a turn of each other one.
					if gap, most := now-last[c], 2*Classes*q.ageing+2*Classes; gap > most {
						t.Fatalf("class %d was not served from %d to %d, want a turn each %d", c, last[c], now, most)
					}
				}
			}
		})
	}
}

// A request that is pushed out is told so at once, like one that comes to a full
// queue, and the one that pushed it out is served in its turn.
func TestPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{MaxLive: 1, QueueSize: 3, QueueTimeout: time.Hour})
		running := r.call(&Request{})
		var flood []*call
		for range 3 {
			flood = append(flood, r.call(&Request{Tenant: 1}))
		}
		wantAnswer(t, r.call(&Request{Tenant: 1}), ErrQueueFull)
		late := r.call(&Request{Tenant: 2, Now: second, Deadline: second})
		wantAnswer(t, late, ErrDeadline) // and nobody gives way to it
		for _, x := range flood {
			if !x.waits() {
				t.Fatalf("pushed out by one that is refused: %v", x.err)
			}
		}
		light := r.call(&Request{Tenant: 2, Now: second})
		if !light.waits() {
			t.Fatalf("a lighter tenant was refused: %v", light.err)
		}
		wantAnswer(t, flood[2], ErrQueueFull)
		if got := flood[2].q.RetryAfter(); got < 1 || got > maxRetryAfter {
			t.Errorf("retry after %d s, want 1 to %d", got, maxRetryAfter)
		}
		if got := flood[2].q.Waited(); got != time.Second {
			t.Errorf("waited %v, want 1s", got)
		}
		urgent := r.call(&Request{Tenant: 1, Class: 3, Now: second})
		wantAnswer(t, flood[1], ErrQueueFull)
		close(flood[1].c) // too late to matter
		if got := snap(t, r).Room; got.Refusals[RefusedFull] != 3 || got.Waits != 5 || got.Waiting != [Classes]int{0: 2, 3: 1} {
			t.Errorf("%+v, want 3 refused for a full queue, 5 that had to wait, 2 and 1 waiting", got)
		}
		for i, x := range []*call{urgent, light, flood[0]} {
			running.end(second)
			wantAnswer(t, x, nil)
			running = x
			if i < 2 && !flood[0].waits() {
				t.Fatal("the last one was served out of its turn")
			}
		}
		running.end(second)
		if s := snap(t, r); s.Live != 0 || s.Room.Admitted != 0 || s.Refused != 0 || s.Room.Waiting != [Classes]int{} {
			t.Errorf("%d live, %d refused, %+v, want all at rest", s.Live, s.Refused, s.Room)
		}
	})
}

// Beside a flood of twice the capacity that keeps the queue full, a modest tenant
// and an urgent one get all that they ask for.
func TestFullQueueLeavesTheModestTheirShare(t *testing.T) {
	for _, tc := range []struct {
		name          string
		modest, flood Request
	}{
		{"tenants", Request{Tenant: 1}, Request{Tenant: 2}},
		{"classes", Request{Class: 7}, Request{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slots, steps = 4, 600
				r := roomy(t, 1, RoomOptions{MaxLive: slots, QueueSize: 16, QueueTimeout: time.Hour, Ageing: time.Second})
				began := time.Now()
				var running, waiting, modest []*call
				come := func(q Request) *call {
					q.Now = int64(time.Since(began))
					x := r.call(&q)
					waiting = append(waiting, x)
					return x
				}
				for i := range steps { // one ends in each, two of the flood come, and .4 of the modest
					come(tc.flood)
					come(tc.flood)
					if i%5 < 2 {
						modest = append(modest, come(tc.modest))
					}
					time.Sleep(10 * time.Millisecond)
					kept := waiting[:0]
					for _, x := range waiting {
						switch {
						case x.waits():
							kept = append(kept, x)
						case x.err == nil:
							running = append(running, x)
						}
					}
					waiting = kept
					if len(running) > 0 {
						running[0].end(int64(time.Since(began)))
						running = running[1:]
					}
				}
				refused := 0
				for _, x := range modest {
					if !x.waits() && x.err != nil {
						refused++
					}
				}
				if refused > 0 {
					t.Errorf("%d of %d were refused, want none", refused, len(modest))
				}
				if n := snap(t, r).Room.Refusals[RefusedFull]; n < steps {
					t.Errorf("%d of the flood were refused, want more than a half of it", n)
				}
				for _, x := range slices.Concat(waiting, running) {
					if x.waits() {
						close(x.c)
					}
				}
				synctest.Wait()
			})
		})
	}
}

// BenchmarkOutranked is what it costs to find out who gives way in a full queue.
func BenchmarkOutranked(b *testing.B) {
	for _, tenants := range []int{1, 100, 300} {
		b.Run(fmt.Sprintf("waiting=10000/tenants=%d", tenants), func(b *testing.B) {
			q := newQueue()
			for i := range 10_000 {
				q.come(uint8(i%2), uint64(i%tenants), need{}, 0)
			}
			r := &Request{Tenant: 1}
			for b.Loop() {
				q.outranked(r, 0)
			}
		})
	}
}

// TestQueueOneShotTenants: a tenant who comes again and again waits no longer beside
// tenants who come once, without end, than it would in one line with them.
func TestQueueOneShotTenants(t *testing.T) {
	q := newQueue()
	q.ageing = 1 << 40 // nothing ages
	const steady, others = 1, 14
	next, now := uint64(100), int64(0)
	oneShot := func() {
		next++
		q.come(0, next, need{}, now)
	}
	for range others {
		oneShot()
	}
	for range 50 {
		now++
		mine := q.seq + 1
		q.come(0, steady, need{}, now)
		for turns := 1; q.take(t, now) != mine; turns++ {
			if turns > others {
				t.Fatalf("the tenant that comes again waits for more than the %d who were there", others)
			}
			now++
			oneShot()
		}
	}
}

// TestAdmittedGivesWayToNobody: what has had a worker isn't pushed out.
func TestAdmittedGivesWayToNobody(t *testing.T) {
	q := newQueue()
	q.come(0, 1, need{admitted: true}, 0)
	if w := q.outranked(&Request{Class: 7}, 1); w != nil {
		t.Errorf("number %d gives way, want nobody", w.seq)
	}
	q.come(3, 1, need{}, 1)
	if w := q.outranked(&Request{Class: 7}, 1); w == nil || w.seq != 2 {
		t.Errorf("%v gives way, want number 2", w)
	}
}
