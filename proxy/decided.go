package proxy

import (
	"math"
	"time"

	"loadstar/actors"
	"loadstar/proxy/decisions"
	"loadstar/proxy/usage"

	"github.com/valyala/fasthttp"
)

// explainAll has the registry write down the figures of each choice, where the log of
// decisions wants them and no more was asked for.
func (x *exchange) explainAll() {
	if x.p.decisions != nil && x.query.Explain == nil {
		x.explained(0)
	}
}

// noteDecision opens the entry for a lease in the log of decisions. That of an attempt
// before ends with what has come of it. The decode phase of a pair goes into the
// entry of its prefill, whose choice it was that went by the prompt.
func (x *exchange) noteDecision(l *actors.Lease, prefills bool) {
	if x.p.decisions == nil || x.query.Explain == nil {
		return
	}
	r := &x.record
	if e := r.decision; e != nil {
		if e.Attempt == r.attempts && e.Worker == "" {
			e.Worker = l.URL
			return
		}
		x.p.keepDecision(r, r.cause.String(), 0)
	}
	e := x.p.decisions.Entry()
	e.Name(x.id, x.query.Model)
	e.At, e.Attempt = x.p.start.Add(time.Duration(x.query.Now)), r.attempts
	d := &l.Decision
	e.Reason, e.Blocks, e.Match, e.Best, e.Candidates = d.Reason.String(), d.Blocks, d.Match, d.Best, d.Candidates
	for i := range x.why.Of {
		if w := &x.why.Of[i]; w.Made() && w.Chosen.URL == l.URL {
			e.Policy, e.Load, e.Pending, e.Weighs, e.Lambda = w.Policy, w.Chosen.Load, w.Chosen.Pending, w.Weighs, w.Lambda
		}
	}
	if prefills {
		e.Prefill = l.URL
	} else {
		e.Worker = l.URL
	}
	r.decision = e
}

// keepDecision gives the entry that is open, if there is one, to the log. The status
// is that of the client's answer, 0 for an attempt that wasn't the last.
func (p *Proxy) keepDecision(r *record, outcome string, status int) {
	e := r.decision
	if e == nil {
		return
	}
	r.decision = nil
	if e.TTFT == 0 && r.first > 0 && r.started.Add(r.first).After(e.At) { // else it is an earlier attempt's
		e.TTFT = r.first
	}
	e.Status, e.Outcome = status, outcome
	p.decisions.Keep(e)
}

// firstPiece notes that the first piece of a stream's body has come.
func (r *record) firstPiece() {
	if e := r.decision; e != nil && e.TTFT == 0 {
		e.TTFT = time.Since(r.started)
	}
}

// told notes what the answer has told of its tokens.
func (r *record) told(u usage.Usage) {
	if e := r.decision; e != nil && u.HasPrompt {
		e.HasUsage, e.Prompt, e.Cached = true, bounded(u.Prompt), -1
		if u.HasCached {
			e.Cached = bounded(u.Cached)
		}
	}
}

// bounded is what a worker tells of tokens, which may be any number.
func bounded(n uint64) int { return int(min(n, math.MaxInt32)) }

// writeDecisions lists the last decisions, the newest first.
func (x *exchange) writeDecisions() {
	if x.p.decisions == nil {
		x.refuse(&problem{
			fasthttp.StatusNotFound, kindNotFound, "decision_log_off", "Decisions are not kept: start the router with --decision-log above 0.", 0,
		})
		return
	}
	x.answerBody(fasthttp.StatusOK, "application/x-ndjson", x.p.decisions.AppendLines(nil, decisions.MaxEntries))
}
