package actors

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// RoomOptions limits how much runs at a time and says how requests wait for it.
// The zero value limits nothing, and nothing waits.
type RoomOptions struct {
	MaxLive       int           // requests admitted at a time, over the whole router; 0 limits nothing
	MaxPerWorker  int           // leases live at a worker at a time, reserved ones included; 0 limits nothing
	RatePerSecond float64       // requests admitted per second; 0 limits nothing
	Burst         int           // of RatePerSecond, how many may be admitted at once after a pause; 0: those of one second
	QueueSize     int           // requests that wait at a time, at most; 0: none waits
	QueueTimeout  time.Duration // how long one waits, at most
	Ageing        time.Duration // the wait for a turn that counts like one class more; 0: DefaultAgeing
	Now           func() int64  // the clock of Request.Now; called off the loop, only while requests wait
}

// DefaultAgeing is RoomOptions.Ageing where none is given.
const DefaultAgeing = 5 * time.Second

// maxQueueSize keeps a look at every request that waits within a millisecond.
const maxQueueSize = 1 << 16

// room is the limits and those who wait for them to allow more.
type room struct {
	opts  RoomOptions
	on    bool
	clock int64 // the latest time that a message has told; nanoseconds
	queue queue
	rate  bucket
	pace  pace

	passes     []pass
	freePasses []uint32
	admitted   int    // admissions not yet ended; written by admit and dismiss and by nothing else
	admissions uint64 // since the start
	dismissed  uint64

	unsettled bool          // who may serve what has changed since the last round
	regroup   bool          // and so has the membership
	ticks     chan struct{} // capacity one: asks the clock for one tick
	ticking   bool          // one was asked for and hasn't come

	waits    uint64 // requests that had to wait for room, since the start
	parks    uint64 // and that were parked
	refusals [numRefusals]uint64
}

func newRoom(o RoomOptions) (room, error) {
	if o.Ageing == 0 {
		o.Ageing = DefaultAgeing
	}
	if o.Burst == 0 {
		o.Burst = int(math.Ceil(o.RatePerSecond))
	}
	return room{
		opts: o, on: o.limits(), ticks: make(chan struct{}, 1),
		queue: queue{limit: o.QueueSize, ageing: int64(o.Ageing)},
		rate:  bucket{perSecond: o.RatePerSecond, size: float64(o.Burst), tokens: float64(o.Burst)},
	}, o.Validate()
}

// limits reports whether anything is limited, and waits whether requests may wait
// for that.
func (o *RoomOptions) limits() bool {
	return o.MaxLive > 0 || o.MaxPerWorker > 0 || o.RatePerSecond > 0
}

func (o *RoomOptions) waits() bool { return o.limits() && o.QueueSize > 0 }

// Validate reports every setting that makes no sense, joined.
func (o *RoomOptions) Validate() error {
	var faults []error
	check := func(ok bool, what string, value any, want string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s is %v: give %s", what, value, want))
		}
	}
	check(o.MaxLive >= 0, "the limit of requests", o.MaxLive, "0 or more")
	check(o.MaxPerWorker >= 0, "the limit of requests per worker", o.MaxPerWorker, "0 or more")
	check(o.RatePerSecond >= 0 && o.RatePerSecond <= 1e9, "the limit of requests per second", o.RatePerSecond, "a number from 0 to 1e9")
	check(o.Burst >= 0, "the burst", o.Burst, "0 or more")
	check(o.QueueSize >= 0 && o.QueueSize <= maxQueueSize, "the size of the queue", o.QueueSize, fmt.Sprintf("a number from 0 to %d", maxQueueSize))
	check(o.QueueSize == 0 || o.QueueTimeout > 0, "the longest wait in the queue", o.QueueTimeout, "a time above 0")
	check(o.Ageing >= 0, "the ageing interval", o.Ageing, "a time above 0")
	check(!o.waits() || o.Now != nil, "the clock", "missing", "the one that Request.Now is read from")
	return errors.Join(faults...)
}

// hear takes note of the time that a message tells.
func (s *state) hear(now int64) { s.room.clock = max(s.room.clock, now) }

// admits reports whether one more request may be admitted.
func (s *state) admits() bool {
	m := &s.room
	if m.opts.MaxLive > 0 && m.admitted >= m.opts.MaxLive {
		return false
	}
	m.rate.fill(m.clock)
	return m.rate.has()
}

// arrive answers a request at once, or has it wait, which the reply then says.
func (s *state) arrive(r *Request, reply chan<- struct{}, pair bool) {
	m := &s.room
	switch {
	case r.Deadline != 0 && r.Now >= r.Deadline:
		s.turnAway(r, ErrDeadline)
	case !m.on || r.Own:
		s.serve(r, pair)
		if r.grant.err != nil && errors.Is(r.grant.err, errFull) {
			s.turnAway(r, ErrQueueFull)
		}
		if r.parked {
			s.park(nil, r, reply, pair)
		}
	default:
		s.hear(r.Now)
		if m.queue.size > 0 {
			s.settle() // time alone may have made room, and who waits goes first
		}
		switch {
		case !s.attempt(r, pair):
			s.line(r, reply, pair)
		case r.parked:
			s.park(nil, r, reply, pair)
		}
	}
	reply <- struct{}{}
}

// attempt serves or refuses a request. It reports false, having granted nothing,
// when the request has to wait.
func (s *state) attempt(r *Request, pair bool) bool {
	admitted := s.isAdmitted(r)
	if !admitted && !s.admits() {
		r.grant = grant{err: s.hopeless(r, pair)}
		return r.grant.err != nil
	}
	s.serve(r, pair)
	if r.grant.err != nil && errors.Is(r.grant.err, errFull) {
		r.grant = grant{}
		if pair { // one of the two is at its limit, and the other may not be there at all
			r.grant.err = s.hopeless(r, pair)
		}
		return r.grant.err != nil
	}
	if r.grant.err == nil && !admitted {
		r.pass = s.admit(r.Now)
	}
	return true
}

// isAdmitted reports whether a request has an admission: of an attempt before this one, or
// because it was parked.
func (s *state) isAdmitted(r *Request) bool { return s.holds(r.Admission.ticket) || s.holds(r.pass) }

// hopeless says why a request would be refused though there were room.
func (s *state) hopeless(r *Request, pair bool) error {
	role := r.Role
	if pair {
		role = Decode
	}
	if err := s.refusal(r, role); err != nil {
		return err
	}
	if r.Beside && s.anyone(r, Regular) {
		return nil
	}
	if !s.anyone(r, role) {
		return s.nobody(role)
	}
	if pair && prefills(r) && !s.anyone(r, Prefill) {
		return ErrNoPrefill
	}
	return nil
}

// anyone reports whether some worker may serve a request, be it at its limit.
func (s *state) anyone(r *Request, role Role) bool {
	c := s.candidates(r, role)
	unmark(r, c)
	return len(c)+s.skipped > 0
}

// prefills reports whether a pair needs a prefill worker even where nothing of
// its prompt is cached.
func prefills(r *Request) bool { return len(r.Key) >= r.Short }

// line has a request wait, or refuses it. Where no place is left it may take that
// of another one, which is refused.
func (s *state) line(r *Request, reply chan<- struct{}, pair bool) {
	m := &s.room
	until := r.sooner(r.Now + int64(m.opts.QueueTimeout))
	wait, known := s.estimate(r)
	full := m.queue.size >= m.queue.limit
	var out *waiter
	if full {
		out = m.queue.outranked(r, m.clock)
	}
	switch {
	case full && out == nil:
		s.turnAway(r, ErrQueueFull)
	case r.Deadline != 0 && known && float64(r.Deadline-r.Now) < wait:
		s.turnAway(r, ErrDeadline)
	default:
		if full {
			s.turnAway(out.request, ErrQueueFull)
			s.call(out)
		}
		m.waits++
		r.queued = true
		r.turn = m.queue.push(r, reply, s.needOf(r, pair), m.clock, until)
	}
}

// needOf is what decides where a request can be served, as things stand.
func (s *state) needOf(r *Request, pair bool) need {
	n := need{
		pair: pair, prefills: pair && prefills(r), admitted: s.isAdmitted(r),
	}
	if sc, _ := s.scopeOf(r); sc.set != nil {
		n.model = sc.number()
		n.open = n.model == 0
	}
	if to, ok := s.pins.at[r.Pin]; ok && r.Pin != 0 && s.workers[to.worker].epoch == to.epoch {
		n.pin = to
	}
	return n
}

// estimate says how long a request that comes now would wait, in nanoseconds. It
// reports false when there is nothing to judge by.
func (s *state) estimate(r *Request) (ns float64, known bool) {
	m := &s.room
	n := m.queue.ahead(r) + 1
	m.rate.fill(m.clock)
	if !s.holds(r.Admission.ticket) {
		ns, known = m.rate.until(n), m.rate.perSecond > 0
	}
	if m.opts.MaxPerWorker > 0 || m.opts.MaxLive > 0 && m.admitted >= m.opts.MaxLive {
		each, ended := m.pace.each(m.clock)
		ns, known = max(ns, each*float64(n)), known || ended
	}
	return ns, known
}

// turnAway refuses a request for want of room.
func (s *state) turnAway(r *Request, err error) {
	ns, _ := s.estimate(r)
	r.grant = grant{err: err}
	r.retryAfter = int(min(max(math.Ceil(ns/1e9), 1), maxRetryAfter))
	s.room.refusals[refusalOf(err)]++
}

// maxRetryAfter is the most that a client is told to stay away, in seconds.
const maxRetryAfter = 60

// callIn is called behind every message while requests wait: whatever it has
// changed, nobody waits for what is there.
func (s *state) callIn() {
	s.sendOn()
	s.settle()
	if m := &s.room; (m.queue.size > 0 || m.queue.parked > 0) && !m.ticking {
		m.ticking = true
		m.ticks <- struct{}{} // has room: no tick is asked for twice
	}
}

// settle serves those who wait until none can be served.
func (s *state) settle() {
	m := &s.room
	q := &m.queue
	if !m.unsettled && q.readmit == 0 && !s.admits() {
		return
	}
	if m.regroup {
		q.regroup(func(w *waiter) need { return s.needOf(w.request, w.pair) })
	}
	m.unsettled, m.regroup = false, false
	q.tries++
	for w := q.next(m.clock); w != nil; w = q.next(m.clock) {
		r := w.request
		if w.until <= m.clock {
			s.expire(w)
			continue
		}
		r.Now = max(r.Now, m.clock)
		if !s.attempt(r, w.pair) {
			q.pass(w)
			continue
		}
		if r.grant.err != nil {
			m.refusals[refusalOf(r.grant.err)]++
		} else {
			q.served(w, m.clock)
		}
		if r.parked {
			s.park(w, r, w.reply, w.pair)
			continue
		}
		s.call(w)
	}
}

// call ends a wait. The answer stands in the request.
func (s *state) call(w *waiter) {
	reply := w.reply
	w.request.waited = max(0, s.room.clock-w.since)
	s.room.queue.remove(w)
	reply <- struct{}{}
}

func (s *state) expire(w *waiter) {
	switch {
	case w.until == w.request.Deadline:
		s.sendAway(w, ErrDeadline, Aborted)
	case w.isParked():
		s.start(w)
	default:
		s.sendAway(w, ErrQueueTimeout, Aborted)
	}
}

// sendAway ends a wait with an error, and the parked leases with a cause if there
// are.
func (s *state) sendAway(w *waiter, err error, c Cause) {
	if w.isParked() {
		s.yield(w, c)
	}
	s.turnAway(w.request, err)
	s.call(w)
}

// tick is how time passes for those who wait.
func (s *state) tick(now int64) {
	s.hear(now)
	s.room.ticking = false
	if s.room.queue.parked > 0 {
		s.nudge()
	}
	for _, w := range s.room.queue.slots {
		if w.request != nil && w.until <= s.room.clock {
			s.expire(w)
		}
	}
}

// leave ends the wait that t names, if it isn't over.
func (s *state) leave(t ticket) {
	if w := s.room.queue.find(t); w != nil {
		s.sendAway(w, ErrClientLeft, ClientGone)
	}
}

// closeRoom sends away all who wait, for nothing is granted any more.
func (s *state) closeRoom() {
	for _, w := range s.room.queue.slots {
		if w.request != nil {
			s.sendAway(w, ErrStopped, Aborted)
		}
	}
}
