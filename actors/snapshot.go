package actors

import (
	"slices"
	"time"

	"loadstar/actors/policy"
)

// Decision is how a policy came to its choice, for logs and explanations.
type Decision struct {
	Reason     policy.Reason
	Match      int // leading blocks of the prompt thought to be cached at the chosen worker
	Blocks     int // length of the prompt in blocks
	MaxLoad    int
	MinLoad    int
	Imbalanced bool
	Candidates int // workers that might have served the request
	Best       int // leading blocks thought to be cached at the worker that has most of them; see Router
}

// Snapshot is the registry's state at one instant.
type Snapshot struct {
	Workers       []WorkerView // members, and removed workers with leases still live
	Live          int          // leases granted and not yet returned
	Granted       uint64       // since the start
	Returned      uint64
	Refused       uint64 // returns of a lease that had ended before
	OldestLease   time.Duration
	Sessions      int // entries of the policies' session tables
	EventsDropped uint64
	Draining      bool
	RetryTokens   float64 // retries that the budget allows at this instant; without meaning when there is none
	RetryRefused  uint64  // for want of a token, since the start
	Room          RoomView
	Shadows       []ShadowView // nil without shadow policies
}

// RoomView is the limits' side of a Snapshot. Without limits it is all zero, but for
// what is parked.
type RoomView struct {
	Admitted   int    // admissions granted and not yet ended
	Admissions uint64 // since the start
	Dismissed  uint64
	Waiting    [Classes]int // by class
	OldestWait time.Duration
	Waits      uint64 // requests that had to wait for room, since the start
	Parked     int    // requests whose worker is chosen and has enough to do
	Parks      uint64 // since the start
	Refusals   [numRefusals]uint64
}

// WorkerView is one worker in a Snapshot.
type WorkerView struct {
	Spec
	ID       WorkerID
	Serves   []string // models that it serves, not to be written; nil for any, or if it is no member
	Member   bool     // false: removed, with leases still live
	Healthy  bool
	Proven   bool   // was healthy at least once
	Reason   string // of the last bad check, or "wedged"
	Wedged   bool   // holds requests, or held some, and gives no sign of life
	Slow     bool   // has come back, and gets few requests for a while
	Breaker  BreakerState
	Moves    [numBreakerStates][numBreakerStates]uint64 // breaker transitions, from and to
	CBGood   uint64                                     // outcomes the breaker took as successes
	CBBad    uint64
	CBSpared uint64 // times it stayed closed, or was closed, for too many were out
	Draining bool   // gets no further requests, and is removed with its last lease
	Load     int    // live leases but for those reserved and parked
	Foreign  int    // what other processes run there; no part of Load
	InPhase  [numPhases]int
	Pending  int     // blocks of prompt granted and not yet prefilled
	Held     int     // blocks of prompt of the leases that decode, or are reserved to
	Speed    float64 // blocks of prompt that it prefills in a second; 0 if that isn't known
	Granted  uint64
	Outcomes [numCauses]uint64

	ForeignPending int // blocks of prompt that other processes have pending there; no part of Pending
}

// Usable reports whether the worker would be given a request.
func (v *WorkerView) Usable() bool {
	return v.Member && v.Healthy && !v.Draining && v.Breaker != BreakerOpen && !v.Wedged
}

// LeaseView is one live lease, for debugging.
type LeaseView struct {
	URL   string
	Phase Phase
	Age   time.Duration
}

// FleetHealth says how much of the fleet may serve requests. A member with two
// roles counts in both.
type FleetHealth struct {
	Usable   [numRoles]int // members that would be given a request, by role
	Members  [numRoles]int
	Unusable []string // URLs of members that would not, but for those that drain
	Draining int      // members that drain
}

// Serves reports whether some member may be given a request in each of roles.
func (h *FleetHealth) Serves(roles ...Role) bool {
	for _, r := range roles {
		if h.Usable[r] == 0 {
			return false
		}
	}
	return true
}

func (s *state) fleetHealth(now int64) FleetHealth {
	var h FleetHealth
	for i := range s.workers {
		w := &s.workers[i]
		if !w.member {
			continue
		}
		usable := s.usable(w, now)
		switch {
		case w.emptying.on():
			h.Draining++
		case !usable:
			h.Unusable = append(h.Unusable, w.spec.URL)
		}
		for r := range numRoles {
			if w.spec.Roles.Has(r) {
				h.Members[r]++
				if usable {
					h.Usable[r]++
				}
			}
		}
	}
	return h
}

// usable reports whether a member would be given a request.
func (s *state) usable(w *worker, now int64) bool {
	return w.health.healthy && !w.life.wedged && !w.emptying.on() &&
		(w.breaker.state != BreakerOpen || w.breaker.due(&s.opts.Breaker, now))
}

func (s *state) snapshot(into []WorkerView, now int64) Snapshot {
	if now >= s.lapseAt {
		s.lapse(now)
	}
	v := Snapshot{
		Live: s.live, Granted: s.granted, Returned: s.returned, Refused: s.refused,
		EventsDropped: s.eventsDropped, Draining: len(s.draining) > 0,
		RetryTokens: s.budget.left(now), RetryRefused: s.budget.refused,
		Workers: slices.Grow(into, len(s.workers)-len(s.freeIDs)),
	}
	for i := range s.workers {
		w := &s.workers[i]
		if !w.used {
			continue
		}
		v.Workers = append(v.Workers, s.workerView(WorkerID(i), now))
	}
	for i := range s.slots {
		if sl := &s.slots[i]; sl.live {
			v.OldestLease = max(v.OldestLease, time.Duration(now-sl.since))
		}
	}
	v.Room, v.Shadows = s.room.view(now), s.shadowViews()
	for _, p := range s.policies {
		if k, ok := p.(policy.SessionKeeper); ok {
			v.Sessions += k.Sessions()
		}
	}
	return v
}

func (s *state) workerView(id WorkerID, now int64) WorkerView {
	w := &s.workers[id]
	breaker := w.breaker.state
	if w.breaker.due(&s.opts.Breaker, now) {
		breaker = BreakerHalfOpen // so the next request will find it
	}
	reason := w.health.reason
	if w.life.wedged {
		reason = "wedged"
	}
	return WorkerView{
		Spec: w.spec, ID: id, Serves: w.serves, Member: w.member,
		Healthy: w.health.healthy, Proven: w.health.proven, Reason: reason,
		Wedged: w.life.wedged, Slow: w.ramp.on, CBSpared: w.breaker.spared,
		Breaker: breaker, Moves: w.breaker.moves, CBGood: w.breaker.outcomes[0], CBBad: w.breaker.outcomes[1],
		Draining: w.emptying.on(), Foreign: w.foreign, ForeignPending: w.foreignPending,
		Load: w.load(), InPhase: w.inPhase, Pending: w.pending, Held: w.held,
		Speed: w.speed.rate() * float64(time.Second), Granted: w.granted, Outcomes: w.outcomes,
	}
}

func (m *room) view(now int64) RoomView {
	v := RoomView{
		Admitted: m.admitted, Admissions: m.admissions, Dismissed: m.dismissed,
		Waiting: m.queue.waiting, Waits: m.waits, Parked: m.queue.parked, Parks: m.parks, Refusals: m.refusals,
	}
	if since, ok := m.queue.oldest(); ok {
		v.OldestWait = time.Duration(max(now-since, 0))
	}
	return v
}

func (s *state) leases(now int64) []LeaseView {
	all := make([]LeaseView, 0, s.live)
	for i := range s.slots {
		if sl := &s.slots[i]; sl.live {
			all = append(all, LeaseView{s.workers[sl.worker].spec.URL, sl.phase, time.Duration(now - sl.since)})
		}
	}
	return all
}
