package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// TestPathTricks: no spelling of an admin path reaches the admin API past its
// check. What isn't literally such a path is a worker's, and the worker gets it as
// it was spelled, so the two of them can't disagree on what was asked; see
// TestPathsStayBelowThePrefix for what it doesn't get.
func TestPathTricks(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `"of the worker"`))
	r := startRouter(t, testOptions("round_robin"), w)
	for _, tc := range []struct {
		target string
		worker string // target at the worker; empty if it is the admin API's
	}{
		{"/workers", ""},
		{"/workers?", ""},
		{"/workers?a=/../b", ""},
		{"/workers/x", ""},
		{"/workers/../v1/models", ""},
		{"/workers//", ""},
		{"/workers/.", ""},
		{"http://x/workers", ""},
		{"HTTP://x:1/workers?a", ""},
		{"http://a@b/workers", ""},
		{"http:///workers", ""},
		{"x://x/list_workers", ""},
		{"/get_loads", ""},
		{"//workers", "//workers"},
		{"///workers", "///workers"},
		{"/workers/", "/workers/"},
		{"/workers/?x", "/workers/?x"},
		{"/%77orkers", "/%77orkers"},
		{"/workers%2F", "/workers%2F"},
		{"/workers%2f.", "/workers%2f."},
		{"/workers%00", "/workers%00"},
		{"/workers;a=b", "/workers;a=b"},
		{"/workers%20", "/workers%20"},
		{"/./workers", "/./workers"},
		{"/v1/%2e/workers", "/v1/%2e/workers"},
		{"/WORKERS", "/WORKERS"},
		{"/workers.", "/workers."},
		{"/workers#x", "/workers#x"},
		{"/\\workers", "/\\workers"},
		{"/workers\\", "/workers\\"},
		{"/x?/workers", "/x?/workers"},
		{"http://x//workers", "//workers"},
		{"http://x?/workers", "/?/workers"},
		{"//x/list_workers", "//x/list_workers"},
		{"/get_loads/", "/get_loads/"},
		{"/add_worker/?url=http://a", "/add_worker/?url=http://a"},
	} {
		t.Run(tc.target, func(t *testing.T) {
			before := w.Requests()
			got := r.remotely("GET", tc.target)
			seen := w.Seen()[before:]
			switch {
			case tc.worker == "" && (got.Status != 403 || len(seen) > 0):
				t.Errorf("answer %d %s, want 403 and nothing at the worker", got.Status, got.Body)
			case tc.worker != "" && (got.Status != 200 || len(seen) != 1 || seen[0].Target != tc.worker):
				t.Errorf("answer %d %s, want the worker's to %s", got.Status, got.Body, tc.worker)
			}
		})
	}
	for _, target := range []string{"workers", "*", "x:443", "?x", "../workers"} {
		c := proxytest.Dial(t, r.addr)
		if err := c.Send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.ReadResponse(patience); err != nil || got.Status != 400 {
			t.Errorf("%q: answer %v, %v, want 400", target, got, err)
		}
	}
}

// TestFramingTricks: a head whose body two parsers might take for different ones is
// refused, or read in the one way that the worker gets it in; what stands behind it
// is no request.
func TestFramingTricks(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	const post = "POST /v1/a HTTP/1.1\r\nHost: x\r\n"
	for _, tc := range []struct{ name, raw string }{
		{"length with a sign", post + "Content-Length: +2\r\n\r\nok"},
		{"length in hex", post + "Content-Length: 0x2\r\n\r\nok"},
		{"list of lengths", post + "Content-Length: 2, 2\r\n\r\nok"},
		{"length and blank", post + "Content-Length: 2 2\r\n\r\nok"},
		{"length empty", post + "Content-Length:\r\n\r\nok"},
		{"length too large", post + "Content-Length: 18446744073709551618\r\n\r\nok"},
		{"two lengths that differ", post + "Content-Length: 0\r\nContent-Length: 2\r\n\r\nok"},
		{"coding misspelt", post + "Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding not last", post + "Transfer-Encoding: chunked, identity\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding with a parameter", post + "Transfer-Encoding: chunked;a=b\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding in quotes", post + "Transfer-Encoding: \"chunked\"\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding behind a vertical tab", post + "Transfer-Encoding: \vchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding with a blank before the colon", post + "Transfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding folded", post + "Transfer-Encoding:\r\n chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"coding empty, and length", post + "Transfer-Encoding:\r\nContent-Length: 2\r\n\r\nok"},
		{"coding of old HTTP", "POST /v1/a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"line feeds alone", "POST /v1/a HTTP/1.1\nHost: x\nContent-Length: 2\n\nok"},
		{"a line feed alone", post + "X-A: b\nContent-Length: 2\r\n\r\nok"},
		{"blank first line of the head", "POST /v1/a HTTP/1.1\r\n Host: x\r\nContent-Length: 2\r\n\r\nok"},
		{"chunk size with a sign", post + "Transfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n"},
		{"chunk size in C", post + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n"},
		{"chunk size too large", post + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n"},
		{"chunk longer than it says", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n"},
		{"chunk without an end", post + "Transfer-Encoding: chunked\r\n\r\n2\r\nok0\r\n\r\n"},
		{"HTTP/2 by prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"no blank in the first line", "POST/v1/aHTTP/1.1\r\nHost: x\r\n\r\n"},
		{"HTTP/1.2", "POST /v1/a HTTP/1.2\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"},
		{"HTTP/1.1 and more", "POST /v1/a HTTP/1.1 x\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			r := startRouter(t, testOptions("round_robin"), w)
			c := proxytest.Dial(t, r.addr)
			if err := c.Send(tc.raw + smuggled); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if got == nil {
				t.Fatalf("no answer: %v", err)
			}
			if got.Status/100 == 2 {
				for _, x := range w.Seen() {
					t.Logf("the worker saw %q and the body %q", x.RawHead, x.Body())
				}
				t.Errorf("status %d, want a refusal", got.Status)
			}
			select {
			case <-c.PeerClosed():
			case <-time.After(patience):
				t.Error("the connection stays open")
			}
			if n := w.Requests(); n != 0 {
				t.Errorf("the worker got %d requests, want 0", n)
			}
		})
	}
}

// TestCaseB132Upgrade: nobody is talked into another protocol; the request is one
// like any other.
func TestCaseB132Upgrade(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(404, "{}"))
	r := startRouter(t, testOptions("round_robin"), w)
	for _, headers := range [][]proxytest.Header{
		{proxytest.H("Upgrade", "websocket"), proxytest.H("Connection", "Upgrade"), proxytest.H("Sec-WebSocket-Version", "13"), proxytest.H("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")},
		{proxytest.H("Upgrade", "h2c"), proxytest.H("Connection", "Upgrade, HTTP2-Settings"), proxytest.H("HTTP2-Settings", "AAMAAABkAAQAAP__")},
		{proxytest.H("upgrade", "h2c")},
	} {
		c := proxytest.Dial(t, r.addr)
		for range 2 { // the connection stays one of HTTP/1.1
			if err := c.Get("/v1/realtime", headers...); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil || got.Status != 404 || len(got.Interim) > 0 {
				t.Fatalf("answer %v, %v, want the worker's 404 alone", got, err)
			}
		}
	}
	for _, x := range w.Seen() {
		wantValues(t, x, "Upgrade")
		wantValues(t, x, "Connection")
		wantValues(t, x, "HTTP2-Settings")
	}
}

// TestRequestIDInjection: a request's id is a value and nothing else, at the worker,
// at the client and in the log.
func TestRequestIDInjection(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.AccessLog = true
	r := startRouter(t, o, w)
	for _, header := range []string{"X-Request-Id", "x-correlation-id", "request-id"} {
		for _, id := range []string{
			`a" level=ERROR msg="forged`, "a, X-Evil: 1", "a: b", "\xff\xfe", "a\tb", `\r\nX-Evil: 1`, "%0d%0aX-Evil:%201", strings.Repeat("i", 20_000),
		} {
			before := w.Requests()
			got := r.call("POST", chatPath, "{}", proxytest.H(header, id))
			wantAnswer(t, got, 200, "{}")
			wantValues(t, got, "X-Request-Id", id)
			x := w.Seen()[before]
			wantValues(t, x, "X-Request-Id", id)
			if got.Get("X-Evil") != "" || x.Get("X-Evil") != "" {
				t.Errorf("%s: %q makes a header", header, id)
			}
		}
		for _, end := range []string{"\r", "\n", "\x00", "\r\n ", "\n\r", "\x0b\n"} {
			before := w.Requests()
			c := proxytest.Dial(t, r.addr)
			if err := c.Send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%s: a%sX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}", chatPath, header, end)); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil || got.Status != 400 || w.Requests() != before {
				t.Errorf("%s that holds %q: answer %v, %v, and %d requests at the worker; want 400 and none", header, end, got, err, w.Requests()-before)
			}
			if got != nil && strings.Contains(string(got.RawHead), "X-Evil") {
				t.Errorf("%s that holds %q is in the answer: %q", header, end, got.RawHead)
			}
		}
	}
	for line := range strings.SplitSeq(r.logs.String(), "\n") {
		if strings.Contains(line, " msg=\"forged") || strings.HasPrefix(line, "X-Evil") {
			t.Errorf("a line of the log is forged: %s", line)
		}
	}
}
