package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/pd"
	"loadstar/proxy/rawjson"
	"loadstar/proxy/trace"
	"loadstar/proxy/watch"
)

// prefill sends the request that was composed to the prefill worker of a lease and
// reads its reply, whose bytes it appends to buf. The prompt is taken for worked off
// when the reply begins. It reports whether the connection may
// carry another request. The error is a *failure or a *refusal.
func (g *leg) prefill(lease *actors.Lease, buf []byte) (answer []byte, r pd.Reply, reuse bool, err error) {
	begun := time.Now()
	limit := g.p.opts.PD.PrefillTimeout
	g.patience = limit
	size, err := g.converse(poolOf(lease), lease.Worker)
	if err != nil {
		return buf, r, false, err
	}
	if g.p.router.NeedsFirstByte(actors.Prefill) {
		lease.FirstByte(g.p.now())
	}
	a := &g.answer
	var refused *refusal
	if a.Status >= 300 {
		refused = &refusal{status: a.Status, retryAfter: retryAfter(a), reason: append([]byte(nil), a.Reason...), lines: g.appendLines(nil)}
	}
	g.passHead(size)
	answer, err = g.readWhole(buf, func() time.Duration {
		if limit <= 0 {
			return 0
		}
		return max(limit-time.Since(begun), time.Nanosecond)
	})
	if err != nil {
		return answer, r, false, err
	}
	if refused != nil {
		refused.body = append([]byte(nil), answer...)
		return answer, r, a.KeepAlive, refused
	}
	r, err = pd.ReadReply(answer)
	if err != nil {
		return answer, r, a.KeepAlive, &failure{cause: actors.UpstreamInvalid, err: err}
	}
	if g.p.router.NeedsKey(actors.Prefill) {
		g.p.learn(lease, answer)
	}
	g.p.metrics.pd.prefill.Update(time.Since(begun).Seconds())
	return answer, r, a.KeepAlive, nil
}

// passHead lets go of the answer's head, the first size bytes of what is buffered,
// and makes ready for its body.
func (g *leg) passHead(size int) {
	g.coming = bodyReader{left: g.answer.Length, ended: !g.answer.HasBody(false)}
	g.link.conn.Reader().Discard(size)
}

var errLongAnswer = errors.New("the worker's answer is longer than --max-payload-size")

// readWhole appends the answer's body to dst. patience bounds the wait for each
// piece. The error is a *failure.
func (g *leg) readWhole(dst []byte, patience func() time.Duration) ([]byte, error) {
	for !g.coming.ended {
		piece, err := g.coming.next(&g.link, patience())
		if err != nil && !g.coming.ended {
			return dst, &failure{cause: causeOf(err, true), err: err}
		}
		if len(dst)+len(piece) > g.p.opts.Limits.BodyBytes {
			return dst, &failure{cause: actors.UpstreamInvalid, err: errLongAnswer}
		}
		dst = append(dst, piece...)
	}
	g.coming.free(&g.link)
	return dst, nil
}

// refusal is a prefill worker's answer other than 2xx.
type refusal struct {
	status     int
	retryAfter int // seconds, 0 if it doesn't say
	reason     []byte
	lines      []byte // headers, as takeHead makes them
	body       []byte
}

func (r *refusal) Error() string { return fmt.Sprintf("the prefill worker answered %d", r.status) }

// causeOfPrefill says how a prefill ended.
func causeOfPrefill(err error) actors.Cause {
	var (
		f *failure
		r *refusal
	)
	switch {
	case errors.As(err, &f):
		return f.cause
	case errors.As(err, &r):
		return actors.CauseOf(r.status)
	default:
		return actors.Completed
	}
}

// prefillFailed answers for a prefill that failed, or has the request tried
// again: with another pair, for both their ids and their workers belong together.
// failed is how many attempts a decode worker has seen before.
func (x *exchange) prefillFailed(lease *actors.Lease, err error, failed int) (again bool, _ error) {
	if errors.Is(err, errStaleIdentity) {
		return x.attemptsLeft(failed), &failure{cause: actors.UpstreamReset, err: err, phase: actors.Prefill.String()}
	}
	x.exclusion(lease)
	var r *refusal
	if errors.As(err, &r) {
		switch r.status {
		case 429, 500, 502, 503, 504:
			again = x.attemptsLeft(x.seen+failed) && (lease.Decision.Candidates > 1 || r.retryAfter == 0)
		}
		if x.kept = again; again {
			x.seen++
		}
		x.record.cause = causeOfPrefill(r)
		x.refusePrefill(r)
		return again, nil
	}
	var f *failure
	if errors.As(err, &f) {
		f.phase = actors.Prefill.String()
		switch f.cause {
		case actors.ConnectFailed:
			again = x.attemptsLeft(failed)
		case actors.UpstreamReset, actors.UpstreamInvalid, actors.UpstreamTruncated:
			if again = x.attemptsLeft(x.seen + failed); again {
				x.seen++
			}
		}
	}
	return again, err
}

// refusePrefill answers with a prefill worker's error: as it came if it is about
// the request.
func (x *exchange) refusePrefill(r *refusal) {
	if r.status >= 500 {
		x.refuse(workerProblem(actors.Prefill, r.status, r.retryAfter, r.body))
		return
	}
	x.record.status = r.status
	x.lines = append(x.lines[:0], r.lines...)
	x.setHead(r.status, r.reason)
	x.ctx.Response.SetBody(r.body)
	x.record.bytes += int64(len(r.body))
}

// workerProblem reads the error that a worker has answered with, and reports
// whether the connection may carry another request.
func (x *exchange) workerProblem(role actors.Role) (e *problem, reuse bool) {
	status, pause, keepAlive := x.answer.Status, retryAfter(&x.answer), x.answer.KeepAlive
	var body []byte
	for !x.coming.ended && len(body) < keptAnswer {
		piece, err := x.coming.next(&x.link, x.p.opts.Timeouts.Idle)
		body = append(body, piece...)
		if err != nil {
			break
		}
	}
	x.coming.free(&x.link)
	return workerProblem(role, status, pause, body), keepAlive && x.coming.ended
}

// workerProblem is the problem that a worker's error is for the client.
func workerProblem(role actors.Role, status, retryAfter int, body []byte) *problem {
	message := fmt.Sprintf("The %s worker answered %d", role, status)
	if m := errorMessage(body); m != "" {
		message += ": " + m
	}
	switch status {
	case 429, 503, 504:
	default:
		status = 502
	}
	return &problem{status, kindServer, role.String() + "_failed", message, retryAfter}
}

// errorMessage is what an error's body says in OpenAI's shape, shortened; "" if it
// has none.
func errorMessage(body []byte) string {
	const most = 300
	var message string
	if json.Unmarshal(rawjson.Member(rawjson.Member(body, "error"), "message"), &message) != nil {
		return ""
	}
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	return message
}

// retryAfter is the number of seconds that an answer asks to wait for, 0 if none.
func retryAfter(a *httphead.Answer) int {
	if !a.HasRetryAfter {
		return 0
	}
	for l := httphead.LinesOf(a.Headers); l.Next(); {
		if httphead.Is(l.Name, "retry-after") {
			if n, err := strconv.Atoi(string(l.Value)); err == nil && n > 0 {
				return n
			}
			return 1 // a date: soon
		}
	}
	return 0
}

// prefillRun is a prefill that runs beside the decode request, on a goroutine of
// its own, which ends its lease.
type prefillRun struct {
	leg   leg
	lease actors.Lease
	pair  pd.Pair
	main  *watch.Guard   // of the decode request
	trace *trace.Attempt // nil unless the request is traced
	stop  chan struct{}  // closed when nobody wants the reply any more
	fail  chan struct{}  // closed when the decode request is ended for err
	over  chan struct{}  // closed when reply or err is there
	done  chan struct{}  // closed when it needs nothing more; the guard is free then

	reply pd.Reply
	err   error
}

var errStaleIdentity = errors.New("the prefill worker is another process than the decode worker was told")

// startPrefill starts the prefill, which takes over the lease when this returns.
func (x *exchange) startPrefill(lease *actors.Lease) {
	l := &x.link
	l.guard.Arm(l.client, nil)
	r := &prefillRun{
		leg: leg{p: x.p, link: link{client: l.client, until: l.until}, once: x.once, asks: x.asks}, lease: *lease, pair: x.split.pair, main: l.guard,
		stop: make(chan struct{}), fail: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
	}
	r.leg.off = r.stop
	if x.record.trace != nil {
		r.trace = x.tracePrefill(lease)
	}
	x.composePrefill(&r.leg, lease, nil)
	r.leg.link.guard = x.p.guards.Get().(*watch.Guard)
	r.leg.link.guard.Join(l.guard) // from here on somebody has to end r
	x.split.run, x.off = r, r.fail
	go r.do()
}

// do runs the prefill. A failure ends the decode request too.
func (r *prefillRun) do() {
	p, pool := r.leg.p, poolOf(&r.lease)
	reuse := false
	r.err = &failure{cause: actors.Aborted, err: errors.New("the prefill panicked")}
	defer close(r.done)
	defer func() {
		if v := recover(); v != nil {
			p.panicked("prefill", v)
		}
		close(r.over)
		select {
		case <-r.stop:
			if reuse = r.err == nil && reuse; r.err != nil {
				r.err = &failure{cause: actors.Aborted, err: r.err} // we ended it
			}
		default:
			if r.err != nil {
				close(r.fail)
				r.main.Cut()
			}
		}
		left := r.leg.link.settle(pool, reuse)
		cause := causeOfPrefill(r.err)
		if left && r.err != nil {
			cause = actors.ClientGone
		}
		r.lease.Release(cause, p.now())
		if r.trace != nil {
			endPrefill(r.trace, &r.leg.answer, r.err, cause)
		}
	}()
	_, r.reply, reuse, r.err = r.leg.prefill(&r.lease, nil)
	if r.err != nil {
		return
	}
	if r.pair.Connector == pd.NIXL {
		site := r.lease.Handle.(*backend).site
		if site.learnPush(r.pair.Prefill.Rank, &r.reply) != r.pair.Push {
			r.err = errStaleIdentity
		}
	}
}

// wait waits for the reply, or the failure of the prefill.
func (r *prefillRun) wait() error {
	<-r.over
	return r.err
}

// end waits until the prefill has given everything back. It is called off if it
// still runs. It reports whether there is a reply.
func (r *prefillRun) end() bool {
	select {
	case <-r.over:
	default:
		close(r.stop)
		r.leg.link.guard.Cut()
	}
	<-r.done
	r.leg.p.guards.Put(r.leg.link.guard)
	return r.err == nil
}

// stopPrefill ends the prefill that runs beside the decode request, if one does.
func (s *split) stopPrefill() {
	if s.run == nil {
		return
	}
	s.pinned = s.run.end()
	s.run = nil
}

// prefillFailure is why the prefill that runs beside the decode request has
// failed, or nil.
func (s *split) prefillFailure() error {
	if s.run == nil {
		return nil
	}
	select {
	case <-s.run.over:
		return s.run.err
	default:
		return nil
	}
}
