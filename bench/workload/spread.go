package workload

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// spread gives requests that have the same time even distances up to the next one's,
// since the clocks of traces have long ticks. A tick is taken to be the shortest
// step of the clock that was seen so far, so a pause of the trace remains one.
func spread(next Source) Source {
	var ready []Request // of one time
	var ahead Request   // of a later one
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
		at, ids := ahead.At, 0
		ready, given = ready[:0], 0
		for end == nil && ahead.At == at {
			if ids += len(ahead.Blocks); ids > maxTickIDs {
				return fmt.Errorf("the requests at %v have more than %d block ids together", at, maxTickIDs)
			}
			ready = append(ready, ahead)
			ahead, end = next()
		}
		if end != nil && !errors.Is(end, io.EOF) {
			return end
		}
		if step := ahead.At - at; end == nil && (tick == 0 || step < tick) {
			tick = step
		}
		for i := range ready {
			ready[i].At += tick * time.Duration(i) / time.Duration(len(ready))
		}
		return nil
	}
	return func() (Request, error) {
		if given == len(ready) {
			if err := fill(); err != nil {
				return Request{}, err
			}
		}
		given++
		return ready[given-1], nil
	}
}
