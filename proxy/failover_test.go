package proxy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/continuation"
	"loadstar/proxy/proxytest"
)

// deaths are the ways of a worker to die in mid-stream. Each waits to be released,
// so that nothing sent before is lost.
var deaths = []struct {
	name string
	die  func(x *proxytest.Exchange) bool
	want actors.Cause
}{
	{"reset", func(x *proxytest.Exchange) bool { x.Hold(); x.Reset(); return true }, actors.UpstreamTruncated},
	{"closed", func(x *proxytest.Exchange) bool { x.Hold(); x.CloseFIN(); return true }, actors.UpstreamTruncated},
	{"ended without the end mark", func(x *proxytest.Exchange) bool { x.Hold(); x.EndChunks(); return true }, actors.UpstreamTruncated},
	{"in mid-event", func(x *proxytest.Exchange) bool {
		x.Chunk(`data: {"id":"half","choices":[{"index":0,"delta":{"content":"lo`)
		x.Hold()
		x.CloseFIN()
		return true
	}, actors.UpstreamTruncated},
	{"within a character", func(x *proxytest.Exchange) bool {
		x.Chunk("data: {\"id\":\"half\",\"choices\":[{\"index\":0,\"text\":\"\xf0\x9f")
		x.Hold()
		x.CloseFIN()
		return true
	}, actors.UpstreamTruncated},
	{"wrong framing", func(x *proxytest.Exchange) bool { x.Hold(); x.Raw("zz\r\n"); x.CloseFIN(); return true }, actors.UpstreamTruncated},
	{"told by an event", func(x *proxytest.Exchange) bool {
		x.Hold()
		x.Chunk("data: {\"error\": {\"message\": \"EngineCore died\", \"code\": 500}}\n\ndata: [DONE]\n\n")
		x.EndChunks()
		return true
	}, actors.StreamFailed},
	{"told by an event, cut", func(x *proxytest.Exchange) bool {
		x.Hold()
		x.Chunk("data: {\"error\": {\"message\": \"Engi")
		x.Chunk("neCore died\"}}\r")
		x.Chunk("\n\r\n")
		x.CloseFIN()
		return true
	}, actors.StreamFailed},
	{"silent", func(x *proxytest.Exchange) bool { <-x.PeerClosed(); return true }, actors.UpstreamTimeout},
}

// TestFailover: whatever way a worker dies, and wherever, the client gets byte for
// byte what it would have got from one that lives; each worker's load is what runs
// there, and the one that died is charged.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, path := range []string{chatPath, completionsPath} {
		for _, d := range deaths {
			for _, more := range []string{"", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`} {
				t.Run(fmt.Sprintf("%s %s %d", path, d.name, len(more)), func(t *testing.T) {
					t.Parallel()
					o := failingOver()
					if d.want == actors.UpstreamTimeout {
						o.Timeouts.Idle = brief
					}
					const at = 6
					p := startTalkers(t, o, talker{at: at, die: d.die, hold: 8})
					body := failoverRequest(path, more)
					c := proxytest.Dial(t, p.addr)
					if err := c.Post(path, body, jsonType); err != nil {
						t.Fatal(err)
					}
					events := at
					if path == chatPath {
						events++
					}
					for range events {
						if _, err := c.ReadEvent(patience); err != nil {
							t.Fatal(err)
						}
					}
					first, second := p.order()
					if d.want != actors.UpstreamTimeout { // which may be over already
						p.waitLoad(first, 1)
						p.waitLoad(second, 0)
						first.Release()
					}
					for range 2 {
						if _, err := c.ReadEvent(patience); err != nil {
							t.Fatal(err)
						}
					}
					p.waitLoad(first, 0)
					p.waitLoad(second, 1)
					second.Release()
					got, err := c.ReadResponse(patience)
					if err != nil || !got.Clean {
						t.Fatalf("the stream ended with %v, want a clean end", err)
					}
					wantBytes(t, "the stream", got.Body, whole(t, p.nameOf(first), path, body))
					p.wantIdle(2)
					p.waitOutcome(d.want, 1)
					p.waitOutcome(actors.Completed, 1)
					if got := p.failovers(); got != [2]uint64{1, 0} {
						t.Errorf("continued and failed: %v, want 1 and 0", got)
					}
					v := p.snapshot()
					for i := range v.Workers {
						want := uint64(0)
						if v.Workers[i].URL == first.URL() {
							want = 1
						}
						if got := v.Workers[i].CBBad; got != want {
							t.Errorf("%d failures charged to %s, want %d", got, v.Workers[i].URL, want)
						}
					}
				})
			}
		}
	}
}

// TestFailoverAnywhere: a stream may be continued behind any token, also before the
// first, and without its usage being asked for in every event; and at another worker
// though the policy would choose the same one.
func TestFailoverAnywhere(t *testing.T) {
	t.Parallel()
	for _, path := range []string{chatPath, completionsPath} {
		for at := range answerTokens {
			t.Run(fmt.Sprint(path, " ", at), func(t *testing.T) {
				t.Parallel()
				var died atomic.Bool // another begins anew where nothing was generated
				o := failingOver()
				o.Router.Policy = testOptions("consistent_hash").Router.Policy
				p := startFailover(t, o, at, func(x *proxytest.Exchange) bool {
					first := died.CompareAndSwap(false, true)
					if first {
						x.CloseFIN()
					}
					return first
				})
				body := failoverRequest(path, `,"stream_options":{"include_usage":true},"min_tokens":3`)
				got := ask(t, p.router, path, body)
				first, _ := p.order()
				name := p.nameOf(first)
				if at == 0 && path == completionsPath {
					name = p.nameOf(p.other(first)) // nothing has come from the first
				}
				wantBytes(t, "the stream", got.Body, whole(t, name, path, body))
				p.wantIdle(2)
			})
		}
	}
}

func (p *failoverPair) other(w *proxytest.Worker) *proxytest.Worker {
	if w == p.a {
		return p.b
	}
	return p.a
}

// TestFailoverRequest: the request for the rest is the client's but for what has
// to change, with the same headers; and the access log tells of it.
func TestFailoverRequest(t *testing.T) {
	t.Parallel()
	const text = `Say \"hello\",\n\tπ is 😀`
	for _, tc := range []struct{ name, path, body, want string }{
		{
			"completion", completionsPath + "?x=1",
			`{ "max_tokens" : 20, "prompt":"Q:" , "stream":true, "min_tokens":8, "seed" : 1.50, "stop":["\u0041"]}`,
			`{ "max_tokens" : 14, "prompt":"Q:` + text + `" , "stream":true, "min_tokens":2, "seed" : 1.50, "stop":["\u0041"]}`,
		},
		{
			"chat", chatPath,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]} ] , "stream":true,"max_completion_tokens":9,"min_tokens":2}`,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]},{"role":"assistant","content":"` + text +
				`"} ] , "stream":true,"max_completion_tokens":3,"min_tokens":0,"continue_final_message":true,"add_generation_prompt":false}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			body := strings.Replace(tc.body, `[{"type":"image_url","image_url":{"url":"data:,x"}}]`, `"x"`, 1)
			want := strings.Replace(tc.want, `[{"type":"image_url","image_url":{"url":"data:,x"}}]`, `"x"`, 1)
			o := failingOver()
			o.AccessLog = true
			p := startFailover(t, o, 6, func(x *proxytest.Exchange) bool { x.CloseFIN(); return true })
			ask(t, p.router, tc.path, body, proxytest.H("X-Request-Id", "mine"), proxytest.H("Authorization", "Bearer k"), proxytest.H("X-Odd", "a"))
			first, second := p.order()
			if len(second.Seen()) != 1 {
				t.Fatal("the second worker was not asked")
			}
			one, two := first.Seen()[0], second.Seen()[0]
			wantBytes(t, "the first request", one.Body(), []byte(body))
			wantBytes(t, "the second request", two.Body(), []byte(want))
			if two.Target != tc.path || two.Method != "POST" {
				t.Errorf("the second request is %s %s", two.Method, two.Target)
			}
			wantLines(t, "the second request", lines(two.Headers, "Host", "Content-Length"), lines(one.Headers, "Host", "Content-Length")...)
			wantValues(t, two, "X-Request-Id", "mine")
			p.eventually("a line in the access log", func() bool { return strings.Contains(p.logs.String(), " continued=1") })
		})
	}
}

// TestFailoverExtends: an assistant's message that the client has continued itself
// is continued further.
func TestFailoverExtends(t *testing.T) {
	t.Parallel()
	p := startFailover(t, failingOver(), 0, nil)
	for _, w := range []*proxytest.Worker{p.a, p.b} {
		k := talker{name: p.nameOf(w), also: 5, die: func(x *proxytest.Exchange) bool {
			if strings.Contains(string(x.Body()), "hello") {
				return false
			}
			x.CloseFIN()
			return true
		}}
		w.SetScript(k.script)
	}
	body := `{"messages":[{"role":"user","content":"Q:"},{"content":"Say","role":"assistant"}],"add_generation_prompt":false,"continue_final_message":true,"stream":true}`
	got := ask(t, p.router, chatPath, body)
	first, second := p.order()
	wantBytes(t, "the stream", got.Body, whole(t, p.nameOf(first), chatPath, body))
	if len(second.Seen()) != 1 {
		t.Fatal("the second worker was not asked")
	}
	wantBytes(t, "the second request", second.Seen()[0].Body(), []byte(strings.Replace(body, `"Say"`, `"Say \"hello\",\n\tπ is"`, 1)))
}

// TestFailoverTwice: a stream is continued as often as is allowed, and then ends
// as broken streams do.
func TestFailoverTwice(t *testing.T) {
	t.Parallel()
	for _, allowed := range []int{1, 2} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			o := failingOver()
			o.Failover.Continuations = allowed
			p := startTalkers(t, o, talker{at: 3, also: 6, die: func(x *proxytest.Exchange) bool {
				if strings.Contains(string(x.Body()), "π is 😀") { // as the third part
					return false
				}
				x.Chunk("data: {")
				x.CloseFIN()
				return true
			}})
			body := failoverRequest(chatPath, `,"stream_options":{"include_usage":true}`)
			c := p.post(body)
			got, err := c.ReadResponse(patience)
			if got == nil {
				t.Fatal(err)
			}
			first, _ := p.order()
			want := whole(t, p.nameOf(first), chatPath, body)
			if allowed == 2 {
				if err != nil {
					t.Fatal(err)
				}
				wantBytes(t, "the stream", got.Body, want)
				p.wantIdle(3)
				return
			}
			const parts = 7 // role and six tokens
			begin, rest := cutEvents(string(got.Body), parts)
			wantBegin, _ := cutEvents(string(want), parts)
			wantBytes(t, "the stream's begin", []byte(begin), []byte(wantBegin))
			if err == nil || !strings.HasPrefix(rest, `data: {"error":`) || !strings.Contains(rest, "upstream_truncated") || strings.Contains(rest, "[DONE]") {
				t.Errorf("the stream ends with %q, %v; want an error event and an unclean end", rest, err)
			}
			p.wantIdle(2)
			p.waitOutcome(actors.UpstreamTruncated, 2)
			p.eventually("a refusal", func() bool { return p.metrics.failover.refused[continuation.Spent].Get() == 1 })
		})
	}
}

// cutEvents cuts a stream behind n events.
func cutEvents(stream string, n int) (begin, rest string) {
	events := strings.SplitAfter(stream, "\n\n")
	n = min(n, len(events))
	return strings.Join(events[:n], ""), strings.Join(events[n:], "")
}

// TestFailoverBreaker: workers whose streams are continued elsewhere are kept out
// like others that fail.
func TestFailoverBreaker(t *testing.T) {
	t.Parallel()
	o := failingOver()
	o.Router.Breaker.FailureThreshold = 3
	bad := talker{name: "A", at: 2, die: func(x *proxytest.Exchange) bool { x.CloseFIN(); return true }}
	good := talker{name: "B"}
	a, b := proxytest.NewWorker(t, bad.script), proxytest.NewWorker(t, good.script)
	r := startRouter(t, o, a, b)
	for range 12 {
		got := ask(t, r, chatPath, failoverRequest(chatPath, ""))
		if !strings.HasSuffix(string(got.Body), "data: [DONE]\n\n") {
			t.Errorf("a stream ends with %q", got.Body)
		}
	}
	if n := a.Requests(); n != 3 {
		t.Errorf("the worker whose streams break off got %d of 12 requests, want 3", n)
	}
}

// TestFailoverOff: without the flag nobody else is asked.
func TestFailoverOff(t *testing.T) {
	t.Parallel()
	o := failingOver()
	o.Failover = FailoverOptions{}
	p := startFailover(t, o, 4, func(x *proxytest.Exchange) bool { x.Hold(); x.CloseFIN(); return true })
	c := p.post(failoverRequest(chatPath, ""))
	for range 5 {
		if _, err := c.ReadEvent(patience); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := p.order()
	first.Release()
	wantErrorEvent(t, c, "upstream_truncated")
	p.wantIdle(1)
	for series := range p.scrape() {
		if strings.Contains(series, "failover") {
			t.Errorf("there is %s, want nothing about it", series)
		}
	}
}
