package proxy

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
)

// attempt is a way to run a request; see tryWhole for what it returns.
type attempt func(*exchange) (again bool, err error)

// serve makes attempts until one answers, or the retries are spent.
func (x *exchange) serve(try attempt) {
	defer x.charge()
	var last error
	for {
		x.record.attempts++
		x.roams = false
		x.query.Now = x.p.now()
		x.query.Exclude = x.exclude
		if until := x.link.until; !until.IsZero() { // also while it waits for room
			by := x.query.Now + int64(time.Until(until))
			if d := x.query.Deadline; d == 0 || by < d {
				x.query.Deadline = by
			}
		}
		x.query.Retry = x.seen+x.split.failed > 0
		x.once = x.once || x.query.Retry
		again, err := try(x)
		if !again {
			if errors.Is(err, actors.ErrRetryBudget) && last != nil {
				err = last // which says more
			}
			if err != nil {
				x.giveUp(err)
			}
			return
		}
		last = err
		if !x.pause(err) {
			x.giveUp(&failure{cause: actors.ClientGone, err: errClientGone})
			return
		}
		if x.link.overdue() {
			if err != nil {
				x.giveUp(err)
			}
			return // with an error that was kept
		}
	}
}

// giveUp answers when no worker did. A worker's error that was kept is better
// than one of ours that only says that there was nobody else to ask.
func (x *exchange) giveUp(err error) {
	var f *failure
	isFailure := errors.As(err, &f)
	if x.kept && !isFailure {
		return
	}
	if isFailure {
		x.record.cause = f.cause
	}
	e := problemOf(err)
	if errors.Is(err, actors.ErrNoModel) {
		e = x.noModel()
	}
	if pause := x.query.RetryAfter(); pause > 0 {
		e.retryAfter = pause
	}
	x.refuse(e)
	if x.record.cause == actors.ClientGone {
		x.ctx.SetConnectionClose()
	}
}

// tryWhole runs the request at one worker. It reports whether it should be tried
// again; otherwise the request is answered, or err says why it isn't.
func (x *exchange) tryWhole() (again bool, err error) {
	lease, err := x.acquire()
	if err != nil {
		return false, err
	}
	return x.runWhole(lease)
}

// acquire has the registry choose a worker, and waits for room if it must.
func (x *exchange) acquire() (actors.Lease, error) {
	lease, err := x.p.router.AcquireFor(&x.query, &x.link)
	if err = x.waited(err); err != nil && lease.Handle != nil {
		lease.Release(actors.ClientGone, x.p.now())
	}
	return lease, err
}

// waited looks at how a wait for room has ended, if there was one.
func (x *exchange) waited(err error) error {
	if x.query.ClientLeft() {
		x.link.guard.Note()
	}
	if x.record.trace != nil {
		x.traceWait(err)
	}
	if errors.Is(err, actors.ErrClientLeft) || err == nil && x.query.ClientLeft() {
		return &failure{cause: actors.ClientGone, err: errClientGone}
	}
	return err
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
		x.release(&lease, cause, again)
	}()
	x.granted(&lease)
	x.patience = p.opts.Timeouts.FirstByte
	x.compose(x.ctx.Request.Header.Method(), pool, x.target, x.headers, lease.Rank, x.body, x.framed)
	size, err := x.converse(pool, lease.Worker)
	if err == nil {
		cause = actors.CauseOf(x.answer.Status)
		x.takeHead(size)
		x.answerBegan(&lease)
		if p.router.NeedsFirstByte(x.query.Served()) && !x.sse { // of events the stream tells
			lease.FirstByte(p.firstAt(&x.record))
		}
		if x.roams = x.wanders(&lease); (x.roams || x.worthRetrying(&lease)) && x.keep(&reuse) {
			if !x.roams {
				x.seen++
			}
			return x.exclusion(&lease), nil
		}
		reuse, err = x.relay(pool, &lease)
	}
	if err == nil {
		return false, nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		cause = f.cause
		return x.mayRetry(&lease, f), err
	}
	return false, err
}

// granted notes that a lease was granted for the answer.
func (x *exchange) granted(lease *actors.Lease) {
	x.record.granted(lease)
	x.startClock()
	x.p.metrics.decided(&lease.Decision)
	x.p.logDecision(x, lease)
	x.noteDecision(lease, false)
	if x.record.trace != nil {
		x.traceAttempt(lease)
	}
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
		if !x.repeatable() || x.seen > 0 {
			return false
		}
		x.seen++
	default:
		return false
	}
	return x.exclusion(lease)
}

// worthRetrying reports whether a worker's answer is an error that another
// attempt may mend. What has failed at two workers fails at any. A worker that says
// when to come back is believed, unless there is another one.
func (x *exchange) worthRetrying(lease *actors.Lease) bool {
	switch x.answer.Status {
	case 408, 429, 500, 502, 503, 504:
	default:
		return false
	}
	return x.attemptsLeft(x.seen) && x.repeatable() && (lease.Decision.Candidates > 1 || !x.answer.HasRetryAfter)
}

// attemptsLeft reports whether another attempt is allowed: not while the router
// stops. seen is how many have failed at a worker that had seen the request: what
// two have failed is asked of no third.
func (x *exchange) attemptsLeft(seen int) bool {
	if x.record.attempts < x.p.opts.Retry.MaxAttempts && seen == 0 {
		return !x.p.stopping()
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
	by := time.Now().Add(x.p.opts.short(keptWithin))
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
	return !l.guard.Wait(l.bounded(d))
}

// backoff is the wait behind the n-th attempt, counted from 1.
func (o *RetryOptions) backoff(n int) time.Duration {
	d := math.Floor(float64(o.InitialBackoff.Milliseconds()) * math.Pow(o.Multiplier, float64(n-1)))
	d = min(d, float64(o.MaxBackoff.Milliseconds()))
	d += d * o.Jitter * (2*rand.Float64() - 1)
	return time.Duration(d * float64(time.Millisecond))
}
