package actors

// EventKind says what an Event is about.
type EventKind uint8

// Event kinds.
const (
	WorkerAdded EventKind = iota
	WorkerRemoved
	WorkerRetired // removed and idle: nothing is known of it any more
	WorkerUnready // the first check of a new worker went wrong
	WorkerHealthy
	WorkerUnhealthy
	BreakerMoved
	BreakerSpared  // too many others are out: a breaker stays closed, or closes
	WorkerWedged   // it holds requests and gives no sign of life while others do
	WorkerStirred  // a wedged worker gave one
	WorkerDraining // it gets no further requests and will be removed
	WorkerUndrained
	ReturnRefused // a lease was returned twice: a bug
)

// Event is a fact worth logging. The registry offers events to one bounded
// channel and drops, and counts, those that find it full.
type Event struct {
	Kind   EventKind
	URL    string
	Detail string // the reason of a health change, the new state of a breaker, what was refused
	Load   int    // live leases of the worker at that moment

	// What moved a breaker, or would have: outcomes within its window, or of the
	// trials if it was half open.
	InRow     int // failures since the last success
	Failures  int
	Successes int
}

// eventsSize is how many events may wait to be logged. A flood of them means a
// fleet in trouble; the metrics still tell it all.
const eventsSize = 256
