package trace

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"
)

// Request is the span of one request and those below it. Whoever serves the request
// has it; only an Attempt may be another goroutine's.
type Request struct {
	tracer *Tracer
	ctx    context.Context
	span   api.Span
	method string

	attempt *Attempt // that runs, at the worker whose answer is the client's
	told    bool     // first_token
}

// Span is the id of the request's span.
func (r *Request) Span() api.SpanID { return r.span.SpanContext().SpanID() }

// Asks notes what a request for generation is about. operation is the standard's name
// for it, empty if it has none.
func (r *Request) Asks(operation, model string, stream bool) {
	if operation == "" {
		return
	}
	attrs := []attribute.KeyValue{attribute.String("gen_ai.operation.name", operation), attribute.Bool("gen_ai.request.stream", stream)}
	if model != "" {
		attrs = append(attrs, attribute.String("gen_ai.request.model", model))
	}
	r.span.SetAttributes(attrs...)
}

// Queued notes a wait for room that has ended just now.
func (r *Request) Queued(wait time.Duration, refused string) {
	end := time.Now()
	_, s := r.tracer.spans.Start(r.ctx, "queue", api.WithTimestamp(end.Add(-wait)))
	if refused != "" {
		fail(s, refused)
	}
	s.End(api.WithTimestamp(end))
}

// Choice is how a worker was chosen.
type Choice struct {
	Name       string // of the span: attempt, prefill or decode
	Worker     string // URL, with a rank where it has one
	Host       string // of the worker, with its port
	Resends    int    // attempts before this one
	Policy     string
	Reason     string
	Match      int // blocks of the prompt that it was taken to have cached
	Blocks     int // of the prompt
	Candidates int
}

// Attempt is the span of one request to a worker.
type Attempt struct {
	span   api.Span
	status int // of the answer, 0 if none has come
}

// Try begins an attempt.
func (r *Request) Try(c *Choice) *Attempt {
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", r.method),
		attribute.String("loadstar.worker", c.Worker), attribute.String("loadstar.policy", c.Policy), attribute.String("loadstar.reason", c.Reason),
		attribute.Int("loadstar.match_blocks", c.Match), attribute.Int("loadstar.prompt_blocks", c.Blocks),
		attribute.Int("loadstar.candidates", c.Candidates),
	}
	if c.Resends > 0 {
		attrs = append(attrs, attribute.Int("http.request.resend_count", c.Resends))
	}
	if host, port, err := net.SplitHostPort(c.Host); err == nil {
		attrs = append(attrs, attribute.String("server.address", host))
		if n, err := strconv.Atoi(port); err == nil {
			attrs = append(attrs, attribute.Int("server.port", n))
		}
	}
	_, s := r.tracer.spans.Start(r.ctx, c.Name, api.WithSpanKind(api.SpanKindClient), api.WithAttributes(attrs...))
	return &Attempt{span: s}
}

// Follow makes an attempt the one that Answered and EndAttempt speak of.
func (r *Request) Follow(a *Attempt) { r.attempt = a }

// Answered notes the status of the running attempt's answer.
func (r *Request) Answered(status int) {
	if r.attempt != nil {
		r.attempt.Answered(status)
	}
}

// EndAttempt ends the running attempt, if there is one.
func (r *Request) EndAttempt(outcome string, failed bool) {
	if r.attempt != nil {
		r.attempt.End(outcome, failed)
		r.attempt = nil
	}
}

// Span is the id of the attempt's span.
func (a *Attempt) Span() api.SpanID { return a.span.SpanContext().SpanID() }

// Answered notes the status of the worker's answer.
func (a *Attempt) Answered(status int) { a.status = status }

// End ends the attempt.
func (a *Attempt) End(outcome string, failed bool) {
	attrs := append(make([]attribute.KeyValue, 0, 3), attribute.String("loadstar.outcome", outcome))
	if a.status > 0 {
		attrs = append(attrs, attribute.Int("http.response.status_code", a.status))
	}
	if failed {
		attrs = append(attrs, attribute.String("error.type", outcome))
		a.span.SetStatus(codes.Error, outcome)
	}
	a.span.SetAttributes(attrs...)
	a.span.End()
}

// FirstToken notes that a stream's first event has come from a worker. It is noted
// once.
func (r *Request) FirstToken() {
	if !r.told {
		r.told = true
		r.span.AddEvent("first_token")
	}
}

// Tokens notes the usage that an answer tells.
func (r *Request) Tokens(input, output uint64) {
	r.span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", int64(input)), attribute.Int64("gen_ai.usage.output_tokens", int64(output)))
}

// Result is how a request ended.
type Result struct {
	Route    string // its path if that is one of few, else empty
	ID       string
	Status   int
	Outcome  string
	Refused  string // code of the problem that ended it at the router, empty if none did
	Failed   bool   // for a cause that the client isn't to blame for
	Attempts int
}

// End ends the request's span, and an attempt that still runs. It is called once.
func (r *Request) End(e *Result) {
	r.EndAttempt(e.Outcome, e.Failed)
	attrs := []attribute.KeyValue{
		attribute.Int("http.response.status_code", e.Status), attribute.String("loadstar.outcome", e.Outcome), attribute.Int("loadstar.attempts", e.Attempts),
	}
	if e.Route != "" {
		r.span.SetName(r.method + " " + e.Route)
		attrs = append(attrs, attribute.String("http.route", e.Route))
	}
	if e.ID != "" {
		attrs = append(attrs, attribute.String("loadstar.request_id", e.ID))
	}
	if e.Refused != "" {
		attrs = append(attrs, attribute.String("loadstar.refused", e.Refused))
	}
	r.span.SetAttributes(attrs...)
	switch {
	case e.Failed && e.Status >= 500:
		fail(r.span, strconv.Itoa(e.Status))
	case e.Failed:
		fail(r.span, e.Outcome)
	}
	r.span.End()
}

// fail makes a span one of an error of a kind.
func fail(s api.Span, kind string) {
	s.SetAttributes(attribute.String("error.type", kind))
	s.SetStatus(codes.Error, kind)
}
