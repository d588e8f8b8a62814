package actors

import (
	"errors"

	"loadstar/actors/policy"
)

// Errors of Acquire, Add and Remove.
var (
	ErrStopped       = errors.New("the router is shutting down")
	ErrNoWorker      = errors.New("no worker is available")
	ErrUnknownWorker = errors.New("no such worker")
	ErrDuplicate     = errors.New("the worker is in the fleet already")
	ErrTooMany       = errors.New("the fleet has as many workers as it may have")
)

// Phase says in which part of a request's life a lease stands.
type Phase uint8

// Phases. All but Reserved are running load.
const (
	Plain      Phase = iota // a whole request at a regular worker
	Reserved                // chosen for decode, prefill still running elsewhere
	Prefilling              // the prefill part of a request
	Decoding                // the decode part of a request
	numPhases
)

var phaseNames = [numPhases]string{"plain", "reserved", "prefill", "decode"}

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
	models   map[string]int // members per model other than AnyModel
	members  int
	epochs   uint32 // memberships begun
	policies [numRoles]policy.Policy
	pools    [numRoles]pool
	pins     pins

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
	gathered []policy.Candidate // scratch of gather
}

// worker is one entry of the fleet, or a removed one with leases still live.
type worker struct {
	spec   Spec
	hash   uint64 // of the URL, for rendezvous
	member bool
	used   bool   // the entry names a worker
	place  int    // in its role's pool, or unplaced
	epoch  uint32 // which membership this is, of all there were; what an earlier one did teaches the breaker nothing

	health   health
	breaker  breaker
	inPhase  [numPhases]int // live leases; written by grant, advance and giveBack and by nothing else
	pending  int            // blocks of prompt granted and not yet prefilled
	granted  uint64
	outcomes [numCauses]uint64
}

// load is what runs at the worker: every live lease but those reserved.
func (w *worker) load() int {
	return w.inPhase[Plain] + w.inPhase[Prefilling] + w.inPhase[Decoding]
}

// leases is how many leases are live at the worker.
func (w *worker) leases() int { return w.load() + w.inPhase[Reserved] }

// slot is the registry's memory of one live lease.
type slot struct {
	gen     uint64
	since   int64 // when it was granted
	worker  WorkerID
	pending int    // its share of the worker's pending blocks
	epoch   uint32 // the worker's when it was granted
	phase   Phase
	live    bool
	trial   bool // granted while the breaker was half open
}

func newState(o Options, events chan<- Event) (*state, error) {
	s := &state{
		opts:   o,
		byURL:  make(map[string]WorkerID),
		byBase: make(map[string][]WorkerID),
		models: make(map[string]int),
		events: events,
	}
	for r := range s.policies {
		p, err := policy.New(o.Policy[r], o.PolicyOptions)
		if err != nil {
			return nil, err
		}
		s.policies[r] = p
	}
	return s, nil
}

// acquire answers a request: it chooses among the workers that may serve it and
// grants a lease there.
func (s *state) acquire(r *Request) {
	r.grant = grant{}
	if len(s.draining) > 0 {
		r.grant.err = ErrStopped
		return
	}
	if r.Role >= numRoles {
		r.grant.err = ErrNoWorker
		return
	}
	candidates := s.candidates(r)
	if len(candidates) == 0 {
		r.grant.err = ErrNoWorker
		return
	}
	var choice policy.Choice
	if i := s.pinned(r.Pin, candidates); i >= 0 {
		choice = policy.Choice{Index: i, Reason: policy.Pinned}
	} else {
		s.asked = policy.Request{Key: r.Head, Blocks: len(r.Key), Session: r.Session, Retry: len(r.Exclude) > 0, Now: r.Now}
		choice = s.policies[r.Role].Choose(&s.asked, candidates)
	}
	id, match := WorkerID(candidates[choice.Index].ID), candidates[choice.Index].Match
	unmark(r, candidates)
	w := &s.workers[id]
	r.grant = grant{
		ticket: s.grant(id, phaseOf[r.Role], len(r.Key)-match, r.Now),
		worker: id,
		url:    w.spec.URL,
		rank:   w.spec.Rank,
		handle: w.spec.Handle,
		decision: Decision{
			Reason:     choice.Reason,
			Match:      match,
			Blocks:     len(r.Key),
			MaxLoad:    choice.MaxLoad,
			MinLoad:    choice.MinLoad,
			Imbalanced: choice.Imbalanced,
			Candidates: len(candidates),
		},
	}
}

var phaseOf = [numRoles]Phase{Regular: Plain, Prefill: Prefilling, Decode: Decoding}

// grant makes one more lease live at a worker. It, advance and giveBack are the
// only places that write a counter of load.
func (s *state) grant(id WorkerID, p Phase, pending int, now int64) ticket {
	w := &s.workers[id]
	w.inPhase[p]++
	w.pending += pending
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
	*sl = slot{gen: sl.gen, since: now, worker: id, pending: pending, epoch: w.epoch, phase: p, live: true, trial: trial}
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

// advance moves a lease from Reserved to Decoding. It reports false when t is
// spent or isn't reserved.
func (s *state) advance(t ticket) bool {
	sl := s.find(t)
	if sl == nil || sl.phase != Reserved {
		return false
	}
	w := &s.workers[sl.worker]
	w.inPhase[Reserved]--
	w.inPhase[Decoding]++
	s.recount(w)
	sl.phase = Decoding
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
		s.refused++
		s.emit(Event{Kind: ReturnRefused, Detail: c.String()})
		return
	}
	id, w := sl.worker, &s.workers[sl.worker]
	w.inPhase[sl.phase]--
	w.pending -= sl.pending
	w.outcomes[c]++
	s.recount(w)
	s.live--
	s.returned++
	if w.member && sl.epoch == w.epoch {
		if sl.trial {
			w.breaker.trials--
		}
		if to := w.breaker.record(&s.opts.Breaker, c.verdict(), sl.trial, now); to != w.breaker.state {
			s.moveBreaker(w, to)
		}
	}
	sl.gen++
	sl.live = false
	s.freeSlots = append(s.freeSlots, t.slot)
	if !w.member && w.leases() == 0 {
		s.retire(id)
	}
	s.noteIdle()
}

// firstByte ends a lease's share of the worker's pending prompt work: the
// answer has begun, so the prompt is prefilled.
func (s *state) firstByte(t ticket) {
	if sl := s.find(t); sl != nil {
		w := &s.workers[sl.worker]
		w.pending -= sl.pending
		sl.pending = 0
		s.recount(w)
	}
}

// moveBreaker changes the state of a worker's breaker.
func (s *state) moveBreaker(w *worker, to BreakerState) {
	w.breaker.move(to)
	s.pools[w.spec.Role].stale = true
	s.emit(Event{Kind: BreakerMoved, URL: w.spec.URL, Detail: to.String(), Load: w.load()})
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
	for _, p := range s.policies {
		if k, ok := p.(policy.SessionKeeper); ok && k.FinishSession(session) {
			found = true
		}
	}
	return found
}
