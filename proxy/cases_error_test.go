package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// touchy is testOptions under which a single failure opens a breaker.
func touchy(policy string) Options {
	o := testOptions(policy)
	o.Router.Breaker.FailureThreshold = 1
	return o
}

// wantBreakers fails the test unless every breaker is in this state.
func wantBreakers(t testing.TB, r *router, want actors.BreakerState) {
	t.Helper()
	v := r.snapshot()
	for i := range v.Workers {
		if got := v.Workers[i].Breaker; got != want {
			t.Errorf("the breaker of %s is %v, want %v", v.Workers[i].URL, got, want)
		}
	}
}

// TestCaseB48MistakesOfClients: however often clients are told that they are
// wrong, their worker is not.
func TestCaseB48MistakesOfClients(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, nil)
	r := startRouter(t, touchy("cache_aware"), w)
	for _, status := range []int{400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 428, 451, 499} {
		verdict := fmt.Sprintf(`{"error":{"message":"this is %d"}}`, status)
		w.SetScript(proxytest.JSON(status, verdict))
		for range 5 {
			if got := ask(t, r, chatPath, chat("wrong", false)); got.Status != status || string(got.Body) != verdict {
				t.Errorf("answer %d %s, want %d %s", got.Status, got.Body, status, verdict)
			}
		}
		wantBreakers(t, r, actors.BreakerClosed)
	}
	w.SetScript(proxytest.JSON(200, `{}`))
	want200(t, ask(t, r, chatPath, chat("right", false)), `{}`)
	if v := r.snapshot(); v.Workers[0].CBBad != 0 || v.Workers[0].CBGood != 1 {
		t.Errorf("the breaker has counted %d failures and %d successes, want 0 and 1", v.Workers[0].CBBad, v.Workers[0].CBGood)
	}
}

// TestCaseB49MistakesExcuseNothing: a worker that fails is found out although it
// finds its clients' mistakes in between.
func TestCaseB49MistakesExcuseNothing(t *testing.T) {
	t.Parallel()
	const threshold = 5
	o := once()
	o.Router.Breaker.FailureThreshold = threshold
	w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{"good": proxytest.JSON(500, `{}`), "wrong": proxytest.JSON(400, `{}`)}))
	r := startRouter(t, o, w)
	var statuses []int
	for i := range 5 * threshold {
		statuses = append(statuses, ask(t, r, chatPath, chat([]string{"good", "wrong", "wrong", "wrong"}[i%4], false)).Status)
	}
	wantBreakers(t, r, actors.BreakerOpen)
	if got, want := w.Requests(), 4*(threshold-1)+1; got != want {
		t.Errorf("the worker got %d requests, want %d: %d that fail and those between; statuses %v", got, want, threshold, statuses)
	}
}

// TestCaseB50ErrorThatIsTheRequests: an engine that calls a client's mistake its own
// error is asked once more, elsewhere, and the client gets its words. No worker
// is shut out for it.
func TestCaseB50ErrorThatIsTheRequests(t *testing.T) {
	t.Parallel()
	const verdict = `{"object":"error","message":"The prompt (65537 tokens) is longer than the maximum model length","type":"BadRequestError","code":500}`
	o := touchy("cache_aware")
	o.Retry.MaxAttempts = 4
	script := proxytest.ByBody(map[string]proxytest.Script{"too long": proxytest.JSON(500, verdict), "": proxytest.JSON(200, `{}`)})
	a, b := proxytest.NewWorker(t, script), proxytest.NewWorker(t, script)
	r := startRouter(t, o, a, b)
	const n = 6
	for i := range n {
		got := ask(t, r, chatPath, chat(fmt.Sprint("too long ", i), i%2 == 0))
		if got.Status != 500 || string(got.Body) != verdict {
			t.Errorf("answer %d %s, want the worker's", got.Status, got.Body)
		}
	}
	if a.Requests() != n || b.Requests() != n {
		t.Errorf("the workers got %d and %d requests, want each of %d once", a.Requests(), b.Requests(), n)
	}
	wantBreakers(t, r, actors.BreakerClosed)
	want200(t, ask(t, r, chatPath, chat("short", false)), `{}`)
}

// TestCaseB51AwayIsNotUnknown: a model whose workers are all away for now is
// unavailable, and the client is told to come back; it is not said to be unknown.
func TestCaseB51AwayIsNotUnknown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lose func(r *router, w *proxytest.Worker)
	}{
		{"sick", func(r *router, w *proxytest.Worker) {
			w.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
			r.waitHealthy(1)
		}},
		{"dead", func(r *router, w *proxytest.Worker) {
			w.Kill()
			r.waitHealthy(1)
		}},
		{"breaker open", func(r *router, w *proxytest.Worker) {
			w.SetScript(proxytest.JSON(500, `{}`))
			r.call("POST", chatPath, chat("hi", false))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := touchy("cache_aware")
			o.Retry.MaxAttempts = 1
			w, other := proxytest.NewWorker(t, proxytest.JSON(200, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, o)
			for at, model := range map[*proxytest.Worker]string{w: "m", other: "another"} {
				if _, err := r.AddWorker(WorkerSpec{URL: at.URL(), Model: model}); err != nil {
					t.Fatal(err)
				}
			}
			r.waitHealthy(2)
			want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
			tc.lose(r, w)
			got := ask(t, r, chatPath, chat("hi", false))
			wantProblem(t, got, 503, "no_available_workers")
			wantValues(t, got, "Retry-After", "1")
			if n := other.Requests(); n != 0 {
				t.Errorf("the worker of another model got %d requests, want 0", n)
			}
		})
	}
}

// TestCaseB52OverloadIsNotFailure: what this router can't or won't send on is no
// fault of a worker's.
func TestCaseB52OverloadIsNotFailure(t *testing.T) {
	const n, limit = 400, 20
	both := func(t *testing.T, o Options, script proxytest.Script) (*router, []*proxytest.Worker) {
		ws := workers(t, 2, script)
		return startRouter(t, o, ws...), ws
	}
	statuses := func(t *testing.T, clients []*proxytest.Client) map[int]int {
		t.Helper()
		got := map[int]int{}
		for _, c := range clients {
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Status != 200 {
				wantProblem(t, resp, 429, "queue_full")
				if resp.Get("Retry-After") == "" {
					t.Error("a refusal without Retry-After")
				}
			}
			got[resp.Status]++
		}
		return got
	}
	post := func(r *router) (clients []*proxytest.Client) {
		for i := range n {
			clients = append(clients, r.post(chat(fmt.Sprint(i), false)))
		}
		return clients
	}
	t.Run("no limits", func(t *testing.T) {
		r, ws := both(t, touchy("power_of_two"), heldPlain)
		clients := post(r)
		r.wait("all at workers", func(v *actors.Snapshot) bool { return v.Live == n })
		for end := time.Now().Add(patience); ws[0].InFlight()+ws[1].InFlight() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d and %d at workers, want %d", ws[0].InFlight(), ws[1].InFlight(), n)
			}
		}
		ws[0].Release()
		ws[1].Release()
		if got := statuses(t, clients); got[200] != n {
			t.Errorf("statuses %v, want %d times 200", got, n)
		}
		wantBreakers(t, r, actors.BreakerClosed)
	})
	t.Run("workers at their limit, and room to wait", func(t *testing.T) {
		o := touchy("round_robin")
		o.Router.Room = actors.RoomOptions{MaxPerWorker: limit, QueueSize: n, QueueTimeout: time.Minute}
		r, ws := both(t, o, proxytest.Slow(5*time.Millisecond, proxytest.JSON(200, `{}`)))
		if got := statuses(t, post(r)); got[200] != n {
			t.Errorf("statuses %v, want %d times 200", got, n)
		}
		for _, w := range ws {
			if got := w.MaxInFlight(); got > limit {
				t.Errorf("%d requests at once at a worker, want at most %d", got, limit)
			}
		}
		wantBreakers(t, r, actors.BreakerClosed)
	})
	t.Run("workers at their limit, and no room", func(t *testing.T) {
		o := touchy("round_robin")
		o.Router.Room = actors.RoomOptions{MaxPerWorker: limit}
		r, ws := both(t, o, heldPlain)
		clients := post(r)
		r.wait("all others to be refused", func(v *actors.Snapshot) bool { return v.Room.Refusals[actors.RefusedFull] == n-2*limit })
		for _, w := range ws {
			w.WaitInFlight(limit, patience)
			w.Release()
		}
		if got := statuses(t, clients); got[200] != 2*limit || got[429] != n-2*limit {
			t.Errorf("statuses %v, want %d times 200 and %d times 429", got, 2*limit, n-2*limit)
		}
		wantBreakers(t, r, actors.BreakerClosed)
	})
}

// TestCaseB55ImpatienceIsTheClients: clients that don't wait leave no mark on the
// worker they didn't wait for.
func TestCaseB55ImpatienceIsTheClients(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{`"stream":true`: stalledStream, "": proxytest.Silent}))
	r := startRouter(t, touchy("cache_aware"), w)
	const n = 20
	for i := range n {
		c := r.post(chat("hi", i%2 == 0))
		w.WaitInFlight(1, patience)
		if i%4 == 0 {
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
		}
		c.CloseFIN()
		w.WaitInFlight(0, patience)
	}
	r.waitOutcome(actors.ClientGone, n)
	v := r.snapshot()
	if at := &v.Workers[0]; at.Breaker != actors.BreakerClosed || at.CBBad != 0 || !at.Healthy {
		t.Errorf("breaker %v with %d failures, healthy %v; want it closed with none, and healthy", at.Breaker, at.CBBad, at.Healthy)
	}
	w.SetScript(proxytest.JSON(200, `{}`))
	want200(t, ask(t, r, chatPath, chat("hi", false)), `{}`)
}

// TestCaseB63ErrorsAreJSON: whatever the router itself has to say against a request
// has the shape that clients' libraries can show, and its status.
func TestCaseB63ErrorsAreJSON(t *testing.T) {
	t.Parallel()
	o := once()
	o.Limits.BodyBytes = 1000
	w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{
		"silent": proxytest.Silent, "reset": proxytest.ResetBeforeHead, "garbage": func(x *proxytest.Exchange) { x.Raw("garbage\r\n\r\n") },
		"cut": proxytest.Truncated(100, 50), "": proxytest.JSON(200, `{}`),
	}))
	full, empty := startRouter(t, o, w), startRouter(t, o)
	o.Timeouts.ClientHeader, o.Timeouts.ClientBody, o.Timeouts.FirstByte = brief, brief, brief
	hasty := startRouter(t, o, w)
	post := func(body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
	}
	for _, tc := range []struct {
		name, raw string
		router    *router
		status    int
		code      string
	}{
		{"wrong method", "DELETE " + chatPath + " HTTP/1.1\r\nHost: x\r\n\r\n", full, 405, "method_not_allowed"},
		{"wrong method of an own path", "DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n", full, 405, "method_not_allowed"},
		{"CONNECT", "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", full, 405, "method_not_allowed"},
		{"no HTTP", "hello\r\n\r\n", full, 400, "bad_request"},
		{"no path", "GET x HTTP/1.1\r\nHost: x\r\n\r\n", full, 400, "bad_request"},
		{"bad framing", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", full, 400, "bad_request"},
		{"bad chunks", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", full, 400, "bad_request"},
		{"HTTP/2", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", full, 505, "http_version"},
		{"long head", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 40_000) + "\r\n\r\n", full, 431, "headers_too_large"},
		{"long body", post(strings.Repeat("x", 1001)), full, 413, "payload_too_large"},
		{"late head", "GET / HTTP/1.1\r\nHo", hasty, 408, "request_timeout"},
		{"late body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", hasty, 408, "request_timeout"},
		{"silent worker", post("silent"), hasty, 504, "upstream_timeout"},
		{"worker that resets", post("reset"), full, 502, "upstream_closed"},
		{"worker that is none", post("garbage"), full, 502, "upstream_invalid_answer"},
		{"worker that breaks off", post("cut"), full, 502, "upstream_truncated"},
		{"no worker", post("{}"), empty, 503, "no_available_workers"},
		{"no worker for what is unknown", "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", empty, 503, "no_available_workers"},
		{"no worker to remove", "POST /remove_worker?url=http://x:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", full, 404, "worker_not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := proxytest.Dial(t, tc.router.addr)
			if err := c.Send(tc.raw); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, got, tc.status, tc.code)
		})
	}
	t.Run("text/plain is no error", func(t *testing.T) {
		t.Parallel()
		resp := proxytest.Do(t, full.addr, proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{proxytest.H("Content-Type", "text/plain")}, Body: "hi"})
		want200(t, resp, `{}`)
	})
}

// TestCaseB64ErrorsPassUnchanged: a worker's error is the client's, byte for byte,
// whatever it is written in and however often others were asked meanwhile.
func TestCaseB64ErrorsPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status     int
		kind, body string
	}{
		{502, "text/plain", "upstream connect error or disconnect/reset before headers"},
		{422, "application/json; charset=utf-8", `{"detail": "x"}`},
		{500, "text/html", "<html>\xff\x00</html>\r\n"},
		{503, "application/problem+json", " {\"title\" : \"busy\" }\n"},
		{400, "application/json", ""},
		{504, "", "no type"},
		{429, "application/json", `{"error": {"message": "slow down", "type": "rate_limit"}}`},
	} {
		for _, how := range []string{"length", "chunks", "no retries left"} {
			t.Run(fmt.Sprintf("%d, %s", tc.status, how), func(t *testing.T) {
				t.Parallel()
				var headers []proxytest.Header
				var want []string
				if tc.kind != "" {
					headers, want = append(headers, proxytest.H("Content-Type", tc.kind)), []string{tc.kind}
				}
				ws := workers(t, 2, func(x *proxytest.Exchange) {
					if how != "chunks" {
						x.Reply(tc.status, tc.body, headers...)
						return
					}
					x.Head(tc.status, append(headers, proxytest.H("Transfer-Encoding", "chunked"))...)
					for i := range len(tc.body) {
						x.Chunk(tc.body[i : i+1])
					}
					x.EndChunks()
				})
				o, again := testOptions("round_robin"), tc.status >= 429
				if how == "no retries left" { // the error was kept for want of a better one
					o.Router.Retries, again = actors.RetryOptions{}, false
				}
				r := startRouter(t, o, ws...)
				got := ask(t, r, chatPath, chat("hi", false))
				if got.Status != tc.status {
					t.Errorf("status %d, want %d", got.Status, tc.status)
				}
				wantBytes(t, "the error", got.Body, []byte(tc.body))
				wantValues(t, got, "Content-Type", want...)
				if n := ws[0].Requests() + ws[1].Requests(); n != 1 && !again || n != 2 && again {
					t.Errorf("%d and %d requests; want one, or each worker asked once: %v", ws[0].Requests(), ws[1].Requests(), again)
				}
			})
		}
	}
}
