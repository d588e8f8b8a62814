package actors

import "time"

// HealthOptions says when checks change a worker's health.
type HealthOptions struct {
	FailureThreshold int           // bad checks in a row that make a worker unhealthy
	SuccessThreshold int           // good checks in a row that make it healthy again
	Interval         time.Duration // between two checks of a healthy worker
	RetryInterval    time.Duration // between two checks of a worker that was never healthy
	Timeout          time.Duration // of one check
}

// health is what checks have shown of a worker. It is a part of its own, so
// that no check can reach a counter of load.
type health struct {
	healthy bool
	proven  bool // was healthy at least once since it was added
	checked bool // since it was added
	streak  int  // checks in a row that contradict healthy
	reason  string
}

// report takes the result of one check, whose reason is empty when it went
// well, and says whether the worker's health changed. The first good check of
// a new worker is enough.
func (h *health) report(o *HealthOptions, reason string) (changed bool) {
	ok := reason == ""
	h.reason, h.checked = reason, true
	if ok == h.healthy {
		h.streak = 0
		return false
	}
	h.streak++
	switch {
	case ok && (!h.proven || h.streak >= o.SuccessThreshold):
		h.healthy, h.proven = true, true
	case !ok && h.streak >= o.FailureThreshold:
		h.healthy = false
	default:
		return false
	}
	h.streak = 0
	return true
}
