package proxytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestReadResponse has answers of every kind, and of every fault, read.
func TestReadResponse(t *testing.T) {
	tests := []struct {
		name   string
		raw    string
		reset  bool
		method string
		errs   []error
		want   *Response // nil: no response at all
	}{
		{name: "length", raw: "HTTP/1.1 200 OK\r\na: 1\r\nContent-Length: 2\r\n\r\nok", want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"a", "1"}, {"Content-Length", "2"}},
			Body: []byte("ok"), RawBody: []byte("ok"), Clean: true,
		}},
		{name: "chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\nT: 1\r\n\r\n", want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"Transfer-Encoding", "chunked"}},
			Body: []byte("abc"), RawBody: []byte("1\r\na\r\n2\r\nbc\r\n0\r\nT: 1\r\n\r\n"), Chunked: true, Chunks: []int{1, 2}, Trailers: []Header{{"T", "1"}}, Clean: true,
		}},
		{name: "up to FIN", raw: "HTTP/1.0 200 OK\r\n\r\nok", want: &Response{
			StatusLine: "HTTP/1.0 200 OK", Proto: "HTTP/1.0", Status: 200, Body: []byte("ok"), RawBody: []byte("ok"), Clean: true,
		}},
		{name: "up to RST", raw: "HTTP/1.0 200 OK\r\n\r\nok", reset: true, errs: []error{ErrTruncated, ErrReset}, want: &Response{
			StatusLine: "HTTP/1.0 200 OK", Proto: "HTTP/1.0", Status: 200, Body: []byte("ok"), RawBody: []byte("ok"),
		}},
		{name: "length cut", raw: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", errs: []error{ErrTruncated}, want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"Content-Length", "3"}}, Body: []byte("ok"), RawBody: []byte("ok"),
		}},
		{name: "chunks without the last", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", errs: []error{ErrTruncated}, want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"Transfer-Encoding", "chunked"}},
			Body: []byte("a"), RawBody: []byte("1\r\na\r\n"), Chunked: true, Chunks: []int{1},
		}},
		{name: "head cut", raw: "HTTP/1.1 200 OK\r\nA: b\r\n", errs: []error{ErrTruncated}, want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"A", "b"}},
		}},
		{name: "nothing", errs: []error{ErrNoAnswer}},
		{name: "nothing by RST", reset: true, errs: []error{ErrNoAnswer, ErrReset}},
		{name: "malformed", raw: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", errs: []error{ErrMalformed}, want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"Content-Length", "x"}},
		}},
		{name: "to head", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", want: &Response{
			StatusLine: "HTTP/1.1 200 OK", Proto: "HTTP/1.1", Status: 200, Headers: []Header{{"Content-Length", "1234"}}, Clean: true,
		}},
		{name: "204", raw: "HTTP/1.1 204 No Content\r\n\r\n", want: &Response{StatusLine: "HTTP/1.1 204 No Content", Proto: "HTTP/1.1", Status: 204, Clean: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) {
				if tt.raw != "" {
					x.Raw(tt.raw)
				}
				x.Hold() // until the client has read as far as it can
				if tt.reset {
					x.Reset()
				} else {
					x.CloseFIN()
				}
			})
			c := Dial(t, w.Addr())
			must(t, c.SendRequest(Request{Method: tt.method, Body: "x"}))
			w.WaitRequests(1, within)
			waitUnread(t, c, len(tt.raw))
			resp, err := c.ReadResponse(20 * time.Millisecond)
			if errors.Is(err, ErrTimeout) {
				w.Release()
				resp, err = c.ReadResponse(within)
			}
			for _, want := range tt.errs {
				if !errors.Is(err, want) {
					t.Errorf("got error %v, want %v", err, want)
				}
			}
			if len(tt.errs) == 0 && err != nil || errors.Is(err, ErrReset) != tt.reset {
				t.Errorf("got error %v, want %v", err, tt.errs)
			}
			if tt.want == nil {
				if resp != nil {
					t.Errorf("got %+v, want no response", resp)
				}
				return
			}
			if resp.FirstAt.IsZero() || resp.Clean && (resp.HeadAt.Before(resp.FirstAt) || resp.EndAt.Before(resp.HeadAt)) {
				t.Errorf("times are out of order: %v, %v, %v", resp.FirstAt, resp.HeadAt, resp.EndAt)
			}
			if tt.errs == nil && string(resp.RawHead)+string(resp.RawBody) != tt.raw {
				t.Errorf("raw answer is %q, want %q", string(resp.RawHead)+string(resp.RawBody), tt.raw)
			}
			got := *resp
			got.FirstAt, got.HeadAt, got.EndAt, got.RawHead = time.Time{}, time.Time{}, time.Time{}, nil
			if !reflect.DeepEqual(got, *tt.want) {
				t.Errorf("got %+v\nwant %+v", got, *tt.want)
			}
		})
	}
}

func TestInterimAnswersAreKept(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		x.Head(103, H("Link", "a"))
		x.Head(103, H("Link", "b"))
		x.Reply(200, "ok")
	})
	resp := Do(t, w.Addr(), Request{})
	if len(resp.Interim) != 2 || resp.Interim[0].Get("link") != "a" || resp.Interim[1].Values("LINK")[0] != "b" || resp.Status != 200 || string(resp.Body) != "ok" {
		t.Errorf("got %+v, want 103, 103, 200", resp)
	}
}

func TestPipelinedAnswersComeApart(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) { x.Reply(200, x.Target) })
	c := Dial(t, w.Addr())
	must(t, c.Get("/a"))
	must(t, c.SendRequest(Request{Method: "HEAD", Target: "/b"}))
	must(t, c.Post("/c", "x", H("A", "b")))
	for _, want := range []string{"/a", "", "/c"} {
		if got := string(mustRead(t, c).Body); got != want {
			t.Errorf("body is %q, want %q", got, want)
		}
	}
	must(t, c.Send("HEAD /d HTTP/1.1\r\nHost: h\r\n\r\n"))
	if resp, err := c.ReadResponseTo("HEAD", within); err != nil || !resp.Clean {
		t.Errorf("got %+v and error %v, want a clean answer", resp, err)
	}
}

func TestRequestBytes(t *testing.T) {
	tests := []struct {
		name string
		req  Request
		want []string
	}{
		{"zero", Request{}, []string{"GET / HTTP/1.1\r\nHost: h:1\r\n\r\n"}},
		{"body", Request{Target: "/a", Headers: []Header{{"b", "1"}, {"A", "2"}}, Body: "xyz"}, []string{"POST /a HTTP/1.1\r\nHost: h:1\r\nb: 1\r\nA: 2\r\nContent-Length: 3\r\n\r\nxyz"}},
		{"empty post", Request{Method: "POST"}, []string{"POST / HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n"}},
		{"own host and length", Request{Headers: []Header{{"content-length", "9"}, {"HOST", "x"}}, Body: "ab"}, []string{"POST / HTTP/1.1\r\ncontent-length: 9\r\nHOST: x\r\n\r\nab"}},
		{"bare", Request{Method: "PUT", Proto: "HTTP/1.0", NoHost: true, NoLength: true, Body: "a"}, []string{"PUT / HTTP/1.0\r\n\r\na"}},
		{
			"chunked",
			Request{Body: "abcdef", ChunkSizes: []int{1, 3}, Trailers: []Header{{"T", "1"}}},
			[]string{"POST / HTTP/1.1\r\nHost: h:1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "3\r\nbcd\r\n", "1\r\ne\r\n", "1\r\nf\r\n0\r\nT: 1\r\n\r\n"},
		},
		{"chunked and empty", Request{ChunkSizes: []int{1}}, []string{"POST / HTTP/1.1\r\nHost: h:1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, b := range tt.req.segments("h:1") {
				got = append(got, string(b))
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestEventsKeepTheirTimes wants the time of an event to be that of its arrival
// although the test asks for it much later.
func TestEventsKeepTheirTimes(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		x.SSEHead()
		for i := range 3 {
			x.Event(EventData(i))
			x.Hold()
		}
	})
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	var released []time.Time
	unread := len("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for i := range 3 {
		event := "data: " + EventData(i) + "\n\n"
		unread += len(fmt.Sprintf("%x\r\n%s\r\n", len(event), event))
		waitUnread(t, c, unread)
		released = append(released, time.Now())
		w.Release()
	}
	for i := range 3 {
		ev, err := c.ReadEvent(within)
		must(t, err)
		if ev.Data != EventData(i) {
			t.Errorf("event %d is %q, want %q", i, ev.Data, EventData(i))
		}
		if ev.At.After(released[i]) || i > 0 && ev.At.Before(released[i-1]) {
			t.Errorf("event %d came at %v, want a time before %v and after the one before", i, ev.At, released[i])
		}
	}
}

// waitUnread waits until the client has read n bytes ahead of its test.
func waitUnread(t *testing.T, c *Client, n int) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		c.in.mu.Lock()
		size := c.in.size
		c.in.mu.Unlock()
		if size >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes have come, want %d", size, n)
		}
	}
}

func TestEventsOfOddShapes(t *testing.T) {
	huge := strings.Repeat("h", 300<<10)
	body := ": ping\n\nevent: e\nid: 7\ndata: a\ndata:b\n\ndata: crlf\r\n\r\ndata: cr\r\r" + "data: " + huge + "\n\ndata: é🙂\n\nrest"
	for _, size := range []int{1, 5, 1 << 20} {
		t.Run(fmt.Sprintf("by %d", size), func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) {
				x.SSEHead()
				for rest := body; rest != ""; {
					step := size
					if strings.HasPrefix(rest, huge[:100]) {
						step = len(huge) / 3 // not the whole of it byte by byte
					}
					step = min(step, len(rest))
					x.Chunk(rest[:step])
					rest = rest[step:]
				}
				x.EndChunks()
			})
			c := Dial(t, w.Addr())
			must(t, c.Get("/"))
			want := []Event{
				{Raw: []byte(": ping\n\n"), Comment: "ping"},
				{Raw: []byte("event: e\nid: 7\ndata: a\ndata:b\n\n"), Name: "e", ID: "7", Data: "a\nb"},
				{Raw: []byte("data: crlf\r\n\r\n"), Data: "crlf"},
				{Raw: []byte("data: cr\r\r"), Data: "cr"},
				{Raw: []byte("data: " + huge + "\n\n"), Data: huge},
				{Raw: []byte("data: é🙂\n\n"), Data: "é🙂"},
			}
			for i, want := range want {
				ev, err := c.ReadEvent(within)
				must(t, err)
				ev.At = time.Time{}
				if !reflect.DeepEqual(ev, want) {
					t.Fatalf("event %d is %.80q, want %.80q", i, ev.Raw, want.Raw)
				}
			}
			ev, err := c.ReadEvent(within)
			if !errors.Is(err, io.EOF) || string(ev.Raw) != "rest" {
				t.Errorf("got %q and error %v, want the rest and the end", ev.Raw, err)
			}
			if got := string(mustRead(t, c).Body); got != body {
				t.Errorf("whole body differs from what was sent")
			}
		})
	}
}

func TestEventsOfABrokenStream(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		x.SSEHead()
		x.Event("one")
		x.Chunk("data: tw")
		x.Hold()
		x.Reset()
	})
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	if ev, err := c.ReadEvent(within); err != nil || ev.Data != "one" {
		t.Fatalf("got %q and error %v, want one", ev.Data, err)
	}
	if _, err := c.ReadEvent(20 * time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Fatalf("got error %v, want %v", err, ErrTimeout)
	}
	w.Release()
	ev, err := c.ReadEvent(within)
	if !errors.Is(err, ErrTruncated) || !errors.Is(err, ErrReset) || string(ev.Raw) != "data: tw" {
		t.Errorf("got %q and error %v, want half an event and a reset", ev.Raw, err)
	}
	resp, err := c.ReadResponse(within)
	if !errors.Is(err, ErrReset) || string(resp.Body) != "data: one\n\ndata: tw" || resp.Clean {
		t.Errorf("got %q and error %v, want all that came and a reset", resp.Body, err)
	}
}

func TestStopReadingHoldsTheWorkerBack(t *testing.T) {
	const total = bigSize
	w := NewWorker(t, JSON(200, strings.Repeat("x", total)))
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	if _, err := c.ReadHead(within); err != nil {
		t.Fatal(err)
	}
	c2 := Dial(t, w.Addr())
	c2.StopReading()
	must(t, c2.Get("/"))
	if got := len(mustRead(t, c).Body); got != total {
		t.Errorf("body has %d bytes, want %d", got, total)
	}
	if w.wait(func(c Counts) bool { return c.Requests == 2 && c.InFlight == 0 }, 100*time.Millisecond) {
		t.Errorf("worker could send %d bytes to a client that does not read", total)
	}
	started := time.Now()
	c2.ReadRate(1 << 20)
	for n := 0; n < 256<<10; {
		p, err := c2.in.take(time.Now().Add(within))
		must(t, err)
		n += len(p.data)
	}
	if took := time.Since(started); took < 100*time.Millisecond {
		t.Errorf("a quarter of a megabyte came in %v at a megabyte a second", took)
	}
	c2.Reset()
	w.WaitInFlight(0, within)
}

// TestUnreadBytesAreBounded wants the client's own reading ahead to stop.
func TestUnreadBytesAreBounded(t *testing.T) {
	const total = maxAhead + bigSize
	w := NewWorker(t, JSON(200, strings.Repeat("x", total)))
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	w.WaitRequests(1, within)
	if w.wait(func(c Counts) bool { return c.InFlight == 0 }, 300*time.Millisecond) {
		t.Errorf("worker could send %d bytes ahead of the test", total)
	}
	if got := len(mustRead(t, c).Body); got != total {
		t.Errorf("body has %d bytes, want %d", got, total)
	}
}

func TestConnectErrors(t *testing.T) {
	w := NewWorker(t, Silent)
	w.Stop()
	if _, err := Connect(w.Addr(), nil); err == nil {
		t.Error("got a connection to a port that nobody listens on")
	}
	if _, err := Try(w.Addr(), Request{}, within); err == nil {
		t.Error("got an answer from a port that nobody listens on")
	}
	w2 := NewWorker(t, Silent)
	defer w2.TakeFaults()
	if _, err := Connect(w2.Addr(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("got TLS from a worker that has none")
	}
}

func TestDoFailsTheTest(t *testing.T) {
	fake := &fakeTB{TB: t}
	w := NewWorker(t, Truncated(10, 5))
	resp := Do(fake, w.Addr(), Request{Target: "/x"})
	if errs := fake.finish(); len(errs) != 1 || !strings.Contains(errs[0], "GET /x: connection ended") || string(resp.Body) != "xxxxx" {
		t.Errorf("the test was failed by %q with body %q, want the cut", errs, resp.Body)
	}
	w.Stop()
	if resp := Do(fake, w.Addr(), Request{}); resp == nil || resp.Status != 0 {
		t.Errorf("got %+v, want an empty response", resp)
	}
}

// TestTLS relays a client's TLS to a worker and wants all that works without.
func TestTLS(t *testing.T) {
	w := NewWorker(t, ByBody(map[string]Script{"": Echo, "sse": SSE(2, 0), "cut": Truncated(9, 3)}))
	addr := tlsRelay(t, w.Addr())
	cfg := &tls.Config{InsecureSkipVerify: true}
	c := DialTLS(t, addr, cfg)
	must(t, c.Post("/a", "hello"))
	if e, err := ReadEcho(mustRead(t, c)); err != nil || string(e.Body) != "hello" {
		t.Errorf("got %q (error %v), want hello", e.Body, err)
	}
	must(t, c.Post("/a", "sse"))
	if ev, err := c.ReadEvent(within); err != nil || ev.Data != EventData(0) {
		t.Errorf("got %q (error %v), want an event", ev.Data, err)
	}
	mustRead(t, c)
	c.StopReading()
	must(t, c.Post("/a", "again"))
	c.ReadRate(-1)
	mustRead(t, c)
	must(t, c.Post("/a", "cut"))
	if err := wantErr(c, ErrTruncated); err != nil {
		t.Error(err)
	}
	for name, leave := range map[string]func(*Client){"FIN": (*Client).CloseFIN, "half": (*Client).HalfClose, "RST": (*Client).Reset} {
		t.Run(name, func(t *testing.T) {
			w.SetScript(Silent)
			c := DialTLS(t, addr, cfg)
			must(t, c.Post("/", "x"))
			w.WaitInFlight(1, within)
			leave(c)
			w.WaitInFlight(0, within)
		})
	}
}

// tlsRelay ends TLS in front of target, as a router with a certificate would,
// and passes bytes and ends on.
func tlsRelay(t *testing.T, target string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", target)
			if err != nil {
				front.Close()
				continue
			}
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				to.Close()
				from.Close()
			}
			go pipe(front, back)
			go pipe(back, front)
		}
	}()
	return l.Addr().String()
}
