package actors

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// newQueue is a queue that ages by a class every ten nanoseconds.
func newQueue() *queue { return &queue{limit: 1 << 16, ageing: 10} }

// come has a request wait.
func (q *queue) come(class uint8, tenant uint64, n need, now int64) ticket {
	return q.push(&Request{Class: class, Tenant: tenant}, make(chan struct{}, 2), n, now, now+1000)
}

// take serves the next request in a new round, and returns its number.
func (q *queue) take(t *testing.T, now int64) uint64 {
	t.Helper()
	q.tries++
	w := q.next(now)
	if w == nil {
		t.Fatal("nobody is next")
	}
	seq := w.seq
	q.served(w, now)
	q.remove(w)
	return seq
}

func TestQueueOrder(t *testing.T) {
	type arrival struct {
		class  uint8
		tenant uint64
		at     int64
	}
	for _, tc := range []struct {
		name string
		come []arrival
		now  int64 // when they begin to be served, one a nanosecond
		want []uint64
	}{
		{"first come", []arrival{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, 3, []uint64{1, 2, 3}},
		{"higher class", []arrival{{0, 0, 0}, {7, 0, 1}, {3, 0, 2}}, 3, []uint64{2, 3, 1}},
		{"a class too high is the highest", []arrival{{7, 0, 0}, {200, 0, 1}}, 3, []uint64{1, 2}},
		{"turns of tenants", []arrival{{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 2, 1}, {0, 2, 1}, {0, 3, 2}}, 3, []uint64{1, 4, 6, 2, 5, 3}},
		{"a flood waits behind the light tenant", []arrival{{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 2, 2}}, 3, []uint64{1, 6, 2, 3, 4, 5}},
		{"age is worth a class", []arrival{{0, 0, 0}, {1, 0, 15}}, 15, []uint64{1, 2}},
		{"age is not worth a class yet", []arrival{{0, 0, 0}, {1, 0, 9}}, 9, []uint64{2, 1}},
		{"age is lost with a turn", []arrival{{0, 0, 0}, {0, 0, 0}, {1, 0, 25}}, 25, []uint64{1, 3, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQueue()
			for _, a := range tc.come {
				q.come(a.class, a.tenant, need{}, a.at)
			}
			var got []uint64
			for now := tc.now; q.size > 0; now++ {
				got = append(got, q.take(t, now))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("served %v, want %v", got, tc.want)
			}
		})
	}
}

// However much comes that is better, a request at the front of its lane is served
// after Classes ageing intervals and a turn of every other lane at the latest.
func TestQueueStarvesNobody(t *testing.T) {
	const tenants = 4
	q := newQueue()
	rng := rand.New(rand.NewPCG(1, 1))
	q.come(0, 99, need{}, 0)
	for now := range int64(1000) {
		for range 2 {
			q.come(uint8(1+rng.IntN(Classes-1)), uint64(rng.IntN(tenants)), need{}, now)
		}
		if q.take(t, now) == 1 {
			if most := Classes*q.ageing + (Classes-1)*tenants; now > most {
				t.Errorf("served after %d, want at most %d", now, most)
			}
			return
		}
	}
	t.Error("not served in 1000 turns")
}

// Tenants that always have something waiting are served alike, and none gains by
// asking more often.
func TestQueueSharesFairly(t *testing.T) {
	q := newQueue()
	q.ageing = int64(time.Hour)
	got := map[uint64]int{}
	for now := range int64(3000) {
		for tenant := range uint64(3) {
			for range 1 << tenant { // 1, 2 and 4 at a time
				if q.size < 5000 {
					q.come(0, tenant, need{}, now)
				}
			}
		}
		q.tries++
		got[q.next(now).request.Tenant]++
		q.take(t, now)
	}
	for tenant, n := range got {
		if n < 999 || n > 1001 {
			t.Errorf("tenant %d was served %d times of 3000, want 1000", tenant, n)
		}
	}
}

// A tenant that comes back has no claim on what others got meanwhile.
func TestQueueTenantReturns(t *testing.T) {
	q := newQueue()
	q.ageing = int64(time.Hour)
	q.come(0, 2, need{}, 0)
	q.take(t, 0)
	for range 100 {
		q.come(0, 1, need{}, 0)
		q.take(t, 0)
	}
	for range 10 {
		q.come(0, 1, need{}, 0)
		q.come(0, 2, need{}, 0)
	}
	got := map[uint64]int{}
	for range 10 {
		q.tries++
		got[q.next(0).request.Tenant]++
		q.take(t, 0)
	}
	if got[1] < 4 || got[2] < 4 {
		t.Errorf("served %v of ten turns, want about five each", got)
	}
}

// The table of tenants is bounded: with more of them at a time than it has
// places, some share one, and all are served.
func TestTenantsAreBounded(t *testing.T) {
	q := newQueue()
	for i := range uint64(3 * maxTenants) {
		q.come(0, i*7919, need{}, 0)
	}
	if n := len(q.tenants.all); n != maxTenants || len(q.tenants.byHash) != maxTenants {
		t.Errorf("%d places, %d names, want %d", n, len(q.tenants.byHash), maxTenants)
	}
	for range 3 * maxTenants {
		q.take(t, 0)
	}
	for i := range uint64(1000) { // places of those who have left are taken again
		q.come(0, i<<32, need{}, 0)
		if q.tenants.find(i<<32) < 0 {
			t.Fatalf("tenant %d has no place though all places are idle", i)
		}
		q.take(t, 0)
	}
	if n := len(q.tenants.all); n != maxTenants || len(q.tenants.byHash) != maxTenants {
		t.Errorf("%d places, %d names, want %d", n, len(q.tenants.byHash), maxTenants)
	}
}

func TestQueueAhead(t *testing.T) {
	q := newQueue()
	for _, a := range []struct {
		class  uint8
		tenant uint64
		n      int
	}{{5, 1, 3}, {2, 1, 10}, {2, 2, 1}, {0, 3, 7}} {
		for range a.n {
			q.come(a.class, a.tenant, need{}, 0)
		}
	}
	for _, tc := range []struct {
		name   string
		class  uint8
		tenant uint64
		want   int
	}{
		{"highest", 7, 1, 0},
		{"who floods", 2, 1, 3 + 10 + 1},
		{"who is new", 2, 9, 3 + 1 + 1},
		{"who has one", 2, 2, 3 + 1 + 2},
		{"lowest", 0, 9, 3 + 10 + 1 + 1},
	} {
		if got := q.ahead(&Request{Class: tc.class, Tenant: tc.tenant}); got != tc.want {
			t.Errorf("%s: %d ahead, want %d", tc.name, got, tc.want)
		}
	}
}

// plainQueue is the queue in the plainest way: a list, from which the next one is
// found by its definition.
type plainQueue struct {
	waits  []plainWait
	turns  map[plainLane]int64
	class  [Classes]int64 // their turns
	served map[uint64]uint64
	most   uint64
}

type plainLane struct {
	class  uint8
	tenant uint64
	need   need
}

type plainWait struct {
	lane   plainLane
	seq    uint64
	ticket ticket
}

func (p *plainQueue) waiting(has func(plainWait) bool) int {
	n := 0
	for _, w := range p.waits {
		if has(w) {
			n++
		}
	}
	return n
}

func (p *plainQueue) come(l plainLane, seq uint64, tk ticket, now int64) {
	if p.waiting(func(w plainWait) bool { return w.lane.tenant == l.tenant }) == 0 {
		p.served[l.tenant] = max(p.served[l.tenant], p.most+1)
	}
	if p.waiting(func(w plainWait) bool { return w.lane == l }) == 0 {
		p.turns[l] = now
	}
	p.waits = append(p.waits, plainWait{l, seq, tk})
}

// next is the place of the next one among those without a need in not, or -1.
func (p *plainQueue) next(now int64, not []need) int {
	best := -1
	better := func(a, b plainLane) int {
		x, y := int64(a.class)+(now-p.turns[a])/10, int64(b.class)+(now-p.turns[b])/10
		if x != y {
			return int(x - y)
		}
		return int(p.served[b.tenant]) - int(p.served[a.tenant])
	}
	for i, w := range p.waits {
		if !slices.Contains(not, w.lane.need) && (best < 0 || better(w.lane, p.waits[best].lane) > 0) {
			best = i
		}
	}
	return best
}

func (p *plainQueue) serve(i int, now int64) {
	l := p.waits[i].lane
	p.turns[l], p.class[l.class] = now, now
	p.most = max(p.most, p.served[l.tenant])
	p.served[l.tenant]++
	p.waits = slices.Delete(p.waits, i, i+1)
}

// outranked is the place of the one that gives way to one that comes, or -1: every
// request is compared by its definition.
func (p *plainQueue) outranked(class uint8, tenant uint64, now int64) int {
	of := func(tenant uint64) int {
		return p.waiting(func(w plainWait) bool { return w.lane.tenant == tenant })
	}
	risen := func(class uint8, turn int64) int64 { return int64(class) + (now-turn)/10 }
	best, rank, lanes, classes := -1, int64(0), map[plainLane]bool{}, map[uint8]bool{}
	for i, w := range p.waits {
		k := int64(w.lane.class)
		if !lanes[w.lane] {
			k = risen(w.lane.class, p.turns[w.lane])
		}
		if !classes[w.lane.class] {
			k = max(k, risen(w.lane.class, p.class[w.lane.class]))
		}
		lanes[w.lane], classes[w.lane.class] = true, true
		if w.lane.need.admitted {
			continue
		}
		if best < 0 || k < rank || k == rank && of(w.lane.tenant) >= of(p.waits[best].lane.tenant) {
			best, rank = i, k
		}
	}
	own := int64(class)
	if !classes[class] {
		own = risen(class, p.class[class])
	}
	if best >= 0 && (own > rank || own == rank && of(tenant)+1 < of(p.waits[best].lane.tenant)) {
		return best
	}
	return -1
}

// The queue calls whom its definition says, whatever comes, leaves and is passed
// over in whatever order.
func FuzzQueue(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 12 {
		in := make([]byte, 300)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 500 {
			t.Skip()
		}
		q, p := newQueue(), &plainQueue{turns: map[plainLane]int64{}, served: map[uint64]uint64{}}
		now, seq := int64(0), uint64(0)
		for ; len(in) >= 2; in = in[2:] {
			op, arg := in[0], in[1]
			now += int64(op >> 4)
			switch op % 8 {
			case 0, 1, 2: // come
				seq++
				l := plainLane{arg % 3 * 3, uint64(arg / 3 % 4), need{pair: arg&64 > 0, admitted: arg&128 > 0}}
				out, want := q.outranked(&Request{Class: l.class, Tenant: l.tenant}, now), p.outranked(l.class, l.tenant, now)
				if (out == nil) != (want < 0) || out != nil && out.seq != p.waits[want].seq {
					t.Fatalf("%v gives way to %v, want place %d of %v", out, l, want, p.waits)
				}
				if out != nil && len(p.waits) > 6 {
					q.remove(out)
					p.waits = slices.Delete(p.waits, want, want+1)
				}
				p.come(l, seq, q.come(l.class, l.tenant, l.need, now), now)
			case 3: // leave
				if len(p.waits) > 0 {
					i := int(arg) % len(p.waits)
					w := q.find(p.waits[i].ticket)
					if w == nil || w.seq != p.waits[i].seq {
						t.Fatalf("ticket of %d finds %v", p.waits[i].seq, w)
					}
					q.remove(w)
					if q.find(p.waits[i].ticket) != nil {
						t.Fatal("a ticket finds who has left")
					}
					p.waits = slices.Delete(p.waits, i, i+1)
				}
			case 4:
				q.regroup(func(w *waiter) need { return w.need })
			default: // serve, with some needs passed over
				q.tries++
				var not []need
				for k := range arg % 3 {
					w, want := q.next(now), p.next(now, not)
					if (w == nil) != (want < 0) || w != nil && w.seq != p.waits[want].seq {
						t.Fatalf("after %d were passed over %v is next, want place %d of %v", k, w, want, p.waits)
					}
					if w == nil {
						break
					}
					not = append(not, w.need)
					q.pass(w)
				}
				w, want := q.next(now), p.next(now, not)
				if (w == nil) != (want < 0) || w != nil && w.seq != p.waits[want].seq {
					t.Fatalf("%v is next, want place %d of %v", w, want, p.waits)
				}
				if w != nil {
					p.serve(want, now)
					q.served(w, now)
					q.remove(w)
				}
			}
			if q.size != len(p.waits) || q.readmit != p.waiting(func(w plainWait) bool { return w.lane.need.admitted }) {
				t.Fatalf("%d wait, %d of them admitted, want %d of %v", q.size, q.readmit, len(p.waits), p.waits)
			}
			for c := range uint8(Classes) {
				if want := p.waiting(func(w plainWait) bool { return w.lane.class == c }); q.waiting[c] != want {
					t.Fatalf("%d of class %d wait, want %d", q.waiting[c], c, want)
				}
			}
		}
	})
}
