package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Options says which requests are traced, and where to.
type Options struct {
	Endpoint string   // URL that takes OTLP over HTTP; see EndpointOf
	Ratio    float64  // share of the requests without a parent that are traced, 0 to 1
	Excluded []string // paths that are not traced
	Version  string   // of the router
	Metrics  *metrics.Set
	Log      *slog.Logger

	delay time.Duration // that tests have in place of batchDelay; 0 for none
}

// Bounds of what is told of one span. Clients choose paths and models.
var spanLimits = sdk.SpanLimits{
	AttributeValueLengthLimit: 256, AttributeValueDepthLimit: 1, AttributeCountLimit: 32,
	EventCountLimit: 4, AttributePerEventCountLimit: 4, LinkCountLimit: 1, AttributePerLinkCountLimit: 1,
}

// Tracer traces requests. Close ends it.
type Tracer struct {
	queue    *queue
	spans    api.Tracer
	ratio    ratio
	excluded map[string]struct{}
}

// New starts a tracer. The resource is the router, by the name and with the attributes
// that OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES give, if they do. The error is
// one of the endpoint or of these variables.
func New(o Options) (*Tracer, error) {
	to, err := EndpointOf(o.Endpoint)
	if err != nil {
		return nil, err
	}
	r, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "loadstar"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES can't be read: %w", err)
	}
	t := &Tracer{ratio: ratioOf(o.Ratio), excluded: make(map[string]struct{}, len(o.Excluded))}
	for _, path := range o.Excluded {
		t.excluded[path] = struct{}{}
	}
	t.queue = newQueue(newExporter(to), cmp.Or(o.delay, batchDelay), o.Metrics, o.Log)
	provider := sdk.NewTracerProvider(sdk.WithResource(r), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithRawSpanLimits(spanLimits), sdk.WithSpanProcessor(t.queue))
	t.spans = provider.Tracer("loadstar", api.WithInstrumentationVersion(o.Version))
	return t, nil
}

// Close sends what is queued, for as long as ctx lasts, and ends the tracer. Spans
// that end later are dropped.
func (t *Tracer) Close(ctx context.Context) { _ = t.queue.Shutdown(ctx) } // what is lost is counted

// tracesPath is where collectors take traces.
const tracesPath = "/v1/traces"

// EndpointOf is the URL for a collector's address: HOST:PORT or an http or https URL,
// with or without the path /v1/traces.
func EndpointOf(text string) (string, error) {
	address := text
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Hostname() == "", u.Scheme != "http" && u.Scheme != "https", u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("%q is not a collector's address: write HOST:PORT or http://HOST:PORT", text)
	case u.User != nil:
		return "", fmt.Errorf("a collector's address can't hold a password: leave out what is before the @")
	}
	if u.Path = strings.TrimRight(u.Path, "/"); !strings.HasSuffix(u.Path, tracesPath) {
		u.Path += tracesPath
	}
	return u.String(), nil
}

// Excludes reports whether requests for a path are not traced.
func (t *Tracer) Excludes(path []byte) bool {
	_, ok := t.excluded[string(path)]
	return ok
}

// Decide says how the trace of a request goes on, whose parent has come with it or is
// the zero Parent. The request is traced if the flags of what it returns say so; its
// span goes below p.Span if the parent was valid.
func (t *Tracer) Decide(parent Parent) (p Parent, traced bool) {
	if parent.Valid() {
		return parent, parent.Flags&sampled != 0
	}
	if p = newTrace(); t.ratio.samples(p.Trace) {
		p.Flags = sampled
	}
	return p, p.Flags&sampled != 0
}

// Call is what is known of a request when its span begins.
type Call struct {
	Parent  Parent
	Remote  bool   // the parent came with the request
	State   string // tracestate of the parent
	Method  string
	Path    string // without the query, which may hold keys
	TLS     bool
	Client  string // address
	ID      string // of the request
	Started time.Time
}

// Begin begins the span of a request that is traced.
func (t *Tracer) Begin(c *Call) *Request {
	parent := api.SpanContextConfig{TraceID: c.Parent.Trace, TraceFlags: api.TraceFlags(c.Parent.Flags), Remote: c.Remote}
	if c.Remote {
		parent.SpanID = c.Parent.Span
		if s, err := api.ParseTraceState(c.State); err == nil { // one that can't be read is none
			parent.TraceState = s
		}
	}
	scheme := "http"
	if c.TLS {
		scheme = "https"
	}
	method, original := knownMethod(c.Method)
	// A parent without a span's id makes a root in a trace of that id.
	ctx := api.ContextWithSpanContext(context.Background(), api.NewSpanContext(parent))
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", method), attribute.String("url.path", c.Path), attribute.String("url.scheme", scheme),
		attribute.String("client.address", c.Client),
	}
	if original != "" {
		attrs = append(attrs, attribute.String("http.request.method_original", original))
	}
	ctx, span := t.spans.Start(ctx, method, api.WithSpanKind(api.SpanKindServer), api.WithTimestamp(c.Started), api.WithAttributes(attrs...))
	return &Request{tracer: t, ctx: ctx, span: span, method: method}
}

// knownMethod is a method's name for a span: _OTHER, with the method itself, if it is
// none of the standard's.
func knownMethod(m string) (name, original string) {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY":
		return m, ""
	}
	return "_OTHER", m
}
