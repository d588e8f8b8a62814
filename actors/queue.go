package actors

import (
	"math"
	"slices"
)

// Classes is how many classes of requests there are; the highest is served first.
const Classes = 8

// queue is the requests that wait, in lanes. A lane is first in, first out, and
// what waits in it differs in nothing that decides whether it can be served.
//
// Which lane is next: the one of the highest class, where a lane counts one
// class more for each ageing interval since it was last served; among equals
// that of the tenant who was served least; among equals that of the request that
// has waited longest. A lane that waits rises above every other in the end, and
// each that is served falls back, so the request at its front is served after
// Classes intervals and one turn of every other lane at the latest.
type queue struct {
	size    int
	limit   int
	ageing  int64 // nanoseconds
	slots   []*waiter
	free    []*waiter
	lanes   []*lane
	spare   []*lane
	tenants tenants
	seq     uint64 // of the request that came last
	tries   uint64 // rounds in which lanes were tried
	waiting [Classes]int
	turns   [Classes]int64 // when one of each class was last served
	readmit int            // of size, those that are admitted already
	parked  int            // further waiters, which are in no lane: those whose leases are parked
}

// waiter is one request that waits.
type waiter struct {
	need
	request    *Request // lent until the last reply
	reply      chan<- struct{}
	slot       uint32
	gen        uint64 // bumped when the wait ends
	seq        uint64
	since      int64 // nanoseconds
	until      int64
	lane       *lane // nil for one that is parked
	prev, next *waiter

	lease, second ticket // that are parked, and reserved with it
	worker        WorkerID
	at            int // its place in the worker's line
}

// need is what decides where a request can be served, and so whether it can.
type need struct {
	pair     bool
	prefills bool   // a pair that surely wants a prefill worker
	admitted bool   // holds an admission
	open     bool   // only workers that take any model may serve it
	model    uint32 // the model's number, if others may not; 0 if all may
	pin      pin    // the only worker that may, unless its epoch is 0
}

// lane is a queue of requests with one need, class and tenant.
type lane struct {
	head, tail *waiter
	size       int
	class      uint8
	tenant     int
	turn       int64  // when one of it was last served, or the lane began
	tried      uint64 // the round in which its need could not be met
	at         int    // its place among the lanes
}

// alike reports whether two requests can be served by the same workers.
func alike(a, b *waiter) bool {
	return a.need == b.need && a.request.Role == b.request.Role && a.request.Beside == b.request.Beside &&
		slices.Equal(a.request.Exclude, b.request.Exclude)
}

// push has a request wait. There must be room for it.
func (q *queue) push(r *Request, reply chan<- struct{}, n need, now, until int64) ticket {
	w := q.enter(r, reply, n, now)
	w.until = until
	q.stand(w, now)
	return w.turn()
}

// stand puts a waiter that is in no lane into one.
func (q *queue) stand(w *waiter, now int64) {
	q.size++
	class := classOf(w.request)
	q.waiting[class]++
	if w.admitted {
		q.readmit++
	}
	q.line(w, class, q.tenants.join(w.request.Tenant), now)
}

// isParked reports whether it is a request that waits for its parked lease.
func (w *waiter) isParked() bool { return w.request != nil && w.lane == nil }

// turn names a wait.
func (w *waiter) turn() ticket { return ticket{gen: w.gen, slot: w.slot} }

// enter begins a wait, in no lane.
func (q *queue) enter(r *Request, reply chan<- struct{}, n need, now int64) *waiter {
	var w *waiter
	if k := len(q.free); k > 0 {
		w = q.free[k-1]
		q.free = q.free[:k-1]
	} else {
		w = &waiter{slot: uint32(len(q.slots)), gen: 1}
		q.slots = append(q.slots, w)
	}
	q.seq++
	*w = waiter{need: n, request: r, reply: reply, slot: w.slot, gen: w.gen, seq: q.seq, since: now}
	return w
}

// line puts a waiter at the end of the lane it belongs to.
func (q *queue) line(w *waiter, class uint8, tenant int, turn int64) {
	l := q.laneFor(w, class, tenant)
	if l == nil {
		if k := len(q.spare); k > 0 {
			l = q.spare[k-1]
			q.spare = q.spare[:k-1]
		} else {
			l = new(lane)
		}
		*l = lane{class: class, tenant: tenant, turn: turn, at: len(q.lanes)}
		q.lanes = append(q.lanes, l)
	}
	w.lane, w.prev, w.next = l, l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
	l.size++
	l.turn = min(l.turn, turn)
}

func (q *queue) laneFor(w *waiter, class uint8, tenant int) *lane {
	for _, l := range q.lanes {
		if l.class == class && l.tenant == tenant && alike(l.head, w) {
			return l
		}
	}
	return nil
}

// unlink takes a waiter out of its lane, which goes when it is empty.
func (q *queue) unlink(w *waiter) {
	l := w.lane
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	if l.size--; l.size == 0 {
		last := q.lanes[len(q.lanes)-1]
		last.at = l.at
		q.lanes[l.at] = last
		q.lanes[len(q.lanes)-1] = nil
		q.lanes = q.lanes[:len(q.lanes)-1]
		q.spare = append(q.spare, l)
	}
}

// remove ends a wait.
func (q *queue) remove(w *waiter) {
	if w.lane == nil {
		q.parked--
	} else {
		q.leaveLane(w)
	}
	*w = waiter{slot: w.slot, gen: w.gen + 1}
	q.free = append(q.free, w)
}

// setAside has a waiter, that is in a lane or has just entered, wait for its parked
// lease.
func (q *queue) setAside(w *waiter) {
	if w.lane != nil {
		q.leaveLane(w)
	}
	q.parked++
}

// setBack ends that, in a lane.
func (q *queue) setBack(w *waiter, now int64) {
	q.parked--
	q.stand(w, now)
}

func (q *queue) leaveLane(w *waiter) {
	class, tenant := w.lane.class, w.lane.tenant
	q.unlink(w)
	w.lane = nil
	q.tenants.leave(tenant)
	q.size--
	q.waiting[class]--
	if w.admitted {
		q.readmit--
	}
}

// find returns the waiter that t names, or nil when its wait is over.
func (q *queue) find(t ticket) *waiter {
	if int(t.slot) >= len(q.slots) {
		return nil
	}
	if w := q.slots[t.slot]; w.request != nil && w.gen == t.gen {
		return w
	}
	return nil
}

// served notes that the request at the front of a lane is about to be served.
func (q *queue) served(w *waiter, now int64) {
	w.lane.turn, q.turns[w.lane.class] = now, now
	q.tenants.serve(w.lane.tenant)
}

// next returns the request to be served next among those whose lane was not
// tried in this round, or nil.
func (q *queue) next(now int64) *waiter {
	var (
		best   *lane
		rank   int64
		served uint64
	)
	for _, l := range q.lanes {
		if l.tried == q.tries {
			continue
		}
		k, n := q.rank(l, now), q.tenants.all[l.tenant].served
		if best == nil || k > rank || k == rank && (n < served || n == served && l.head.seq < best.head.seq) {
			best, rank, served = l, k, n
		}
	}
	if best == nil {
		return nil
	}
	return best.head
}

// rank is a lane's class, with what it has risen by waiting.
func (q *queue) rank(l *lane, now int64) int64 { return q.risen(l.class, l.turn, now) }

// risen is a class with one more for each ageing interval since a turn.
func (q *queue) risen(class uint8, turn, now int64) int64 {
	if wait := now - turn; wait >= q.ageing {
		return int64(class) + wait/q.ageing
	}
	return int64(class)
}

// pass notes that a request's need can't be met in this round.
func (q *queue) pass(w *waiter) {
	for _, l := range q.lanes {
		if l.tried != q.tries && alike(l.head, w) {
			l.tried = q.tries
		}
	}
}

// ahead estimates how many of those who wait will be served before a request
// that comes now: those of higher classes, those of its own class and tenant,
// and as many of each other tenant of its class, for they take turns.
func (q *queue) ahead(r *Request) int {
	class, tenant := classOf(r), q.tenants.find(r.Tenant)
	n, own := 0, 0
	for _, l := range q.lanes {
		switch {
		case l.class > class:
			n += l.size
		case l.class == class && l.tenant == tenant:
			own += l.size
		}
	}
	for _, l := range q.lanes {
		if l.class == class && l.tenant != tenant {
			n += min(l.size, own+1)
		}
	}
	return n + own
}

// regroup sorts all waiters into lanes anew, with their needs as needOf sees
// them.
func (q *queue) regroup(needOf func(w *waiter) need) {
	all := make([]*waiter, 0, q.size)
	for _, w := range q.slots {
		if w.lane != nil {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *waiter) int { return int(int64(a.seq - b.seq)) })
	clear(q.lanes)
	q.lanes = q.lanes[:0] // those lanes are left to their waiters, who tell of them what stays
	for _, w := range all {
		old := w.lane
		n := needOf(w)
		n.admitted = w.admitted
		w.need = n
		q.line(w, old.class, old.tenant, old.turn)
	}
}

// oldest is when the longest wait began; false when nobody waits.
func (q *queue) oldest() (since int64, ok bool) {
	since = math.MaxInt64
	for _, l := range q.lanes {
		since = min(since, l.head.since)
	}
	return since, q.size > 0
}

func classOf(r *Request) uint8 { return min(r.Class, Classes-1) }
