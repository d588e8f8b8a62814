package proxy

import (
	"context"
	"time"
)

// startClock begins the time that all of the request may take, unless it runs
// already.
func (x *exchange) startClock() {
	if total := x.p.opts.Timeouts.Total; total > 0 && x.link.until.IsZero() {
		x.link.until = time.Now().Add(total)
	}
}

// bounded shortens a wait to what is left until the request has to be over; 0 is
// without end. What is over leaves the shortest of waits.
func (l *link) bounded(patience time.Duration) time.Duration {
	if l.until.IsZero() {
		return patience
	}
	left := max(time.Until(l.until), time.Nanosecond)
	if patience <= 0 || left < patience {
		return left
	}
	return patience
}

// overdue reports whether the request has to be over.
func (l *link) overdue() bool { return !l.until.IsZero() && !time.Now().Before(l.until) }

// dialContext is the context of a dial.
func (l *link) dialContext() (context.Context, context.CancelFunc) {
	if l.until.IsZero() {
		return context.WithCancel(context.Background())
	}
	return context.WithDeadline(context.Background(), l.until)
}
