package proxy

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
)

// serve makes attempts until one answers, or the retries are spent; see tryWhole
// for what try returns.
func (x *exchange) serve(try func() (again bool, err error)) {
	for {
		x.record.attempts++
		x.roams = false
		x.query.Now = x.p.now()
		x.query.Exclude = x.exclude
		again, err := try()
		if !again {
			if err != nil {
				x.giveUp(err)
			}
			return
		}
		if !x.pause(err) {
			x.giveUp(&failure{cause: actors.ClientGone, err: errClientGone})
			return
		}
	}
}

// giveUp answers when no worker did. A worker's error that was kept is better
// than one of ours that only says that there was nobody else to ask.
func (x *exchange) giveUp(err error) {
	if x.kept && (errors.Is(err, actors.ErrNoWorker) || errors.Is(err, actors.ErrNoPrefill) || errors.Is(err, actors.ErrNoDecode)) {
		return
	}
	var f *failure
	if errors.As(err, &f) {
		x.record.cause = f.cause
	}
	x.refuse(problemOf(err))
	if x.record.cause == actors.ClientGone {
		x.ctx.SetConnectionClose()
	}
}

// tryWhole runs the request at one worker. It reports whether it should be tried
// again; otherwise the request is answered, or err says why it isn't.
func (x *exchange) tryWhole() (again bool, err error) {
	lease, err := x.p.router.Acquire(&x.query)
	if err != nil {
		return false, err
	}
	return x.runWhole(lease)
}

// runWhole is tryWhole with a lease, which it ends or hands to the stream of the
// answer.
func (x *exchange) runWhole(lease actors.Lease) (again bool, err error) {
	p, pool, cause, reuse := x.p, poolOf(&lease), actors.Aborted, false
	defer func() {
		if x.moved {
			return // to the stream, with the lease and the link
		}
		x.link.settle(pool, reuse)
		x.record.cause = cause
		lease.Release(cause, p.now())
	}()
	x.granted(&lease)
	x.patience = p.opts.Timeouts.FirstByte
	x.compose(&x.ctx.Request, pool, x.target, x.headers, lease.Rank, x.body, x.framed)
	size, err := x.converse(pool, lease.Worker)
	if err == nil {
		x.record.firstByte()
		if p.router.NeedsFirstByte(x.query.Role) {
			lease.FirstByte()
		}
		cause = actors.CauseOf(x.answer.Status)
		x.takeHead(size)
		if x.roams = x.wanders(&lease); (x.roams || x.worthRetrying(&lease)) && x.keep(&reuse) {
			return x.exclusion(&lease), nil
		}
		reuse, err = x.relay(pool, &lease)
	}
	var f *failure
	if errors.As(err, &f) {
		cause = f.cause
		return x.mayRetry(&lease, f), err
	}
	return false, err
}

// granted notes that a lease was granted for the answer.
func (x *exchange) granted(lease *actors.Lease) {
	x.record.granted(lease)
	x.p.metrics.decided(&lease.Decision)
	x.p.logDecision(x, lease)
}

// exclusion keeps later attempts away from the worker of this one.
func (x *exchange) exclusion(lease *actors.Lease) bool {
	x.exclude = append(x.exclude, lease.Worker)
	return true
}

// mayRetry reports whether a request that brought no answer may go to another
// worker. One that timed out may still be worked on.
func (x *exchange) mayRetry(lease *actors.Lease, f *failure) bool {
	if x.record.attempts >= x.p.opts.Retry.MaxAttempts || x.p.stopping() {
		return false
	}
	switch f.cause {
	case actors.ConnectFailed: // nobody has seen it
	case actors.UpstreamReset, actors.UpstreamInvalid, actors.UpstreamTruncated:
		if !x.repeatable() {
			return false
		}
	default:
		return false
	}
	return x.exclusion(lease)
}

// worthRetrying reports whether a worker's answer is an error that another
// attempt may mend. A worker that says when to come back is believed, unless
// there is another one.
func (x *exchange) worthRetrying(lease *actors.Lease) bool {
	switch x.answer.Status {
	case 408, 429, 500, 502, 503, 504:
	default:
		return false
	}
	return x.attemptsLeft() && x.repeatable() && !x.p.stopping() && (lease.Decision.Candidates > 1 || !x.answer.HasRetryAfter)
}

// attemptsLeft reports whether another attempt is allowed.
func (x *exchange) attemptsLeft() bool {
	if x.record.attempts < x.p.opts.Retry.MaxAttempts {
		return true
	}
	if x.record.attempts > 1 {
		x.p.metrics.exhausted(x.record.class)
	}
	return false
}

// repeatable reports whether the request may be sent again though a worker has
// seen it: generation may, and so may what only reads.
func (x *exchange) repeatable() bool {
	h := &x.ctx.Request.Header
	return x.record.class.repeatable() || h.IsGet() || h.IsHead()
}

// Bounds of a worker's error that is kept while another worker is asked.
const (
	keptAnswer = 64 << 10    // bytes
	keptWithin = time.Second // for its body to come
)

// keep reads a worker's error to its end into the answer for the client, in case
// there is nobody better to ask. It reports false, having taken nothing, when
// the error is too long to be kept: then it is the answer. One that is slow to
// come is given up, for the client waits for the other worker.
func (x *exchange) keep(reuse *bool) bool {
	b, ctx := &x.coming, x.ctx
	if b.left > keptAnswer || b.left == httphead.UntilClose {
		return false
	}
	x.setWorkerHead()
	ctx.Response.ResetBody()
	by := time.Now().Add(keptWithin)
	for size := 0; !b.ended; {
		piece, err := b.next(&x.link, max(time.Until(by), time.Nanosecond))
		size += len(piece)
		if size > keptAnswer || err != nil && !b.ended {
			// Too late to pass it on: it is lost, and so is its connection.
			answerProblem(ctx, (&failure{cause: actors.UpstreamTruncated, err: err}).problem())
			x.kept = true
			return true
		}
		ctx.Response.AppendBody(piece)
	}
	b.free(&x.link)
	x.kept, *reuse = true, x.answer.KeepAlive
	return true
}

// pause waits before the next attempt, and reports false when the client leaves
// meanwhile. Where nobody has seen the request yet, or has what it is about, the
// next worker is asked at once.
func (x *exchange) pause(err error) bool {
	if x.roams {
		return true
	}
	x.p.metrics.retried(x.record.class)
	var f *failure
	if errors.As(err, &f) && f.cause == actors.ConnectFailed && x.record.others {
		return true
	}
	d := x.p.opts.Retry.backoff(x.record.attempts)
	x.p.metrics.backoff.Update(d.Seconds())
	l := &x.link
	l.guard.Arm(l.client, nil)
	return !l.guard.Wait(d)
}

// backoff is the wait behind the n-th attempt, counted from 1.
func (o *RetryOptions) backoff(n int) time.Duration {
	d := math.Floor(float64(o.InitialBackoff.Milliseconds()) * math.Pow(o.Multiplier, float64(n-1)))
	d = min(d, float64(o.MaxBackoff.Milliseconds()))
	d += d * o.Jitter * (2*rand.Float64() - 1)
	return time.Duration(d * float64(time.Millisecond))
}
