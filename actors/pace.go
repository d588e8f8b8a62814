package actors

import "time"

// The pace is taken over two spans, and the faster one counts: the long one knows
// more, and the short one follows a rise.
const (
	paceSeconds = 10
	paceShort   = 4
)

// pace is how fast requests end, by seconds of the recent past.
type pace struct {
	ended  [paceSeconds]int
	second int64 // the newest of them
	began  int64 // since when there has always been a request; nanoseconds
}

func (p *pace) advance(now int64) {
	second := max(p.second, now/int64(time.Second))
	for i := range min(second-p.second, paceSeconds) {
		p.ended[(second-i)%paceSeconds] = 0
	}
	p.second = second
}

func (p *pace) note(now int64) {
	p.advance(now)
	p.ended[p.second%paceSeconds]++
}

// each estimates how long it takes until one more request ends, in nanoseconds.
// It reports false when none has ended lately; then the figure is that for one.
func (p *pace) each(now int64) (ns float64, known bool) {
	p.advance(now)
	long, span := p.over(paceSeconds, now)
	ns = span / float64(max(long, 1))
	if short, span := p.over(paceShort, now); short > 0 {
		ns = min(ns, span/float64(short))
	}
	return ns, long > 0
}

// over is how many requests have ended in the newest seconds, and how many
// nanoseconds of those have been.
func (p *pace) over(seconds, now int64) (n int, span float64) {
	for i := range min(seconds, p.second+1) {
		n += p.ended[(p.second-i)%paceSeconds]
	}
	from := max(p.began, (p.second-seconds+1)*int64(time.Second))
	return n, float64(max(now-from, 1))
}
