package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestBodyLimit: the limit is inclusive, holds for chunked bodies too, and the
// refusal reaches the client, however much it has yet to send.
func TestBodyLimit(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("cache_aware")
	o.Limits.BodyBytes = 100_000
	r := startRouter(t, o, w)
	for _, tc := range []struct {
		name   string
		size   int
		chunks []int
		want   int
	}{
		{"exactly the limit", 100_000, nil, 200},
		{"one more", 100_001, nil, 413},
		{"exactly the limit, chunked", 100_000, []int{7_001}, 200},
		{"one more, chunked", 100_001, []int{7_001}, 413},
		{"far more", 16_000_000, nil, 413},
		{"far more, chunked", 16_000_000, []int{65_536}, 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := w.Requests()
			got := proxytest.Do(t, r.addr, proxytest.Request{
				Target: "/v1/chat/completions", Body: strings.Repeat("x", tc.size), ChunkSizes: tc.chunks, Headers: []proxytest.Header{jsonType},
			})
			if tc.want != 200 {
				wantProblem(t, got, tc.want, "payload_too_large")
			} else if got.Status != 200 {
				t.Errorf("status %d, want 200", got.Status)
			}
			if n := w.Requests() - before; n != 1 && tc.want == 200 || n != 0 && tc.want != 200 {
				t.Errorf("the worker got %d requests", n)
			}
		})
	}
	r.waitLoad(w, 0)
}

// TestAnnouncedBodyCostsNothing: what a client merely announces isn't set aside.
func TestAnnouncedBodyCostsNothing(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Limits.BodyBytes = 1 << 40
	r := startRouter(t, o, w)
	for range 20 {
		c := proxytest.Dial(t, r.addr)
		if err := c.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000000\r\n\r\n" + strings.Repeat("x", 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	// The process would be dead, or the allocation have failed.
	wantAnswer(t, r.call("POST", "/v1/chat/completions", "{}"), 200, "{}")
}

func TestHeadLimit(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Limits.HeadBytes = 32 << 10
	r := startRouter(t, o, w)
	if got := r.call("POST", "/v1/chat/completions", "{}", proxytest.H("Cookie", strings.Repeat("c", 30_000))); got.Status != 200 {
		t.Errorf("a head of 30 KB: status %d, want 200", got.Status)
	}
	got, err := proxytest.Try(r.addr, proxytest.Request{Target: "/health", Headers: []proxytest.Header{proxytest.H("Cookie", strings.Repeat("c", 40_000))}}, patience)
	if got == nil {
		t.Fatalf("a head of 40 KB: no answer: %v", err)
	}
	wantProblem(t, got, 431, "headers_too_large")
}

// TestMalformedRequests: each gets a clear error, none reaches a worker, and no
// other request notices.
func TestMalformedRequests(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("round_robin"), w)
	bystander := r.post(chat("hi", true))
	w.WaitInFlight(1, patience)
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
	for _, tc := range []struct {
		name, raw string
		want      int
	}{
		{"not HTTP", "hello\r\n\r\n", 400},
		{"no version", "GET /\r\n\r\n", 400},
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		{"TRACE", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		{"bad length", head + "Content-Length: abc\r\n\r\n", 400},
		{"negative length", head + "Content-Length: -1\r\n\r\n", 400},
		{"two lengths", head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
		{"unknown coding", head + "Transfer-Encoding: gzip\r\n\r\n", 400},
		{"two codings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"coding identity", head + "Transfer-Encoding: identity\r\n\r\n", 400},
		{"bad chunk size", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400},
		{"blank before the colon", head + "X-A : b\r\n\r\n", 400},
		{"folded header", head + "X-A: b\r\n c\r\n\r\n", 400},
		{"header without a name", head + ": b\r\n\r\n", 400},
		{"NUL in a value", head + "X-A: b\x00c\r\n\r\n", 400},
		{"CR in a value", head + "X-A: b\rc\r\n\r\n", 400},
		{"too many named headers", head + "Connection: " + strings.Repeat("x-a, ", 100) + "\r\n\r\n", 400},
		{"control character in the target", "GET /a\x01b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := proxytest.Dial(t, r.addr)
			// Nothing that stands behind such a request is taken for another one.
			if err := c.Send(tc.raw + "GET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if got == nil {
				t.Fatalf("no answer: %v", err)
			}
			select {
			case <-c.PeerClosed():
			case <-time.After(patience):
				t.Error("the connection stays open")
			}
			if got.Status != tc.want || !strings.Contains(string(got.Body), `"error"`) {
				t.Errorf("answer %d %q, want %d and JSON", got.Status, got.Body, tc.want)
			}
		})
	}
	if n := w.Requests(); n != 1 {
		t.Errorf("the worker got %d requests, want the bystander's alone", n)
	}
	r.waitLoad(w, 1)
	w.Release()
	if got, err := bystander.ReadResponse(patience); err != nil || got.Status != 200 {
		t.Errorf("the bystander got %v, %v", got, err)
	}
}

// TestBothFramings: a request with Content-Length and Transfer-Encoding is read
// by the latter, and its connection ends with it, so that nothing behind it is
// taken for a request.
func TestBothFramings(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.Echo)
	r := startRouter(t, testOptions("round_robin"), w)
	c := proxytest.Dial(t, r.addr)
	err := c.Send("POST /v1/a HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	e, err := proxytest.ReadEcho(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(e.Body) != "ok" {
		t.Errorf("the worker got body %q, want ok", e.Body)
	}
	<-c.PeerClosed()
	if n := w.Requests(); n != 1 {
		t.Errorf("the worker got %d requests, want 1", n)
	}
}

// TestSlowClients: heads and bodies that don't come in time are answered with a
// 408 and hold nothing.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Timeouts.ClientHeader, o.Timeouts.ClientBody = brief, brief
	r := startRouter(t, o, w)
	for _, tc := range []struct{ name, raw string }{
		{"head", "POST /v1/chat/completions HTTP/1.1\r\nHo"},
		{"chunked body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"},
		{"long body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 20_000)},
		{"short body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := proxytest.Dial(t, r.addr)
			if err := c.Send(tc.raw); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if got == nil {
				t.Fatalf("no answer: %v", err)
			}
			wantProblem(t, got, 408, "request_timeout")
			select {
			case <-c.PeerClosed():
			case <-time.After(patience):
				t.Error("the connection stays open")
			}
		})
	}
	t.Cleanup(func() {
		if n := w.Requests(); n != 0 {
			t.Errorf("the worker got %d requests, want 0", n)
		}
	})
}

// TestClientThatDoesNotRead: its worker is held back, and it is given up after a
// while; others are served meanwhile.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{
		"flood": func(x *proxytest.Exchange) {
			x.SSEHead()
			for x.Event(strings.Repeat("x", 10_000)) {
			}
		},
		"": proxytest.JSON(200, "{}"),
	}))
	o := testOptions("round_robin")
	o.Timeouts.ClientWrite = brief
	r := startRouter(t, o, w)
	c := proxytest.Dial(t, r.addr)
	c.StopReading()
	if err := c.Post("/v1/chat/completions", chat("flood", true), jsonType); err != nil {
		t.Fatal(err)
	}
	w.WaitRequests(1, patience)
	wantAnswer(t, r.call("POST", "/v1/chat/completions", "{}"), 200, "{}")
	r.wait("the client to be given up", func(v *actors.Snapshot) bool { return v.Live == 0 })
	r.waitOutcome(actors.ClientGone, 1)
	w.WaitInFlight(0, patience)
}

// TestTimeouts: a worker that stays silent is given up, and the request isn't
// given to another one that might do it twice.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	a, b := proxytest.NewWorker(t, proxytest.Silent), proxytest.NewWorker(t, proxytest.Silent)
	o := testOptions("round_robin")
	o.Timeouts.FirstByte, o.Timeouts.Idle = brief, brief
	r := startRouter(t, o, a, b)
	wantProblem(t, r.call("POST", "/v1/chat/completions", chat("hi", false)), 504, "upstream_timeout")
	if n := a.Requests() + b.Requests(); n != 1 {
		t.Errorf("%d workers got the request, want 1", n)
	}
	r.waitOutcome(actors.UpstreamTimeout, 1)
	a.SetScript(stalledStream)
	b.SetScript(stalledStream)
	c := r.post(chat("hi", true))
	got, err := c.ReadResponse(patience)
	if err == nil || got == nil || !strings.Contains(string(got.Body), "upstream_timeout") {
		t.Errorf("a stream that stalls: %v, %v; want it cut, with an error event", got, err)
	}
	r.waitOutcome(actors.UpstreamTimeout, 2)
	if !a.WaitInFlight(0, patience) || !b.WaitInFlight(0, patience) {
		t.Error("a worker that was given up still works")
	}
}

// TestLongStreamIsNotCut: the limits are on silence, not on the whole.
func TestLongStreamIsNotCut(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Second
	w := proxytest.NewWorker(t, proxytest.SSE(100, limit/80))
	o := testOptions("round_robin")
	o.Timeouts.FirstByte, o.Timeouts.Idle = limit, limit
	o.Timeouts.ClientWrite, o.Timeouts.ClientHeader = limit, limit
	r := startRouter(t, o, w)
	got := r.call("POST", "/v1/chat/completions", chat("hi", true))
	if !got.Clean || !strings.HasSuffix(string(got.Body), "data: [DONE]\n\n") {
		t.Errorf("a stream of 5 s under limits of %v: %q", limit, got.Body)
	}
}

// TestManyAtOnce: no limit of a library's own shows.
func TestManyAtOnce(t *testing.T) {
	const n = 700
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("round_robin"), w)
	var clients []*proxytest.Client
	for i := range n {
		clients = append(clients, r.post(chat(fmt.Sprint(i), i%2 == 0)))
	}
	w.WaitInFlight(n, patience)
	r.waitLoad(w, n)
	w.Release()
	for _, c := range clients {
		if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
			t.Fatalf("answer %v, %v", got, err)
		}
	}
	r.waitLoad(w, 0)
}
