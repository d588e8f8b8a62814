package proxy

import (
	"errors"
	"time"

	"loadstar/actors"
)

// tryDecode has another decode worker fetch what was prefilled before. Where there is
// none a regular worker may do it all again.
func (x *exchange) tryDecode() (again bool, err error) {
	x.query.Role, x.query.Whole, x.query.Beside = actors.Decode, false, x.p.opts.PD.Beside
	lease, err := x.acquire()
	if err != nil {
		return false, err
	}
	if x.query.Served() == actors.Regular {
		x.split.kept = false
		x.abandon()
		return x.decodeWhole(lease)
	}
	x.split.pair.Decode, _ = lease.Handle.(*backend).peer(lease.Rank)
	return x.decodeAt(lease)
}

// decodeAt runs the second phase at the worker of a lease, which it ends or hands
// to the stream of the answer.
func (x *exchange) decodeAt(lease actors.Lease) (again bool, err error) {
	p, s, pool := x.p, &x.split, poolOf(&lease)
	cause, reuse := actors.Aborted, false
	var failed error // of the prefill
	defer func() {
		if x.moved {
			return // to the stream, with the lease, the link and the prefill that runs
		}
		s.stopPrefill()
		x.link.settle(pool, reuse)
		if x.record.cause = cause; failed != nil {
			x.record.cause = causeOfPrefill(failed)
		}
		x.release(&lease, cause, again)
	}()
	x.granted(&lease)
	x.composeDecode(&lease)
	if x.sent = false; x.link.guard.Left() {
		// A request that is sent now would be called off before it is taken up.
		cause = actors.ClientGone
		return x.decodeFailed(&lease, &failure{cause: cause, err: errClientGone})
	}
	s.began = time.Now()
	size, err := x.converse(pool, lease.Worker)
	if err == nil {
		p.metrics.pd.decode.Update(time.Since(s.began).Seconds())
		cause = actors.CauseOf(x.answer.Status)
		x.takeHead(size)
		x.answerBegan(&lease)
		if p.router.NeedsFirstByte(actors.Decode) && !x.sse { // of events the stream tells
			lease.FirstByte(0)
		}
		if x.answer.Status >= 400 {
			again, err = x.decodeRefused(&lease, &reuse)
			var f *failure
			if errors.As(err, &f) {
				f.phase, cause = actors.Decode.String(), f.cause
			}
			return again, err
		}
		s.pinned = false
		reuse, err = x.relay(pool, &lease)
	}
	if err == nil {
		return false, nil
	}
	if failed = s.prefillFailure(); failed != nil {
		// It took the decode request down with it, which may have been under way.
		run, before := s.run, s.failed
		s.stopPrefill()
		cause = actors.Aborted
		s.failed++
		return x.prefillFailed(&run.lease, failed, before)
	}
	var f *failure
	if !errors.As(err, &f) {
		return false, err
	}
	cause = f.cause
	return x.decodeFailed(&lease, f)
}

// decodeFailed reports whether a request whose decode worker gave no answer may
// be tried again.
func (x *exchange) decodeFailed(lease *actors.Lease, f *failure) (again bool, err error) {
	s := &x.split
	f.phase = actors.Decode.String()
	s.stopPrefill()
	x.exclusion(lease) // also from a rescue
	if f.cause == actors.ClientGone || f.cause == actors.RouterExhausted {
		s.pinned = s.pinned && !x.sent
		return false, f
	}
	if f.cause != actors.ConnectFailed {
		x.p.doubt(s.site)               // what it told may be what is wrong
		s.pinned, s.kept = false, false // the decode worker may have fetched them
		if f.cause == actors.UpstreamTimeout || s.failed > 0 {
			return false, f
		}
		s.failed++
	}
	if !x.attemptsLeft(0) {
		return false, f
	}
	x.abandon()
	return true, f
}

// abandon notes that both requests are made again, unless what was prefilled
// serves for another decode worker.
func (x *exchange) abandon() {
	if s := &x.split; s.pinned && !s.kept {
		s.pinned = false
		x.p.metrics.pd.stranded.Inc()
	}
}

// decodeRefused answers with a decode worker's error, or has the request tried
// again.
func (x *exchange) decodeRefused(lease *actors.Lease, reuse *bool) (again bool, err error) {
	s, status := &x.split, x.answer.Status
	s.stopPrefill()
	x.exclusion(lease) // also from a rescue
	busy := status == 429 || status == 503
	if status < 500 && !busy {
		*reuse, err = x.relay(poolOf(lease), lease)
		return false, err
	}
	if !busy {
		x.p.doubt(s.site)
		s.pinned, s.kept = false, false
	}
	again = x.attemptsLeft(s.failed) && (lease.Decision.Candidates > 1 || !x.answer.HasRetryAfter)
	switch {
	case status >= 500:
		var e *problem
		e, *reuse = x.workerProblem(actors.Decode)
		x.kept = again
		x.refuse(e)
	case !again || !x.keep(reuse):
		*reuse, err = x.relay(poolOf(lease), lease)
		return false, err
	}
	if again {
		s.failed++
		x.abandon()
	}
	return again, nil
}
