package load

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

// fate is how a request ended.
type fate string

// What a request can come to. The first two have a whole answer.
const (
	ok        fate = "ok"
	refused   fate = "status"    // other than 2xx
	truncated fate = "truncated" // the body, or a stream's end mark, is missing
	noConnect fate = "connect"   // no connection
	noAnswer  fate = "closed"    // closed before the head was whole
	timedOut  fate = "timeout"
	malformed fate = "malformed"
)

// result is what became of a request.
type result struct {
	fate      fate
	answer    *answer
	due, sent time.Time
}

// conn sends requests one after another over a connection that it makes when
// there is none.
type conn struct {
	target *target
	net    net.Conn
	wire   wire
	answer answer
	body   []byte // of the message below
	out    []byte // a whole message
	forget func() bool
}

// target is where requests go.
type target struct {
	address string
	head    []byte // of every request up to the length's value
	timeout time.Duration
	tail    int // bytes of a body's end that are kept
}

// do sends a request that is due and reads its answer, which is good until the
// next call. A connection that the server closed while it lay idle is replaced
// once.
func (c *conn) do(ctx context.Context, body []byte, due time.Time) result {
	kept := c.net != nil
	r := c.try(ctx, body, due)
	if kept && r.fate == noAnswer && !c.answer.begun {
		r = c.try(ctx, body, due)
	}
	return r
}

func (c *conn) try(ctx context.Context, body []byte, due time.Time) result {
	r := result{answer: &c.answer, due: due, sent: time.Now()}
	c.answer.reset()
	c.answer.tail.keep = c.target.tail
	if c.net == nil {
		if err := c.dial(ctx); err != nil {
			r.fate = noConnect
			c.answer.end = time.Now()
			return r
		}
	}
	_ = c.net.SetDeadline(r.sent.Add(c.target.timeout))
	if ctx.Err() != nil { // the deadline that ends the connection was overwritten
		c.close()
		r.fate = noAnswer
		return r
	}
	// A server may answer, and close, before it has read everything.
	_, errWrite := c.net.Write(c.message(body))
	err := c.wire.read(&c.answer)
	if err != nil && !c.answer.begun && errWrite != nil {
		err = errWrite
	}
	r.fate = fateOf(err, &c.answer)
	if c.answer.end.IsZero() {
		c.answer.end = time.Now()
	}
	if err != nil || errWrite != nil || c.answer.closing {
		c.close()
	}
	return r
}

func fateOf(err error, a *answer) fate {
	switch {
	case err == nil && a.status/100 == 2:
		return ok
	case err == nil:
		return refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut
	case errors.Is(err, errMalformed) && a.status == 0:
		return malformed
	case a.status == 0:
		return noAnswer
	}
	return truncated
}

func (c *conn) dial(ctx context.Context) error {
	d := net.Dialer{Timeout: c.target.timeout}
	n, err := d.DialContext(ctx, "tcp", c.target.address) // Go sets TCP_NODELAY
	if err != nil {
		return err
	}
	c.net, c.wire.from, c.wire.r, c.wire.w = n, n, 0, 0
	c.forget = context.AfterFunc(ctx, func() { _ = n.SetDeadline(time.Unix(1, 0)) })
	return nil
}

func (c *conn) close() {
	if c.net != nil {
		c.forget()
		_ = c.net.Close()
		c.net = nil
	}
}

// message is a request's bytes. A body that is the last one's needs no copying.
func (c *conn) message(body []byte) []byte {
	if len(c.out) > 0 && len(body) == len(c.body) && (len(body) == 0 || &body[0] == &c.body[0]) {
		return c.out
	}
	c.body = body
	c.out = append(c.out[:0], c.target.head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, body...)
	return c.out
}
