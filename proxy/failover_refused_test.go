package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/continuation"
	"loadstar/proxy/proxytest"
)

// refusals counts what was refused, by reason.
func (r *router) refusals() map[string]uint64 {
	counts := map[string]uint64{}
	for _, why := range continuation.Refusals() {
		if n := r.metrics.failover.refused[why].Get(); n > 0 {
			counts[why.String()] = n
		}
	}
	return counts
}

// wantRefused waits until one stream was refused, for this reason.
func (r *router) wantRefused(why continuation.Refusal) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("a refusal for %q", why), func() bool { return len(r.refusals()) > 0 })
	if got := r.refusals(); len(got) != 1 || got[why.String()] != 1 {
		r.t.Errorf("refusals: %v, want one for %q", got, why)
	}
}

const (
	textEvent = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	halfEvent = `data: {"id":"1","choices":[{"ind`
)

// TestFailoverRefused: what can't be continued truthfully is not, and its stream
// ends as it does without the flag, half an event included.
func TestFailoverRefused(t *testing.T) {
	t.Parallel()
	delta := func(d string) string {
		return `data: {"id":"1","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n"
	}
	for _, tc := range []struct {
		name, path, more, stream string
		want                     continuation.Refusal
	}{
		{"tools", chatPath, `,"tools":[{}]`, "", continuation.Tools},
		{"functions", chatPath, `,"functions":[{}]`, "", continuation.Tools},
		{"tool_choice", chatPath, `,"tool_choice":"auto"`, "", continuation.Tools},
		{"response_format", chatPath, `,"response_format":{"type":"json_object"}`, "", continuation.Guided},
		{"guided", chatPath, `,"guided_regex":"a"`, "", continuation.Guided},
		{"n", chatPath, `,"n":2`, "", continuation.Choices},
		{"logprobs", chatPath, `,"logprobs":true`, "", continuation.Logprobs},
		{"echo", completionsPath, `,"echo":true`, "", continuation.Echo},
		{"suffix", completionsPath, `,"suffix":"x"`, "", continuation.Echo},
		{"prompts", completionsPath, `,"prompt":["a"]`, "", continuation.Prompt},
		{"no messages", chatPath, `,"messages":[]`, "", continuation.Messages},
		{"reasoning", chatPath, "", delta(`{"reasoning_content":"hm"}`), continuation.Content},
		{"tool calls", chatPath, "", delta(`{"tool_calls":[{"index":0}]}`), continuation.Content},
		{"two choices", chatPath, "", `data: {"choices":[{"index":1,"delta":{}}]}` + "\n\n", continuation.Choices},
		{"logprobs that nobody asked for", chatPath, "", `data: {"choices":[{"index":0,"delta":{},"logprobs":{"x":1}}]}` + "\n\n", continuation.Logprobs},
		{"finished", chatPath, "", `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", continuation.Finished},
		{"at its limit", chatPath, `,"max_tokens":1`, "", continuation.Finished},
		{"no JSON", chatPath, "", "data: hello\n\n", continuation.Event},
		{"two lines of data", chatPath, "", "data: {}\ndata: {}\n\n", continuation.Event},
		{"long text", chatPath, "", delta(`{"content":"` + strings.Repeat("x", 70<<10) + `"}`), continuation.TooLong},
		{"long event", chatPath, "", "data: " + strings.Repeat("x", 70<<10), continuation.TooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			stream := textEvent + tc.stream + halfEvent
			if tc.path == completionsPath {
				stream = strings.ReplaceAll(stream, `"delta":{"content":"a"}`, `"text":"a"`)
			}
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				x.SSEHead()
				for p := range strings.SplitAfterSeq(stream, ":") {
					x.Chunk(p)
				}
				x.CloseFIN()
			})
			o := failingOver()
			o.Failover.TextBytes = 64 << 10
			r := startRouter(t, o, w, proxytest.NewWorker(t, (&talker{}).script))
			c := proxytest.Dial(t, r.addr)
			for w.Requests() == 0 { // round robin: the first or the second
				c = proxytest.Dial(t, r.addr)
				if err := c.Post(tc.path, failoverRequest(tc.path, tc.more), jsonType); err != nil {
					t.Fatal(err)
				}
				if _, err := c.ReadHead(patience); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.ReadResponse(patience)
			if err == nil || got == nil {
				t.Fatalf("the stream ended with %v, want an unclean end", err)
			}
			begin, rest := string(got.Body), ""
			if len(begin) > len(stream) {
				begin, rest = begin[:len(stream)], begin[len(stream):]
			}
			wantBytes(t, "the stream", []byte(begin), []byte(stream))
			if !strings.HasPrefix(rest, "\n\ndata: {\"error\"") || !strings.Contains(rest, "upstream_truncated") {
				t.Errorf("behind the break comes %q, want an error event", rest)
			}
			r.wantRefused(tc.want)
			r.waitOutcome(actors.UpstreamTruncated, 1)
			if n := w.Requests(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// TestFailoverErrorThatPasses: an error that is not the engine's death, or that
// can't be mended, reaches the client as it came.
func TestFailoverErrorThatPasses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, more, event string
		want              continuation.Refusal
	}{
		{"the request's fault", "", `data: {"error":{"message":"too long","code":400}}`, continuation.Rejected},
		{"death with tools", `,"tools":[{}]`, `data: {"error":{"message":"dead","code":500}}`, continuation.Tools},
		{"death at the limit", `,"max_tokens":1`, `data: {"error":{"message":"dead","code":500}}`, continuation.Finished},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			stream := textEvent + tc.event + "\n\ndata: [DONE]\n\n"
			w := proxytest.NewWorker(t, rawStream(strings.SplitAfter(stream, "e")...))
			r := startRouter(t, failingOver(), w)
			wantBytes(t, "the stream", ask(t, r, chatPath, failoverRequest(chatPath, tc.more)).Body, []byte(stream))
			r.waitOutcome(actors.StreamFailed, 1)
			r.wantRefused(tc.want)
		})
	}
}

// TestFailoverPassesUnchanged: while nobody dies a stream is what the worker sent,
// whatever that is.
func TestFailoverPassesUnchanged(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{
		textEvent + "data: [DONE]\n\n",
		textEvent + ": ping\n\nevent: x\nid: 1\nretry: 5\n\n" + textEvent + "data:[DONE]\n\n: after\n\ndata: more",
		strings.ReplaceAll(textEvent+textEvent+"data: [DONE]\n\n", "\n", "\r\n"),
		strings.ReplaceAll(textEvent+textEvent+"data: [DONE]\n\n", "\n", "\r"),
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",                      // and no end mark
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[]", // nor an end
		"data: x\n\ndata: y\n\n", "data: {}\n\ndata: [1]\n\ndata: [DONE]\n\n",
		"data: [DONE]\n\nhello", "data: [DONE]\n",
	} {
		t.Run(fmt.Sprintf("%.20q", stream), func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, nil)
			r := startRouter(t, failingOver(), w)
			for cut := range min(len(stream), 40) {
				w.SetScript(rawStream(stream[:cut], stream[cut:]))
				wantBytes(t, "the stream", ask(t, r, chatPath, failoverRequest(chatPath, "")).Body, []byte(stream))
			}
			r.waitOutcome(actors.Completed, uint64(min(len(stream), 40)))
		})
	}
}

// TestFailoverWholeEvents: a client gets events whole, each at once.
func TestFailoverWholeEvents(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Chunk(textEvent + textEvent[:20])
		x.Hold()
		x.Chunk(textEvent[20:])
		x.Hold()
		x.Done()
		x.EndChunks()
	})
	r := startRouter(t, failingOver(), w)
	c := r.post(failoverRequest(chatPath, ""))
	for range 2 {
		if ev, err := c.ReadEvent(patience); err != nil || string(ev.Raw) != textEvent {
			t.Fatalf("event %q, %v; want %q", ev.Raw, err, textEvent)
		}
		w.Release()
	}
	got, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "the stream", got.Body, []byte(textEvent+textEvent+"data: [DONE]\n\n"))
}

// TestFailoverMemory: what exceeds the budget of all streams is not continued, and
// the budget is whole again when streams end.
func TestFailoverMemory(t *testing.T) {
	t.Parallel()
	o := failingOver()
	o.Failover.MemoryBytes = 3 * spareUnit // two for the first: head and text; nothing for another
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Chunk(textEvent)
		x.Hold()
		x.CloseFIN()
	})
	r := startRouter(t, o, w)
	body := failoverRequest(chatPath, `,"pad":"`+strings.Repeat("x", 2*spareUnit)+`"`)
	first := r.post(body)
	if _, err := first.ReadEvent(patience); err != nil {
		t.Fatal(err)
	}
	if got := len(r.spares); got != cap(r.spares) {
		t.Fatalf("%d units taken, want all %d", got, cap(r.spares))
	}
	second := r.post(body)
	if _, err := second.ReadEvent(patience); err != nil {
		t.Fatal(err)
	}
	w.Seen()[1].Release()
	wantErrorEvent(t, second, "upstream_truncated")
	r.wantRefused(continuation.Memory)
	w.Seen()[0].Release()
	wantErrorEvent(t, first, "upstream_truncated") // the next body has no room
	r.eventually("a free budget", func() bool { return len(r.spares) == 0 && r.refusals()["memory"] == 2 })
}

// TestFailoverNobodyGoesOn: when no other worker can, the stream ends as broken
// streams do, and nothing stays counted.
func TestFailoverNobodyGoesOn(t *testing.T) {
	t.Parallel()
	dies := func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Chunk(textEvent + halfEvent)
		x.Hold()
		x.CloseFIN()
	}
	for _, tc := range []struct {
		name   string
		second proxytest.Script // nil for no second worker
		want   actors.Cause
		asked  int
	}{
		{"refuses", proxytest.JSON(400, `{"error":{}}`), actors.ClientError, 1},
		{"fails", proxytest.JSON(500, `{"error":{}}`), actors.ServerError, 1},
		{"answers otherwise", proxytest.JSON(200, `{}`), actors.UpstreamInvalid, 1},
		{"resets", proxytest.ResetBeforeHead, actors.UpstreamReset, 1},
		{"speaks no HTTP", func(x *proxytest.Exchange) { x.Raw("hello\r\n\r\n"); x.CloseFIN() }, actors.UpstreamInvalid, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := func(x *proxytest.Exchange) {
				if strings.Contains(string(x.Body()), "continue_final_message") {
					tc.second(x)
					return
				}
				dies(x)
			}
			p := &failoverPair{a: proxytest.NewWorker(t, script), b: proxytest.NewWorker(t, script)}
			p.router = startRouter(t, failingOver(), p.a, p.b)
			c := p.post(failoverRequest(chatPath, ""))
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			first, second := p.order()
			first.Release()
			got, err := c.ReadResponse(patience)
			if err == nil || got == nil {
				t.Fatalf("the stream ended with %v, want an unclean end", err)
			}
			if rest, ok := strings.CutPrefix(string(got.Body), textEvent+halfEvent+"\n\n"); !ok || !strings.Contains(rest, "upstream_truncated") {
				t.Errorf("the stream is %q, want an error event behind its half", got.Body)
			}
			p.waitOutcome(tc.want, 1)
			p.waitOutcome(actors.UpstreamTruncated, 1)
			p.wantIdle(2)
			if n := second.Requests(); n != tc.asked {
				t.Errorf("the second worker was asked %d times, want %d", n, tc.asked)
			}
			if got := p.failovers(); got != [2]uint64{0, 1} {
				t.Errorf("continued and failed: %v, want 0 and 1", got)
			}
		})
	}
}

// TestFailoverPastOthers: workers that are gone, or full, are passed by.
func TestFailoverPastOthers(t *testing.T) {
	t.Parallel()
	k := talker{name: "A", at: 3, die: func(x *proxytest.Exchange) bool { x.CloseFIN(); return true }}
	one, two := proxytest.NewWorker(t, k.script), proxytest.NewWorker(t, k.script)
	gone, full := proxytest.NewWorker(t, nil), proxytest.NewWorker(t, proxytest.JSON(503, "{}"))
	o := failingOver()
	o.Router.Health.Interval, o.Health.Interval = time.Hour, time.Hour
	o.Retry.MaxAttempts = 8
	r := startRouter(t, o, one, gone, full, two)
	gone.Kill()
	body := failoverRequest(chatPath, `,"stream_options":{"include_usage":true}`)
	want := whole(t, "A", chatPath, body)
	for range 8 {
		wantBytes(t, "the stream", ask(t, r, chatPath, body).Body, want)
	}
	if full.Requests() == 0 || r.outcome(actors.ConnectFailed) == 0 {
		t.Error("nobody was passed by, so nothing was tested")
	}
	r.wait("idle workers", func(v *actors.Snapshot) bool { return v.Live == 0 })
}

// TestFailoverErrorAndNobody: an engine that tells of its death and that nobody
// takes over from is heard.
func TestFailoverErrorAndNobody(t *testing.T) {
	t.Parallel()
	const told = "data: {\"error\":{\"message\":\"EngineCore died\",\"code\":500}}\n\n"
	w := proxytest.NewWorker(t, proxytest.Sequence(rawStream(textEvent, told, "data: [DONE]\n\n"), proxytest.JSON(400, "{}")))
	r := startRouter(t, failingOver(), w)
	got, err := r.post(failoverRequest(chatPath, "")).ReadResponse(patience)
	if err == nil || got == nil {
		t.Fatalf("the stream ended with %v, want an unclean end", err)
	}
	if want := textEvent + told; !strings.HasPrefix(string(got.Body), want) || strings.Count(string(got.Body), "error") != 1 {
		t.Errorf("the stream is %q, want it to begin with %q and tell of one error", got.Body, want)
	}
	r.waitOutcome(actors.StreamFailed, 1)
}

// TestFailoverBudget: continuing takes from the budget of retries.
func TestFailoverBudget(t *testing.T) {
	t.Parallel()
	o := failingOver()
	o.Router.Retries = actors.RetryOptions{}
	p := startFailover(t, o, 3, func(x *proxytest.Exchange) bool { x.CloseFIN(); return true })
	got, err := p.post(failoverRequest(chatPath, "")).ReadResponse(patience)
	if err == nil || got == nil || !strings.Contains(string(got.Body), "upstream_truncated") {
		t.Fatalf("answer %v, %v; want a stream that breaks off", got, err)
	}
	p.wantIdle(1)
	if v := p.snapshot(); v.RetryRefused != 1 {
		t.Errorf("%d retries refused, want 1", v.RetryRefused)
	}
}

// TestFailoverTotalTimeout: it holds for all parts together.
func TestFailoverTotalTimeout(t *testing.T) {
	t.Parallel()
	o := failingOver()
	o.Failover.Continuations = 2
	o.Timeouts.Total = brief
	p := startTalkers(t, o, talker{at: 3, hold: 5, die: func(x *proxytest.Exchange) bool { x.CloseFIN(); return true }})
	got, err := p.post(failoverRequest(chatPath, "")).ReadResponse(patience)
	if err == nil || got == nil || !strings.Contains(string(got.Body), "upstream_timeout") {
		t.Fatalf("answer %v, %v; want a stream that is cut", got, err)
	}
	p.wantIdle(2)
	p.wantRefused(continuation.Overdue)
}

// TestFailoverKeepsItsID: what goes on with a stream can't show the client an id of
// its own, by no event that is too long to be changed or can't be read.
func TestFailoverKeepsItsID(t *testing.T) {
	t.Parallel()
	const event = `{"id":"%s","choices":[{"index":0,"delta":{"content":"%s"}}]}`
	for _, tc := range []struct {
		name, odd string
		clean     bool
	}{
		{"too long", "data: " + fmt.Sprintf(event, "two", strings.Repeat("x", 10_000)) + "\n\n", false},
		{"over two lines", "data: {\"id\":\"two\",\ndata: \"choices\":[]}\n\n", true},
		{"no JSON", "data: {\"id\":\"two\"\n\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := func(x *proxytest.Exchange) {
				x.SSEHead()
				if !strings.Contains(string(x.Body()), "continue_final_message") {
					x.Event(fmt.Sprintf(event, "one", "a"))
					x.Hold()
					x.Reset()
					return
				}
				x.Event(fmt.Sprintf(event, "two", "b"))
				x.Chunk(tc.odd)
				x.Event(fmt.Sprintf(event, "two", "c"))
				x.Event(`{"id":"two","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
				x.Done()
				x.EndChunks()
			}
			a, b := proxytest.NewWorker(t, script), proxytest.NewWorker(t, script)
			o := failingOver()
			o.Failover.TextBytes = 1000
			r := startRouter(t, o, a, b)
			c := r.post(failoverRequest(chatPath, ""))
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
			a.Release()
			b.Release()
			got, _ := c.ReadResponse(patience)
			if got == nil || got.Clean != tc.clean || strings.Contains(string(got.Body), "two") || !strings.Contains(string(got.Body), `"content":"b"`) {
				t.Fatalf("answer %v, want all of it to be of one", got)
			}
			if ends := strings.Count(string(got.Body), "[DONE]") + strings.Count(string(got.Body), `"error"`); ends != 1 {
				t.Errorf("%d ends, want 1: %q", ends, got.Body)
			}
			r.waitLoad(a, 0)
			r.waitLoad(b, 0)
		})
	}
}
