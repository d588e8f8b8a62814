package proxy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// oddBodies are bodies that a router which parses and writes again, or which
// knows better, would change.
func oddBodies() map[string]string {
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 100_000)
	_, _ = random.Read(noise) // never fails
	tokens, err := json.Marshal(rand.New(random).Perm(20_000))
	if err != nil {
		panic(err)
	}
	image := `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBORw0KGgo", 10_000) + `","detail":"auto"}}`
	return map[string]string{
		"big integers":      `{"seed":9007199254740993,"x":123456789012345678901234567890,"y":-9223372036854775809}`,
		"17-digit floats":   `{"temperature":0.10000000000000001,"top_p":1.0,"x":[1e400,1E-7,-0.0,5e-324,1.7976931348623157e+308]}`,
		"nulls":             `{"model":null,"messages":null,"stream":null,"stop":[null],"x":{"y":null}}`,
		"unknown fields":    `{"model":"m","zz":{"deep":[{"er":{"est":[[[{}]]]}}]},"messages":[],"":0,"x-y z":1}`,
		"not ASCII":         `{"messages":[{"role":"user","content":"你好 👩‍👩‍👧 é e\u0301 ｆｕｌｌ \u2028"}]}`,
		"escapes":           `{"content":"\u00e9\u4f60\ud83d\ude00\ud83d \/ \b\f\n\r\t \"\\ \u0000 <&>"}`,
		"duplicate keys":    `{"model":"a","stream":true,"model":"b","stream":false,"messages":[],"messages":[1]}`,
		"messages last":     `{"z":1,"stream":true,"tools":[],"model":"m","a":2,"messages":[{"role":"user","content":"x"}]}`,
		"messages first":    `{"messages":[{"role":"user","content":"x"}],"model":"m"}`,
		"token ids":         `{"model":"m","prompt":` + string(tokens) + `}`,
		"several prompts":   `{"prompt":["a","b",""],"suffix":null}`,
		"multimodal parts":  `{"messages":[{"role":"user","content":[{"type":"text","text":"what is this"},` + image + `,{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]}`,
		"trailing newline":  `{"model":"m"}` + "\n",
		"white space":       "\n\t {\r\n  \"model\"\t: \"m\" }\r\n\r\n ",
		"byte order mark":   "\xef\xbb\xbf{\"model\":\"m\",\"messages\":[]}",
		"no JSON":           "hello, world",
		"cut JSON":          `{"model":"m","messages":[{"role":"us`,
		"bytes":             string(noise),
		"NULs":              strings.Repeat("\x00", 5000),
		"line ends":         strings.Repeat("\r\n", 3000),
		"looks like a head": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"looks like chunks": "5\r\nhello\r\n0\r\n\r\n",
		"gzip":              gzipped(`{"model":"m","messages":[{"role":"user","content":"x"}]}`),
		"one byte":          "x",
		"4096 bytes":        strings.Repeat("x", 4096),
		"4097 bytes":        strings.Repeat("x", 4097),
		"8192 bytes":        strings.Repeat("x", 8192),
		"64 KB and one":     strings.Repeat("x", 1<<16+1),
	}
}

// oddChunks are ways in which an upload may be cut.
var oddChunks = [][]int{nil, {1 << 20}, {1, 2, 3, 5, 8, 13, 21, 1000, 4096, 1}, {4096}, {8191, 2}}

// TestBodiesReachTheWorker: whatever a client sends as a body is at the worker,
// byte for byte, however it was cut on its way here, and with its length.
func TestBodiesReachTheWorker(t *testing.T) {
	t.Parallel()
	for name, body := range oddBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for i, sizes := range oddChunks {
				if err := c.SendRequest(proxytest.Request{Method: "POST", Target: chatPath, Body: body, ChunkSizes: sizes, Headers: []proxytest.Header{jsonType}}); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				want200(t, resp, `{}`)
				x := w.Seen()[i]
				if want := "POST " + chatPath + " HTTP/1.1"; x.RequestLine != want {
					t.Fatalf("chunks %v: the worker was asked %.60q, want %q", sizes, x.RequestLine, want)
				}
				wantBytes(t, fmt.Sprintf("chunks %v: the body", sizes), x.Body(), []byte(body))
				wantValues(t, x, "Content-Length", fmt.Sprint(len(body)))
				wantValues(t, x, "Transfer-Encoding")
				wantValues(t, x, "Content-Type", "application/json")
			}
		})
	}
}

// TestLargeBodiesPass: 20 MB of JSON, up and down.
func TestLargeBodiesPass(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("0123456789abcdef", size/16) + `"}]}`
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		if x.Get("X-Chunked") != "" {
			x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
			for b := x.Body(); len(b) > 0; b = b[min(len(b), 1<<20):] {
				x.Chunk(string(b[:min(len(b), 1<<20)]))
			}
			x.EndChunks()
			return
		}
		x.Reply(200, string(x.Body()), jsonType)
	})
	r := startRouter(t, once(), w)
	for _, headers := range [][]proxytest.Header{{jsonType}, {jsonType, proxytest.H("X-Chunked", "1")}} {
		resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: body, Headers: headers})
		if resp.Status != 200 {
			t.Errorf("answer %d", resp.Status)
		}
		wantBytes(t, "the answer", resp.Body, []byte(body))
	}
	wantBytes(t, "the body", w.Seen()[0].Body(), []byte(body))
}

// TestUploadsInPieces: a body that trickles in, cut inside its chunks and inside
// their framing, is the same body.
func TestUploadsInPieces(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, once(), w)
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n"
	for name, whole := range map[string]string{
		"length": head + "Content-Length: 26\r\n\r\n" + `{"model":"m","messages":1}`,
		"chunks": head + "Transfer-Encoding: chunked\r\n\r\n5;ext=\"a;b\"\r\n{\"mod\r\nA\r\nel\":\"m\",\"m\r\n00b\r\nessages\":1}\r\n000\r\n\r\n",
	} {
		for _, step := range []int{1, 7, 40} {
			c := proxytest.Dial(t, r.addr)
			before := w.Requests()
			for rest := whole; rest != ""; {
				n := min(step, len(rest))
				if err := c.Send(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatalf("%s by %d: %v", name, step, err)
			}
			want200(t, resp, `{}`)
			wantBytes(t, fmt.Sprintf("%s by %d: the body", name, step), w.Seen()[before].Body(), []byte(`{"model":"m","messages":1}`))
		}
	}
}

// TestMethodsPass: every method, with a body, an empty one or none, is the
// worker's to judge where the path is not the router's own and does not
// generate.
func TestMethodsPass(t *testing.T) {
	t.Parallel()
	type body struct {
		name    string
		request proxytest.Request
		framing string // at the worker
	}
	bodies := []body{
		{"no body", proxytest.Request{NoLength: true}, ""},
		{"length 0", proxytest.Request{Headers: []proxytest.Header{proxytest.H("Content-Length", "0")}}, "Content-Length: 0"},
		{"body", proxytest.Request{Body: `{"a":1}`}, "Content-Length: 7"},
		{"chunks", proxytest.Request{Body: `{"a":1}`, ChunkSizes: []int{3}}, "Content-Length: 7"},
		{"no chunk", proxytest.Request{Headers: []proxytest.Header{proxytest.H("Transfer-Encoding", "chunked")}, Body: "0\r\n\r\n"}, "Content-Length: 0"},
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "HEAD", "PROPFIND", "QUERY", "X-OWN"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(201, `{"made":true}`))
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for i, b := range bodies {
				q := b.request
				q.Method, q.Target = method, "/v1/files/x?y=z"
				if err := c.SendRequest(q); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatalf("%s: %v", b.name, err)
				}
				want := `{"made":true}`
				if method == "HEAD" {
					want = ""
				}
				if resp.Status != 201 || string(resp.Body) != want {
					t.Errorf("%s: answer %d %q, want 201 %q", b.name, resp.Status, resp.Body, want)
				}
				wantValues(t, resp, "Content-Length", "13")
				if len(w.Seen()) != i+1 {
					t.Fatalf("%s: the worker saw %d requests, want %d", b.name, len(w.Seen()), i+1)
				}
				x := w.Seen()[i]
				if want := method + " /v1/files/x?y=z HTTP/1.1"; x.RequestLine != want {
					t.Errorf("%s: the worker was asked %q, want %q", b.name, x.RequestLine, want)
				}
				if got := framing(x.Headers); got != b.framing {
					t.Errorf("%s: at the worker the body is framed by %q, want %q", b.name, got, b.framing)
				}
				wantBody := ""
				if q.Body != "" && len(q.Headers) == 0 {
					wantBody = q.Body
				}
				wantBytes(t, b.name, x.Body(), []byte(wantBody))
			}
		})
	}
}

// TestAnswersReachTheClient: whatever a worker answers is at the client, byte
// for byte, in the framing that the worker chose or in chunks.
func TestAnswersReachTheClient(t *testing.T) {
	t.Parallel()
	bodies := oddBodies()
	bodies["empty"] = ""
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				switch how := x.Get("X-How"); how {
				case "length":
					x.Reply(200, body, proxytest.H("Content-Type", "application/octet-stream"))
				case "close":
					x.Head(200)
					x.Raw(body)
				case "pieces":
					x.Head(200, proxytest.H("Content-Length", fmt.Sprint(len(body))))
					for rest := body; rest != ""; {
						n := min(1+len(body)/5, len(rest))
						x.Raw(rest[:n])
						rest = rest[n:]
					}
				default:
					x.Head(200, proxytest.H("Content-Type", how), proxytest.H("Transfer-Encoding", "chunked"))
					for i, rest := 0, body; rest != ""; i++ {
						n := min([]int{1, 100, 5000, 3}[i%4], len(rest))
						x.Chunk(rest[:n])
						rest = rest[n:]
					}
					x.EndChunks()
				}
			})
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for _, how := range []string{"length", "close", "pieces", "application/json", "text/event-stream"} {
				if err := c.Post(chatPath, `{"stream":true}`, proxytest.H("X-How", how)); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				wantBytes(t, how+": the answer", resp.Body, []byte(body))
				want := "Transfer-Encoding: chunked"
				if how == "length" || how == "pieces" {
					want = fmt.Sprint("Content-Length: ", len(body))
				}
				if got := framing(resp.Headers); got != want {
					t.Errorf("%s: the answer is framed by %q, want %q", how, got, want)
				}
			}
			r.waitLoad(w, 0)
		})
	}
}

// TestStatusesReachTheClient: the worker's status and body are the client's,
// whatever they are. Only what another worker might mend is tried again.
func TestStatusesReachTheClient(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		var status int
		if _, err := fmt.Sscan(x.Get("X-Status"), &status); err != nil {
			panic(err)
		}
		x.Reply(status, fmt.Sprint("this is ", status), proxytest.H("Content-Type", "text/plain"), proxytest.H("Retry-After", "7"))
	})
	r := startRouter(t, once(), w)
	c := proxytest.Dial(t, r.addr)
	for _, status := range []int{200, 201, 202, 203, 206, 226, 299, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 429, 451, 499, 500, 501, 502, 503, 504, 520, 599, 777, 999} {
		if err := c.Post(chatPath, `{}`, proxytest.H("X-Status", fmt.Sprint(status))); err != nil {
			t.Fatal(err)
		}
		resp, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatalf("%d: %v", status, err)
		}
		if want := fmt.Sprint("this is ", status); resp.Status != status || string(resp.Body) != want {
			t.Errorf("answer %d %q, want %d %q", resp.Status, resp.Body, status, want)
		}
		wantValues(t, resp, "Retry-After", "7")
		wantValues(t, resp, "Content-Type", "text/plain")
	}
}

// TestHeadersBothWays: many headers, long ones, repeated ones and odd ones pass
// in both directions with their order, apart from what belongs to one hop.
func TestHeadersBothWays(t *testing.T) {
	t.Parallel()
	headers := []proxytest.Header{
		proxytest.H("X-Long", strings.Repeat("l", 16<<10)), proxytest.H("X-A", "1"), proxytest.H("x-a", "2"), proxytest.H("X-B", "b"), proxytest.H("X-A", "1"),
		proxytest.H("X-Empty", ""), proxytest.H("X-Odd", "a, b;c=\"d,e\"\t\\ 'x' {}"), proxytest.H("X-Latin-1", "caf\xe9 \xff"), proxytest.H("X-UTF-8", "caf\u00e9"),
		proxytest.H("!#$%&'*+-.^_`|~", "token"), proxytest.H("0", "digit"), proxytest.H("X-Comma", "a"), proxytest.H("X-Comma", "b, c"),
	}
	for i := range 100 {
		headers = append(headers, proxytest.H(fmt.Sprint("X-Many-", i), strings.Repeat("v", i)))
	}
	cookies := []proxytest.Header{proxytest.H("Cookie", "a=1; b=\"2\"; c"), proxytest.H("Cookie", "d=4")}
	setCookies := []proxytest.Header{
		proxytest.H("Set-Cookie", "a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"), proxytest.H("Set-Cookie", "a=2"), proxytest.H("Set-Cookie", "odd"), proxytest.H("Set-Cookie", "b=\"x\"; Secure"),
	}
	for _, how := range []string{"length", "chunks", "kept error"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				switch how {
				case "length":
					x.Reply(200, "ok", slices.Concat(headers, setCookies)...)
				case "kept error":
					x.Reply(500, "ok", slices.Concat(headers, setCookies)...)
				default:
					x.Head(200, slices.Concat(headers, setCookies, []proxytest.Header{proxytest.H("Transfer-Encoding", "chunked")})...)
					x.Chunk("ok")
					x.EndChunks()
				}
			})
			o := testOptions("round_robin")
			o.Retry.MaxAttempts = 2
			r := startRouter(t, o, w)
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: "{}", Headers: slices.Concat(headers, cookies)})
			if string(resp.Body) != "ok" {
				t.Errorf("answer %d %q", resp.Status, resp.Body)
			}
			drop := []string{"Host", "Content-Length", "Transfer-Encoding", "X-Request-Id"}
			wantLines(t, "at the worker", lines(w.Seen()[0].Headers, drop...), lines(slices.Concat(headers, cookies))...)
			wantLines(t, "at the client", lines(resp.Headers, drop...), lines(slices.Concat(headers, setCookies))...)
		})
	}
}

// TestAnswerHeadersOfFasthttp: the headers of an answer that fasthttp has fields
// for pass like any other, with the case of their names, and repeated.
func TestAnswerHeadersOfFasthttp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
	}{
		{"case of Content-Type", []proxytest.Header{proxytest.H("content-TYPE", "text/plain")}},
		{"case of Server", []proxytest.Header{proxytest.H("server", "uvicorn")}},
		{"case of Content-Encoding", []proxytest.Header{proxytest.H("content-encoding", "gzip")}},
		{"case of Set-Cookie", []proxytest.Header{proxytest.H("set-cookie", "a=b")}},
		{"Content-Encoding twice", []proxytest.Header{proxytest.H("Content-Encoding", "gzip"), proxytest.H("Content-Encoding", "br")}},
		{"Content-Type twice", []proxytest.Header{proxytest.H("Content-Type", "text/plain"), proxytest.H("Content-Type", "text/html")}},
		{"Server twice", []proxytest.Header{proxytest.H("Server", "a"), proxytest.H("Server", "b")}},
		{"empty Content-Type", []proxytest.Header{proxytest.H("Content-Type", "")}},
		{"empty Server", []proxytest.Header{proxytest.H("Server", "")}},
		{"Date twice", []proxytest.Header{proxytest.H("Date", "Thu, 01 Jan 1970 00:00:00 GMT"), proxytest.H("date", "x")}},
		{"order", []proxytest.Header{proxytest.H("X-A", "1"), proxytest.H("Set-Cookie", "a=b"), proxytest.H("Server", "s"), proxytest.H("Content-Type", "text/plain"), proxytest.H("X-B", "2")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) { x.Reply(200, "ok", tc.headers...) })
			r := startRouter(t, once(), w)
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: "{}"})
			wantLines(t, "at the client", lines(resp.Headers, "Content-Length", "X-Request-Id"), lines(tc.headers)...)
		})
	}
}

// TestRequestHeadersOfFasthttp is its counterpart for requests.
func TestRequestHeadersOfFasthttp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
	}{
		{"case", []proxytest.Header{proxytest.H("content-TYPE", "a/b"), proxytest.H("user-agent", "u"), proxytest.H("COOKIE", "a=b"), proxytest.H("accept-encoding", "br")}},
		{"Content-Type twice", []proxytest.Header{proxytest.H("Content-Type", "text/plain"), proxytest.H("Content-Type", "text/html")}},
		{"User-Agent twice", []proxytest.Header{proxytest.H("User-Agent", "a"), proxytest.H("User-Agent", "b")}},
		{"empty", []proxytest.Header{proxytest.H("Content-Type", ""), proxytest.H("User-Agent", ""), proxytest.H("Cookie", "")}},
		{"Cookie often", []proxytest.Header{proxytest.H("Cookie", "a=1"), proxytest.H("X-A", "1"), proxytest.H("Cookie", "a=2; ; =x; b"), proxytest.H("Cookie", "a=1")}},
		{"Content-Encoding", []proxytest.Header{proxytest.H("Content-Encoding", "gzip"), proxytest.H("Content-Encoding", "br")}},
		{"Range", []proxytest.Header{proxytest.H("Range", "bytes=0-1"), proxytest.H("If-None-Match", `"x"`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, once(), w)
			want200(t, proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: "{}", Headers: tc.headers}), `{}`)
			wantLines(t, "at the worker", lines(theRequest(t, w).Headers, "Host", "Content-Length", "X-Request-Id"), lines(tc.headers)...)
		})
	}
}

// TestEncodedBodiesPass: what is compressed stays so, in both directions, and
// nothing else becomes so.
func TestEncodedBodiesPass(t *testing.T) {
	t.Parallel()
	text := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("compressible ", 5000) + `"}]}`
	zipped := gzipped(text)
	gzip := proxytest.H("Content-Encoding", "gzip")
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		if x.Get("Accept-Encoding") == "gzip" {
			x.Reply(200, zipped, jsonType, gzip)
			return
		}
		x.Reply(200, text, jsonType)
	})
	r := startRouter(t, once(), w)
	resp := ask(t, r, chatPath, zipped, gzip, proxytest.H("Accept-Encoding", "gzip"))
	wantBytes(t, "the answer", resp.Body, []byte(zipped))
	wantValues(t, resp, "Content-Encoding", "gzip")
	wantBytes(t, "the body", w.Seen()[0].Body(), []byte(zipped))
	wantValues(t, w.Seen()[0], "Content-Encoding", "gzip")

	resp = ask(t, r, chatPath, text, proxytest.H("Accept-Encoding", "br, deflate"))
	wantBytes(t, "the answer", resp.Body, []byte(text))
	wantValues(t, resp, "Content-Encoding")
	wantValues(t, w.Seen()[1], "Content-Encoding")
	wantValues(t, w.Seen()[1], "Accept-Encoding", "br, deflate")

	ask(t, r, chatPath, text)
	wantValues(t, w.Seen()[2], "Accept-Encoding")
}
