package actors

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"loadstar/actors/policy"
)

// An engine works on as much prompt at a time as it can, and on the rest in the order
// in which that came, so a short prompt waits behind a long one. A lease whose worker
// has enough before it (BacklogOptions) is therefore parked: its worker is chosen and
// its share of work counted, but the request is sent only when enough has been worked
// off, the most urgent first (policy.Urgency).
//
// Only answers whose first byte tells that the prompt is worked off take part. Others
// are sent at once and don't count: a worker must never be kept from work by a guess.
// Nor by a prompt that it has put aside: what was sent before one that is answered, and
// isn't itself, no longer stands before others.
//
// Who asked is told to wait, as in the waiting room, and gets the lease when it starts.
// Should the worker be taken out before, another one is chosen.

// maxParked bounds those parked at a time, and with them the look at all of a worker
// that finds the next one. Beyond it each that comes sends another one on.
const maxParked = 1 << 13

// fewStarts is how many parked requests of a worker are looked for one by one. For
// more at a time they are sorted: many short ones would take a look at all for each.
const fewStarts = 8

// place grants a lease at the chosen worker, and parks it where that has enough to do.
// Whom another worker has failed has waited, may have half its answer, and isn't parked.
func (s *state) place(c choice, role Role, p Phase, k work, r *Request) grant {
	if !s.parks[role] || !k.tells || r.Own || len(r.Exclude) > 0 || !s.isBusy(c.worker) {
		return s.lend(c, p, k, r.Now)
	}
	r.parked, r.starts = true, p
	return s.lend(c, Parked, k, r.Now)
}

// isBusy reports whether a worker has so much to do that the next one is parked. Where
// that would be one too many, it sends another on.
func (s *state) isBusy(id WorkerID) bool {
	w := &s.workers[id]
	if !s.isFed(w) {
		return false
	}
	if s.room.queue.parked < maxParked {
		return true
	}
	if len(w.line) == 0 {
		return false
	}
	s.start(s.nextParked(w))
	return true
}

// isFed reports whether a worker has been sent as much as it should have at a time: so
// much for each prompt that it works on at once.
func (s *state) isFed(w *worker) bool {
	b := &s.opts.Backlog
	if w.sent < b.Blocks || w.unheard < b.Requests {
		return false
	}
	wide := w.width()
	return float64(w.sent) >= float64(b.Blocks)*wide && float64(w.unheard) >= float64(b.Requests)*wide
}

// park has a request wait until its lease, which was granted parked, starts. It may
// have waited for room before, as x.
func (s *state) park(x *waiter, r *Request, reply chan<- struct{}, pair bool) {
	q := &s.room.queue
	s.hear(r.Now)
	if x == nil {
		x = q.enter(r, reply, need{pair: pair}, s.room.clock)
		r.queued, r.turn = true, x.turn()
		r.placed = r.grant // while it waits, only the loop may look at the grant
		if r.placed.ticket.gen == 0 {
			r.placed = r.second
		}
	}
	q.setAside(x)
	s.room.parks++
	x.until = r.sooner(s.room.clock + policy.LongestPark)
	s.lineUp(x)
}

// lineUp puts a waiter among those parked at the worker of its request's lease.
func (s *state) lineUp(x *waiter) {
	var none ticket
	r := x.request
	x.lease, x.second = r.grant.ticket, none
	switch {
	case x.lease == none: // it stands in the place of a pair's second
		x.lease = r.second.ticket
	case x.pair:
		x.second = r.second.ticket
	}
	x.worker = s.slots[x.lease.slot].worker
	w := &s.workers[x.worker]
	if x.at = len(w.line); x.at == 0 {
		w.stillAt, w.nudges = s.room.clock, 0
	}
	w.line = append(w.line, x)
}

// stepOut takes a waiter out of its worker's line.
func (s *state) stepOut(x *waiter) {
	w := &s.workers[x.worker]
	last := len(w.line) - 1
	w.line[x.at] = w.line[last]
	w.line[x.at].at = x.at
	w.line[last] = nil
	w.line = w.line[:last]
}

// nextParked is who is to be sent next of those parked at a worker.
func (s *state) nextParked(w *worker) *waiter {
	var next *waiter
	most := math.Inf(-1)
	for _, x := range w.line {
		urgency := s.urgency(x)
		if next == nil || urgency > most || urgency == most && x.seq < next.seq {
			next, most = x, urgency
		}
	}
	return next
}

// urgency is that of a parked request. As in the waiting room, a class is worth an
// interval.
func (s *state) urgency(x *waiter) float64 {
	waited := s.room.clock - x.since + int64(classOf(x.request))*s.room.queue.ageing
	return policy.Urgency(waited, s.slots[x.lease.slot].pending)
}

// send counts the share of a slot as sent.
func (s *state) send(w *worker, n uint32) {
	sl := &s.slots[n]
	sl.sent, sl.lone = true, w.pending-w.parked == sl.pending
	w.sent += sl.pending
	w.unheard++
	s.append(&w.silent, n)
}

// heard ends that.
func (s *state) heard(w *worker, sl *slot) {
	sl.sent = false
	w.sent -= sl.pending
	w.unheard--
	s.unlink(&w.silent, sl)
	if len(w.line) > 0 {
		s.eased = append(s.eased, sl.worker)
	}
}

// overtake has what was sent before a slot's share, of which a first byte tells, count
// as sent no longer.
func (s *state) overtake(w *worker, sl *slot) {
	w.stillAt, w.nudges = s.room.clock, 0
	for w.silent.first != 0 && &s.slots[w.silent.first-1] != sl {
		s.heard(w, &s.slots[w.silent.first-1])
	}
}

// nudge sends one more to each worker that has something parked and has been still.
func (s *state) nudge() {
	for i := range s.workers {
		if w := &s.workers[i]; len(w.line) > 0 && s.room.clock-w.stillAt >= policy.Patience(int64(s.opts.Backlog.Patience), w.nudges) {
			w.nudges++
			s.start(s.nextParked(w))
		}
	}
}

// start sends a parked request on.
func (s *state) start(x *waiter) {
	s.stepOut(x)
	s.workers[x.worker].stillAt = s.room.clock
	s.advance(x.lease, Parked, x.request.starts)
	sl := s.find(x.lease)
	sl.since = s.room.clock
	s.call(x)
}

// sendOn starts what is parked at workers that have less to do, and finds other
// workers for what is parked at those that are taken out.
func (s *state) sendOn() {
	if s.parkedAstray {
		s.parkedAstray = false
		for i := range s.workers {
			if len(s.workers[i].line) > 0 {
				s.eased = append(s.eased, WorkerID(i))
			}
		}
		s.rematch()
	}
	for len(s.eased) > 0 {
		last := len(s.eased) - 1
		w := &s.workers[s.eased[last]]
		s.eased = s.eased[:last]
		if w.isLost() {
			all := slices.Clone(w.line)
			slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
			for _, x := range all {
				if x.request != nil { // else it was sent on for one before it
					s.moveOn(x)
				}
			}
			continue
		}
		s.feed(w)
	}
}

// feed starts what is parked at a worker until that has enough to do.
func (s *state) feed(w *worker) {
	hungry := func() bool { return len(w.line) > 0 && !s.isFed(w) }
	for n := 0; n < fewStarts && hungry(); n++ {
		s.start(s.nextParked(w))
	}
	if !hungry() {
		return
	}
	all := slices.Clone(w.line)
	slices.SortFunc(all, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(s.urgency(b), s.urgency(a)), cmp.Compare(a.seq, b.seq))
	})
	for i := 0; hungry(); i++ {
		s.start(all[i])
	}
}

// rematch finds another pair for what is parked with a place at a decode worker that
// is taken out: it would be sent to one that nobody is sent to.
func (s *state) rematch() {
	for _, x := range s.room.queue.slots {
		if x.second.gen != 0 && s.workers[s.slots[x.second.slot].worker].isLost() {
			s.moveOn(x)
		}
	}
}

// startAll sends on all that is parked.
func (s *state) startAll() {
	for _, x := range s.room.queue.slots {
		if x.isParked() {
			s.start(x)
		}
	}
}

// isLost reports whether nothing parked at a worker should be sent there.
func (w *worker) isLost() bool {
	return !w.member || !w.health.healthy || w.emptying.on() || w.life.wedged || w.breaker.state == BreakerOpen
}

// moveOn finds another worker for a parked request.
func (s *state) moveOn(x *waiter) {
	r := x.request
	s.yield(x, Moved)
	r.Now, r.parked = max(r.Now, s.room.clock), false
	s.serve(r, x.pair)
	if r.parked {
		s.lineUp(x)
		return
	}
	if errors.Is(r.grant.err, errFull) {
		if s.lineBack(x) {
			return
		}
		r.grant.err = ErrQueueFull
	}
	if r.grant.err != nil {
		s.turnAway(r, r.grant.err)
	}
	s.call(x)
}

// lineBack has a parked request wait for room, as one that comes does. It reports false
// if no place is left.
func (s *state) lineBack(x *waiter) bool {
	var none ticket
	m, r := &s.room, x.request
	if m.queue.size >= m.queue.limit {
		return false
	}
	r.grant, r.second = grant{}, grant{}
	x.lease, x.second = none, none
	x.need = s.needOf(r, x.pair)
	x.until = r.sooner(m.clock + int64(m.opts.QueueTimeout))
	m.waits++
	m.queue.setBack(x, m.clock)
	return true
}

// yield gives the leases of a parked request back.
func (s *state) yield(x *waiter, c Cause) {
	s.stepOut(x)
	s.giveBack(x.lease, c, s.room.clock)
	if x.second.gen != 0 {
		s.giveBack(x.second, c, s.room.clock)
	}
}
