package proxytest

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxRecords     = 1 << 16   // exchanges kept for Seen
	maxRecordBytes = 512 << 20 // bytes of their bodies
	maxPaths       = 4096      // paths counted apart
)

// Counts is what a worker has counted, all at one instant.
type Counts struct {
	Requests        int // heads arrived, health checks apart
	HealthChecks    int // GET /health
	InFlight        int // see the package comment
	MaxInFlight     int
	Connections     int // accepted so far
	OpenConnections int // accepted and ended by neither side
}

// books are what a worker counts. mu also guards the queues of its connections
// and the state of its exchanges.
type books struct {
	mu      sync.Mutex
	counts  Counts
	byPath  map[string]int
	seen    []*Exchange
	bytes   int // of the bodies of seen
	waiters map[*waiter]struct{}

	start time.Time
	quiet atomic.Int64 // nanoseconds from start to the last event on a socket
}

// A waiter is woken at the first change after which cond holds, however short
// the instant for which it does.
type waiter struct {
	cond func(Counts) bool
	met  chan struct{}
}

func newBooks() *books {
	return &books{byPath: map[string]int{}, waiters: map[*waiter]struct{}{}, start: time.Now()}
}

// touch notes that something happened on a socket.
func (b *books) touch() { b.quiet.Store(int64(time.Since(b.start))) }

func (b *books) quietSince() time.Time { return b.start.Add(time.Duration(b.quiet.Load())) }

// changed wakes whom the counts satisfy. The caller holds mu and has just
// changed a count.
func (b *books) changed() {
	b.counts.MaxInFlight = max(b.counts.MaxInFlight, b.counts.InFlight)
	for w := range b.waiters {
		if w.cond(b.counts) {
			delete(b.waiters, w)
			close(w.met)
		}
	}
}

// arrived counts a request whose head has come; one whose outcome is known
// already does not go in flight. The caller holds mu.
func (b *books) arrived(x *Exchange) {
	if x.health {
		b.counts.HealthChecks++
		b.changed()
		return
	}
	b.counts.Requests++
	if x.outcome == InFlight {
		b.counts.InFlight++
	}
	path := x.Path()
	if _, known := b.byPath[path]; known || len(b.byPath) < maxPaths {
		b.byPath[path]++
	}
	b.seen = append(b.seen, x)
	b.trim()
	b.changed()
}

// trim drops the oldest records until the rest fits. The caller holds mu.
func (b *books) trim() {
	for len(b.seen) > 1 && (len(b.seen) > maxRecords || b.bytes > maxRecordBytes) {
		x := b.seen[0]
		b.bytes -= len(x.body)
		x.dropped = true
		b.seen[0] = nil
		b.seen = b.seen[1:]
	}
}

// forgetEnded drops the records of requests out of flight whose bodies are
// accounted for. The caller holds mu.
func (b *books) forgetEnded() {
	kept := b.seen[:0]
	for _, x := range b.seen {
		if x.outcome == InFlight || !x.bodyOver {
			kept = append(kept, x)
			continue
		}
		b.bytes -= len(x.body)
		x.dropped = true
	}
	clear(b.seen[len(kept):])
	b.seen = kept
}

// bodyKept accounts for the body of x, which has just been set. The caller holds mu.
func (b *books) bodyKept(x *Exchange) {
	if !x.health && !x.dropped {
		b.bytes += len(x.body)
		b.trim()
	}
}

// end takes x out of flight, once. The caller holds mu.
func (b *books) end(x *Exchange, how Outcome, at time.Time) {
	if x.outcome != InFlight {
		return
	}
	x.outcome, x.endedAt = how, at
	if !x.health {
		b.counts.InFlight--
		b.changed()
	}
}

func (b *books) snapshot() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// wait waits until cond holds, at most timeout, and says whether it did.
func (b *books) wait(cond func(Counts) bool, timeout time.Duration) bool {
	w := &waiter{cond: cond, met: make(chan struct{})}
	b.mu.Lock()
	if cond(b.counts) {
		b.mu.Unlock()
		return true
	}
	b.waiters[w] = struct{}{}
	b.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.met:
		return true
	case <-timer.C:
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiters, w)
		return cond(b.counts)
	}
}
