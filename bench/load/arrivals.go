package load

import (
	"math/rand/v2"
	"time"
)

// Arrivals tells when requests are due, since the start and never decreasing. It
// is asked by one goroutine. When ok is false there are no more.
type Arrivals func() (due time.Duration, ok bool)

// Poisson is requests that come independently of one another, rate a second on
// average. The same seed gives the same times.
func Poisson(rate float64, seed uint64) Arrivals {
	random := rand.New(rand.NewPCG(seed, 0))
	due := 0.0
	return func() (time.Duration, bool) {
		due += random.ExpFloat64() / rate * float64(time.Second)
		return time.Duration(due), true
	}
}

// Times replays arrivals of a trace, speed times as fast as they were.
func Times(trace []time.Duration, speed float64) Arrivals {
	return func() (time.Duration, bool) {
		if len(trace) == 0 {
			return 0, false
		}
		due := time.Duration(float64(trace[0]) / speed)
		trace = trace[1:]
		return due, true
	}
}
