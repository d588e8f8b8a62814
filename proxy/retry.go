package proxy

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
)

// serve tries workers until one answers, or the retries are spent.
func (x *exchange) serve() {
	for {
		x.record.attempts++
		again, err := x.try()
		if !again {
			if err != nil {
				x.giveUp(err)
			}
			return
		}
		if !x.pause(err) {
			x.giveUp(&failure{actors.ClientGone, errClientGone})
			return
		}
	}
}

// giveUp answers when no worker did. A worker's error that was kept is better
// than one of ours that only says that there was nobody else to ask.
func (x *exchange) giveUp(err error) {
	if x.kept && errors.Is(err, actors.ErrNoWorker) {
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

// try runs the request at one worker. It reports whether it should be tried
// again; otherwise the request is answered, or err says why it isn't.
func (x *exchange) try() (again bool, err error) {
	p := x.p
	x.roams = false
	x.query.Now = p.now()
	x.query.Exclude = x.exclude
	lease, err := p.router.Acquire(&x.query)
	if err != nil {
		return false, err
	}
	pool, cause, reuse := lease.Handle.(*upstream.Pool), actors.Aborted, false
	defer func() {
		if x.moved {
			return // to the stream, with the lease and the link
		}
		x.link.settle(pool, reuse)
		x.record.cause = cause
		lease.Release(cause, p.now())
	}()
	x.record.granted(&lease)
	p.metrics.decided(&lease.Decision)
	p.logDecision(x, &lease)

	size, err := x.converse(pool, &lease)
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
	if x.record.attempts >= x.p.opts.Retry.MaxAttempts {
		if x.record.attempts > 1 {
			x.p.metrics.exhausted(x.record.class)
		}
		return false
	}
	return x.repeatable() && !x.p.stopping() && (lease.Decision.Candidates > 1 || !x.answer.HasRetryAfter)
}

// repeatable reports whether the request may be sent again though a worker has
// seen it: generation may, and so may what only reads.
func (x *exchange) repeatable() bool {
	h := &x.ctx.Request.Header
	return x.record.class.repeatable() || h.IsGet() || h.IsHead()
}

// keptAnswer is how much of a worker's error is kept while another worker is
// asked.
const keptAnswer = 64 << 10

// keep reads a worker's error to its end into the answer for the client, in case
// there is nobody better to ask. It reports false, having taken nothing, when
// the error is too long to be kept: then it is the answer.
func (x *exchange) keep(reuse *bool) bool {
	b, ctx := &x.coming, x.ctx
	if b.left > keptAnswer || b.left == httphead.UntilClose {
		return false
	}
	x.setWorkerHead()
	ctx.Response.ResetBody()
	for size := 0; !b.ended; {
		piece, err := b.next(&x.link, x.p.opts.Timeouts.Idle)
		size += len(piece)
		if size > keptAnswer || err != nil && !b.ended {
			// Too late to pass it on: it is lost, and so is its connection.
			answerProblem(ctx, (&failure{actors.UpstreamTruncated, err}).problem())
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
