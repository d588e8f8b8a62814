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
	case b.state == BreakerClosed:
		if b.failures == 0 || o.Window > 0 && now-b.since > int64(o.Window) {
			b.failures, b.since = 0, now
		}
		b.failures++
		if b.failures >= o.FailureThreshold {
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

func (b *breaker) move(to BreakerState) {
	b.moves[b.state][to]++
	b.state, b.failures, b.successes = to, 0, 0
}
