package actors

import "errors"

// Errors of requests that are not served for want of room.
var (
	ErrQueueFull    = errors.New("as many requests wait as may wait") // also of one that waited and had to give its place up
	ErrQueueTimeout = errors.New("no worker became free in time")
	ErrDeadline     = errors.New("the request's deadline would be missed")
	ErrClientLeft   = errors.New("the client left while its request waited")
)

// errFull says that every worker that may serve a request has as many as it may
// have.
var errFull = errors.New("every worker is at its limit")

// Refusal is why the waiting room has sent a request away.
type Refusal uint8

// Refusals. Each is the label of a metric.
const (
	RefusedFull Refusal = iota
	RefusedTimeout
	RefusedDeadline
	RefusedLeft
	RefusedStopped
	RefusedNoWorker // the last worker that might have served it has gone
	numRefusals
)

var refusalNames = [numRefusals]string{"queue_full", "queue_timeout", "deadline", "client_left", "stopped", "no_worker"}

// String returns the metric label.
func (r Refusal) String() string { return refusalNames[r] }

// Refusals lists every refusal, in order.
func Refusals() []Refusal {
	all := make([]Refusal, numRefusals)
	for i := range all {
		all[i] = Refusal(i)
	}
	return all
}

func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, ErrQueueFull):
		return RefusedFull
	case errors.Is(err, ErrQueueTimeout):
		return RefusedTimeout
	case errors.Is(err, ErrDeadline):
		return RefusedDeadline
	case errors.Is(err, ErrClientLeft):
		return RefusedLeft
	case errors.Is(err, ErrStopped):
		return RefusedStopped
	default:
		return RefusedNoWorker
	}
}
