package actors

import (
	"time"

	"loadstar/actors/learn"
	"loadstar/prefixtree"
)

// kind says which fields of a message are meaningful.
type kind uint8

const (
	kindAcquire kind = iota
	kindPair
	kindBegin
	kindReturn
	kindReturnUnjudged
	kindJudge
	kindFirstByte
	kindProgress
	kindPin
	kindLeave
	kindDismiss
	kindTick
	kindControl
)

// message is all a Registry understands. The kinds that run per request are
// plain fields, so sending one allocates nothing; the rest hide behind control.
type message struct {
	kind    kind
	cause   Cause           // kindReturn, kindReturnUnjudged, kindJudge
	now     int64           // as cause, and kindFirstByte, kindProgress, kindDismiss, kindTick: monotonic nanoseconds
	ticket  ticket          // kindReturn, kindReturnUnjudged, kindJudge, kindBegin, kindFirstByte, kindProgress, kindPin; kindLeave: of the wait; kindDismiss: of the admission
	pin     uint64          // kindPin
	request *Request        // kindAcquire, kindPair, kindBegin; lent until its last reply is sent or the loop has ended
	reply   chan<- struct{} // that of the request
	control control         // kindControl
}

// A control is a rare message. It runs on the loop's goroutine.
type control interface{ apply(s *state) }

// ticket names one live lease, admission or wait. The loop bumps gen when that
// ends, so a ticket works once, however many copies of it there are. The zero
// ticket names none, for gen starts at 1.
type ticket struct {
	gen  uint64
	slot uint32
}

// lease is how a learner knows it.
func (t ticket) lease() learn.Lease { return learn.Lease{Gen: t.gen, Slot: t.slot} }

// grant answers those kinds. It lies in the Request, which the loop may write
// until it has sent the reply.
type grant struct {
	ticket   ticket
	worker   WorkerID
	url      string
	rank     int
	handle   any
	decision Decision
	err      error
}

type addWorkers struct {
	specs []Spec
	reply chan<- addReply
}

type addReply struct {
	ids []WorkerID
	err error
}

func (m addWorkers) apply(s *state) {
	ids, err := s.add(m.specs)
	m.reply <- addReply{ids, err}
}

type setRoles struct {
	url   string
	roles Roles
	reply chan<- error
}

func (m setRoles) apply(s *state) { m.reply <- s.setRoles(m.url, m.roles) }

type amendWorkers struct {
	specs []Spec
	reply chan<- error
}

func (m amendWorkers) apply(s *state) { m.reply <- s.amend(m.specs) }

type removeWorkers struct {
	url   string
	reply chan<- removeReply
}

type removeReply struct {
	removed []Removed
	err     error
}

func (m removeWorkers) apply(s *state) {
	removed, err := s.remove(m.url)
	m.reply <- removeReply{removed, err}
}

// healthReport is the result of one check of everything at one base URL.
type healthReport struct {
	base   string
	reason string // empty: the check went well
	reply  chan<- bool
}

func (m healthReport) apply(s *state) { m.reply <- s.reportHealth(m.base, m.reason) }

type snapshotRequest struct {
	into  []WorkerView // memory to use; its contents mean nothing
	now   int64
	reply chan<- Snapshot
}

func (m snapshotRequest) apply(s *state) { m.reply <- s.snapshot(m.into[:0], m.now) }

type healthRequest struct {
	now   int64
	reply chan<- FleetHealth
}

func (m healthRequest) apply(s *state) { m.reply <- s.fleetHealth(m.now) }

type leasesRequest struct {
	now   int64
	reply chan<- []LeaseView
}

func (m leasesRequest) apply(s *state) { m.reply <- s.leases(m.now) }

type finishSession struct {
	session []byte
	reply   chan<- bool
}

func (m finishSession) apply(s *state) { m.reply <- s.finishSession(m.session) }

// drain refuses new leases from here on and closes idle once none is live.
type drain struct{ idle chan<- struct{} }

func (m drain) apply(s *state) {
	s.draining = append(s.draining, m.idle)
	s.startAll()
	s.closeRoom()
	s.noteIdle()
}

// halt ends the loop, whatever is live.
type halt struct{ left chan<- int }

func (m halt) apply(s *state) {
	s.halted = true
	s.closeRoom()
	m.left <- s.live
}

// Request is what a handler asks the registry for. Its owner may reuse it once
// Acquire has returned, and keeps its slices unchanged until then. Now moves on
// while the request waits.
type Request struct {
	Role    Role       // for Acquire
	Model   []byte     // model asked for; empty when none is
	Key     []uint64   // chained block hashes of the prompt
	Head    uint64     // hash of the prompt's first blocks; ties are broken with it
	Tokens  []uint64   // chained hashes of the prompt's blocks of tokens, for Exact; empty when its tokens aren't known
	Session []byte     // session key; empty when there is none
	Pin     uint64     // names what only one worker holds; 0 when nothing
	Now     int64      // monotonic nanoseconds
	Exclude []WorkerID // workers that failed this request; taken only when no other may serve it
	Whole   bool       // for Acquire: the worker does all of the request, whatever its role
	Beside  bool       // a regular worker may do all of the request where nobody may serve it otherwise
	Short   int        // for AcquirePair: a decode worker that lacks fewer blocks does the whole
	Movable bool       // for Begin: another decode worker may be taken
	Retry   bool       // a worker has seen an earlier attempt of this request
	Stream  bool       // the answer is a stream, of which FirstByte tells

	TokenBlocks float64 // length of the prompt in blocks of tokens, where there are Tokens

	Affinity []byte // what kv_aware keeps the session by where it decodes; empty when it keeps none

	Class     uint8        // 0 to Classes-1; of those who wait the highest goes first
	Tenant    uint64       // names who shares fairly with others of a class; 0 is one of them
	Deadline  int64        // when the answer must have begun, in the time of Now; 0: whenever
	Own       bool         // the router's own: under no admission, and it never waits
	Explain   *Explanation // filled in with each choice, for who wants to know; lent as the request is
	Admission Admission    // filled in with the first lease, where there are limits; a retry with it is not admitted again

	hits   []prefixtree.Hit // filled by the tree
	exact  ExactQuery       // empty unless Exact is asked
	own    int              // 1 + the worker at which it has a reservation; 0 for none
	grant  grant
	second grant         // of the decode worker, for AcquirePair
	reply  chan struct{} // capacity two; answered once per call, and once more if the first answer is to wait

	// Of the waiting room. queued and turn are the loop's until the first reply,
	// as everything else here is until the last.
	queued     bool   // the answer is still to come
	turn       ticket // of the wait
	pass       ticket // of an admission that was granted
	retryAfter int
	waited     int64
	left       bool  // the client left meanwhile; the handler's
	placed     grant // what was granted when it was parked at once; for the handler to look at while it waits
	learnt     bool  // the tree has been told of placed; the handler's
	charged    bool  // scratch of the loop
	parked     bool  // likewise: what was granted is parked
	starts     Phase // likewise: and this is what it starts with
	also       also  // scratch of the loop
	strict     bool  // likewise: those that failed are not taken, whoever is left

	served Role // in which the worker serves the request
}

// Served is the role in which the worker of the last lease serves the request: that of
// a decode worker for a pair, and Regular for what was Beside those of its role.
func (q *Request) Served() Role { return q.served }

// also is a lease that a worker is to be taken to have, or not to have.
type also struct {
	worker WorkerID
	leases int
}

// RetryAfter is when it is worth trying again, in seconds, after a refusal for
// want of room; 0 after any other.
func (q *Request) RetryAfter() int { return q.retryAfter }

// sooner is a time, or the deadline if there is one that comes first.
func (q *Request) sooner(at int64) int64 {
	if q.Deadline != 0 {
		return min(at, q.Deadline)
	}
	return at
}

// Waited is how long the last call has waited for room.
func (q *Request) Waited() time.Duration { return time.Duration(q.waited) }

// ClientLeft reports whether the client's channel told that it left during the
// last call, whatever that returned.
func (q *Request) ClientLeft() bool { return q.left }

// ready makes q fit to be sent. The answer that stands there from the outset is
// that of a loop which has ended and may no longer touch q.
func (q *Request) ready() {
	if q.reply == nil {
		q.reply = make(chan struct{}, 2)
	}
	q.grant.err = ErrStopped
	q.queued, q.left, q.pass, q.retryAfter, q.waited = false, false, ticket{}, 0, 0
	q.second.ticket, q.placed.ticket, q.learnt, q.charged, q.parked = ticket{}, ticket{}, false, false, false
}
