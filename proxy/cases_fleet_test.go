package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestCaseB95LengthsOfWhatIsRewritten: a body that had to be changed has the length
// that it is announced with, shorter or longer than before, for as many requests as
// share a connection. Two phases change both requests and both answers.
func TestCaseB95LengthsOfWhatIsRewritten(t *testing.T) {
	t.Parallel()
	p, d := proxytest.NewWorker(t, prefillWith(nixlReply)), proxytest.NewWorker(t, decodeEither)
	r := startPD(t, pdOptions("cache_aware"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
	c := proxytest.Dial(t, r.addr)
	const n = 50
	for i := range n {
		body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}],"stream":%v}`, 1<<(i%30), strings.Repeat("x", i*i), i%3 == 0)
		if i%2 == 0 { // what makes the prefill request the shorter one
			body = `{"stream_options":{"include_usage":true,"and":"` + strings.Repeat("so on, ", 100) + `"},` + body[1:]
		}
		if err := c.Post(chatPath, body, jsonType); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil || got.Status != 200 {
			t.Fatalf("request %d: answer %+v, %v; want a whole 200", i, got, err)
		}
		if i%3 != 0 && !json.Valid(got.Body) {
			t.Errorf("request %d: answer %q is no JSON", i, got.Body)
		}
	}
	for role, w := range map[string]*proxytest.Worker{"prefill": p, "decode": d} {
		seen := generations(w)
		if len(seen) != n {
			t.Errorf("%d %s requests, want %d", len(seen), role, n)
		}
		for i, x := range seen {
			wantValues(t, x, "Content-Length", fmt.Sprint(len(x.Body())))
			if !json.Valid(x.Body()) {
				t.Errorf("%s request %d is no JSON: %.300q", role, i, x.Body())
			}
			if x.Conn != seen[0].Conn {
				t.Errorf("%s request %d came on connection %d, the first on %d; want all on one", role, i, x.Conn, seen[0].Conn)
			}
		}
	}
}

// TestCaseB116ModelsGoToTheirWorkers: a request goes to a worker that was added for
// its model, by the model's name and no other field, and never to another's.
func TestCaseB116ModelsGoToTheirWorkers(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		m1, m2 := proxytest.NewWorker(t, proxytest.JSON(200, `"m1"`)), proxytest.NewWorker(t, proxytest.JSON(200, `"m2"`))
		r := startRouter(t, testOptions(policy))
		for model, w := range map[string]*proxytest.Worker{"org/m1": m1, "m2": m2} {
			if _, err := r.AddWorker(WorkerSpec{URL: w.URL(), Model: model}); err != nil {
				t.Fatal(err)
			}
		}
		r.waitHealthy(2)
		for i := range 20 {
			for model, want := range map[string]string{"org/m1": `"m1"`, "m2": `"m2"`} {
				got := ask(t, r, chatPath, fmt.Sprintf(`{"metadata":{"model":"m2"},"model":%q,"messages":[{"role":"user","content":"prompt %d; model: org/m1"}]}`, model, i))
				want200(t, got, want)
			}
		}
		// The slash may be written as an escape.
		want200(t, ask(t, r, chatPath, `{"model":"org\/m1","messages":[]}`), `"m1"`)
	})
}

// TestCaseB117WorkersOfIPv6: the address of a worker keeps its brackets wherever it
// is used or shown.
func TestCaseB117WorkersOfIPv6(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback:", err)
	}
	ln.Close()
	w := proxytest.NewWorkerAt(t, "[::1]:0", proxytest.JSON(200, `{}`))
	if !strings.HasPrefix(w.URL(), "http://[::1]:") {
		t.Fatalf("the worker is at %s", w.URL())
	}
	r := startRouter(t, testOptions("cache_aware"), w) // which waits for its health
	want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
	wantValues(t, theRequest(t, w), "Host", w.Addr())
	if got, ok := r.scrape()[fmt.Sprintf("vllm_router_processed_requests_total{worker=%q}", w.URL())]; !ok || got != 1 {
		t.Errorf("the worker's metric is %v, %v; want 1", got, ok)
	}
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, fmt.Sprintf(`{"urls":[%q]}`, w.URL()))
	if got := r.call("DELETE", "/workers/"+url.PathEscape(w.URL()), ""); got.Status != 200 {
		t.Errorf("removal: answer %d %s, want 200", got.Status, got.Body)
	}
}

// TestCaseB109AnotherService: what answers checks at a worker's address, and has no
// list of models as the worker had, is no worker, be it that the worker was seen to go
// or not. One that fails to list its models just now, or has none, stays what it was.
func TestCaseB109AnotherService(t *testing.T) {
	lists := func(models string) proxytest.Script {
		return func(x *proxytest.Exchange) {
			if x.Path() == "/v1/models" {
				x.Reply(200, models, jsonType)
				return
			}
			x.Reply(200, `"a"`, jsonType)
		}
	}
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		want   bool // it counts as healthy
	}{
		{"a web server", proxytest.JSON(200, `<html>`), false},
		{"an API of its own", proxytest.JSON(200, `{"object":"error"}`), false},
		{"no such path", proxytest.JSON(404, ""), false},
		{"no models yet", lists(listOf()), true},
		{"a fault", proxytest.JSON(500, ""), true},
		{"overload", proxytest.JSON(429, ""), true},
	} {
		for _, seen := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.name, ", seen to go: ", seen), func(t *testing.T) {
				t.Parallel()
				a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m1")
				r := startRouter(t, askOptions("round_robin"), a.Worker, b.Worker)
				r.serves(a, "m1")
				if seen {
					a.SetHealth(proxytest.JSON(500, ""))
					r.waitHealthy(1)
				}
				a.SetScript(tc.script)
				a.SetHealth(proxytest.JSON(200, ""))
				before := a.Counts().Requests // all of which ask for its models
				if tc.want {
					a.WaitFor("four questions", func(c proxytest.Counts) bool { return c.Requests >= before+4 }, patience)
					r.waitHealthy(2)
					return
				}
				if !seen {
					r.waitHealthy(1)
				}
				a.WaitFor("four questions", func(c proxytest.Counts) bool { return c.Requests >= before+4 }, patience)
				for i := range 4 {
					want200(t, r.forModel("m1", i), `"b"`)
				}
				a.SetScript(lists(listOf("m1")))
				r.waitHealthy(2)
			})
		}
	}
}
