package trace

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/proxy/proxytest"

	"github.com/VictoriaMetrics/metrics"
)

func TestMain(m *testing.M) { proxytest.NoLeaksMain(m) }

func TestEndpointOf(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"localhost:4318", "http://localhost:4318/v1/traces"},
		{"http://localhost:4318", "http://localhost:4318/v1/traces"},
		{"https://c.example/otlp/", "https://c.example/otlp/v1/traces"},
		{"http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"},
		{"", ""},
		{"grpc://c:4317", ""},
		{"http://", ""},
		{"http://user:key@c", ""},
		{"http://c?x=1", ""},
		{"http://c:x", ""},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := EndpointOf(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "key") {
				t.Errorf("%v tells the password", err)
			}
		})
	}
}

// logged is a log that is read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

// tracer is a tracer under test.
type tracer struct {
	*Tracer
	t   *testing.T
	log *logged
}

// start starts a tracer that sends spans soon.
func start(t *testing.T, endpoint string) *tracer {
	t.Helper()
	return startLate(t, endpoint, 10*time.Millisecond)
}

// startLate starts a tracer that sends spans when the first has waited for a delay.
func startLate(t *testing.T, endpoint string, delay time.Duration) *tracer {
	t.Helper()
	log := &logged{}
	tr, err := New(Options{Endpoint: endpoint, Ratio: 1, Version: "v", delay: delay, Metrics: metrics.NewSet(), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return &tracer{tr, t, log}
}

// span ends a span of a request.
func (tr *tracer) span() {
	p, _ := tr.Decide(Parent{})
	tr.Begin(&Call{Parent: p, Method: "GET", Path: "/x", Started: time.Now()}).End(&Result{Status: 200, Outcome: "completed"})
}

func (tr *tracer) close(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tr.Close(ctx)
}

// wait waits until cond holds.
func (tr *tracer) wait(what string, cond func() bool) {
	tr.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tr.t.Fatalf("still waiting for %s", what)
		}
	}
}

func (tr *tracer) counts() (exported, dropped, failed uint64) {
	return tr.queue.exported.Get(), tr.queue.dropped.Get(), tr.queue.failed.Get()
}

// Close sends what waits, however short it has waited.
func TestCloseFlushes(t *testing.T) {
	t.Parallel()
	c := proxytest.NewCollector(t)
	tr := start(t, c.URL())
	const n = batchSpans + 100
	for range n {
		tr.span()
	}
	tr.close(patience)
	if got := len(c.Spans()); got != n {
		t.Errorf("%d spans came, want %d", got, n)
	}
	tr.span()
	if exported, dropped, failed := tr.counts(); exported != n || dropped != 1 || failed != 0 {
		t.Errorf("exported %d, dropped %d, failed %d, want %d, the one behind the end, none", exported, dropped, failed, n)
	}
}

// Spans are sent without anybody's asking, soon.
func TestSpansAreSent(t *testing.T) {
	t.Parallel()
	c := proxytest.NewCollector(t)
	tr := start(t, c.URL())
	defer tr.close(patience)
	tr.span()
	s := c.WaitSpans(1)[0]
	if s.Resource["service.name"] != "loadstar" || s.Resource["service.version"] != "v" || s.Parent != "" || s.Flags != 0x101 {
		t.Errorf("%+v, want a root of loadstar", s)
	}
}

func TestServiceName(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "zone=b")
	c := proxytest.NewCollector(t)
	tr := start(t, c.URL())
	tr.span()
	tr.close(patience)
	if s := c.WaitSpans(1)[0]; s.Resource["service.name"] != "edge" || s.Resource["zone"] != "b" {
		t.Errorf("resource %v, want edge in b", s.Resource)
	}
}

// A collector that is not there, or that answers with an error, is told of once, and
// once more when it is back. What it didn't take is counted.
func TestCollectorFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int
	}{
		{"refused for good", 400},
		{"refused for a time", 503},
		{"moved", 307},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := proxytest.NewCollector(t)
			c.Answer(tc.status, "")
			tr := start(t, c.URL())
			for n := range uint64(2) {
				tr.span()
				tr.wait("a failure", func() bool { _, _, failed := tr.counts(); return failed == n+1 })
			}
			c.Answer(200, "")
			tr.span()
			c.WaitSpans(1)
			tr.close(patience)
			if got := tr.log.count("takes no traces"); got != 1 {
				t.Errorf("told %d times that it fails, want once", got)
			}
			if got := tr.log.count("takes traces again"); got != 1 {
				t.Errorf("told %d times that it is back, want once", got)
			}
			if exported, dropped, _ := tr.counts(); exported != 1 || dropped != 2 {
				t.Errorf("exported %d, dropped %d, want 1, 2", exported, dropped)
			}
		})
	}
}

func TestCollectorIsDown(t *testing.T) {
	t.Parallel()
	tr := start(t, proxytest.Reserve(t)) // where nobody listens
	tr.span()
	tr.close(patience)
	if _, dropped, failed := tr.counts(); dropped != 1 || failed != 1 || tr.log.count("takes no traces") != 1 {
		t.Errorf("dropped %d, failed %d, told %d times, want each once", dropped, failed, tr.log.count("takes no traces"))
	}
}

// A collector that doesn't answer fills the queue and holds nobody up: neither who
// ends a span nor who ends the tracer.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	c := proxytest.NewCollector(t)
	c.Hold()
	tr := start(t, c.URL())
	tr.span()
	c.WaitPosts(1) // which holds the batch of this one
	for range queueSpans + 10 {
		tr.span()
	}
	if _, dropped, _ := tr.counts(); dropped != 10 {
		t.Errorf("%d dropped, want 10", dropped)
	}
	tr.close(time.Millisecond)
	if exported, dropped, _ := tr.counts(); exported != 0 || dropped != 1+queueSpans+10 {
		t.Errorf("exported %d, dropped %d, want 0, %d", exported, dropped, 1+queueSpans+10)
	}
}

func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer string
		want         uint64 // dropped of 2
	}{
		{"as text", `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}`, 1},
		{"as a number", `{"partialSuccess":{"rejectedSpans":1}}`, 1},
		{"none", `{"partialSuccess":{}}`, 0},
		{"more than there were", `{"partialSuccess":{"rejectedSpans":"99"}}`, 2},
		{"below zero", `{"partialSuccess":{"rejectedSpans":"-1"}}`, 0},
		{"no JSON", `ok`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := proxytest.NewCollector(t)
			c.Answer(200, tc.answer)
			tr := startLate(t, c.URL(), time.Hour) // both in one batch
			tr.span()
			tr.span()
			tr.close(patience)
			if exported, dropped, _ := tr.counts(); dropped != tc.want || exported != 2-tc.want {
				t.Errorf("exported %d, dropped %d, want %d dropped of 2", exported, dropped, tc.want)
			}
		})
	}
}

// Whatever a client calls itself, a span stays small.
func TestAttributesAreBounded(t *testing.T) {
	t.Parallel()
	c := proxytest.NewCollector(t)
	tr := start(t, c.URL())
	p, _ := tr.Decide(Parent{})
	r := tr.Begin(&Call{Parent: p, Method: strings.Repeat("M", 5000), Path: "/" + strings.Repeat("\xff", 5000), Started: time.Now()})
	r.Asks("chat", strings.Repeat("é", 5000), true)
	r.End(&Result{Status: 200, Outcome: "completed", ID: strings.Repeat("i", 5000)})
	tr.close(patience)
	s := c.WaitSpans(1)[0]
	if s.Name != "_OTHER" {
		t.Errorf("name %q, want _OTHER", s.Name)
	}
	for k, v := range s.Attrs {
		if text, ok := v.(string); ok && len([]rune(text)) > 256 {
			t.Errorf("%s has %d characters, want 256 at most", k, len([]rune(text)))
		}
	}
	if got := s.Attrs["gen_ai.request.model"]; got != strings.Repeat("é", 256) {
		t.Errorf("model %q, want its beginning", got)
	}
}
