package proxy

import (
	"context"
	"log/slog"
	"time"

	"loadstar/actors"
	"loadstar/proxy/decisions"
)

// record is what is remembered of a request for metrics and the access log.
type record struct {
	started  time.Time
	first    time.Duration // to the first byte of the last worker's answer; 0 when none came
	class    pathClass
	own      bool // answered by this router, on one of its own paths
	status   int
	cause    actors.Cause
	refused  string // code of the problem that ended it here; empty otherwise
	attempts int
	parts    int  // at other workers, of a stream that was continued there
	others   bool // another worker might have served the last attempt
	bytes    int64
	worker   string
	tenant   string           // whose key the client has; empty if keys are not checked or it has no name
	prefill  string           // worker of the first phase, if there were two
	decision *decisions.Entry // of the attempt that runs; nil unless decisions are kept
	log      *accessEntry     // nil unless there is an access log
	trace    *tracing         // nil unless the request is traced
}

// accessEntry is what the access log needs beyond the metrics. It holds copies,
// for it is read after the request is gone.
type accessEntry struct {
	method, path, id, client string
}

// granted notes which worker a request went to.
func (r *record) granted(l *actors.Lease) {
	r.worker, r.others = l.URL, l.Decision.Candidates > 1
}

// firstByte notes that an answer has begun.
func (r *record) firstByte() { r.first = time.Since(r.started) }

// firstAt is when the answer's first byte came, in the registry's time.
func (p *Proxy) firstAt(r *record) int64 { return int64(r.started.Sub(p.start) + r.first) }

// outcome is the metric label for how the request ended.
func (r *record) outcome() string {
	switch {
	case r.own:
		return "own"
	case r.refused != "" && r.worker == "" && r.prefill == "":
		return "refused"
	default:
		return r.cause.String()
	}
}

// finished counts and logs a request that has ended.
func (p *Proxy) finished(r *record) {
	p.metrics.finished(r)
	p.keepDecision(r, r.outcome(), r.status)
	if r.trace != nil {
		r.endTrace()
	}
	if r.log == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.log.method), slog.String("path", r.log.path), slog.String("id", r.log.id),
		slog.String("client", r.log.client), slog.Int("status", r.status), slog.String("outcome", r.outcome()),
		slog.String("worker", r.worker), slog.Int("attempts", r.attempts), slog.Int64("bytes", r.bytes),
		slog.Duration("first_byte", r.first), slog.Duration("duration", time.Since(r.started)),
	}
	if r.parts > 0 {
		attrs = append(attrs, slog.Int("continued", r.parts))
	}
	if r.tenant != "" {
		attrs = append(attrs, slog.String("tenant", r.tenant))
	}
	if r.prefill != "" {
		attrs = append(attrs, slog.String("prefill_worker", r.prefill))
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}
