package actors

import "time"

// BreakerOptions configures the circuit breaker of every worker.
//
// A breaker opens after FailureThreshold failures in a row, or when Window holds
// as many failures and they are half of its outcomes or more: a worker that now
// and then succeeds is sick all the same.
type BreakerOptions struct {
	Disabled         bool
	FailureThreshold int           // failures, none older than Window, that open it
	Window           time.Duration // 0 forgets no outcome
	SuccessThreshold int           // successes that close it again; also how many trial requests run at a time
	Timeout          time.Duration // how long it stays open before trial requests are let through
	MaxOpenShare     float64       // of a role's healthy members, that may be kept out at a time; 0 stands for DefaultMaxOpenShare
}

// DefaultMaxOpenShare is the share of a role's healthy members that breakers may
// keep out at a time.
const DefaultMaxOpenShare = 0.5

// BreakerState is the state of a circuit breaker; its values are those of the
// metric vllm_router_cb_state.
type BreakerState uint8

// Breaker states.
const (
	BreakerClosed BreakerState = iota
	BreakerOpen
	BreakerHalfOpen
	numBreakerStates
)

var breakerNames = [numBreakerStates]string{"closed", "open", "half_open"}

// String returns the name that logs, metrics and the admin API use.
func (s BreakerState) String() string { return breakerNames[s] }

// breaker keeps a worker that fails request after request out of the choice.
type breaker struct {
	state     BreakerState
	failures  int   // in a row, while closed
	since     int64 // when the first of them was; monotonic nanoseconds
	recent    window
	successes int   // while half open
	trials    int   // live leases granted while half open
	openedAt  int64 // monotonic nanoseconds
	spared    uint64
	sparedAt  int64 // when that was last told of
	moves     [numBreakerStates][numBreakerStates]uint64
	outcomes  [2]uint64 // successes and failures recorded
}

// due reports whether an open breaker has been open for its time.
func (b *breaker) due(o *BreakerOptions, now int64) bool {
	return b.state == BreakerOpen && now-b.openedAt >= int64(o.Timeout)
}

// permits reports whether the worker may get a request.
func (b *breaker) permits(o *BreakerOptions) bool {
	switch b.state {
	case BreakerOpen:
		return false
	case BreakerHalfOpen:
		return b.trials < o.SuccessThreshold
	default:
		return true
	}
}

// record notes how a lease ended and returns the state that follows from it.
// While the breaker is half open only trial requests decide: what was granted
// before tells of the time before.
func (b *breaker) record(o *BreakerOptions, v verdict, trial bool, now int64) BreakerState {
	if v == neutral {
		return b.state
	}
	b.outcomes[v-good]++
	if o.Disabled {
		return b.state
	}
	switch {
	case b.state == BreakerClosed && v == good:
		b.failures = 0
		b.recent.add(v, now, int64(o.Window))
	case b.state == BreakerClosed:
		if b.failures == 0 || o.Window > 0 && now-b.since > int64(o.Window) {
			b.failures, b.since = 0, now
		}
		b.failures++
		b.recent.add(v, now, int64(o.Window))
		if b.failures >= o.FailureThreshold || b.sick(o) {
			b.openedAt = now
			return BreakerOpen
		}
	case b.state == BreakerHalfOpen && trial && v == good:
		b.successes++
		if b.successes >= o.SuccessThreshold {
			return BreakerClosed
		}
	case b.state == BreakerHalfOpen && trial:
		b.openedAt = now
		return BreakerOpen
	}
	return b.state
}

// sick reports whether the recent outcomes are too bad.
func (b *breaker) sick(o *BreakerOptions) bool {
	r := &b.recent.sum
	return int(r.bad) >= o.FailureThreshold && r.bad >= r.good
}

func (b *breaker) move(to BreakerState) {
	b.moves[b.state][to]++
	b.state = to
	b.anew()
}

// anew forgets what might move the breaker.
func (b *breaker) anew() { b.failures, b.successes, b.recent = 0, 0, window{} }

// explain notes in an event what moves the breaker.
func (b *breaker) explain(e *Event, to BreakerState) {
	e.InRow, e.Failures, e.Successes = b.failures, int(b.recent.sum.bad), int(b.recent.sum.good)
	if b.state == BreakerHalfOpen {
		e.Successes = b.successes
		if to == BreakerOpen {
			e.InRow, e.Failures = 1, 1
		}
	}
}
