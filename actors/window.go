package actors

// windowParts is in how many parts a breaker's window is counted. What is
// forgotten goes a part at a time, so the window holds the last nine to ten
// tenths of its length.
const windowParts = 10

// window counts judged outcomes of the recent past.
type window struct {
	parts  [windowParts]tally
	sum    tally // of all parts
	at     int   // the part that counts
	end    int64 // when it is over; monotonic nanoseconds, 0 before the first outcome
	passed bool  // an outcome was counted since the window began anew
}

// tally is a number of outcomes of each sort.
type tally struct{ good, bad uint32 }

// add counts one outcome. A length of 0 forgets nothing.
func (w *window) add(v verdict, now, length int64) {
	if length > 0 && (!w.passed || now >= w.end) {
		w.roll(now, max(length/windowParts, 1))
	}
	w.passed = true
	if p := &w.parts[w.at]; v == good {
		p.good++
		w.sum.good++
	} else {
		p.bad++
		w.sum.bad++
	}
}

// roll forgets the parts that have become too old and begins the one of now.
func (w *window) roll(now, width int64) {
	if !w.passed {
		w.end = now + width
		return
	}
	late := (now-w.end)/width + 1
	for range min(late, windowParts) {
		w.at = (w.at + 1) % windowParts
		p := &w.parts[w.at]
		w.sum.good -= p.good
		w.sum.bad -= p.bad
		*p = tally{}
	}
	w.end += late * width
}
