package actors

import (
	"errors"
	"fmt"
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

	asked      policy.Request     // scratch of acquire: a local one would be allocated, as a policy is an interface
	candidates []policy.Candidate // scratch of acquire
	matched    []uint32           // scratch of acquire, by worker: blocks known to be cached there
}

// worker is one entry of the fleet, or a removed one with leases still live.
type worker struct {
	spec   Spec
	hash   uint64 // of the URL, for rendezvous
	member bool
	used   bool   // the entry names a worker
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
	s.gather(r, true)
	if len(s.candidates) == 0 && len(r.Exclude) > 0 {
		s.gather(r, false)
	}
	if len(s.candidates) == 0 {
		r.grant.err = ErrNoWorker
		return
	}
	var choice policy.Choice
	if i := s.pinned(r.Pin); i >= 0 {
		choice = policy.Choice{Index: i, Reason: policy.Pinned}
	} else {
		s.asked = policy.Request{Key: r.Head, Blocks: len(r.Key), Session: r.Session, Retry: len(r.Exclude) > 0, Now: r.Now}
		choice = s.policies[r.Role].Choose(&s.asked, s.candidates)
	}
	c := &s.candidates[choice.Index]
	id := WorkerID(c.ID)
	w := &s.workers[id]
	r.grant = grant{
		ticket: s.grant(id, phaseOf[r.Role], max(0, len(r.Key)-c.Match), r.Now),
		worker: id,
		url:    w.spec.URL,
		rank:   w.spec.Rank,
		handle: w.spec.Handle,
		decision: Decision{
			Reason:     choice.Reason,
			Match:      c.Match,
			Blocks:     len(r.Key),
			MaxLoad:    choice.MaxLoad,
			MinLoad:    choice.MinLoad,
			Imbalanced: choice.Imbalanced,
			Candidates: len(s.candidates),
		},
	}
}

var phaseOf = [numRoles]Phase{Regular: Plain, Prefill: Prefilling, Decode: Decoding}

// gather fills candidates with the workers that may serve r, by rising ID.
func (s *state) gather(r *Request, obeyExclude bool) {
	for _, h := range r.hits {
		if int(h.Worker) < len(s.matched) {
			s.matched[h.Worker] = h.Blocks
		}
	}
	onlyModel := len(s.models) > 0 && s.models[string(r.Model)] > 0
	s.candidates = s.candidates[:0]
	for i := range s.workers {
		w := &s.workers[i]
		if !w.member || !w.health.healthy || w.spec.Role != r.Role ||
			onlyModel && w.spec.Model != string(r.Model) ||
			obeyExclude && excluded(r.Exclude, WorkerID(i)) ||
			!w.breaker.permits(&s.opts.Breaker, r.Now) {
			continue
		}
		s.candidates = append(s.candidates, policy.Candidate{
			ID: uint32(i), Hash: w.hash, URL: w.spec.URL,
			Load: w.load(), Pending: w.pending, Match: int(s.matched[i]), Cost: w.spec.Cost,
		})
	}
	for _, h := range r.hits {
		if int(h.Worker) < len(s.matched) {
			s.matched[h.Worker] = 0
		}
	}
}

func excluded(ids []WorkerID, id WorkerID) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// grant makes one more lease live at a worker. It, advance and giveBack are the
// only places that write a counter of load.
func (s *state) grant(id WorkerID, p Phase, pending int, now int64) ticket {
	w := &s.workers[id]
	w.inPhase[p]++
	w.pending += pending
	w.granted++
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
	s.live--
	s.returned++
	if w.member && sl.epoch == w.epoch {
		if sl.trial {
			w.breaker.trials--
		}
		if w.breaker.record(&s.opts.Breaker, c.verdict(), now) {
			s.emit(Event{Kind: BreakerMoved, URL: w.spec.URL, Detail: w.breaker.state.String(), Load: w.load()})
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
		s.workers[sl.worker].pending -= sl.pending
		sl.pending = 0
	}
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

// add makes members of specs, all or none. A worker that was removed and still
// has leases gets its membership back with those leases counted.
func (s *state) add(specs []Spec) ([]WorkerID, error) {
	named := make(map[string]bool, len(specs))
	for i := range specs {
		url := specs[i].URL
		if id, ok := s.byURL[url]; ok && s.workers[id].member || named[url] {
			return nil, fmt.Errorf("%w: %s", ErrDuplicate, url)
		}
		named[url] = true
	}
	if s.members+len(specs) > s.opts.MaxWorkers {
		return nil, fmt.Errorf("%w (%d)", ErrTooMany, s.opts.MaxWorkers)
	}
	ids := make([]WorkerID, len(specs))
	for i := range specs {
		ids[i] = s.enlist(specs[i])
	}
	s.membershipChanged()
	return ids, nil
}

// enlist enters one worker. Health and breaker begin anew, for what answers at
// this address may be another process; its live leases stay as they are.
func (s *state) enlist(spec Spec) WorkerID {
	if spec.Cost <= 0 {
		spec.Cost = 1
	}
	if spec.Model == "" {
		spec.Model = AnyModel
	}
	id, known := s.byURL[spec.URL]
	switch {
	case known:
	case len(s.freeIDs) > 0:
		id = s.freeIDs[len(s.freeIDs)-1]
		s.freeIDs = s.freeIDs[:len(s.freeIDs)-1]
		s.workers[id] = worker{}
	default:
		id = WorkerID(len(s.workers))
		s.workers = append(s.workers, worker{})
		s.matched = append(s.matched, 0)
	}
	w := &s.workers[id]
	w.spec, w.hash = spec, policy.Hash(spec.URL)
	w.member, w.used = true, true
	s.epochs++ // never that of another worker that had this number
	w.epoch = s.epochs
	w.health, w.breaker = health{reason: "not checked yet"}, breaker{}
	s.byURL[spec.URL] = id
	s.byBase[spec.Base] = append(s.byBase[spec.Base], id)
	if spec.Model != AnyModel {
		s.models[spec.Model]++
	}
	s.members++
	s.emit(Event{Kind: WorkerAdded, URL: spec.URL, Load: w.load()})
	return id
}

// remove ends the membership of the worker with this URL, or of all ranks when
// it is the base URL of data-parallel ranks.
func (s *state) remove(url string) ([]Removed, error) {
	ids := make([]WorkerID, 0, 1)
	if id, ok := s.byURL[url]; ok && s.workers[id].member {
		ids = append(ids, id)
	} else {
		ids = append(ids, s.byBase[url]...)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnknownWorker, url)
	}
	removed := make([]Removed, len(ids))
	for i, id := range ids {
		w := &s.workers[id]
		removed[i] = Removed{ID: id, URL: w.spec.URL, Base: w.spec.Base, Handle: w.spec.Handle, Leases: w.leases()}
		s.discharge(id)
	}
	s.membershipChanged()
	return removed, nil
}

// discharge ends one worker's membership. Its entry goes when it is idle too.
func (s *state) discharge(id WorkerID) {
	w := &s.workers[id]
	w.member = false
	base := w.spec.Base
	left := s.byBase[base][:0]
	for _, x := range s.byBase[base] {
		if x != id {
			left = append(left, x)
		}
	}
	if len(left) > 0 {
		s.byBase[base] = left
	} else {
		delete(s.byBase, base)
	}
	if m := w.spec.Model; m != AnyModel {
		if s.models[m]--; s.models[m] == 0 {
			delete(s.models, m)
		}
	}
	s.members--
	s.emit(Event{Kind: WorkerRemoved, URL: w.spec.URL, Load: w.load()})
	if w.leases() == 0 {
		s.retire(id)
	}
}

// retire forgets a worker that is removed and idle.
func (s *state) retire(id WorkerID) {
	w := &s.workers[id]
	s.emit(Event{Kind: WorkerRetired, URL: w.spec.URL})
	delete(s.byURL, w.spec.URL)
	s.workers[id] = worker{}
	s.freeIDs = append(s.freeIDs, id)
}

// membershipChanged tells the policies that keep something about members.
func (s *state) membershipChanged() {
	for r := range s.policies {
		k, ok := s.policies[r].(policy.MemberKeeper)
		if !ok {
			continue
		}
		var ms []policy.Member
		for i := range s.workers {
			if w := &s.workers[i]; w.member && w.spec.Role == Role(r) {
				ms = append(ms, policy.Member{ID: uint32(i), URL: w.spec.URL})
			}
		}
		k.SetMembers(ms)
	}
}

// reportHealth takes the result of a check of everything at base, and reports
// whether that is healthy now.
func (s *state) reportHealth(base, reason string) bool {
	healthy := false
	for _, id := range s.byBase[base] {
		w := &s.workers[id]
		if w.health.report(&s.opts.Health, reason) {
			k := WorkerHealthy
			if !w.health.healthy {
				k = WorkerUnhealthy
			}
			s.emit(Event{Kind: k, URL: w.spec.URL, Detail: reason, Load: w.load()})
		}
		healthy = healthy || w.health.healthy
	}
	return healthy
}
