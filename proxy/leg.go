package proxy

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
)

// staleWithin is how soon a reused connection must have died for the request to
// count as never received: the worker closed it while it lay idle, and the news
// was still on its way. One that dies later had the request, and may have worked
// on it.
const staleWithin = 250 * time.Millisecond

// converse sends the request to a worker and reads the head of the answer,
// which is left in front of the connection's buffer; size tells its length. The
// error is a *failure.
func (x *exchange) converse(pool *upstream.Pool, lease *actors.Lease) (size int, err error) {
	x.compose(pool, lease)
	sent := time.Now()
	if conn := pool.Idle(sent); conn != nil {
		x.link.attach(conn)
		size, err = x.roundTrip()
		if err == nil {
			return size, nil
		}
		stale := conn.Reader().Buffered() == 0 && time.Since(sent) < staleWithin
		if c := causeOf(err, false); c != actors.UpstreamReset || !stale {
			return 0, &failure{c, err}
		}
		x.link.drop()
		x.p.metrics.stale.Inc()
	}
	if err := x.dial(pool); err != nil {
		c := actors.ConnectFailed
		switch {
		case errors.Is(err, errClientGone):
			c = actors.ClientGone
		case errors.Is(err, syscall.ECONNREFUSED):
			x.p.router.Forget(lease.Worker) // see lost
		}
		return 0, &failure{c, err}
	}
	if size, err = x.roundTrip(); err != nil {
		return 0, &failure{causeOf(err, false), err}
	}
	return size, nil
}

// dial connects to the worker, for as long as the client stays.
func (x *exchange) dial(pool *upstream.Pool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &x.link
	l.guard.Arm(l.client, nil)
	l.guard.Target(0, canceller(cancel))
	conn, err := pool.Dial(ctx)
	l.guard.Target(0, nil)
	if l.guard.Left() {
		if err == nil {
			conn.Close()
		}
		return errClientGone
	}
	if err != nil {
		return err
	}
	l.attach(conn)
	return nil
}

// canceller ends a dial when the client leaves.
type canceller context.CancelFunc

// Close is called by the watcher.
func (c canceller) Close() error { c(); return nil }

// roundTrip writes the request and waits for the head of an answer.
func (x *exchange) roundTrip() (size int, err error) {
	l, t := &x.link, &x.p.opts.Timeouts
	werr := l.write(x.head, x.outBody(), t.FirstByte)
	if errors.Is(werr, errClientGone) || isTimeout(werr) {
		return 0, werr
	}
	// A worker that refuses a request may answer and close while it is still
	// being sent; what it said comes before the reset.
	size, err = l.head(&x.answer, t.FirstByte, x.p.opts.Limits.HeadBytes)
	if werr != nil {
		if err != nil && !errors.Is(err, errClientGone) {
			err = werr
		}
		x.answer.KeepAlive = false
	}
	return size, err
}

// smallBody is the largest body that is copied behind its head, to be written
// with one call.
const smallBody = 4 << 10

// outBody is what is to be written behind the head.
func (x *exchange) outBody() []byte {
	if len(x.body) <= smallBody {
		return nil
	}
	return x.body
}

// compose builds the head of the request for one worker in x.head, followed by
// the body if that is small.
func (x *exchange) compose(pool *upstream.Pool, lease *actors.Lease) {
	h := x.head[:0]
	h = append(h, x.ctx.Request.Header.Method()...)
	h = append(h, ' ')
	h = append(h, pool.Prefix()...)
	h = append(h, x.target...)
	h = append(h, " HTTP/1.1\r\n"...)
	h = httphead.AppendLine(h, "Host", pool.Host())
	h = append(h, x.headers...)
	if lease.Rank != actors.NoRank {
		h = append(h, "X-data-parallel-rank: "...)
		h = strconv.AppendInt(h, int64(lease.Rank), 10)
		h = append(h, "\r\n"...)
	}
	if x.framed {
		h = append(h, "Content-Length: "...)
		h = strconv.AppendInt(h, int64(len(x.body)), 10)
		h = append(h, "\r\n"...)
	}
	h = append(h, "\r\n"...)
	if len(x.body) <= smallBody {
		h = append(h, x.body...)
	}
	x.head = h
}

// write sends head and body. A write that lasts is watched.
func (l *link) write(head, body []byte, patience time.Duration) error {
	if body == nil {
		// So little fits into the socket's buffer.
		_, err := l.conn.Write(head)
		return l.why(err)
	}
	rest := net.Buffers{head, body}
	if !l.guard.Armed() {
		if l.conn.Resumes() {
			if err := l.conn.SetWriteDeadline(time.Now().Add(armAfter)); err != nil {
				return l.why(err)
			}
			_, err := l.conn.WriteBuffers(&rest)
			switch {
			case err == nil:
				return l.conn.SetWriteDeadline(time.Time{})
			case !isTimeout(err):
				return l.why(err)
			}
		}
		l.guard.Arm(l.client, l.conn.Interrupter())
	}
	var by time.Time
	if patience > 0 {
		by = time.Now().Add(patience)
	}
	if err := l.conn.SetWriteDeadline(by); err != nil {
		return l.why(err)
	}
	if _, err := l.conn.WriteBuffers(&rest); err != nil {
		return l.why(err)
	}
	return l.why(l.conn.SetWriteDeadline(time.Time{}))
}
