package replay

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// spread gives requests that have the same time even distances up to the next one's,
// since the clocks of traces have long ticks. A tick is taken to be the shortest
// step of the clock that was seen so far, so a pause of the trace remains one.
func spread(next workload) workload {
	var ready []request // of one time
	var ahead request   // of a later one
	var end error       // behind ahead; nil while there may be more
	var tick time.Duration
	begun, given := false, 0
	fill := func() error {
		if !begun {
			if ahead, end = next(); end != nil {
				return end
			}
			begun = true
		} else if end != nil {
			return end
		}
		at, ids := ahead.at, 0
		ready, given = ready[:0], 0
		for end == nil && ahead.at == at {
			if ids += len(ahead.blocks); ids > maxTickIDs {
				return fmt.Errorf("the requests at %v have more than %d block ids together", at, maxTickIDs)
			}
			ready = append(ready, ahead)
			ahead, end = next()
		}
		if end != nil && !errors.Is(end, io.EOF) {
			return end
		}
		if step := ahead.at - at; end == nil && (tick == 0 || step < tick) {
			tick = step
		}
		for i := range ready {
			ready[i].at += tick * time.Duration(i) / time.Duration(len(ready))
		}
		return nil
	}
	return func() (request, error) {
		if given == len(ready) {
			if err := fill(); err != nil {
				return request{}, err
			}
		}
		given++
		return ready[given-1], nil
	}
}
