package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
	"loadstar/proxy/trace"
)

const (
	aTrace  = "0af7651916cd43dd8448eb211c80319c"
	aParent = "b7ad6b7169203331"
)

// followed says that a request is traced, whatever the ratio.
var followed = proxytest.H("traceparent", "00-"+aTrace+"-"+aParent+"-01")

// tracingTo has the requests traced that come with a trace.
func tracingTo(c *proxytest.Collector, o Options) Options {
	o.Tracing = &trace.Options{Endpoint: c.URL(), Excluded: []string{"/health", "/quiet"}}
	return o
}

// traced gives a collector to f, which starts a router, and returns all spans that
// have come when the router has stopped.
func traced(t *testing.T, f func(t *testing.T, c *proxytest.Collector)) []proxytest.Span {
	t.Helper()
	c := proxytest.NewCollector(t)
	t.Run("router", func(t *testing.T) { f(t, c) })
	return c.Spans()
}

// traceTree writes spans down, each as name outcome!error {events} and those below it
// in brackets. All must be of aTrace, and each must have ended once.
func traceTree(t *testing.T, spans []proxytest.Span) string {
	t.Helper()
	slices.SortStableFunc(spans, func(a, b proxytest.Span) int { return a.Start.Compare(b.Start) })
	seen := map[string]bool{}
	for _, s := range spans {
		if seen[s.ID] {
			t.Errorf("span %s has ended twice", s.Name)
		}
		seen[s.ID] = true
		if s.Trace != aTrace || s.Flags&1 == 0 {
			t.Errorf("%s is in trace %s with flags %x, want sampled in %s", s.Name, s.Trace, s.Flags, aTrace)
		}
		if want := kinds[s.Name]; s.Kind != cmp.Or(want, 2) {
			t.Errorf("%s has kind %d", s.Name, s.Kind)
		}
	}
	return below(spans, aParent)
}

var kinds = map[string]int{"queue": 1, "attempt": 3, "prefill": 3, "decode": 3}

func below(spans []proxytest.Span, parent string) string {
	var all []string
	for _, s := range spans {
		if s.Parent != parent {
			continue
		}
		text := s.Name
		if o, ok := s.Attrs["loadstar.outcome"]; ok {
			text += fmt.Sprint(" ", o)
		}
		if s.Error != "" {
			text += "!" + s.Error
		}
		if len(s.Events) > 0 {
			text += fmt.Sprint(" {", strings.Join(s.Events, " "), "}")
		}
		if inner := below(spans, s.ID); inner != "" {
			text += " [" + inner + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// breaksOff sends some events and no end.
func breaksOff(x *proxytest.Exchange) {
	x.SSEHead()
	x.Event(proxytest.EventData(0))
	x.CloseFIN()
}

func TestTraceTree(t *testing.T) {
	t.Parallel()
	const chatSpan = "POST /v1/chat/completions "
	good := proxytest.JSON(200, `{"usage":{"prompt_tokens":7,"completion_tokens":3}}`)
	bad := proxytest.JSON(500, `{}`)
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		method string
		path   string
		want   string
	}{
		{name: "whole", script: good, want: chatSpan + "completed [attempt completed]"},
		{name: "stream", script: proxytest.SSE(5, 0), want: chatSpan + "completed {first_token} [attempt completed]"},
		{name: "retry", script: proxytest.Sequence(bad, good), want: chatSpan + "completed [attempt server_error!server_error, attempt completed]"},
		{name: "error", script: bad, want: chatSpan + "server_error!500 [attempt server_error!server_error, attempt server_error!server_error]"},
		{name: "client's error", script: proxytest.JSON(400, `{}`), want: chatSpan + "client_error [attempt client_error!client_error]"},
		{name: "reset", script: proxytest.ResetBeforeHead, want: chatSpan + "upstream_reset!502 [attempt upstream_reset!upstream_reset, attempt upstream_reset!upstream_reset]"},
		{name: "stream breaks", script: breaksOff, want: chatSpan + "upstream_truncated!upstream_truncated {first_token} [attempt upstream_truncated!upstream_truncated]"},
		{name: "no such method", script: good, method: "GET", want: "GET /v1/chat/completions refused"},
		{name: "models", script: good, method: "GET", path: "/v1/models", want: "GET /v1/models completed [attempt completed]"},
		{name: "own", script: good, method: "GET", path: "/list_workers", want: "GET own"},
		{name: "unknown path", script: good, path: "/secret/path", want: "POST completed [attempt completed]"},
		{name: "climbs", script: good, path: "/a/../b", want: "POST refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				r := startRouter(t, tracingTo(c, testOptions("round_robin")), proxytest.NewWorker(t, tc.script))
				cl := proxytest.Dial(t, r.addr)
				req := proxytest.Request{Method: cmp.Or(tc.method, "POST"), Target: cmp.Or(tc.path, chatPath), Headers: []proxytest.Header{jsonType, followed}}
				if req.Method == "POST" {
					req.Body = chat("hi", true)
				}
				if err := cl.SendRequest(req); err != nil {
					t.Fatal(err)
				}
				_, _ = cl.ReadResponse(patience) // some end badly
			})
			if got := traceTree(t, spans); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// What the spans say, and that they say nothing of keys and prompts.
func TestTraceAttributes(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			const told = `{"choices":[{"delta":{"content":"private words"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if !stream {
					proxytest.JSON(200, told)(x)
					return
				}
				x.SSEHead()
				x.Event(told)
				x.Done()
				x.EndChunks()
			})
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				r := startRouter(t, tracingTo(c, testOptions("cache_aware")), w)
				got := ask(t, r, chatPath+"?key=private", chat("private words", stream), followed, proxytest.H("tracestate", "a=1,b=2"),
					proxytest.H("Authorization", "Bearer private"), proxytest.H("x-api-key", "private"), proxytest.H("X-Request-Id", "id-1"))
				if got.Status != 200 {
					t.Fatalf("status %d, want 200", got.Status)
				}
			})
			if len(spans) != 2 {
				t.Fatalf("spans %+v, want 2", spans)
			}
			host, port, _ := strings.Cut(w.Addr(), ":")
			want := map[string]map[string]any{
				"POST /v1/chat/completions": {
					"http.request.method": "POST", "http.route": chatPath, "url.path": chatPath, "url.scheme": "http", "http.response.status_code": int64(200),
					"client.address": "127.0.0.1", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.request.stream": stream,
					"gen_ai.usage.input_tokens": int64(7), "gen_ai.usage.output_tokens": int64(3),
					"loadstar.request_id": "id-1", "loadstar.outcome": "completed", "loadstar.attempts": int64(1),
				},
				"attempt": {
					"http.request.method": "POST", "server.address": host, "server.port": port, "http.response.status_code": int64(200),
					"loadstar.worker": w.URL(), "loadstar.policy": "cache_aware", "loadstar.outcome": "completed",
					"loadstar.candidates": int64(1),
				},
			}
			for _, s := range spans {
				for k, v := range want[s.Name] {
					if fmt.Sprint(s.Attrs[k]) != fmt.Sprint(v) {
						t.Errorf("%s: %s is %v, want %v", s.Name, k, s.Attrs[k], v)
					}
				}
				if strings.Contains(fmt.Sprint(s), "private") {
					t.Errorf("%+v tells what is private", s)
				}
				if s.State != "a=1,b=2" {
					t.Errorf("%s: tracestate %q, want the client's", s.Name, s.State)
				}
			}
		})
	}
}

func TestTraceClientLeaves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		event  bool // is read before
		want   string
	}{
		{"before the answer", proxytest.Silent, false, "POST /v1/chat/completions client_gone [attempt client_gone]"},
		{"in the stream", func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Event("one")
			x.Hold()
		}, true, "POST /v1/chat/completions client_gone {first_token} [attempt client_gone]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				w := proxytest.NewWorker(t, tc.script)
				r := startRouter(t, tracingTo(c, testOptions("round_robin")), w)
				cl := proxytest.Dial(t, r.addr)
				if err := cl.Post(chatPath, chat("hi", true), jsonType, followed); err != nil {
					t.Fatal(err)
				}
				w.WaitInFlight(1, patience)
				if tc.event {
					if _, err := cl.ReadEvent(patience); err != nil {
						t.Fatal(err)
					}
				}
				cl.Close()
				r.waitOutcome(actors.ClientGone, 1)
			})
			if got := traceTree(t, spans); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTraceQueue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		served  bool
		want    string
	}{
		{"served", 20 * time.Second, true, "POST /v1/chat/completions completed [queue, attempt completed]"},
		{"in vain", 20 * time.Millisecond, false, "POST /v1/chat/completions refused!503 [queue!queue_timeout]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				o := tracingTo(c, testOptions("round_robin"))
				o.Router.Room = actors.RoomOptions{MaxPerWorker: 1, QueueSize: 8, QueueTimeout: tc.timeout}
				w := proxytest.NewWorker(t, held(proxytest.JSON(200, `{}`)))
				r := startRouter(t, o, w)
				r.post(chat("first", false))
				w.WaitInFlight(1, patience)
				cl := proxytest.Dial(t, r.addr)
				if err := cl.Post(chatPath, chat("second", false), jsonType, followed); err != nil {
					t.Fatal(err)
				}
				r.wait("one that waits", func(v *actors.Snapshot) bool { return v.Room.Waits == 1 })
				if tc.served {
					w.Release()
					w.WaitRequests(2, patience)
					w.Release()
				}
				if _, err := cl.ReadResponse(patience); err != nil {
					t.Fatal(err)
				}
				w.Release()
			})
			if got := traceTree(t, spans); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTraceTwoPhases(t *testing.T) {
	t.Parallel()
	refused := controlCalls(proxytest.JSON(400, `{}`))
	for _, tc := range []struct {
		name    string
		beside  bool
		prefill proxytest.Script
		stream  bool
		want    string
	}{
		{"whole", false, prefillWith(nixlReply), false, "POST /v1/chat/completions completed [prefill completed, decode completed]"},
		{"stream", false, prefillWith(nixlReply), true, "POST /v1/chat/completions completed {first_token} [prefill completed, decode completed]"},
		{"beside", true, prefillWith(pushReply("e1")), true, "POST /v1/chat/completions completed {first_token} [prefill completed, decode completed]"},
		{"refused", false, refused, false, "POST /v1/chat/completions client_error [prefill client_error!client_error]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var p, d *proxytest.Worker
			var np, nd int
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				o := tracingTo(c, pdOptions("round_robin"))
				var r *router
				if tc.beside {
					f := newPushPair(t, o) // whose first request isn't followed
					r, p, d = f.r, f.p, f.d
				} else {
					p, d = proxytest.NewWorker(t, tc.prefill), proxytest.NewWorker(t, decodeEither)
					r = startPD(t, o, []*proxytest.Worker{p}, []*proxytest.Worker{d})
				}
				np, nd = len(generations(p)), len(generations(d))
				ask(t, r, chatPath, chat("hi", tc.stream), followed)
			})
			if got := traceTree(t, spans); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
			for _, s := range spans {
				var seen []*proxytest.Exchange
				switch s.Name {
				case "prefill":
					seen = generations(p)[np:]
				case "decode":
					seen = generations(d)[nd:]
				default:
					continue
				}
				if want := "00-" + aTrace + "-" + s.ID + "-01"; len(seen) != 1 || !slices.Equal(seen[0].Values("traceparent"), []string{want}) {
					t.Errorf("%s: the worker got %v, want one request with %s", s.Name, seen, want)
				}
			}
		})
	}
}

// A stream that another worker goes on with is one request with two attempts, each
// worker told of its own.
func TestTraceFailover(t *testing.T) {
	t.Parallel()
	var p *failoverPair
	spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
		p = startFailover(t, tracingTo(c, failingOver()), 4, func(x *proxytest.Exchange) bool { x.CloseFIN(); return true })
		ask(t, p.router, chatPath, failoverRequest(chatPath, ""), followed)
	})
	if got, want := traceTree(t, spans), "POST /v1/chat/completions completed {first_token} [attempt upstream_truncated!upstream_truncated, attempt completed]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	first, second := p.order()
	var told []string
	for _, w := range []*proxytest.Worker{first, second} {
		told = append(told, w.Seen()[0].Get("traceparent"))
	}
	var want []string
	for _, s := range spans {
		if s.Name == "attempt" {
			want = append(want, "00-"+aTrace+"-"+s.ID+"-01")
		}
	}
	if !slices.Equal(told, want) {
		t.Errorf("the workers were told %q, want %q", told, want)
	}
}

// A request that panics ends its spans, once.
func TestTracePanic(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		at     trapPoint
		stream bool
		want   string
	}{
		{"grant", trapGrant, false, "POST /v1/chat/completions aborted!500"},
		{"stream", trapWrite, true, "POST /v1/chat/completions aborted!aborted {first_token} [attempt aborted!aborted]"},
		{"way out", trapEnd, false, "POST /v1/chat/completions completed [attempt completed]"},
		{"log", trapAccess, true, "POST /v1/chat/completions completed {first_token} [attempt completed]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				script := proxytest.JSON(200, `{}`)
				if tc.stream {
					script = proxytest.SSE(20, time.Millisecond)
				}
				r, tr := startTrapped(t, tracingTo(c, testOptions("cache_aware")), proxytest.NewWorker(t, script))
				cl := proxytest.Dial(t, r.addr)
				id := tr.set(cl, tc.at)
				if err := cl.Post(chatPath, chat("hi", tc.stream), jsonType, followed, id); err != nil {
					t.Fatal(err)
				}
				_, _ = cl.ReadResponse(patience)
				wantCounted(t, r, tr, 1)
			})
			if got := traceTree(t, spans); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// What becomes of the trace headers on the way to a worker.
func TestTracePropagation(t *testing.T) {
	t.Parallel()
	const (
		own  = "own"  // another trace's
		span = "span" // the client's trace, from the attempt's span
	)
	state, baggage := proxytest.H("tracestate", "a=1, b=2"), proxytest.H("baggage", "user=me")
	parent := func(v string) []proxytest.Header {
		return []proxytest.Header{proxytest.H("TraceParent", v), state, baggage}
	}
	for _, tc := range []struct {
		name    string
		off     bool // tracing
		ratio   float64
		path    string
		headers []proxytest.Header
		want    string // traceparent; as it came if empty
		flags   string // at its end
		state   bool   // tracestate passes
		spans   int
	}{
		{name: "off", off: true, headers: parent("anything"), state: true},
		{name: "sampled", headers: parent(followed.Value), want: span, flags: "01", state: true, spans: 2},
		{name: "not sampled", ratio: 1, headers: parent("00-" + aTrace + "-" + aParent + "-00"), state: true},
		{name: "excluded", ratio: 1, path: "/quiet", headers: parent(followed.Value), state: true},
		{name: "root", ratio: 1, headers: []proxytest.Header{baggage}, want: own, flags: "01", spans: 2},
		{name: "root that isn't traced", headers: []proxytest.Header{baggage}, want: own, flags: "00"},
		{name: "hostile", ratio: 1, headers: parent("00-" + strings.Repeat("f", 5000)), want: own, flags: "01", spans: 2},
		{name: "hostile and not traced", headers: parent("00-" + aTrace + "-" + aParent + "-zz"), want: own, flags: "00"},
		{name: "two parents", headers: append(parent(followed.Value), followed), want: own, flags: "00"},
		{name: "hostile state", headers: []proxytest.Header{followed, proxytest.H("tracestate", "==,,\""), baggage}, want: span, flags: "01", state: true, spans: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			spans := traced(t, func(t *testing.T, c *proxytest.Collector) {
				o := testOptions("round_robin")
				if !tc.off {
					o = tracingTo(c, o)
					o.Tracing.Ratio = tc.ratio
				}
				r := startRouter(t, o, w)
				ask(t, r, cmp.Or(tc.path, chatPath), chat("hi", false), tc.headers...)
			})
			if len(spans) != tc.spans {
				t.Errorf("spans %+v, want %d", spans, tc.spans)
			}
			x := w.Seen()[0]
			got := x.Values("traceparent")
			if len(got) != 1 {
				t.Fatalf("traceparent %q, want one", got)
			}
			var sent, states []string
			for _, h := range tc.headers {
				switch strings.ToLower(h.Name) {
				case "traceparent":
					sent = append(sent, h.Value)
				case "tracestate":
					states = append(states, h.Value)
				}
			}
			if !tc.state {
				states = nil
			}
			if s := x.Values("tracestate"); !slices.Equal(s, states) {
				t.Errorf("tracestate %q, want %q", s, states)
			}
			if b := x.Values("baggage"); !slices.Equal(b, []string{"user=me"}) {
				t.Errorf("baggage %q, want the client's", b)
			}
			id := "no span"
			for _, s := range spans {
				if s.Name == "attempt" {
					id = s.Trace + "-" + s.ID
				}
			}
			p, ok := trace.ParseParent([]byte(got[0]))
			switch {
			case tc.want == "":
				if got[0] != sent[0] {
					t.Errorf("traceparent %q, want it as it came", got[0])
				}
			case !ok, !strings.HasSuffix(got[0], "-"+tc.flags), tc.spans > 0 && got[0] != "00-"+id+"-"+tc.flags, (p.Trace.String() == aTrace) != (tc.want == span):
				t.Errorf("traceparent %q, want that of the attempt %s", got[0], id)
			}
		})
	}
}
