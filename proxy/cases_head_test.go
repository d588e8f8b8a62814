package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestCaseB66HeadersReachTheWorker: there is no list of headers that may pass;
// all do, repeated ones as often as they came.
func TestCaseB66HeadersReachTheWorker(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, once(), w)
	sent := []proxytest.Header{
		proxytest.H("Authorization", "Bearer k"), proxytest.H("X-Dup", "1"),
		proxytest.H("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), proxytest.H("tracestate", "a=b"),
		proxytest.H("X-Custom", "1"), proxytest.H("x-dup", "2"), proxytest.H("Cookie", "a=1; b=2"), proxytest.H("Accept", "*/*"),
		proxytest.H("User-Agent", "test/1"), proxytest.H("X-Empty", ""), proxytest.H("X-Forwarded-For", "192.0.2.1"),
		proxytest.H("X-Session-Id", "s"), proxytest.H("Origin", "http://a"), proxytest.H("X-Latin", "caf\xe9"),
		proxytest.H("X-Data-Parallel-Rank", "3"), proxytest.H("Date", "Thu, 01 Jan 1970 00:00:00 GMT"), proxytest.H("X-Dup", "1"),
	}
	want200(t, ask(t, r, chatPath, chat("hi", false), append(sent, proxytest.H("X-Request-Id", "mine"))...), `{}`)
	x := theRequest(t, w)
	wantLines(t, "at the worker", lines(x.Headers, "Host", "Content-Length", "X-Request-Id"), lines(append([]proxytest.Header{jsonType}, sent...))...)
	wantValues(t, x, "Host", hostOf(t, w.URL()))
	wantValues(t, x, "X-Request-Id", "mine")
}

// TestCaseB69ClientCantStripWhatIsAdded: a client's Connection header takes away
// what the client itself has sent under those names, and nothing of what the
// router adds.
func TestCaseB69ClientCantStripWhatIsAdded(t *testing.T) {
	t.Parallel()
	o := once()
	o.WorkerKey, o.ForwardedHeaders = "wk", true
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, o, w)
	c := proxytest.Dial(t, r.addr)
	err := c.Post(chatPath, chat("hi", false),
		proxytest.H("Connection", "X-Forwarded-For, authorization, X-Request-Id , x-mine"), proxytest.H("Connection", "x-forwarded-proto,X-Forwarded-Host,content-length,host"),
		proxytest.H("Authorization", "Bearer ck"), proxytest.H("X-Forwarded-For", "192.0.2.1"), proxytest.H("X-Mine", "1"), proxytest.H("X-Request-Id", "mine"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	want200(t, resp, `{}`)
	wantValues(t, resp, "X-Request-Id", "mine")
	x := theRequest(t, w)
	wantValues(t, x, "Authorization", "Bearer wk")
	wantValues(t, x, "X-Request-Id", "mine")
	wantValues(t, x, "X-Forwarded-Proto", "http")
	wantValues(t, x, "X-Forwarded-Host", r.addr)
	wantValues(t, x, "Host", hostOf(t, w.URL()))
	wantValues(t, x, "Content-Length", fmt.Sprint(len(chat("hi", false))))
	wantValues(t, x, "X-Mine")
	wantValues(t, x, "Connection")
	wantValues(t, x, "X-Forwarded-For", "192.0.2.1, 127.0.0.1")

	// Without such a header the router's values replace the client's as well.
	ask(t, r, chatPath, chat("hi", false), proxytest.H("Authorization", "Bearer ck"), proxytest.H("X-Forwarded-For", "192.0.2.1"),
		proxytest.H("X-Forwarded-Host", "elsewhere"), proxytest.H("X-Forwarded-Proto", "gopher"))
	x = w.Seen()[1]
	wantValues(t, x, "Authorization", "Bearer wk")
	wantValues(t, x, "X-Forwarded-For", "192.0.2.1, 127.0.0.1")
	wantValues(t, x, "X-Forwarded-Host", r.addr)
	wantValues(t, x, "X-Forwarded-Proto", "http")
}

// TestCaseB70KeepAliveIsPerHop: whether a connection stays open is between its
// two ends, so neither side's wish reaches the other.
func TestCaseB70KeepAliveIsPerHop(t *testing.T) {
	t.Parallel()
	const n = 50
	t.Run("client closes", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, once(), w)
		for range n {
			c := proxytest.Dial(t, r.addr)
			if err := c.Post(chatPath, chat("hi", false), proxytest.H("Connection", "close")); err != nil {
				t.Fatal(err)
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want200(t, resp, `{}`)
			wantValues(t, resp, "Connection", "close")
			<-c.PeerClosed()
		}
		used := map[int]bool{}
		for _, x := range w.Seen() {
			used[x.Conn] = true
			wantValues(t, x, "Connection")
		}
		if len(used) > 5 {
			t.Errorf("%d connections to the worker for %d requests, want at most 5", len(used), n)
		}
	})
	t.Run("worker closes", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			x.KeepAlive(false)
			x.Reply(200, `{}`)
		})
		r := startRouter(t, once(), w)
		c := proxytest.Dial(t, r.addr)
		for range n {
			if err := c.Post(chatPath, chat("hi", false)); err != nil {
				t.Fatal(err)
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want200(t, resp, `{}`)
			wantValues(t, resp, "Connection")
		}
		if got := w.Requests(); got != n {
			t.Errorf("the worker got %d requests, want %d", got, n)
		}
	})
}

// TestCaseB73LongHeads: heads may be long, both ways, up to the limit that the
// operator sets, and what is above it is refused in a way that can be read.
func TestCaseB73LongHeads(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("k", n) }
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		var n int
		if _, err := fmt.Sscan(x.Get("X-Want"), &n); err != nil {
			n = 0
		}
		x.Reply(200, `{}`, proxytest.H("X-Big", long(n)), jsonType)
	})
	r := startRouter(t, once(), w)
	limit := r.opts.Limits.HeadBytes
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
		status  int
		code    string
		answer  int
	}{
		{"6 KB answer", []proxytest.Header{proxytest.H("X-Want", "6000")}, 200, "", 6000},
		{"16 KB key", []proxytest.Header{proxytest.H("Authorization", long(16_000))}, 200, "", 0},
		{"20 KB cookie", []proxytest.Header{proxytest.H("Cookie", "a="+long(20_000))}, 200, "", 0},
		{"16 KB both ways", []proxytest.Header{proxytest.H("X-Want", "16000"), proxytest.H("X-Big", long(16_000))}, 200, "", 16_000},
		{"just below the limit, answer", []proxytest.Header{proxytest.H("X-Want", fmt.Sprint(limit-200))}, 200, "", limit - 200},
		{"just below the limit", []proxytest.Header{proxytest.H("X-Big", long(limit-200))}, 200, "", 0},
		{"above the limit", []proxytest.Header{proxytest.H("X-Big", long(limit+1))}, 431, "headers_too_large", 0},
		{"far above the limit", []proxytest.Header{proxytest.H("X-Big", long(1<<20))}, 431, "headers_too_large", 0},
		{"answer above the limit", []proxytest.Header{proxytest.H("X-Want", fmt.Sprint(limit+1))}, 502, "upstream_invalid_answer", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Headers: tc.headers, Body: chat("hi", false)}, patience)
			if err != nil {
				t.Fatalf("no answer that can be read: %v", err)
			}
			if tc.status != 200 {
				wantProblem(t, resp, tc.status, tc.code)
				return
			}
			want200(t, resp, `{}`)
			wantValues(t, resp, "X-Big", long(tc.answer))
		})
	}
}

// TestCaseB75NothingIsInvented: a message without a Content-Type, a User-Agent,
// a Server or a Date stays without, in both directions.
func TestCaseB75NothingIsInvented(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answer  proxytest.Script
		framing string
		want    []string
	}{
		{"with a length", func(x *proxytest.Exchange) { x.Reply(200, "ok") }, "Content-Length: 2", nil},
		{"long", func(x *proxytest.Exchange) { x.Reply(200, strings.Repeat("x", 100_000)) }, "Content-Length: 100000", nil},
		{"empty", func(x *proxytest.Exchange) { x.Reply(200, "") }, "Content-Length: 0", nil},
		{"chunked", func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
			x.Chunk("ok")
			x.EndChunks()
		}, "Transfer-Encoding: chunked", nil},
		{"no content", func(x *proxytest.Exchange) { x.Reply(204, "") }, "", nil},
		{"an error", func(x *proxytest.Exchange) { x.Reply(400, "bad") }, "Content-Length: 3", nil},
		{"an error of the worker's", func(x *proxytest.Exchange) { x.Reply(500, "bad") }, "Content-Length: 3", nil},
		{"a redirect", func(x *proxytest.Exchange) { x.Reply(307, "", proxytest.H("Location", "/x")) }, "Content-Length: 0", []string{"Location: /x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.answer)
			r := startRouter(t, testOptions("round_robin"), w)
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: "/unknown", Body: chat("hi", false)})
			wantLines(t, "at the client", lines(resp.Headers, "x-request-id", "Content-Length", "Transfer-Encoding"), tc.want...)
			if got := framing(resp.Headers); got != tc.framing {
				t.Errorf("the answer is framed by %q, want %q", got, tc.framing)
			}
			if got := len(resp.Values("x-request-id")); got != 1 {
				t.Errorf("%d request ids at the client, want 1", got)
			}
			x := theRequest(t, w)
			wantLines(t, "at the worker", lines(x.Headers, "x-request-id"), "Host: "+hostOf(t, w.URL()), "Content-Length: "+fmt.Sprint(len(chat("hi", false))))
			if got := x.Values("x-request-id"); !slices.Equal(got, resp.Values("x-request-id")) {
				t.Errorf("the request id is %q at the worker and %q at the client", got, resp.Values("x-request-id"))
			}
		})
	}
}

// TestCaseB78ExpectContinue: a client that asks before it sends its body is told
// to go on only if the body would be taken, once, and the worker is not asked
// the same.
func TestCaseB78ExpectContinue(t *testing.T) {
	t.Parallel()
	o := once()
	o.Limits.BodyBytes = 1 << 20
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, o, w)
	send := func(t *testing.T, length int) *proxytest.Client {
		t.Helper()
		c := proxytest.Dial(t, r.addr)
		head := proxytest.Request{Method: "POST", Target: chatPath, Headers: []proxytest.Header{
			proxytest.H("Expect", "100-continue"), proxytest.H("Content-Length", fmt.Sprint(length)),
		}}.Head(r.addr)
		if err := c.Send(head); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		c := send(t, o.Limits.BodyBytes+1)
		resp, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, resp, 413, "payload_too_large")
		if len(resp.Interim) != 0 {
			t.Errorf("the client was told to go on: %q", resp.Interim[0].StatusLine)
		}
	})
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		body := chat(strings.Repeat("x", 100_000), false)
		c := send(t, len(body))
		r.waitLoad(w, 0)
		if err := c.Send(body); err != nil {
			t.Fatal(err)
		}
		resp, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		want200(t, resp, `{}`)
		if len(resp.Interim) != 1 || resp.Interim[0].Status != 100 {
			t.Errorf("%d interim answers, want one 100", len(resp.Interim))
		}
		x := theRequest(t, w)
		wantValues(t, x, "Expect")
		wantBytes(t, "the body", x.Body(), []byte(body))
	})
}

// TestCaseB79Trailers: a trailer, announced or not, in either direction, harms
// neither the body nor the connection, and does not turn into headers.
func TestCaseB79Trailers(t *testing.T) {
	t.Parallel()
	answer := func(declared bool) proxytest.Script {
		return func(x *proxytest.Exchange) {
			hs := []proxytest.Header{proxytest.H("Transfer-Encoding", "chunked")}
			if declared {
				hs = append(hs, proxytest.H("Trailer", "X-Sum, X-Other"))
			}
			x.Head(200, hs...)
			x.Chunk("ok")
			x.EndChunks(proxytest.H("X-Sum", "9"), proxytest.H("X-Other", "1"), proxytest.H("Content-Length", "77"))
		}
	}
	for _, tc := range []struct {
		name   string
		script proxytest.Script
	}{{"announced", answer(true)}, {"not announced", answer(false)}} {
		t.Run("of the worker, "+tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.script)
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for range 3 {
				if err := c.Post(chatPath, chat("hi", true), proxytest.H("TE", "trailers")); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				want200(t, resp, "ok")
				wantValues(t, resp, "X-Sum")
				wantValues(t, resp, "Trailer")
			}
			for _, x := range w.Seen() {
				wantValues(t, x, "TE")
				if first := w.Seen()[0].Conn; x.Conn != first {
					t.Errorf("a request came on connection %d, the first on %d; want all on one", x.Conn, first)
				}
			}
		})
	}
	t.Run("of the client", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, once(), w)
		c := proxytest.Dial(t, r.addr)
		body := chat("hi", false)
		for range 3 {
			err := c.SendRequest(proxytest.Request{
				Method: "POST", Target: chatPath, Body: body, ChunkSizes: []int{7}, Headers: []proxytest.Header{proxytest.H("Trailer", "X-Sum")},
				Trailers: []proxytest.Header{proxytest.H("X-Sum", "9"), proxytest.H("X-Other", "1")},
			})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want200(t, resp, `{}`)
		}
		for _, x := range w.Seen() {
			wantBytes(t, "the body", x.Body(), []byte(body))
			wantValues(t, x, "X-Sum")
			wantValues(t, x, "X-Other")
			wantValues(t, x, "Trailer")
		}
		// A field that must not be in a trailer may be refused, but never passed on.
		resp := proxytest.Do(t, r.addr, proxytest.Request{
			Method: "POST", Target: chatPath, Body: body, ChunkSizes: []int{7}, Trailers: []proxytest.Header{proxytest.H("Authorization", "Bearer smuggled")},
		})
		if resp.Status != 200 {
			wantProblem(t, resp, 400, "bad_request")
		}
		for _, x := range w.Seen() {
			wantValues(t, x, "Authorization")
		}
	})
}

// TestCaseB80AnswersWithoutBody: nobody waits for a body that the rules of HTTP
// exclude, and the length that such an answer tells of stays.
func TestCaseB80AnswersWithoutBody(t *testing.T) {
	t.Parallel()
	length := proxytest.H("Content-Length", "1234")
	for _, tc := range []struct {
		name, method string
		status       int
		headers      []proxytest.Header
		framing      []string // any of these
		want         []string
	}{
		{"HEAD", "HEAD", 200, []proxytest.Header{length}, []string{"Content-Length: 1234"}, nil},
		{"HEAD of nothing", "HEAD", 200, []proxytest.Header{proxytest.H("Content-Length", "0")}, []string{"Content-Length: 0"}, nil},
		{"HEAD, chunked", "HEAD", 200, []proxytest.Header{proxytest.H("Transfer-Encoding", "chunked")}, []string{"", "Transfer-Encoding: chunked"}, nil},
		{"HEAD, no framing", "HEAD", 200, nil, []string{"", "Transfer-Encoding: chunked"}, nil},
		{"HEAD of an error", "HEAD", 404, []proxytest.Header{length}, []string{"Content-Length: 1234"}, nil},
		{"204", "DELETE", 204, []proxytest.Header{proxytest.H("X-A", "b")}, []string{""}, []string{"X-A: b"}},
		{"204 to GET", "GET", 204, nil, []string{""}, nil},
		{"304", "GET", 304, []proxytest.Header{proxytest.H("ETag", `"x"`), length}, []string{"Content-Length: 1234"}, []string{`ETag: "x"`}},
		{"304 without a length", "GET", 304, []proxytest.Header{proxytest.H("ETag", `"x"`)}, []string{""}, []string{`ETag: "x"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) { x.Head(tc.status, tc.headers...) })
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for range 3 {
				if err := c.SendRequest(proxytest.Request{Method: tc.method, Target: "/v1/files/x"}); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Status != tc.status || len(resp.Body) > 0 {
					t.Errorf("answer %d %q, want %d and no body", resp.Status, resp.Body, tc.status)
				}
				wantLines(t, "at the client", lines(resp.Headers, "x-request-id", "Content-Length", "Transfer-Encoding"), tc.want...)
				if got := framing(resp.Headers); !slices.Contains(tc.framing, got) {
					t.Errorf("the answer is framed by %q, want any of %q", got, tc.framing)
				}
			}
			r.waitLoad(w, 0)
			// The scripted worker closes behind an answer to HEAD without framing, and
			// what may not run twice gets a connection of its own.
			if got := w.Seen()[2].Seq; got != 3 && tc.name != "HEAD, no framing" && tc.method != "DELETE" {
				t.Errorf("the third request was number %d on its connection to the worker, want 3", got)
			}
		})
	}
}

// TestCaseB81PathsPassUntouched: a request target reaches the worker as it came,
// and decisions are made on that same text.
func TestCaseB81PathsPassUntouched(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, once(), w)
	for _, target := range []string{
		"/v1/models/org%2Fname?x=%2B&y=a+b", "/v1//models/a%2Fb/.../c", "/v1/./x", "//v1/models", "/a;b=c/d,e",
		"/a%00b", "/a%", "/a%zz", "/%68ealth", "/health/", "/v1/chat/completions/", "/v1//chat/completions", "/V1/Chat/Completions",
		"/v1/models?", "/x?a=1?b=2&&c", "/x?q=%E4%BD%A0", "/x?a=b/../c", "/%2e/workers", "/?x", "/", "/~a!$&'()*:@-._", "/workers%2Fx", "/x?url=http://a/b",
		"/\"<>\\^`{|}", "/x?{\"a\":[1]}",
	} {
		resp, err := proxytest.Try(r.addr, proxytest.Request{Method: "GET", Target: target}, patience)
		if err != nil || resp.Status != 200 || string(resp.Body) != `{}` {
			t.Errorf("%s: answer %v, %v; want the worker's", target, resp, err)
			continue
		}
		seen := w.Seen()
		if got, want := seen[len(seen)-1].RequestLine, "GET "+target+" HTTP/1.1"; got != want {
			t.Errorf("the worker was asked %q, want %q", got, want)
		}
	}
	// The absolute form names the router; the worker gets the rest of it.
	for target, want := range map[string]string{
		"http://host/v1/x%2Fy?z": "/v1/x%2Fy?z", "http://host": "/", "http://host?a=b": "/?a=b", "HTTPS://h:1//x": "//x",
	} {
		resp, err := proxytest.Try(r.addr, proxytest.Request{Method: "GET", Target: target}, patience)
		if err != nil || resp.Status != 200 {
			t.Errorf("%s: answer %v, %v; want the worker's", target, resp, err)
			continue
		}
		seen := w.Seen()
		if got := seen[len(seen)-1].Target; got != want {
			t.Errorf("%s: the worker was asked for %q, want %q", target, got, want)
		}
	}
	// What isn't literally an own path is not one, and no admin call.
	for _, target := range []string{"/Workers", "/workers?x", "/add_worker?url=x"} {
		own := proxytest.Do(t, r.addr, proxytest.Request{Method: "PUT", Target: target})
		if want := map[bool]int{true: 200, false: 405}[target == "/Workers"]; own.Status != want {
			t.Errorf("PUT %s: %d, want %d", target, own.Status, want)
		}
	}
}

// TestCaseB83HeaderNamesKeepTheirCase: names pass in the case they came in, both
// ways. Four names of an answer that fasthttp has fields for are looked at in
// TestAnswerHeadersOfFasthttp.
func TestCaseB83HeaderNamesKeepTheirCase(t *testing.T) {
	t.Parallel()
	names := []string{
		"x-lower-Case", "X_UNDER", "aCCept", "cookie", "user-agent", "x-1", "eTag", "date", "vary", "cache-Control", "last-modified", "CONTENT-language", "www-Authenticate", "trailing", "access-control-allow-origin",
	}
	var sent []proxytest.Header
	for _, n := range names {
		sent = append(sent, proxytest.H(n, "v"))
	}
	for _, framing := range []string{"length", "chunks"} {
		t.Run(framing, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if framing == "length" {
					x.Reply(200, "ok", sent...)
					return
				}
				x.Head(200, append(sent, proxytest.H("Transfer-Encoding", "chunked"))...)
				x.Chunk("ok")
				x.EndChunks()
			})
			r := startRouter(t, once(), w)
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Headers: sent, Body: "{}"})
			drop := []string{"Host", "Content-Length", "Transfer-Encoding", "X-Request-Id"}
			wantLines(t, "at the worker", lines(theRequest(t, w).Headers, drop...), lines(sent)...)
			wantLines(t, "at the client", lines(resp.Headers, drop...), lines(sent)...)
		})
	}
}
