package actors

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"loadstar/actors/policy"
)

// Errors of the registry's methods.
var (
	ErrStopped       = errors.New("the router is shutting down")
	ErrNoWorker      = errors.New("no worker is available")
	ErrNoPrefill     = fmt.Errorf("%w for prefill", ErrNoWorker)
	ErrNoDecode      = fmt.Errorf("%w for decode", ErrNoWorker)
	ErrLeaseEnded    = errors.New("the lease has ended, or was not reserved")
	ErrUnknownWorker = errors.New("no such worker")
	ErrDuplicate     = errors.New("the worker is in the fleet already")
	ErrTooMany       = errors.New("the fleet has as many workers as it may have")
	ErrRetryBudget   = errors.New("too many requests are being retried")
	ErrForeign       = errors.New("foreign load that can't be counted")
)

// Phase says in which part of a request's life a lease stands.
type Phase uint8

// Phases. All but Reserved and Parked are running load.
const (
	Plain      Phase = iota // a whole request at a regular worker
	Reserved                // chosen for decode, prefill still running elsewhere
	Prefilling              // the prefill part of a request
	Decoding                // the decode part of a request
	Parked                  // chosen for what it starts with, and not sent yet
	numPhases
)

var phaseNames = [numPhases]string{"plain", "reserved", "prefill", "decode", "parked"}

// String returns the name that metrics and the admin API use.
func (p Phase) String() string { return phaseNames[p] }

// state belongs to the loop. Only loop.go, state*.go and the control messages
// name it, and they all run on the loop's goroutine.
type state struct {
	opts     Options
	workers  []worker
	byURL    map[string]WorkerID
	byBase   map[string][]WorkerID // members only
	freeIDs  []WorkerID
	catalog  catalog
	members  int
	epochs   uint32 // memberships begun
	drains   uint32 // of workers, begun
	policies [numRoles]policy.Policy
	shadows  []shadow // nil without shadow policies
	pools    [numRoles]pool
	pins     pins
	budget   budget
	docket   docket
	lookAt   int64 // when to look for wedged workers again; never, if they aren't looked for
	speeds   speeds
	lapseAt  int64 // when to forget what workers have said of themselves; never, if none has
	room     room
	foreign  map[string]map[string]Elsewhere // by origin and by worker's URL; see setForeign

	parks        [numRoles]bool // whose leases may be parked
	parking      bool           // any may
	eased        []WorkerID     // that have less to do than before, with something parked there
	parkedAstray bool           // something may be parked at a worker that was taken out

	slots     []slot
	freeSlots []uint32
	live      int    // leases granted and not yet returned; the sum of all counters
	granted   uint64 // since the start
	returned  uint64
	refused   uint64 // returns whose ticket was spent

	events        chan<- Event
	eventsDropped uint64
	draining      []chan<- struct{}
	halted        bool

	asked    policy.Request     // scratch of acquire: a local one would be allocated, as a policy is an interface
	gathered []policy.Candidate // scratch of gather and unfilled

	scope      scope // of the request that candidates was last asked for
	unserved   bool  // nobody serves its model
	skipped    int   // workers that candidates has left out because they are at their limit
	skippedPin bool  // and so the worker that the request is pinned to
}

// worker is one entry of the fleet, or a removed one with leases still live.
type worker struct {
	spec   Spec
	hash   uint64 // of the URL, for rendezvous
	member bool
	used   bool          // the entry names a worker
	place  [numRoles]int // in its roles' pools, or unplaced
	listed []string      // models that it has told; never written in place, as serves
	serves []string      // models under which the catalog has it; nil for any, or if it is no member
	epoch  uint32        // which membership this is, of all there were; what an earlier one did teaches the breaker nothing

	health   health
	breaker  breaker
	ramp     ramp
	life     life
	emptying emptying
	foreign  int            // what other processes run there; written by weigh and by nothing else
	inPhase  [numPhases]int // live leases; written by grant, advance and giveBack and by nothing else
	pending  int            // blocks of prompt granted and not yet prefilled
	sent     int            // of them, those of which a first byte will tell, at the worker
	parked   int            // and those of parked leases, of which one will tell later
	line     []*waiter      // of the parked leases, in no order
	held     int            // blocks of prompt of the leases that decode, or are reserved to
	speed    speed
	lone     lone  // how fast it is with one prompt; see width
	dues     row   // that end by themselves
	silent   row   // sent ones, until a first byte tells of them
	unheard  int   // how many those are
	stillAt  int64 // when something parked was sent, or one of silent was heard of
	nudges   int   // how many were sent since then only because it was still
	granted  uint64
	outcomes [numCauses]uint64

	foreignPending int // blocks of prompt that other processes have pending there; written as foreign is
	said           said
}

// load is what runs at the worker: every live lease but those reserved and parked.
func (w *worker) load() int {
	return w.inPhase[Plain] + w.inPhase[Prefilling] + w.inPhase[Decoding]
}

// leases is how many leases are live at the worker.
func (w *worker) leases() int { return w.load() + w.inPhase[Reserved] + w.inPhase[Parked] }

// slot is the registry's memory of one live lease.
type slot struct {
	gen     uint64
	since   int64 // when it was granted
	worker  WorkerID
	pending int    // its share of the worker's pending blocks
	held    int    // and of those held
	epoch   uint32 // the worker's when it was granted
	phase   Phase
	live    bool
	trial   bool // granted while the breaker was half open
	tells   bool // its first byte says that the prompt is worked off
	owes    bool // nothing does, and there is one; see owe

	due                  int64  // when its share ends by itself; 0 for never
	prevShare, nextShare uint32 // in its worker's dues or silent

	sent bool // counts in its worker's sent, and is in silent
	lone bool // the worker had nothing else to prefill when it was sent

	unjudged bool // the breaker learns of its end later; set before it ends, and until it is judged
}

func newState(o Options, events chan<- Event) (*state, error) {
	room, err := newRoom(o.Room)
	if err != nil {
		return nil, err
	}
	if b := o.Backlog; b.Blocks < 0 || b.Requests < 0 || b.Patience < 0 || b.Blocks > 0 && o.Room.Now == nil {
		return nil, fmt.Errorf("a backlog of %d blocks, %d requests and %v: give 0 or more, and with one the clock that Request.Now is read from", b.Blocks, b.Requests, b.Patience)
	}
	s := &state{
		opts:    o,
		room:    room,
		byURL:   make(map[string]WorkerID),
		byBase:  make(map[string][]WorkerID),
		catalog: catalog{byName: make(map[string]*model), sets: make(map[string]*set)},
		foreign: make(map[string]map[string]Elsewhere),
		events:  events,
		budget:  newBudget(o.Retries),
		lookAt:  math.MaxInt64,
		speeds:  speeds{at: math.MaxInt64},
		lapseAt: math.MaxInt64,
	}
	if o.WedgedAfter > 0 {
		s.lookAt = math.MinInt64
	}
	for r := range s.policies {
		p, err := policy.New(o.Policy[r], o.PolicyOptions)
		if err != nil {
			return nil, err
		}
		s.policies[r] = p
		if policy.NeedsWork(o.Policy[r]) {
			s.speeds.at = math.MinInt64
		}
	}
	if s.shadows, err = newShadows(&o); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(o.Shadows, policy.NeedsWork) {
		s.speeds.at = math.MinInt64
	}
	for r, name := range o.Policy {
		s.parks[r] = o.Backlog.Blocks > 0 && policy.NeedsWork(name)
		s.parking = s.parking || s.parks[r]
	}
	return s, nil
}

// work is what a lease brings to its worker.
type work struct {
	pending int  // blocks of prompt to be prefilled
	held    int  // blocks of prompt to decode from
	tells   bool // the first byte of the answer says that the prompt is worked off
}

// grant makes one more lease live at a worker. It, advance and giveBack are the
// only places that write a counter of load.
func (s *state) grant(id WorkerID, p Phase, k work, now int64) ticket {
	w := &s.workers[id]
	w.inPhase[p]++
	w.pending += k.pending
	if p == Parked {
		w.parked += k.pending
	}
	w.held += k.held
	w.granted++
	s.recount(w)
	s.live++
	s.granted++
	var n uint32
	if k := len(s.freeSlots); k > 0 {
		n = s.freeSlots[k-1]
		s.freeSlots = s.freeSlots[:k-1]
	} else {
		n = uint32(len(s.slots))
		s.slots = append(s.slots, slot{gen: 1})
	}
	sl := &s.slots[n]
	trial := w.breaker.state == BreakerHalfOpen
	if trial {
		w.breaker.trials++
	}
	*sl = slot{
		gen: sl.gen, since: now, worker: id, pending: k.pending, held: k.held, epoch: w.epoch, phase: p, live: true,
		trial: trial, tells: k.tells, owes: k.pending > 0 && !k.tells && s.speeds.at != math.MaxInt64,
	}
	switch {
	case sl.owes:
		s.owe(w, n, now)
	case k.tells && k.pending > 0 && p != Parked && s.parking:
		s.send(w, n)
	}
	return ticket{gen: sl.gen, slot: n}
}

// find returns the live lease that t names, or nil when t is spent.
func (s *state) find(t ticket) *slot {
	if int(t.slot) >= len(s.slots) {
		return nil
	}
	sl := &s.slots[t.slot]
	if !sl.live || sl.gen != t.gen {
		return nil
	}
	return sl
}

// advance moves a lease from one phase to another. It reports false when t is
// spent or isn't in the first.
func (s *state) advance(t ticket, from, to Phase) bool {
	sl := s.find(t)
	if sl == nil || sl.phase != from {
		return false
	}
	w := &s.workers[sl.worker]
	w.inPhase[from]--
	w.inPhase[to]++
	if from == Parked {
		w.parked -= sl.pending
		s.send(w, t.slot)
	}
	s.recount(w)
	sl.phase = to
	return true
}

// giveBack ends a lease, once: a spent ticket is refused and counted. What is
// no cause counts as Aborted.
func (s *state) giveBack(t ticket, c Cause, now int64) {
	if c >= numCauses {
		c = Aborted
	}
	sl := s.find(t)
	if sl == nil {
		s.refuse(c.String())
		return
	}
	id, w := sl.worker, &s.workers[sl.worker]
	w.inPhase[sl.phase]--
	s.prefilled(w, sl)
	s.owesNoMore(w, sl, now)
	w.held -= sl.held
	w.outcomes[c]++
	s.recount(w)
	if w.load() == 0 {
		w.life.held = false
	}
	s.live--
	s.returned++
	if w.member && sl.epoch == w.epoch {
		if sl.trial {
			w.breaker.trials--
		}
		if c.answered() {
			s.stir(w)
		}
		if !sl.unjudged && !w.known(c) {
			s.teach(w, c.verdict(), sl.trial, now)
		}
	}
	sl.gen++
	sl.live = false
	if sl.unjudged {
		s.await(t)
	} else {
		s.freeSlots = append(s.freeSlots, t.slot)
	}
	if !w.member && w.leases() == 0 {
		s.retire(id)
	}
	if w.emptying.on() && w.leases() == 0 {
		s.vacate(id)
	}
	s.noteIdle()
}

// refuse counts the use of a ticket that is spent.
func (s *state) refuse(what string) {
	s.refused++
	s.emit(Event{Kind: ReturnRefused, Detail: what})
}

// firstByte ends a lease's share of the worker's pending prompt work: the answer
// has begun, so the prompt is prefilled. It is progress, too. now is 0 if nobody looked
// at the clock.
func (s *state) firstByte(t ticket, now int64) {
	if sl := s.find(t); sl != nil {
		w := &s.workers[sl.worker]
		if sl.tells && sl.pending > 0 && now > 0 && sl.epoch == w.epoch {
			w.speed.firstByte(sl.pending, sl.since, now)
			if sl.lone {
				w.lone.firstByte(sl.pending, sl.since, now)
			}
		}
		if sl.sent {
			s.overtake(w, sl)
		}
		s.prefilled(w, sl)
		s.recount(w)
		s.enliven(sl)
	}
	s.lookIfDue(now)
}

// teach has a worker's breaker learn how a lease ended.
func (s *state) teach(w *worker, v verdict, trial bool, now int64) {
	b := &w.breaker
	to := b.record(&s.opts.Breaker, v, trial, now)
	if to == b.state {
		return
	}
	switch {
	case b.state == BreakerClosed && !s.mayLeave(w, true):
		s.spare(w, now)
	default:
		if to == BreakerClosed {
			s.slowDown(w)
		}
		s.moveBreaker(w, to)
	}
}

// moveBreaker changes the state of a worker's breaker.
func (s *state) moveBreaker(w *worker, to BreakerState) {
	e := Event{Kind: BreakerMoved, URL: w.spec.URL, Detail: to.String(), Load: w.load()}
	w.breaker.explain(&e, to)
	w.breaker.move(to)
	s.disturb(w)
	s.emit(e)
}

// noteIdle tells those who wait for the last lease to end.
func (s *state) noteIdle() {
	if s.live > 0 {
		return
	}
	for _, idle := range s.draining {
		if idle != nil {
			close(idle)
		}
	}
	clear(s.draining) // who drains stays noted: nothing is granted any more
}

func (s *state) emit(e Event) {
	select {
	case s.events <- e:
	default:
		s.eventsDropped++
	}
}

func (s *state) finishSession(session []byte) bool {
	found := false
	for r, acting := range s.policies {
		s.everyPolicy(Role(r), func(p policy.Policy) {
			if k, ok := p.(policy.SessionKeeper); ok && k.FinishSession(session) && p == acting {
				found = true
			}
		})
	}
	return found
}
