package proxy

import (
	"context"
	"errors"
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
// on it. This is a guess: a worker may take a request up and die at once.
const staleWithin = 250 * time.Millisecond

// leg is one request to a worker and its answer, as far as it has come.
type leg struct {
	p        *Proxy
	link     link
	head     []byte        // what is written: the request's head, and its body if that is small
	rest     []byte        // what is written behind it: a larger body
	patience time.Duration // for the head of the answer; 0 is without end
	sent     bool          // a worker may have all of the request
	once     bool          // it is not sent over a kept connection, where it might go out twice
	asks     bool          // this router asks the worker how many requests it has, and not the client
	answer   httphead.Answer
	coming   bodyReader      // body of the answer
	off      <-chan struct{} // closed when nobody wants the answer any more; nil if that can't be
}

// calledOff reports whether nobody wants the answer any more.
func (g *leg) calledOff() bool {
	select {
	case <-g.off:
		return true
	default:
		return false
	}
}

// converse sends the request to a worker and reads the head of the answer,
// which is left in front of the connection's buffer; size tells its length. Over a
// kept connection that turns out to be stale it is sent again, once: a worker that
// resets at once looks like that too, and would get it twice at each attempt. The
// error is a *failure.
func (g *leg) converse(pool *upstream.Pool, worker actors.WorkerID) (size int, err error) {
	g.sent = false
	begun := time.Now()
	if g.link.watchAt.IsZero() {
		g.link.watchAt = begun.Add(armAfter)
	}
	for !g.once {
		conn := pool.Idle(begun)
		if conn == nil {
			break
		}
		g.link.attach(conn)
		size, err = g.roundTrip()
		switch {
		case err == nil:
			g.hearReport(worker)
			return size, nil
		case errors.Is(err, upstream.ErrStirred):
			g.sent = false
			g.link.part(nil, false)
			continue
		}
		stale := conn.Reader().Buffered() == 0 && time.Since(begun) < g.p.opts.short(staleWithin)
		if c := causeOf(err, false); c != actors.UpstreamReset || !stale || g.calledOff() {
			return 0, &failure{cause: c, err: err}
		}
		g.link.drop()
		g.p.metrics.stale.Inc()
		g.sent, g.once = false, true
	}
	if err := g.dial(pool); err != nil {
		c := actors.ConnectFailed
		switch {
		case g.link.overdue():
			c = actors.UpstreamTimeout
		case errors.Is(err, errClientGone):
			c = actors.ClientGone
		case exhausted(err):
			c = actors.RouterExhausted
		case errors.Is(err, syscall.ECONNREFUSED):
			g.p.router.Forget(worker) // see lost
		}
		return 0, &failure{cause: c, err: err}
	}
	if size, err = g.roundTrip(); err != nil {
		return 0, &failure{cause: causeOf(err, false), err: err}
	}
	g.hearReport(worker)
	return size, nil
}

// dial connects to the worker, for as long as the client stays.
func (g *leg) dial(pool *upstream.Pool) error {
	l := &g.link
	ctx, cancel := l.dialContext()
	defer cancel()
	l.guard.Arm(l.client, nil)
	l.guard.Target(canceller(cancel))
	conn, err := pool.Dial(ctx)
	l.guard.Target(nil)
	if l.guard.Left() {
		if err == nil {
			conn.Reset()
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
func (g *leg) roundTrip() (size int, err error) {
	l := &g.link
	werr := l.write(g.head, g.rest, g.patience)
	g.sent = werr == nil
	if errors.Is(werr, errClientGone) || errors.Is(werr, upstream.ErrStirred) || isTimeout(werr) {
		return 0, werr
	}
	// A worker that refuses a request may answer while it is still being sent. If it
	// closes as well, what it said comes before the reset.
	size, err = l.head(&g.answer, g.patience, g.p.opts.Limits.HeadBytes)
	if werr != nil {
		if err != nil && !errors.Is(err, errClientGone) && !errors.Is(werr, errAnswered) {
			err = werr
		}
		g.answer.KeepAlive = false
	}
	return size, err
}

// smallBody is the largest body that is copied behind its head, to be written
// with one call.
const smallBody = 4 << 10

// compose builds the request for one worker: its head, with lines for headers,
// and the body. framed says that the request has a body, if perhaps an empty one.
func (g *leg) compose(method []byte, to *upstream.Pool, target, lines []byte, rank int, body []byte, framed bool) {
	h := g.head[:0]
	h = append(h, method...)
	h = append(h, ' ')
	h = append(h, to.Prefix()...)
	h = append(h, target...)
	h = append(h, " HTTP/1.1\r\n"...)
	h = httphead.AppendLine(h, "Host", to.Host())
	h = append(h, lines...)
	if rank != actors.NoRank {
		h = append(h, "X-data-parallel-rank: "...)
		h = strconv.AppendInt(h, int64(rank), 10)
		h = append(h, "\r\n"...)
	}
	if framed {
		h = append(h, "Content-Length: "...)
		h = strconv.AppendInt(h, int64(len(body)), 10)
		h = append(h, "\r\n"...)
	}
	h = append(h, "\r\n"...)
	if g.rest = body; len(body) <= smallBody {
		h, g.rest = append(h, body...), nil
	}
	g.head = h
}
