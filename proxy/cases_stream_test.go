package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// rawStream answers with an event stream made of these pieces, a chunk and a
// write each.
func rawStream(pieces ...string) proxytest.Script {
	return func(x *proxytest.Exchange) {
		x.SSEHead()
		for _, p := range pieces {
			x.Chunk(p)
		}
		x.EndChunks()
	}
}

// gzipped compresses s.
func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// TestCaseB22HintsAgainstBuffering: an event stream tells whatever proxy stands
// in front of this one not to gather it, unless the worker has said otherwise;
// other answers get no such hint.
func TestCaseB22HintsAgainstBuffering(t *testing.T) {
	t.Parallel()
	const eventStream = "text/event-stream"
	for _, tc := range []struct {
		name         string
		headers      []proxytest.Header
		accel, cache []string
	}{
		{"neither", []proxytest.Header{proxytest.H("Content-Type", eventStream)}, []string{"no"}, []string{"no-cache"}},
		{"charset", []proxytest.Header{proxytest.H("content-type", "Text/Event-Stream; charset=utf-8")}, []string{"no"}, []string{"no-cache"}},
		{
			"accel given",
			[]proxytest.Header{proxytest.H("Content-Type", eventStream), proxytest.H("x-accel-buffering", "yes")},
			[]string{"yes"},
			[]string{"no-cache"},
		},
		{
			"cache given",
			[]proxytest.Header{proxytest.H("Content-Type", eventStream), proxytest.H("cache-control", "no-store")},
			[]string{"no"},
			[]string{"no-store"},
		},
		{
			"both given, one twice",
			[]proxytest.Header{
				proxytest.H("Cache-Control", "private"), proxytest.H("Content-Type", eventStream),
				proxytest.H("Cache-Control", "max-age=0"), proxytest.H("X-Accel-Buffering", "no"),
			},
			[]string{"no"},
			[]string{"private", "max-age=0"},
		},
		{"no events", []proxytest.Header{jsonType}, nil, nil},
		{"no type", nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				x.Head(200, append(tc.headers, proxytest.H("Transfer-Encoding", "chunked"))...)
				x.Event("one")
				x.Done()
				x.EndChunks()
			})
			r := startRouter(t, once(), w)
			resp := ask(t, r, chatPath, chat("hi", true))
			wantValues(t, resp, "X-Accel-Buffering", tc.accel...)
			wantValues(t, resp, "Cache-Control", tc.cache...)
			want200(t, resp, "data: one\n\ndata: [DONE]\n\n")
		})
	}
}

// TestCaseB23EventsOfAnySize: no line of an event stream is too long.
func TestCaseB23EventsOfAnySize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{64 << 10, 300_000, 5 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			pieces := []string{"data: a\n\n", "data: " + strings.Repeat("x", size) + "\n\n", "data: b\n\n", "data: [DONE]\n\n"}
			w := proxytest.NewWorker(t, rawStream(pieces...))
			r := startRouter(t, once(), w)
			resp := ask(t, r, chatPath, chat("hi", true))
			wantBytes(t, "the stream", resp.Body, []byte(strings.Join(pieces, "")))
			r.waitLoad(w, 0)
		})
	}
}

// TestCaseB24CharactersCutAnywhere: where the pieces of a stream are cut is no
// business of the router's, in the middle of a character or not.
func TestCaseB24CharactersCutAnywhere(t *testing.T) {
	t.Parallel()
	const text = "data: {\"content\":\"你好 😀 é \u200d a\u0301\"}\n\ndata: [DONE]\n\n"
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		if x.Get("X-Cut") == "chunks" {
			rawStream(strings.Split(text, "")...)(x) // a chunk a character
			return
		}
		x.SSEHead()
		for i := range len(text) {
			x.Chunk(text[i : i+1])
		}
		x.EndChunks()
	})
	r := startRouter(t, once(), w)
	for _, cut := range []string{"chunks", "bytes"} {
		resp := ask(t, r, chatPath, chat("hi", true), proxytest.H("X-Cut", cut))
		wantBytes(t, "the stream cut into "+cut, resp.Body, []byte(text))
	}
}

// TestCaseB25EveryLineOfAStream: a stream is more than its data lines, and its
// framing is not the router's to tidy up.
func TestCaseB25EveryLineOfAStream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, stream string }{
		{"fields", ": ping\n\nevent: message_start\nid: 7\nretry: 10\ndata:{\"a\":1}\ndata: second\n\n: \n\ndata: [DONE]\n\n"},
		{"line ends", "data: crlf\r\n\r\ndata: cr\r\rdata: lf\n\n\n\n\ndata: [DONE]\r\n\r\n"},
		{"byte order mark", "\xef\xbb\xbfdata: x\n\n"},
		{"no empty line at the end", "data: x\n\ndata: y"},
		{"no data", ":\n"},
		{"behind the end mark", "data: [DONE]\n\nevent: stats\ndata: {}\n\n"},
		{"looks like framing", "data: 5\r\nhello\r\n0\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, rawStream(tc.stream))
			r := startRouter(t, once(), w)
			resp := ask(t, r, "/v1/messages", `{"model":"m","stream":true,"messages":[]}`)
			wantBytes(t, "the stream", resp.Body, []byte(tc.stream))
		})
	}
}

// TestCaseB28NothingIsGathered: each event reaches the client before the worker
// goes on to the next, whatever encodings the client would take, and with what
// encoding the worker chose.
func TestCaseB28NothingIsGathered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		head func(x *proxytest.Exchange)
	}{
		{"chunked", func(x *proxytest.Exchange) { x.SSEHead() }},
		{"until close", func(x *proxytest.Exchange) { x.Head(200, proxytest.H("Content-Type", "text/event-stream")) }},
		{"with a length", func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Content-Type", "text/event-stream"), proxytest.H("Content-Length", "60"))
		}},
		{"no events", func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Content-Type", "application/x-ndjson"), proxytest.H("Transfer-Encoding", "chunked"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				tc.head(x)
				for i := 0; i < 5 && x.Hold(); i++ {
					x.Event(fmt.Sprint("ev-", i)) // 12 bytes
				}
				x.EndChunks()
			})
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			if err := c.Post(chatPath, chat("hi", true), proxytest.H("Accept-Encoding", "gzip, br")); err != nil {
				t.Fatal(err)
			}
			// The head is there before any event.
			head, err := c.ReadHead(patience)
			if err != nil {
				t.Fatal(err)
			}
			wantValues(t, head, "Content-Encoding")
			x := theRequest(t, w)
			wantValues(t, x, "Accept-Encoding", "gzip, br")
			for i := range 5 {
				x.Release()
				ev, err := c.ReadEvent(patience)
				if err != nil || ev.Data != fmt.Sprint("ev-", i) {
					t.Fatalf("event %d is %q, %v", i, ev.Data, err)
				}
			}
			if resp, err := c.ReadResponse(patience); err != nil || len(resp.Body) != 60 {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
	t.Run("the worker's own encoding", func(t *testing.T) {
		t.Parallel()
		zipped := gzipped("data: one\n\ndata: [DONE]\n\n")
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			x.SSEHead(proxytest.H("Content-Encoding", "gzip"))
			x.Chunk(zipped)
			x.EndChunks()
		})
		r := startRouter(t, once(), w)
		resp := ask(t, r, chatPath, chat("hi", true), proxytest.H("Accept-Encoding", "gzip"))
		wantValues(t, resp, "Content-Encoding", "gzip")
		wantBytes(t, "the stream", resp.Body, []byte(zipped))
	})
}

// TestCaseB37UsageIsNotForced: the router asks for no usage figures on its own
// account, so a client gets them if it asked for them, and once.
func TestCaseB37UsageIsNotForced(t *testing.T) {
	t.Parallel()
	const usage = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Event(proxytest.EventData(0))
		if strings.Contains(string(x.Body()), `"include_usage":true`) {
			x.Event(usage)
		}
		x.Done()
		x.EndChunks()
	})
	r := startRouter(t, once(), w)
	for i, tc := range []struct {
		name, options string
		times         int
	}{
		{"not asked", ``, 0},
		{"refused", `,"stream_options":{"include_usage":false}`, 0},
		{"null", `,"stream_options":null`, 0},
		{"asked", `,"stream_options":{"include_usage":true}`, 1},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true` + tc.options + `}`
		resp := ask(t, r, chatPath, body)
		wantBytes(t, tc.name+": the body at the worker", w.Seen()[i].Body(), []byte(body))
		if got := strings.Count(string(resp.Body), usage); got != tc.times {
			t.Errorf("%s: usage came %d times, want %d", tc.name, got, tc.times)
		}
	}
}

// TestCaseB38HopHeadersOfTheWorker: what a worker says of its own connection,
// by a standard header or by one that its Connection header names, ends at the
// router, and the framing towards the client is the router's.
func TestCaseB38HopHeadersOfTheWorker(t *testing.T) {
	t.Parallel()
	hop := []proxytest.Header{
		proxytest.H("Connection", "X-Hop, keep-alive, x-other"), proxytest.H("X-Hop", "1"), proxytest.H("X-OTHER", "2"), proxytest.H("X-Hop", "again"),
		proxytest.H("Keep-Alive", "timeout=5"), proxytest.H("Proxy-Authenticate", "Basic"), proxytest.H("Proxy-Connection", "keep-alive"),
		proxytest.H("Trailer", "X-Sum"), proxytest.H("TE", "trailers"), proxytest.H("Upgrade", "h2c"),
		proxytest.H("X-Keep", "1"), proxytest.H("X-Hopeful", "yes"),
	}
	for _, tc := range []struct {
		name   string
		answer proxytest.Script
		length []string
	}{
		{"chunked", func(x *proxytest.Exchange) {
			x.Head(200, append(hop, proxytest.H("Transfer-Encoding", "chunked"))...)
			x.Chunk("ok")
			x.EndChunks(proxytest.H("X-Sum", "9"))
		}, nil},
		{"with a length", func(x *proxytest.Exchange) { x.Reply(200, "ok", hop...) }, []string{"2"}},
		{"until close", func(x *proxytest.Exchange) {
			x.Head(200, hop...)
			x.Raw("ok")
		}, nil},
		{"both framings", func(x *proxytest.Exchange) {
			x.Raw("HTTP/1.1 200 OK\r\nContent-Length: 999\r\nX-Keep: 1\r\nX-Hopeful: yes\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
			x.CloseFIN()
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.answer)
			r := startRouter(t, once(), w)
			c := proxytest.Dial(t, r.addr)
			for range 2 { // the client's connection stays usable
				if err := c.Post(chatPath, chat("hi", false)); err != nil {
					t.Fatal(err)
				}
				resp, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				want200(t, resp, "ok")
				for _, name := range []string{
					"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Trailer", "TE", "Upgrade", "X-Hop", "X-Other",
				} {
					wantValues(t, resp, name)
				}
				wantValues(t, resp, "X-Keep", "1")
				wantValues(t, resp, "X-Hopeful", "yes")
				wantValues(t, resp, "Content-Length", tc.length...)
				if tc.length == nil {
					wantValues(t, resp, "Transfer-Encoding", "chunked")
				}
			}
		})
	}
}

// TestCaseB39ClientOfHTTP10: a client of HTTP/1.0 knows no chunks. Its answer
// ends with its connection, or has a length, and is as prompt as any other.
func TestCaseB39ClientOfHTTP10(t *testing.T) {
	t.Parallel()
	held := func(x *proxytest.Exchange) {
		x.SSEHead()
		for i := 0; i < 3 && x.Hold(); i++ {
			x.Event(fmt.Sprint("ev-", i))
		}
		x.EndChunks()
	}
	post := func(t *testing.T, r *router, headers ...proxytest.Header) *proxytest.Client {
		t.Helper()
		c := proxytest.Dial(t, r.addr)
		if err := c.SendRequest(proxytest.Request{Method: "POST", Target: chatPath, Proto: "HTTP/1.0", Body: chat("hi", true), Headers: headers}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream, keep-alive=%v", keep), func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, held)
			r := startRouter(t, once(), w)
			var headers []proxytest.Header
			if keep {
				headers = []proxytest.Header{proxytest.H("Connection", "keep-alive")}
			}
			c := post(t, r, headers...)
			w.WaitInFlight(1, patience)
			x := theRequest(t, w)
			if x.Proto != "HTTP/1.1" {
				t.Errorf("the worker was asked in %s, want HTTP/1.1", x.Proto)
			}
			for i := range 3 {
				x.Release()
				if ev, err := c.ReadEvent(patience); err != nil || ev.Data != fmt.Sprint("ev-", i) {
					t.Fatalf("event %d is %q, %v", i, ev.Data, err)
				}
			}
			resp, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want200(t, resp, "data: ev-0\n\ndata: ev-1\n\ndata: ev-2\n\n")
			wantValues(t, resp, "Transfer-Encoding")
			if c.PeerReset() {
				t.Error("a whole answer ended by a reset")
			}
			r.waitOutcome(actors.Completed, 1)
		})
	}
	t.Run("with a length", func(t *testing.T) {
		t.Parallel()
		big := strings.Repeat("0123456789", 10_000)
		w := proxytest.NewWorker(t, proxytest.Sequence(proxytest.JSON(200, `{}`), proxytest.JSON(200, big)))
		r := startRouter(t, once(), w)
		for _, want := range []string{`{}`, big} {
			resp, err := post(t, r).ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			want200(t, resp, want)
			wantValues(t, resp, "Transfer-Encoding")
			wantValues(t, resp, "Content-Length", fmt.Sprint(len(want)))
		}
	})
	t.Run("broken off", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			x.Head(200, proxytest.H("Content-Type", "text/plain"), proxytest.H("Transfer-Encoding", "chunked"))
			x.Chunk("a part")
			x.Hold()
			x.CloseFIN()
		})
		r := startRouter(t, once(), w)
		c := post(t, r)
		if _, err := c.ReadHead(patience); err != nil {
			t.Fatal(err)
		}
		w.Release()
		if _, err := c.ReadResponse(patience); !errors.Is(err, proxytest.ErrReset) {
			t.Errorf("an answer broken off ended with %v, want a reset", err)
		}
		r.waitLoad(w, 0)
	})
}
