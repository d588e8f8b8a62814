package actors

import "time"

// BreakerOptions configures the circuit breaker of every worker.
type BreakerOptions struct {
	Disabled         bool
	FailureThreshold int           // failures in a row, none older than Window, that open it
	Window           time.Duration // 0 forgets no failure
	SuccessThreshold int           // successes that close it again; also how many trial requests run at a time
	Timeout          time.Duration // how long it stays open before trial requests are let through
}

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
	successes int   // while half open
	trials    int   // live leases granted while half open
	openedAt  int64 // monotonic nanoseconds
	moves     [numBreakerStates][numBreakerStates]uint64
	outcomes  [2]uint64 // successes and failures recorded
}

// permits reports whether the worker may get a request at time now. An open
// breaker whose time is over becomes half open here.
func (b *breaker) permits(o *BreakerOptions, now int64) bool {
	switch b.state {
	case BreakerOpen:
		if now-b.openedAt < int64(o.Timeout) {
			return false
		}
		b.move(BreakerHalfOpen)
		return true
	case BreakerHalfOpen:
		return b.trials < o.SuccessThreshold
	default:
		return true
	}
}

// record notes how a lease ended and reports whether the state changed.
func (b *breaker) record(o *BreakerOptions, v verdict, now int64) (changed bool) {
	if v == neutral {
		return false
	}
	b.outcomes[v-good]++
	if o.Disabled {
		return false
	}
	switch {
	case b.state == BreakerClosed && v == good:
		b.failures = 0
	case b.state == BreakerClosed:
		if b.failures == 0 || o.Window > 0 && now-b.since > int64(o.Window) {
			b.failures, b.since = 0, now
		}
		b.failures++
		if b.failures >= o.FailureThreshold {
			b.openedAt = now
			b.move(BreakerOpen)
			return true
		}
	case b.state == BreakerHalfOpen && v == good:
		b.successes++
		if b.successes >= o.SuccessThreshold {
			b.move(BreakerClosed)
			return true
		}
	case b.state == BreakerHalfOpen:
		b.openedAt = now
		b.move(BreakerOpen)
		return true
	}
	return false
}

func (b *breaker) move(to BreakerState) {
	b.moves[b.state][to]++
	b.state, b.failures, b.successes = to, 0, 0
}
