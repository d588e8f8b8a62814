package proxy

import (
	"errors"
	"net"
	"time"

	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
)

// sendSlice is how long a large body may find no room at the worker before it is
// looked whether the worker has answered already.
const sendSlice = 500 * time.Millisecond

// errAnswered says that a worker has answered and takes no more of the request.
var errAnswered = errors.New("the worker has answered before it had the whole request")

// write sends head and body, for at most patience (0 is without end). A write that
// lasts is watched. A small request goes out with the read that follows. Errors:
// errClientGone, errAnswered, upstream.ErrStirred, those of the network.
func (l *link) write(head, body []byte, patience time.Duration) error {
	if body == nil && l.conn.Asks() {
		l.conn.Ask(head)
		return nil
	}
	if body == nil {
		// So little fits into the socket's buffer.
		_, err := l.conn.Write(head)
		return l.why(err)
	}
	if l.conn.Asks() && l.conn.Reused() && !l.conn.Quiet() {
		return upstream.ErrStirred
	}
	rest := net.Buffers{head, body}
	if !l.guard.Armed() {
		if l.conn.Resumes() {
			switch err := l.writeUntil(&rest, time.Now().Add(armAfter)); {
			case err == nil:
				return l.conn.SetWriteDeadline(time.Time{})
			case !isTimeout(err):
				return l.why(err)
			}
		}
		l.guard.Arm(l.client, l.conn.Interrupter())
	}
	var by time.Time
	if patience = l.bounded(patience); patience > 0 {
		by = time.Now().Add(patience)
	}
	if err := l.writeOn(&rest, by); err != nil {
		return l.why(err)
	}
	return l.why(l.conn.SetWriteDeadline(time.Time{}))
}

// writeOn writes what is left of a request, at most until by; zero is without end.
// Where a write may be taken up again it stops when the worker takes nothing and has
// answered: it may never take the rest.
func (l *link) writeOn(rest *net.Buffers, by time.Time) error {
	if !l.conn.Resumes() {
		return l.writeUntil(rest, by)
	}
	for {
		slice := time.Now().Add(sendSlice)
		last := !by.IsZero() && by.Before(slice)
		if last {
			slice = by
		}
		before := left(*rest)
		err := l.writeUntil(rest, slice)
		switch {
		case err == nil || !isTimeout(err):
			return err
		case left(*rest) == before && l.answering():
			return errAnswered
		case last:
			return err
		}
	}
}

// writeUntil writes until a deadline, and takes what was written out of rest.
func (l *link) writeUntil(rest *net.Buffers, by time.Time) error {
	if err := l.conn.SetWriteDeadline(by); err != nil {
		return err
	}
	_, err := l.conn.WriteBuffers(rest)
	return err
}

// left is the number of bytes that are yet to be written.
func left(rest net.Buffers) (n int) {
	for _, b := range rest {
		n += len(b)
	}
	return n
}

// answering reports whether the worker has begun its answer, or has ended its side
// of the connection. Interim answers in front are let go of.
func (l *link) answering() bool {
	br := l.conn.Reader()
	if !l.conn.Quiet() {
		if _, err := l.poll(time.Now().Add(armAfter)); err != nil {
			return true // whatever it is, the reader of the head will say
		}
	}
	for {
		const status = len("HTTP/1.1 ")
		view, _ := br.Peek(br.Buffered())
		if len(view) > 0 && (view[0] == '\r' || view[0] == '\n') {
			br.Discard(1) // see head
			continue
		}
		if len(view) <= status {
			return false
		}
		if view[status] != '1' {
			return true
		}
		size := httphead.HeadEnd(view, 0)
		if size < 0 {
			return len(view) == br.Size()
		}
		br.Discard(size)
	}
}
