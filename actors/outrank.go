package actors

// outranked returns the request that gives up its place to one that comes at now,
// when there is no place left; nil when none does, and the one that comes is
// turned away.
//
// It is the one with the least claim: of the lowest rank; among equals of the
// tenant who has the most waiting; among equals the one that came last. It gives
// way to a higher rank, and to an equal one of a tenant who will have fewer
// waiting than its own still has. So two tenants never push each other out in
// turn: each exchange makes their numbers more alike. Whoever is admitted already,
// and so has had a worker, gives way to nobody.
//
// A rank is a class with what it has risen by waiting. That is the request's at
// the front of its lane alone: it is near its turn, those behind it are not. Were
// it counted from each arrival, a flood would rise above all that comes later by
// the length of its own queue.
//
// The one of each class that has waited longest, or would, has risen at least
// since one of its class was last served. So no class is kept out for ever by
// those above it: after Classes intervals its next request has a place, keeps it,
// and is at the front of a lane, which is served in the end.
func (q *queue) outranked(r *Request, now int64) *waiter {
	var first [Classes]uint64 // the number of the request of each class that has waited longest
	for _, l := range q.lanes {
		if n := first[l.class]; n == 0 || l.head.seq < n {
			first[l.class] = l.head.seq
		}
	}
	var (
		least *waiter
		rank  int64
		most  int // that its tenant has waiting
	)
	for _, l := range q.lanes {
		if l.tail.admitted {
			continue
		}
		w, k, n := l.tail, int64(l.class), q.tenants.all[l.tenant].waiting
		if w == l.head {
			k = q.rank(l, now)
		}
		if w.seq == first[l.class] {
			k = max(k, q.risen(l.class, q.turns[l.class], now))
		}
		if least == nil || k < rank || k == rank && (n > most || n == most && w.seq > least.seq) {
			least, rank, most = w, k, n
		}
	}
	if least == nil {
		return nil
	}
	class := classOf(r)
	own := int64(class)
	if first[class] == 0 {
		own = q.risen(class, q.turns[class], now)
	}
	if own > rank || own == rank && q.tenants.waiting(r.Tenant) < most-1 {
		return least
	}
	return nil
}
