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
	ReturnRefused // a lease was returned twice: a bug
)

// Event is a fact worth logging. The registry offers events to one bounded
// channel and drops, and counts, those that find it full.
type Event struct {
	Kind   EventKind
	URL    string
	Detail string // the reason of a health change, the new state of a breaker, what was refused
	Load   int    // live leases of the worker at that moment
}

// eventsSize is how many events may wait to be logged. A flood of them means a
// fleet in trouble; the metrics still tell it all.
const eventsSize = 256
