package actors

import "time"

// tickEvery is how late those who wait may learn that their time is over.
const tickEvery = 5 * time.Millisecond

// tick sends the loop the time, a moment after each request for it. It runs on a
// goroutine of its own and ends with the loop.
func (r *Registry) tick(asked <-chan struct{}, now func() int64) {
	for {
		select {
		case <-asked:
		case <-r.done:
			return
		}
		select {
		case <-time.After(tickEvery):
		case <-r.done:
			return
		}
		r.send(message{kind: kindTick, now: now()})
	}
}
