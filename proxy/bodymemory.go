package proxy

import "github.com/valyala/fasthttp"

// bodyUnit is the unit in bytes of the memory that bodies of requests take.
const bodyUnit = 1 << 20

// bodyMemory is a budget for the bodies of all requests that are held at a time.
// It holds one token for each unit that is taken; nil is without end.
type bodyMemory chan struct{}

func newBodyMemory(bytes int) bodyMemory {
	if bytes <= 0 {
		return nil
	}
	return make(bodyMemory, max(bytes/bodyUnit, 1))
}

// bodyShare is what one request has taken of a budget.
type bodyShare struct {
	of    bodyMemory
	units int
}

// cover takes what a buffer of size bytes needs beyond what was taken before, and
// reports false if there isn't as much. What is as small as the buffers that are
// kept anyway is free.
func (s *bodyShare) cover(size int) bool {
	if s == nil || s.of == nil || size <= keptBody {
		return true
	}
	return s.take((size + bodyUnit - 1) / bodyUnit)
}

// take takes units of a budget up to so many, and reports false if there aren't as
// many left.
func (s *bodyShare) take(units int) bool {
	for ; s.units < units; s.units++ {
		select {
		case s.of <- struct{}{}:
		default:
			return false
		}
	}
	return true
}

// giveBack gives back all that was taken.
func (s *bodyShare) giveBack() {
	for ; s.units > 0; s.units-- {
		<-s.of
	}
}

// noRoom is what a client is told whose request's body would exceed the budget.
func noRoom() *problem {
	return &problem{
		fasthttp.StatusServiceUnavailable, kindUnavailable, "router_exhausted",
		"The router holds as many request bodies as it has memory for.", 1,
	}
}
