package actors

import (
	"context"
	"fmt"
	"time"

	"loadstar/actors/policy"
)

// Options configures a Registry.
type Options struct {
	Policy        [numRoles]string // name of the policy that chooses among workers of each role
	PolicyOptions policy.Options
	Shadows       []string // names of policies that are asked beside, and not obeyed; at most MaxShadows
	Health        HealthOptions
	Breaker       BreakerOptions
	Retries       RetryOptions
	SlowStart     time.Duration // for how long a worker that has come back is given few requests; 0 for not at all
	WedgedAfter   time.Duration // after which silence a worker that holds requests is wedged; 0 for never
	MaxWorkers    int           // most members at a time
	AnyForUnknown bool          // a model that nobody serves goes to any worker
	Room          RoomOptions
	Backlog       BacklogOptions
}

// BacklogOptions is what a worker is sent before it has begun to answer, where the policy
// reads pending work: further requests are parked once it has both. The zero value
// parks none.
type BacklogOptions struct {
	Blocks   int // of prompt; 0 parks none
	Requests int
	Patience time.Duration // with a worker that answers nothing, until it is sent one more
}

// Registry hands requests to workers. Its methods are safe for concurrent use:
// each sends a message to the goroutine that owns the workers and their loads.
type Registry struct {
	inbox  chan message
	done   chan struct{} // closed when the loop will grant nothing more
	events chan Event    // capacity eventsSize; the loop only tries to send
}

// NewRegistry starts a registry without workers. Call Halt to end it.
func NewRegistry(o Options) (*Registry, error) {
	r := &Registry{
		inbox:  make(chan message, inboxSize),
		done:   make(chan struct{}),
		events: make(chan Event, eventsSize),
	}
	s, err := newState(o, r.events)
	if err != nil {
		return nil, err
	}
	go r.loop(s)
	if o.Room.waits() || o.Backlog.Blocks > 0 {
		go r.tick(s.room.ticks, o.Room.Now)
	}
	return r, nil
}

// Events is where the registry tells of changes worth logging. It is never
// closed; Done says when nothing more will come.
func (r *Registry) Events() <-chan Event { return r.events }

// Done is closed when the registry has ended.
func (r *Registry) Done() <-chan struct{} { return r.done }

// Client is whom a request is for.
type Client interface {
	// Leaving is called when the request has to wait for room, by the goroutine
	// that asked. The channel gives a value, or is closed, when the client leaves.
	Leaving() <-chan struct{}
}

// Acquire is AcquireFor a client that never leaves.
func (r *Registry) Acquire(q *Request) (Lease, error) { return r.AcquireFor(q, nil) }

// AcquireFor chooses a worker and counts the caller in its load. Where there are
// limits, it also fills in q.Admission, which the caller releases when the
// request is over, and it may wait: until there is room, q's deadline, the
// longest wait or the client's leaving. A lease that was granted as the client
// left is returned. Errors: ErrNoWorker,
// ErrRetryBudget, ErrStopped, ErrQueueFull, ErrQueueTimeout, ErrDeadline,
// ErrClientLeft.
func (r *Registry) AcquireFor(q *Request, c Client) (Lease, error) {
	q.ready()
	if !r.send(message{kind: kindAcquire, request: q, reply: q.reply}) {
		return Lease{}, ErrStopped
	}
	return r.lease(r.wait(q, c))
}

// AcquirePair is AcquirePairFor a client that never leaves.
func (r *Registry) AcquirePair(q *Request) (prefill, decode Lease, err error) {
	return r.AcquirePairFor(q, nil)
}

// AcquirePairFor chooses a worker to prefill a request and one to decode it, and
// counts the caller in the load of the first; its place at the second is
// reserved until Begin. When the decode worker is to do the whole, or a regular one
// beside the pairs, the prefill lease is the zero Lease. It may wait as AcquireFor does, and then holds
// neither. Errors: ErrNoPrefill, ErrNoDecode and the others of AcquireFor.
func (r *Registry) AcquirePairFor(q *Request, c Client) (prefill, decode Lease, err error) {
	q.ready()
	if !r.send(message{kind: kindPair, request: q, reply: q.reply}) {
		return Lease{}, Lease{}, ErrStopped
	}
	return r.pair(r.wait(q, c), q)
}

func (r *Registry) pair(g grant, q *Request) (prefill, decode Lease, err error) {
	if g.err != nil {
		return Lease{}, Lease{}, g.err
	}
	if g.ticket.gen != 0 {
		prefill, _ = r.lease(g)
	}
	if q.second.ticket.gen != 0 {
		decode, _ = r.lease(q.second)
	}
	return prefill, decode, nil
}

func (r *Registry) lease(g grant) (Lease, error) {
	if g.err != nil {
		return Lease{}, g.err
	}
	return Lease{
		Worker: g.worker, URL: g.url, Rank: g.rank, Handle: g.handle, Decision: g.decision,
		ticket: g.ticket, registry: r,
	}, nil
}

// Add makes workers members of the fleet, all of them or none. They get no
// request before a check has found them healthy. Errors: ErrDuplicate,
// ErrTooMany, ErrStopped.
func (r *Registry) Add(specs []Spec) ([]WorkerID, error) {
	reply := make(chan addReply, 1)
	v, ok := ask(r, addWorkers{specs, reply}, reply)
	if !ok {
		return nil, ErrStopped
	}
	return v.ids, v.err
}

// SetRoles changes which phases the member with this URL serves. Requests
// running there go on. Errors: ErrUnknownWorker, ErrStopped.
func (r *Registry) SetRoles(url string, roles Roles) error {
	reply := make(chan error, 1)
	err, ok := ask(r, setRoles{url, roles, reply}, reply)
	if !ok {
		return ErrStopped
	}
	return err
}

// Amend changes what is said of the members with the specs' URLs, all or none: roles,
// model, priority, cost, labels and where they come from. Requests running there go
// on, and health stays as it is. Errors: ErrUnknownWorker, ErrStopped.
func (r *Registry) Amend(specs []Spec) error {
	reply := make(chan error, 1)
	err, ok := ask(r, amendWorkers{specs, reply}, reply)
	if !ok {
		return ErrStopped
	}
	return err
}

// Removed is a worker that has just lost its membership.
type Removed struct {
	ID     WorkerID
	URL    string
	Base   string
	Handle any
	Leases int // still live there; they stay counted until they end
}

// Remove ends the membership of the worker with this URL, or of all ranks at
// it. Requests running there go on. Errors: ErrUnknownWorker, ErrStopped.
func (r *Registry) Remove(url string) ([]Removed, error) {
	reply := make(chan removeReply, 1)
	v, ok := ask(r, removeWorkers{url, reply}, reply)
	if !ok {
		return nil, ErrStopped
	}
	return v.removed, v.err
}

// ReportHealth takes the result of one check of the workers at base, nil when
// it went well, and returns whether they are healthy now. It leaves the
// requests that run there, and so their load, alone.
func (r *Registry) ReportHealth(base string, result error) (healthy bool) {
	reason := ""
	if result != nil {
		reason = result.Error()
	}
	reply := make(chan bool, 1)
	healthy, _ = ask(r, healthReport{base, reason, reply}, reply)
	return healthy
}

// FinishSession ends a session that a policy keeps at one worker, and reports
// whether there was one.
func (r *Registry) FinishSession(session []byte) bool {
	reply := make(chan bool, 1)
	found, _ := ask(r, finishSession{session, reply}, reply)
	return found
}

// Snapshot returns a copy of every worker's state, taken at one instant. now is
// in monotonic nanoseconds, as in Request. Errors: ErrStopped.
func (r *Registry) Snapshot(now int64) (Snapshot, error) { return r.SnapshotInto(nil, now) }

// SnapshotInto is Snapshot into the memory of workers, if that is enough, for who
// looks at a big fleet again and again.
func (r *Registry) SnapshotInto(workers []WorkerView, now int64) (Snapshot, error) {
	reply := make(chan Snapshot, 1)
	v, ok := ask(r, snapshotRequest{workers, now, reply}, reply)
	if !ok {
		return Snapshot{}, ErrStopped
	}
	return v, nil
}

// Health says how much of the fleet may serve requests; nothing of it, once the
// registry has ended. It costs the loop less than a Snapshot.
func (r *Registry) Health(now int64) FleetHealth {
	reply := make(chan FleetHealth, 1)
	v, _ := ask(r, healthRequest{now, reply}, reply)
	return v
}

// Leases lists every live lease. Errors: ErrStopped.
func (r *Registry) Leases(now int64) ([]LeaseView, error) {
	reply := make(chan []LeaseView, 1)
	v, ok := ask(r, leasesRequest{now, reply}, reply)
	if !ok {
		return nil, ErrStopped
	}
	return v, nil
}

// Drain refuses new leases from here on and waits until none is live, or for
// ctx. It reports whether that has come about.
func (r *Registry) Drain(ctx context.Context) (idle bool) {
	done := make(chan struct{})
	if !r.send(message{kind: kindControl, control: drain{done}}) {
		return true
	}
	select {
	case <-done:
		return true
	case <-r.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Halt ends the loop, whatever is live. It returns an error if leases were.
func (r *Registry) Halt() error {
	left := make(chan int, 1)
	if !r.send(message{kind: kindControl, control: halt{left}}) {
		return nil
	}
	<-r.done
	select {
	case n := <-left:
		if n > 0 {
			return fmt.Errorf("the registry stopped with %d leases live", n)
		}
	default: // another Halt got there first
	}
	return nil
}

// Lease is one request's place at a worker. It is a value: copy it freely.
type Lease struct {
	Worker   WorkerID
	URL      string
	Rank     int // data-parallel rank, or NoRank
	Handle   any // of the worker's Spec
	Decision Decision

	ticket   ticket
	registry *Registry
}

// FirstByte says that the worker's answer has begun, at now, in monotonic
// nanoseconds; 0 for a time that isn't known. Of a stream that is a byte of its
// body: engines send the head before they look at the prompt. The zero Lease says
// nothing.
func (l *Lease) FirstByte(now int64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindFirstByte, ticket: l.ticket, now: now})
	}
}

// Progress says that the worker sends on, at now, in monotonic nanoseconds. Once
// a second is enough; see Router.NeedsProgress. The zero Lease says nothing.
func (l *Lease) Progress(now int64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindProgress, ticket: l.ticket, now: now})
	}
}

// Begin starts the decode phase of a lease that AcquirePair has reserved, and
// returns the lease to go on with: this one, or, if q is Movable and the worker
// has become unfit meanwhile, one at another worker, which this one has become.
// After an error the lease is as it was. Errors: ErrNoDecode, ErrStopped, and
// ErrLeaseEnded, which is a bug of the caller.
func (l *Lease) Begin(q *Request) (Lease, error) {
	q.ready()
	r := l.registry
	if !r.send(message{kind: kindBegin, ticket: l.ticket, request: q, reply: q.reply}) {
		return *l, ErrStopped
	}
	begun, err := r.lease(r.wait(q, nil))
	if err != nil {
		return *l, err
	}
	return begun, nil
}

// Pin says that the lease's worker holds what key names, for later requests with
// this Pin. It counts only while the lease is live. The zero Lease says nothing.
func (l *Lease) Pin(key uint64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindPin, ticket: l.ticket, pin: key})
	}
}

// Release gives the place back; now is in monotonic nanoseconds. The first call
// counts, whichever copy makes it. The registry refuses any other and counts
// the refusal, for it means that two parties think they own the lease. The zero
// Lease releases nothing.
func (l *Lease) Release(c Cause, now int64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindReturn, ticket: l.ticket, cause: c, now: now})
	}
}

// ReleaseUnjudged is Release, but the worker's breaker learns nothing of it
// unless Judge follows: whether the worker or the request is to blame is not
// known yet.
func (l *Lease) ReleaseUnjudged(c Cause, now int64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindReturnUnjudged, ticket: l.ticket, cause: c, now: now})
	}
}

// Judge has the breaker of the lease's worker learn c, after ReleaseUnjudged.
// The first call counts. It counts nothing if the worker has left the fleet
// since the lease was granted, if the lease isn't one to be judged, or if more
// than a thousand others have been released unjudged since.
func (l *Lease) Judge(c Cause, now int64) {
	if l.registry != nil {
		l.registry.send(message{kind: kindJudge, ticket: l.ticket, cause: c, now: now})
	}
}
