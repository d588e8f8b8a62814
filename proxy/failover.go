package proxy

import (
	"errors"
	"io"
	"slices"
	"time"

	"loadstar/actors"
	"loadstar/proxy/continuation"

	"github.com/valyala/fasthttp"
)

// failover is how it stands with continuing a stream.
type failover struct {
	from    *exchange // lent to the stream; nil if it is none that may be continued
	follows bool      // it may yet be
	adrift  bool      // its worker has died, and no other goes on with it, or none yet
	refusal continuation.Refusal
}

var (
	errTold        = errors.New("the worker's stream has told of its failure")
	errNotAnswered = errors.New("no worker goes on with the stream")

	errUnchangeable = errors.New("the worker that goes on with the stream sends an event longer than may be held")
)

// endFailover gives the exchange back, and counts a stream that has broken off
// and could not be continued.
func (s *stream) endFailover() {
	f := &s.failover
	if f.from != nil {
		f.from.free()
		f.from.recycle()
	}
	switch s.cause {
	case actors.UpstreamTruncated, actors.UpstreamTimeout, actors.StreamFailed:
		if f.refusal != continuation.None {
			s.p.metrics.failover.refused[f.refusal].Inc()
		}
	}
}

// unfollow has the rest of the stream pass as it comes.
func (s *stream) unfollow(why continuation.Refusal) {
	s.failover.follows, s.failover.refusal = false, why
	s.failover.from.free()
}

// follow takes what next has returned and returns what takes its place: whole
// events, without an error while the stream goes on, be it at another worker.
func (s *stream) follow(w io.Writer, piece []byte, err error) ([]byte, error) {
	f := &s.failover.from.spare.follower
	out, state := f.Feed(piece)
	switch {
	case state == continuation.Unfit && s.record.parts > 0:
		s.failover.follows = false
		return nil, s.pass(w, out, errUnchangeable)
	case state == continuation.Unfit:
		s.unfollow(f.Refusal())
		return out, err
	case state == continuation.Ended, errors.Is(err, errClientGone), err == nil && state != continuation.Died:
		return out, err
	}
	ended := errors.Is(err, io.EOF)
	cause := actors.StreamFailed
	switch {
	case state == continuation.Died:
	case ended:
		cause = actors.UpstreamTruncated
	default:
		cause = causeOf(err, true)
	}
	if why := s.barred(); why != continuation.None {
		rest := f.Rest()
		s.unfollow(why)
		rest = slices.Concat(out, rest) // out may be a part of the connection's buffer
		if err == nil || ended {
			return rest, err
		}
		return nil, s.pass(w, rest, err)
	}
	if gone := s.pass(w, out, nil); gone != nil {
		return nil, gone
	}
	switch gone := s.resume(cause); {
	case gone == nil:
		return nil, nil
	case errors.Is(gone, errClientGone):
		return nil, gone
	}
	s.failover.follows = false
	s.p.metrics.failover.failed.Inc()
	switch {
	case state == continuation.Died:
		err = errTold
	case ended:
		err = io.ErrUnexpectedEOF
	}
	return nil, s.pass(w, f.Rest(), err)
}

// pass sends a piece to the client ahead of what is returned in its place. It
// returns err, or errClientGone if the client takes no more.
func (s *stream) pass(w io.Writer, piece []byte, err error) error {
	s.events.Feed(piece)
	if s.write(w, piece) != nil {
		return errClientGone
	}
	return err
}

// barred says why a stream whose worker has died is not continued.
func (s *stream) barred() continuation.Refusal {
	sp := &s.failover.from.spare
	f := &sp.follower
	switch limit := sp.request.Limit; {
	case f.Refusal() != continuation.None:
		return f.Refusal()
	case f.Finished() || limit > 0 && f.Tokens() >= limit:
		return continuation.Finished
	case sp.left == 0:
		return continuation.Spent
	case s.p.stopping():
		return continuation.Stopping
	case s.overdue():
		return continuation.Overdue
	}
	if !sp.Cover(2*len(f.Text()) + sp.size) { // with the body for the next worker
		return continuation.Memory
	}
	return continuation.None
}

// resume ends the lease of a worker that has died and has another one go on with
// the stream. The error says why none does: errClientGone, a *failure, or one of
// the registry.
func (s *stream) resume(cause actors.Cause) error {
	x := s.failover.from
	sp := &x.spare
	s.failover.adrift, s.learns, s.counts = true, false, false // from here on the prompt is another
	s.drop()
	x.exclude = append(x.exclude, s.lease.Worker)
	s.release(cause)
	s.record.cause = cause
	sp.left--
	var ok bool
	if sp.body, ok = sp.request.AppendBody(sp.body[:0], x.body, sp.follower.Text(), sp.follower.Tokens()); !ok {
		return errNotObject
	}
	x.link, x.record = s.link, s.record
	defer func() {
		s.link, s.record = x.link, x.record
		x.link, x.rest = link{}, nil
		sp.body = reuseBody(sp.body)
	}()
	for {
		again, err := s.rejoin()
		if !again {
			return err
		}
		if !x.pause(err) {
			return errClientGone
		}
	}
}

// rejoin makes one attempt to have a worker go on. It reports whether another may
// go well: nobody has seen the request, or a worker was full.
func (s *stream) rejoin() (again bool, err error) {
	x, p := s.failover.from, s.p
	q := &x.query
	x.record.attempts++
	q.Now, q.Exclude, q.Retry, q.Deadline = p.now(), x.exclude, true, 0
	if until := x.link.until; !until.IsZero() {
		q.Deadline = q.Now + int64(time.Until(until))
	}
	lease, err := x.acquire()
	if err != nil {
		if errors.Is(err, errClientGone) {
			err = errClientGone
		}
		return false, err
	}
	s.lease, s.leased, s.pardoned, s.pool = lease, true, false, poolOf(&lease)
	x.granted(&lease)
	x.patience = p.opts.Timeouts.FirstByte
	x.compose([]byte(fasthttp.MethodPost), s.pool, x.spare.target, x.headers, lease.Rank, x.spare.body, true)
	size, err := x.converse(s.pool, lease.Worker)
	if err == nil && x.record.trace != nil {
		x.record.trace.Answered(x.answer.Status)
	}
	var cause actors.Cause
	a := &x.answer
	var f *failure
	switch {
	case errors.As(err, &f):
		cause = f.cause
	case a.Status != fasthttp.StatusOK:
		cause, err = actors.CauseOf(a.Status), errNotAnswered
	case !a.EventStream() || len(a.Encoding) > 0:
		cause, err = actors.UpstreamInvalid, errNotAnswered
	default:
		s.join(size)
		return false, nil
	}
	x.link.drop()
	s.release(cause)
	x.record.cause = cause
	switch cause {
	case actors.ClientGone:
		return false, errClientGone
	case actors.ConnectFailed, actors.Busy:
		return x.record.attempts < p.opts.Retry.MaxAttempts && !p.stopping() && x.exclusion(&lease), err
	}
	return false, err
}

// join has the stream go on with an answer whose head, of size bytes, has come.
func (s *stream) join(size int) {
	x := s.failover.from
	s.failover.adrift = false
	x.link.conn.Reader().Discard(size)
	s.tells = s.p.router.NeedsFirstByte(x.query.Served())
	s.coming, s.keepAlive = bodyReader{left: x.answer.Length}, x.answer.KeepAlive
	x.spare.follower.Next()
	x.record.parts++
	s.p.metrics.failover.continued.Inc()
}
