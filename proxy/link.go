package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
	"loadstar/proxy/watch"
)

// armAfter is how long a request waits for a worker before its client is
// watched. Most of what a fast worker answers is over by then and needs no
// watching; a client that leaves is still noticed well within a moment.
const armAfter = 2 * time.Millisecond

// Errors of a link, beside those of the network.
var (
	errClientGone = errors.New("the client has left")
	errLongHead   = errors.New("the head of the worker's answer is longer than --max-header-bytes")
	errSwitched   = errors.New("the worker wants to switch protocols")
)

// link is the way from a client to one worker and back, while one request uses
// it. Whoever waits on it notices a client that leaves.
type link struct {
	client  net.Conn
	conn    *upstream.Conn
	guard   *watch.Guard
	watchAt time.Time // when the client begins to be watched; zero before the first wait
	until   time.Time // when every wait for a worker ends; zero is never
	readBy  time.Time // deadline set on conn for reading; zero when unknown
}

// Leaving has the client watched, and returns a channel that tells of its leaving,
// for who waits for something else than a worker; see watch.Guard.Gone.
func (l *link) Leaving() <-chan struct{} {
	l.guard.Arm(l.client, nil)
	return l.guard.Gone()
}

// attach makes conn the connection to the worker.
func (l *link) attach(conn *upstream.Conn) {
	l.conn, l.readBy = conn, time.Time{}
	l.guard.Target(conn.Interrupter())
}

// poll waits, unwatched, for at least one more byte from the worker, until by. It
// reports false when none came in that time.
func (l *link) poll(by time.Time) (bool, error) {
	if !l.readBy.Equal(by) {
		l.readBy = by
		if err := l.conn.SetReadDeadline(by); err != nil {
			return false, l.why(err)
		}
	}
	br := l.conn.Reader()
	_, err := br.Peek(br.Buffered() + 1)
	switch {
	case err == nil:
		return true, nil
	case isTimeout(err):
		return false, nil
	default:
		return false, l.why(err)
	}
}

// more waits until the worker has sent at least one more byte, at most for
// patience (0 is without end). From a moment on the client is watched.
func (l *link) more(patience time.Duration) error {
	if !l.guard.Armed() {
		if l.watchAt.IsZero() {
			l.watchAt = time.Now().Add(armAfter)
		}
		if ok, err := l.poll(l.watchAt); ok || err != nil {
			return err
		}
		l.guard.Arm(l.client, l.conn.Interrupter())
	}
	if err := l.patient(patience); err != nil {
		return err
	}
	br := l.conn.Reader()
	if _, err := br.Peek(br.Buffered() + 1); err != nil {
		return l.why(err)
	}
	return nil
}

// patient sees that a read waits for patience, or up to a quarter longer: moving
// the deadline with every read would cost more than the read.
func (l *link) patient(patience time.Duration) error {
	patience = l.bounded(patience)
	if patience <= 0 {
		if l.readBy.Equal(never) {
			return nil
		}
		l.readBy = never
		return l.why(l.conn.SetReadDeadline(time.Time{}))
	}
	now := time.Now()
	if left := l.readBy.Sub(now); left >= patience && left <= patience*5/4 {
		return nil
	}
	l.readBy = now.Add(patience * 5 / 4)
	if !l.until.IsZero() && l.until.Before(l.readBy) {
		l.readBy = l.until
	}
	return l.why(l.conn.SetReadDeadline(l.readBy))
}

// never stands for a deadline that is switched off.
var never = time.Unix(1<<40, 0)

// why says what an error of the connection means: the watcher closes it when
// the client leaves.
func (l *link) why(err error) error {
	if err != nil && l.guard.Left() {
		return errClientGone
	}
	return err
}

// head reads the head of the worker's answer. It returns the number of bytes it
// takes at the front of what is buffered. Errors: errClientGone, errLongHead,
// errSwitched, those of httphead and of the network.
func (l *link) head(a *httphead.Answer, patience time.Duration, limit int) (size int, err error) {
	const maxInterim = 100
	for range maxInterim {
		seen := 0
		for {
			br := l.conn.Reader()
			view, _ := br.Peek(br.Buffered())
			// Some workers send a stray line end behind a body.
			for seen == 0 && len(view) > 0 && (view[0] == '\r' || view[0] == '\n') {
				br.Discard(1)
				view = view[1:]
			}
			if size = httphead.HeadEnd(view, seen); size >= 0 {
				if err := a.ParseAnswer(view[:size]); err != nil {
					return 0, err
				}
				break
			}
			seen = len(view)
			if seen == br.Size() {
				if seen >= limit {
					return 0, errLongHead
				}
				l.conn.Widen(limit)
				seen = 0 // what was buffered has to pass into the wider buffer first
			}
			if err := l.more(patience); err != nil {
				return 0, err
			}
		}
		switch {
		case a.Status == 101:
			return 0, errSwitched
		case a.Status >= 200:
			return size, nil
		}
		l.conn.Reader().Discard(size) // an interim answer
	}
	return 0, errSwitched
}

// drop resets the connection to the worker and stays ready for another.
func (l *link) drop() {
	if l.conn != nil {
		l.guard.Target(nil)
		l.close(true)
	}
}

// part ends the use of the link's connection, and stays ready for another. One
// whose answer was read to its end, and that may go on, returns to the pool.
func (l *link) part(pool *upstream.Pool, reuse bool) {
	if l.conn == nil {
		return
	}
	l.guard.Target(nil)
	if reuse && !l.guard.Left() {
		pool.Put(l.conn, time.Now())
		l.conn = nil
		return
	}
	l.close(l.guard.Left())
}

// settle ends the use of the link's connection and of the watch. A connection
// whose answer was read to its end, and that may go on, returns to the pool.
func (l *link) settle(pool *upstream.Pool, reuse bool) (left bool) {
	left = l.guard.Disarm()
	if l.conn == nil {
		return left
	}
	if reuse && !left {
		pool.Put(l.conn, time.Now())
		l.conn = nil
		return left
	}
	l.close(left)
	return left
}

// close closes the connection to the worker: with a reset if nobody wants what may
// still come, as the watcher does when the client leaves.
func (l *link) close(reset bool) {
	if reset {
		l.conn.Reset()
	} else {
		l.conn.Close()
	}
	l.conn = nil
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// causeOf says how an attempt ended that broke with err. begun tells whether
// the head of an answer had come.
func causeOf(err error, begun bool) actors.Cause {
	switch {
	case errors.Is(err, errClientGone):
		return actors.ClientGone
	case isTimeout(err):
		return actors.UpstreamTimeout
	case begun:
		return actors.UpstreamTruncated
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return actors.UpstreamReset
	default:
		return actors.UpstreamInvalid
	}
}
