package actors

import (
	"math"
	"time"
)

// What a worker says of itself, in the head of an answer, is how many requests it
// has: this router's, those of other routers, and those of whom nobody hears but the
// worker itself. It becomes foreign load and nothing else: what the worker has beyond
// the leases that are live there as it is said.
//
// That is not added to what origins tell but compared with it, and the larger of the
// two counts: the worker's number has their requests in it. So it makes no
// difference which of them is heard first, and nothing is counted twice.
//
// A number is a guess. An engine that tells only who waits has more than it says;
// requests that are on their way make the rest seem smaller than it is, and some that
// were called off a moment ago may make it larger. So it counts for a short time,
// and is told to nobody else: the others would take their own requests for this
// router's.

const (
	saidFor    = int64(2 * time.Second)        // how long a worker's word counts, if it says nothing else
	lapseEvery = int64(100 * time.Millisecond) // how late the end of that may be noticed: the fleet is walked over for it
)

// said is what a worker has said of itself.
type said struct {
	beyond int   // requests that are none of this router's
	until  int64 // when that counts no more
}

// workerSays is the message of it.
type workerSays struct {
	worker   WorkerID
	requests int
	now      int64
}

func (m workerSays) apply(s *state) { s.believe(m.worker, m.requests, m.now) }

// WorkerSays tells how many requests a worker says it has. The caller holds a lease
// there, and has just heard it. now is as in Request. A number below zero or out of
// all proportion is nothing, and so is one that finds no room in the inbox: the next
// answer brings another.
func (r *Registry) WorkerSays(worker WorkerID, requests int, now int64) {
	r.trySend(message{kind: kindControl, control: workerSays{worker, requests, now}})
}

// believe takes a worker's word for two seconds, or until it says something else. Of
// ranks behind one server none is believed: the server speaks for all of them.
func (s *state) believe(id WorkerID, requests int, now int64) {
	if int(id) >= len(s.workers) || requests < 0 || requests > maxForeign {
		return
	}
	w := &s.workers[id]
	if !w.member || w.spec.Rank != NoRank {
		return
	}
	// Reserved leases are left out: the worker hasn't heard of those.
	before, beyond := w.said.beyond, max(0, requests-w.load())
	w.said = said{beyond, now + saidFor}
	if beyond > 0 {
		s.lapseAt = min(s.lapseAt, w.said.until)
	}
	if beyond != before {
		s.weigh(w.spec.URL)
	}
}

// lapse, which is due at lapseAt, forgets what workers have said too long ago.
func (s *state) lapse(now int64) {
	next := int64(math.MaxInt64)
	for i := range s.workers {
		w := &s.workers[i]
		switch {
		case w.said.beyond == 0:
		case w.said.until <= now:
			w.said = said{}
			s.weigh(w.spec.URL)
		default:
			next = min(next, w.said.until)
		}
	}
	s.lapseAt = max(next, now+lapseEvery)
}
