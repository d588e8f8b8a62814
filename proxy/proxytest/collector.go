package proxytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Collector takes traces by OTLP over HTTP in its JSON form.
type Collector struct {
	t      testing.TB
	server *httptest.Server

	mu     sync.Mutex
	spans  []Span
	posts  int
	status int           // of answers; 0 is 200
	answer string        // body of answers
	hold   chan struct{} // closed to let posts go on; nil lets them

	changed chan struct{} // closed and replaced with every post
}

// Paths of a collector.
const (
	tracesPath = "/v1/traces"
	elsewhere  = "/elsewhere" // where an answer of 3xx leads to, and nobody should go
)

// Span is a span as it was received.
type Span struct {
	Trace, ID, Parent, State string
	Flags                    uint32
	Name                     string
	Kind                     int // 1 internal, 2 server, 3 client
	Start, End               time.Time
	Attrs                    map[string]any // string, int64 or bool
	Events                   []string
	Error                    string // the status' message; empty unless it is an error
	Resource                 map[string]any
}

// NewCollector starts a collector on a free port of loopback, which ends with the test.
func NewCollector(t testing.TB) *Collector {
	c := &Collector{t: t, changed: make(chan struct{})}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(func() {
		c.Resume()
		c.server.Close()
	})
	return c
}

// URL is the collector's base URL.
func (c *Collector) URL() string { return c.server.URL }

// Answer has the collector answer with a status and a body from here on; one of 3xx
// leads to another path. What it answers with another status than 200 it does not keep.
func (c *Collector) Answer(status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.answer = status, body
}

// Hold has the collector answer nothing until Resume.
func (c *Collector) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = make(chan struct{})
}

// Resume ends a Hold.
func (c *Collector) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold != nil {
		close(c.hold)
		c.hold = nil
	}
}

// collectorPatience is how long a test waits for what is on its way.
const collectorPatience = 20 * time.Second

// WaitPosts waits until n posts have come, and fails the test if they don't.
func (c *Collector) WaitPosts(n int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%d posts", n), func() bool { return c.posts >= n })
}

// WaitSpans waits until at least n spans have come, and returns all. It fails the test
// if they don't come.
func (c *Collector) WaitSpans(n int) []Span {
	c.t.Helper()
	c.wait(fmt.Sprintf("%d spans", n), func() bool { return len(c.spans) >= n })
	return c.Spans()
}

// Spans are the spans that have come.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func (c *Collector) wait(what string, cond func() bool) {
	c.t.Helper()
	late := time.After(collectorPatience)
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-late:
			c.t.Fatalf("no %s came; there are %+v", what, c.Spans())
		}
	}
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	// The port may have been another's, who is still looked for here.
	if r.Method != http.MethodPost || r.URL.Path != tracesPath && r.URL.Path != elsewhere {
		http.NotFound(w, r)
		return
	}
	spans, err := readSpans(r)
	if err != nil {
		c.t.Errorf("the collector got %v", err)
	}
	c.mu.Lock()
	c.posts++
	status, answer, hold := c.status, c.answer, c.hold
	if status == 0 {
		status = http.StatusOK
	}
	if status == http.StatusOK {
		c.spans = append(c.spans, spans...)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	if status/100 == 3 {
		w.Header().Set("Location", elsewhere)
	}
	w.WriteHeader(status)
	fmt.Fprint(w, answer)
}

type otlpAttribute struct {
	Key   string
	Value struct {
		StringValue *string
		IntValue    *string
		BoolValue   *bool
	}
}

func readSpans(r *http.Request) ([]Span, error) {
	if r.URL.Path != tracesPath || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("%s %s of %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	var m struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []otlpAttribute }
			ScopeSpans []struct {
				Scope struct{ Name, Version string }
				Spans []struct {
					TraceID, SpanID, TraceState, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
					Flags                                                                               uint32
					Kind, DroppedAttributesCount                                                        int
					Attributes                                                                          []otlpAttribute
					Events                                                                              []struct{ TimeUnixNano, Name string }
					Status                                                                              struct {
						Message string
						Code    int
					}
				}
			}
		}
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	var out []Span
	for _, rs := range m.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				span := Span{
					Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, State: s.TraceState, Flags: s.Flags, Name: s.Name, Kind: s.Kind,
					Start: readNanos(s.StartTimeUnixNano), End: readNanos(s.EndTimeUnixNano), Attrs: readAttributes(s.Attributes),
					Resource: readAttributes(rs.Resource.Attributes),
				}
				for _, e := range s.Events {
					span.Events = append(span.Events, e.Name)
				}
				if s.Status.Code == 2 {
					span.Error = s.Status.Message
				}
				if len(span.Trace) != 32 || len(span.ID) != 16 || span.End.Before(span.Start) || ss.Scope.Name == "" {
					return nil, fmt.Errorf("a faulty span: %+v", span)
				}
				out = append(out, span)
			}
		}
	}
	return out, nil
}

func readNanos(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, n)
}

func readAttributes(list []otlpAttribute) map[string]any {
	out := make(map[string]any, len(list))
	for _, a := range list {
		switch v := a.Value; {
		case v.StringValue != nil:
			out[a.Key] = *v.StringValue
		case v.BoolValue != nil:
			out[a.Key] = *v.BoolValue
		case v.IntValue != nil:
			out[a.Key], _ = strconv.ParseInt(*v.IntValue, 10, 64)
		}
	}
	return out
}
