package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// Answers name their worker, and say why it was chosen, where the operator lets them
// and the client asks. The request goes on as it came.
func TestWorkerHeader(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		on      bool
		ask     string
		stream  bool
		worker  bool
		explain bool
	}{
		{name: "off", ask: "1"},
		{name: "on", on: true, worker: true},
		{name: "asked", on: true, ask: "1", worker: true, explain: true},
		{name: "asked, a stream", on: true, ask: "1", stream: true, worker: true, explain: true},
		{name: "not quite asked", on: true, ask: "0", worker: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if tc.ask != "" && x.Get("x-loadstar-explain") == "" {
					t.Errorf("the worker doesn't see the client's header")
				}
				if tc.stream {
					x.SSEHead()
					x.Event("{}")
					x.Done()
					x.EndChunks()
					return
				}
				x.Reply(200, "{}", jsonType)
			})
			o := testOptions("least_work")
			o.WorkerHeader = tc.on
			r := startRouter(t, o, w)
			c := proxytest.Dial(t, r.addr)
			headers := []proxytest.Header{jsonType}
			if tc.ask != "" {
				headers = append(headers, proxytest.H("X-Loadstar-Explain", tc.ask))
			}
			if err := c.Post("/v1/chat/completions", chat("hello", tc.stream), headers...); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.worker {
				want = w.URL()
			}
			if url := got.Get("x-loadstar-worker"); url != want {
				t.Errorf("x-loadstar-worker %q, want %q", url, want)
			}
			text := got.Get("x-loadstar-explain")
			if tc.explain != (text != "") {
				t.Fatalf("x-loadstar-explain %q, want some: %v", text, tc.explain)
			}
			if !tc.explain {
				return
			}
			var e explanationJSON
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if err := c.Post("/v1/chat/completions", chat("hello", tc.stream), jsonType, proxytest.H("X-Loadstar-Explain", "0")); err != nil {
				t.Fatal(err)
			}
			if again, err := c.ReadResponse(patience); err != nil || again.Get("x-loadstar-explain") != "" {
				t.Errorf("not asked again: %+v, %v", again, err)
			}
			if err := c.Post("/v1/models", "{}", jsonType); err != nil {
				t.Fatal(err)
			}
			if own, err := c.ReadResponse(patience); err != nil || own.Get("x-loadstar-explain") != "" || own.Get("x-loadstar-worker") != "" {
				t.Errorf("an answer of the router's own: %+v, %v", own, err)
			}
			if e.Attempts != 1 || len(e.Choices) != 1 || e.Choices[0].Chosen != w.URL() || e.Choices[0].Policy != "least_work" ||
				e.Choices[0].Reason != "prefix_miss" || e.Choices[0].Lambda == nil || len(e.Choices[0].Workers) != 1 || e.Choices[0].Workers[0].Cost == nil {
				t.Errorf("%s", text)
			}
		})
	}
}

// An answer to a request that was tried again names the worker that gave it, and an
// answer of the router's own to a request that no worker was chosen for names none.
func TestWorkerHeaderAfterRetry(t *testing.T) {
	t.Parallel()
	bad := proxytest.NewWorker(t, proxytest.JSON(500, "{}"))
	good := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.WorkerHeader = true
	r := startRouter(t, o, bad, good)
	tried := 0
	for range 4 {
		c := proxytest.Dial(t, r.addr)
		if err := c.Post("/v1/chat/completions", chat("hello", false), jsonType, proxytest.H("x-loadstar-explain", "1")); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		var e explanationJSON
		_ = json.Unmarshal([]byte(got.Get("x-loadstar-explain")), &e)
		if url := got.Get("x-loadstar-worker"); url != good.URL() || len(e.Choices) != 1 || e.Choices[0].Chosen != good.URL() {
			t.Errorf("worker %q, explained %+v, want %s", url, e, good.URL())
		}
		tried = max(tried, e.Attempts)
	}
	if tried != 2 {
		t.Errorf("at most %d attempts, want 2", tried)
	}
	for _, w := range []*proxytest.Worker{bad, good} {
		if err := r.RemoveWorker(w.URL()); err != nil {
			t.Fatal(err)
		}
	}
	c := r.post(chat("hello", false))
	got, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	if url := got.Get("x-loadstar-worker"); got.Status != 503 || url != "" {
		t.Errorf("%d from %q, want 503 from nobody", got.Status, url)
	}
}

// The header has a bound, however long workers' names are, and is JSON all the same.
func TestExplanationIsBounded(t *testing.T) {
	for _, size := range []int{10, 200, 1000, 5000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			url := "http://" + strings.Repeat("a", size)
			var e actors.Explanation
			q := actors.Request{Explain: &e}
			e.Most = explainedWorkers
			explainAlone(t, &q, url)
			got := explanationOf(&e, 3)
			var back explanationJSON
			if err := json.Unmarshal(got, &back); err != nil || len(got) > explainedBytes || back.Attempts != 3 || len(back.Choices) != 1 {
				t.Errorf("%d bytes, %v: %s", len(got), err, got)
			}
			if len(back.Choices) == 1 && (back.Choices[0].Chosen == url) != (size < explainedBytes/2) {
				t.Errorf("chosen %.20q", back.Choices[0].Chosen)
			}
		})
	}
}

// explainAlone has a registry with sixteen workers explain a choice among them.
func explainAlone(t *testing.T, q *actors.Request, url string) {
	t.Helper()
	r, err := actors.NewRouter(testOptions("least_work").Router)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Halt() }()
	for i := range explainedWorkers {
		u := fmt.Sprintf("%s:%d", url, i+1)
		if i == 0 {
			u = url
		}
		if _, err := r.Add([]actors.Spec{{URL: u, Base: u, Rank: actors.NoRank}}); err != nil {
			t.Fatal(err)
		}
		if !r.ReportHealth(u, nil) {
			r.ReportHealth(u, nil)
		}
	}
	q.Explain.Of[actors.Regular].Workers = nil
	for q.Explain.Of[actors.Regular].Chosen.URL != url {
		q.Head++
		l, err := r.Acquire(q)
		if err != nil {
			t.Fatal(err)
		}
		l.Release(actors.Completed, 0)
	}
}
