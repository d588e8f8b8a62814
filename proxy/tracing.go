package proxy

import (
	"errors"
	"strings"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/trace"
	"loadstar/proxy/usage"

	"github.com/valyala/fasthttp"
	api "go.opentelemetry.io/otel/trace"
)

// tracing is the trace of a request: its spans, and what of the request they tell
// when it is gone.
type tracing struct {
	*trace.Request
	id string
}

// carry is how a request's trace goes on at workers. The zero carry passes the trace
// headers on as they came.
type carry struct {
	own    bool // traceparent is written here
	parent bool // it continues a trace that came with the request, and so does tracestate
	trace  trace.Parent
	at     int // where in the exchange's headers the value begins
}

// newTracer returns nil if requests aren't traced.
func (p *Proxy) newTracer() (*trace.Tracer, error) {
	if p.opts.Tracing == nil {
		return nil, nil
	}
	o := *p.opts.Tracing
	o.Version, o.Metrics, o.Log = p.opts.Version, p.metrics.set, p.log
	return trace.New(o)
}

// longestState is how long a tracestate is at most; a longer one is not told.
const longestState = 512

// beginTrace decides whether the request is traced, and begins its span if so.
func (x *exchange) beginTrace() {
	x.carry = carry{}
	t := x.p.tracer
	if t.Excludes(x.path) {
		return
	}
	var parent trace.Parent
	var states [][]byte
	parents := 0
	for l := httphead.LinesOf(x.ctx.Request.Header.RawHeaders()); l.Next(); {
		switch {
		case len(l.Name) == 11 && httphead.Is(l.Name, "traceparent"):
			parents++
			parent, _ = trace.ParseParent(l.Value)
		case len(l.Name) == 10 && httphead.Is(l.Name, "tracestate"):
			states = append(states, l.Value)
		}
	}
	if parents > 1 {
		parent = trace.Parent{} // who can tell which one is meant
	}
	c := &x.carry
	var traced bool
	c.trace, traced = t.Decide(parent)
	c.parent = parent.Valid()
	c.own = traced || !c.parent
	if !traced {
		return
	}
	call := trace.Call{
		Parent: c.trace, Remote: c.parent, Method: string(x.ctx.Method()), TLS: x.ctx.IsTLS(), Client: x.ctx.RemoteIP().String(), Started: x.record.started,
	}
	if x.path != nil {
		call.Path = x.shownPath()
	}
	if c.parent {
		call.State = joinStates(states)
	}
	x.record.trace = &tracing{Request: t.Begin(&call)}
	c.trace.Span = x.record.trace.Span()
}

func joinStates(states [][]byte) string {
	var b strings.Builder
	for i, s := range states {
		if b.Len()+len(s) > longestState {
			return ""
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(s)
	}
	return b.String()
}

// appendCarry appends the traceparent for workers, whose parent is the request's span
// until an attempt puts its own there.
func (x *exchange) appendCarry(h []byte) []byte {
	h = append(h, "traceparent: "...)
	x.carry.at = len(h)
	h = x.carry.trace.AppendParent(h)
	return append(h, "\r\n"...)
}

// carryOn has the next request that is composed go on from a span.
func (x *exchange) carryOn(id api.SpanID) { trace.PutSpan(x.headers[x.carry.at:], id) }

// operations are the standard's names for what generates.
var operations = [numPathClasses]string{
	pathChat: "chat", pathCompletions: "text_completion", pathGenerate: "text_completion", pathEmbeddings: "embeddings",
	pathResponses: "chat", pathMessages: "chat",
}

// traceQuestion tells what is asked of a worker.
func (x *exchange) traceQuestion() {
	x.record.trace.id = string(x.id)
	x.record.trace.Asks(operations[x.record.class], string(x.query.Model), x.query.Stream)
}

// traceWait tells of a wait for room, if there was one, that has ended with err.
func (x *exchange) traceWait(err error) {
	wait := x.query.Waited()
	if wait <= 0 {
		return
	}
	refused := ""
	if err != nil && !errors.Is(err, actors.ErrClientLeft) {
		refused = problemOf(err).code
	}
	x.record.trace.Queued(wait, refused)
}

// traceAttempt begins the span of an attempt whose answer is to be the client's.
func (x *exchange) traceAttempt(lease *actors.Lease) {
	name := "attempt"
	if x.record.prefill != "" {
		name = "decode"
	}
	x.record.trace.Follow(x.try(name, lease))
}

// tracePrefill begins the span of a prefill.
func (x *exchange) tracePrefill(lease *actors.Lease) *trace.Attempt { return x.try("prefill", lease) }

func (x *exchange) try(name string, lease *actors.Lease) *trace.Attempt {
	d := &lease.Decision
	a := x.record.trace.Try(&trace.Choice{
		Name: name, Worker: lease.URL, Host: string(poolOf(lease).Host()), Resends: x.record.attempts - 1,
		Policy: x.p.policies(), Reason: d.Reason.String(), Match: d.Match, Blocks: d.Blocks, Candidates: d.Candidates,
	})
	x.carryOn(a.Span())
	return a
}

// statusOfPrefill is the status of a prefill worker's answer, 0 if none has come.
func statusOfPrefill(a *httphead.Answer, err error) int {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case err == nil:
		return a.Status
	}
	return 0
}

// endPrefill ends the span of a prefill beside the decode request.
func endPrefill(t *trace.Attempt, a *httphead.Answer, err error, c actors.Cause) {
	if status := statusOfPrefill(a, err); status > 0 {
		t.Answered(status)
	}
	t.End(c.String(), isFault(c))
}

// isFault reports whether a lease that ended so has gone wrong at the worker or on the
// way to it.
func isFault(c actors.Cause) bool {
	switch c {
	case actors.Completed, actors.ClientGone, actors.Moved:
		return false
	}
	return true
}

// endAttempt ends the span of the attempt that runs.
func (r *record) endAttempt(c actors.Cause) { r.trace.EndAttempt(c.String(), isFault(c)) }

// counts reports whether the tokens that the answer tells are told of.
func (x *exchange) counts() bool {
	return x.record.trace != nil && x.answer.Status == fasthttp.StatusOK && !x.encoded
}

// countTokens tells of the usage in a whole answer.
func (r *record) countTokens(answer []byte) {
	var s usage.Scanner
	s.Feed(answer)
	r.tellTokens(s.Usage())
}

func (r *record) tellTokens(u usage.Usage) {
	if u.HasPrompt {
		r.trace.Tokens(u.Prompt, u.Completion)
	}
}

// traceRelease tells how a stream's attempt has ended.
func (s *stream) traceRelease(c actors.Cause) {
	if s.counts {
		s.record.tellTokens(s.usage.Usage())
	}
	s.record.endAttempt(c)
}

// endTrace ends the request's span.
func (r *record) endTrace() {
	t := r.trace
	route := ""
	if c := r.class; c != pathOther && c <= pathModels && c != pathAudio { // the others are several paths
		route = c.String()
	}
	refused := r.refused
	if r.status < 400 {
		refused = "" // that was an error that another attempt has mended
	}
	t.End(&trace.Result{
		Route: route, ID: t.id, Status: r.status, Outcome: r.outcome(), Refused: refused, Attempts: r.attempts,
		Failed: r.status >= 500 || !r.own && refused == "" && isFault(r.cause) && r.cause != actors.ClientError,
	})
}
