package proxytest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHealthIsCountedApart(t *testing.T) {
	w := NewWorker(t, JSON(200, "main"))
	c := Dial(t, w.Addr())
	must(t, c.Get("/health"))
	if got := mustRead(t, c).Status; got != 200 {
		t.Errorf("status is %d, want 200", got)
	}
	w.SetHealth(JSON(503, "no"))
	must(t, c.Get("/health?full=1"))
	if got := mustRead(t, c).Status; got != 503 {
		t.Errorf("status is %d, want 503", got)
	}
	must(t, c.Post("/health", "x"))
	if got := string(mustRead(t, c).Body); got != "main" {
		t.Errorf("POST /health was answered by %q, want the main script", got)
	}
	must(t, c.Get("/healthz"))
	mustRead(t, c)
	want := Counts{Requests: 2, HealthChecks: 2, MaxInFlight: 1, Connections: 1, OpenConnections: 1}
	if got := w.Counts(); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
	if got := len(w.Seen()); got != 2 {
		t.Errorf("seen are %d, want 2", got)
	}
	if got := w.HealthChecks(); got != 2 {
		t.Errorf("health checks are %d, want 2", got)
	}
}

func TestRequestArrivesByteForByte(t *testing.T) {
	w := NewWorker(t, Echo)
	c := Dial(t, w.Addr())
	head := "POST /v1//models/a%2Fb/../c?x=%2B&y=a+b HTTP/1.1\r\nhost: h\r\nx-lower-Case:1\r\nX-Dup: a\r\nx-dup:   b \t\r\nX-Empty:\r\nTransfer-Encoding: chunked\r\n\r\n"
	body := "1\r\n\x00\r\n3;ext=1\r\n\r\n\xff\r\n0\r\nT: 1\r\n\r\n"
	before := time.Now()
	for i := range len(head + body) {
		must(t, c.Send((head + body)[i:i+1]))
	}
	resp := mustRead(t, c)
	x := w.Seen()[0]
	if string(x.RawHead) != head {
		t.Errorf("head is %q, want %q", x.RawHead, head)
	}
	if got := string(x.RawBody()); got != body {
		t.Errorf("raw body is %q, want %q", got, body)
	}
	if got, want := string(x.Body()), "\x00\r\n\xff"; got != want {
		t.Errorf("body is %q, want %q", got, want)
	}
	if want := []int{1, 3}; !reflect.DeepEqual(x.Chunks(), want) || !x.Chunked || !x.BodyWhole() {
		t.Errorf("chunks are %v, want %v", x.Chunks(), want)
	}
	if want := []Header{{"T", "1"}}; !reflect.DeepEqual(x.Trailers(), want) {
		t.Errorf("trailers are %v, want %v", x.Trailers(), want)
	}
	want := []Header{{"host", "h"}, {"x-lower-Case", "1"}, {"X-Dup", "a"}, {"x-dup", "b"}, {"X-Empty", ""}, {"Transfer-Encoding", "chunked"}}
	if !reflect.DeepEqual(x.Headers, want) {
		t.Errorf("headers are %v, want %v", x.Headers, want)
	}
	if got, want := x.Values("X-DUP"), []string{"a", "b"}; !reflect.DeepEqual(got, want) || x.Get("x-Dup") != "a" || x.Get("none") != "" {
		t.Errorf("values are %v, want %v", got, want)
	}
	if x.RequestLine != strings.Split(head, "\r\n")[0] || x.Method != "POST" || x.Path() != "/v1//models/a%2Fb/../c" || x.Proto != "HTTP/1.1" {
		t.Errorf("request line is %q", x.RequestLine)
	}
	if x.ArrivedAt.Before(before) || x.EndedAt().Before(x.ArrivedAt) || w.QuietSince().Before(x.ArrivedAt) || w.QuietSince().After(time.Now()) {
		t.Errorf("times are out of order")
	}
	e, err := ReadEcho(resp)
	must(t, err)
	if e.RequestLine != x.RequestLine || !reflect.DeepEqual(e.Headers, x.Headers) || string(e.Body) != string(x.Body()) || e.Conn != 1 || e.Seq != 1 {
		t.Errorf("echo is %+v", e)
	}
}

func TestAnswerIsByteForByte(t *testing.T) {
	tests := []struct {
		name   string
		script Script
		req    Request
		stays  bool // the worker keeps the connection
		want   string
	}{
		{name: "reply", stays: true, script: func(x *Exchange) { x.Reply(201, "ok", H("x-B", "1"), H("x-b", "2")) }, want: "HTTP/1.1 201 Created\r\nx-B: 1\r\nx-b: 2\r\nContent-Length: 2\r\n\r\nok"},
		{name: "reply with length given", stays: true, script: func(x *Exchange) { x.Reply(200, "ok", H("content-length", "2")) }, want: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"},
		{name: "reply to head", stays: true, script: func(x *Exchange) { x.Reply(200, "ok") }, req: Request{Method: "HEAD"}, want: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{name: "reply 304", stays: true, script: func(x *Exchange) { x.Reply(304, "ok") }, want: "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{name: "reply that closes", script: func(x *Exchange) { x.KeepAlive(false); x.Reply(299, "") }, want: "HTTP/1.1 299 Status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{name: "reply to a client that closes", script: func(x *Exchange) { x.Reply(200, "") }, req: Request{Headers: []Header{{"Connection", "x, Close"}}}, want: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{name: "stream", stays: true, script: func(x *Exchange) {
			x.SSEHead(H("A", "b"))
			x.Event("é")
			x.Chunk(": c\n\n")
			x.Chunk("")
			x.Done()
			x.EndChunks(H("T", "1"))
		}, want: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\na\r\ndata: é\n\n\r\n5\r\n: c\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\nT: 1\r\n\r\n"},
		{name: "stream for http 1.0", script: SSE(1, 0), req: Request{Proto: "HTTP/1.0"}, want: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + EventData(0) + "\n\ndata: [DONE]\n\n"},
		{name: "garbage", script: func(x *Exchange) { x.Raw("220 smtp\n") }, want: "220 smtp\n"},
		{name: "more than the answer", script: func(x *Exchange) {
			x.Raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxSURPLUS")
			x.Raw(" and more")
			x.KeepAlive(false)
		}, want: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxSURPLUS and more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, tt.script)
			c := Dial(t, w.Addr())
			must(t, c.SendRequest(tt.req))
			var got strings.Builder
			for {
				if tt.stays && got.Len() >= len(tt.want) {
					c.HalfClose()
				}
				p, err := c.in.take(time.Now().Add(within))
				if errors.Is(err, ErrTimeout) {
					t.Fatal("connection does not end")
				}
				if err != nil {
					break
				}
				got.Write(p.data)
			}
			if got.String() != tt.want {
				t.Errorf("answer is %q, want %q", got.String(), tt.want)
			}
			if x := w.Seen()[0]; x.Outcome() != Answered {
				t.Errorf("outcome is %v, want %v", x.Outcome(), Answered)
			}
		})
	}
}

func TestBigBodies(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 20<<20/16)
	tests := []struct {
		name string
		req  Request
	}{
		{"length", Request{Body: body}},
		{"chunked", Request{Body: body, ChunkSizes: []int{1, 1 << 20, 4095}, Trailers: []Header{{"T", "1"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWorker(t, func(x *Exchange) {
				x.Head(200, H("Transfer-Encoding", "chunked"))
				for b := string(x.Body()); b != ""; {
					n := min(len(b), 1<<20)
					x.Chunk(b[:n])
					b = b[n:]
				}
				x.EndChunks(x.Trailers()...)
			})
			resp := Do(t, w.Addr(), tt.req)
			if string(resp.Body) != body || !resp.Clean {
				t.Errorf("body of %d bytes came back as %d others", len(body), len(resp.Body))
			}
			if !reflect.DeepEqual(resp.Trailers, tt.req.Trailers) {
				t.Errorf("trailers are %v, want %v", resp.Trailers, tt.req.Trailers)
			}
			if got := len(w.Seen()[0].Chunks()); tt.req.ChunkSizes != nil && got < 40 {
				t.Errorf("chunks are %d, want at least 40", got)
			}
		})
	}
}

func TestStopAndKill(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) { x.Hold(); x.Reply(200, "old") })
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	w.WaitInFlight(1, within)
	w.Stop()
	if _, err := Connect(w.Addr(), nil); err == nil {
		t.Fatal("a stopped worker took a connection")
	}
	w2 := NewWorkerAt(t, w.Addr(), JSON(200, "new"))
	if got := string(Do(t, w2.Addr(), Request{}).Body); got != "new" {
		t.Errorf("answer at the old address is %q, want new", got)
	}
	w.Release()
	if got := string(mustRead(t, c).Body); got != "old" {
		t.Errorf("answer on the old connection is %q, want old", got)
	}

	must(t, c.Get("/"))
	w.WaitInFlight(1, within)
	w.Kill()
	if got := w.Counts(); got.InFlight != 0 || got.OpenConnections != 0 {
		t.Errorf("counts of a killed worker are %+v, want none", got)
	}
	if err := wantErr(c, ErrReset); err != nil {
		t.Error(err)
	}
	if got := w.Seen()[1].Outcome(); got != Cut {
		t.Errorf("outcome is %v, want %v", got, Cut)
	}
	if w.Seen()[1].PeerReset() || !w.Seen()[1].PeerClosedAt().IsZero() {
		t.Errorf("the worker's own reset is told as its peer's")
	}
	w2.Stop()
	w2.Kill()
}

func TestDropConnections(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	mustRead(t, c)
	w.DropConnections()
	await(t, c.PeerClosed(), "reset")
	if !c.PeerReset() {
		t.Errorf("connection ended by FIN, want RST")
	}
	if got := Do(t, w.Addr(), Request{}).Status; got != 200 {
		t.Errorf("status is %d, want 200", got)
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, raw, want string
		answers         []int
	}{
		{"garbage", "hello\r\n\r\n", "request line", []int{400}},
		{"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "2 Content-Length", []int{400}},
		{"bad chunk", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk size", []int{400}},
		{"too many at once", strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", maxQueue+1), "unanswered", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := &fakeTB{TB: t}
			w := NewWorker(fake, Silent)
			c := Dial(t, w.Addr())
			must(t, c.Send(tt.raw))
			for _, want := range tt.answers {
				if got := mustRead(t, c).Status; got != want {
					t.Errorf("status is %d, want %d", got, want)
				}
			}
			await(t, c.PeerClosed(), "end of the connection")
			w.WaitInFlight(0, within)
			errs := fake.finish()
			if len(errs) != 1 || !strings.Contains(errs[0], tt.want) {
				t.Errorf("the test was failed by %q, want one with %q", errs, tt.want)
			}
		})
	}
}

func TestTakenFaultsDoNotFail(t *testing.T) {
	fake := &fakeTB{TB: t}
	w := NewWorker(fake, Silent)
	c := Dial(t, w.Addr())
	must(t, c.Send("hello\r\n\r\n"))
	mustRead(t, c)
	if got := w.TakeFaults(); len(got) != 1 {
		t.Errorf("faults are %v, want one", got)
	}
	if errs := fake.finish(); len(errs) != 0 {
		t.Errorf("the test was failed by %q, want nothing", errs)
	}
}

func TestScriptThatPanics(t *testing.T) {
	fake := &fakeTB{TB: t}
	w := NewWorker(fake, func(*Exchange) { panic("oh") })
	c := Dial(t, w.Addr())
	must(t, c.Get("/"))
	if err := wantErr(c, ErrReset); err != nil {
		t.Error(err)
	}
	if errs := fake.finish(); len(errs) != 1 || !strings.Contains(errs[0], "panicked: oh") {
		t.Errorf("the test was failed by %q, want the panic", errs)
	}
}

func TestWaitsFailTheTest(t *testing.T) {
	fake := &fakeTB{TB: t}
	w := NewWorker(fake, Silent)
	if w.WaitInFlight(1, time.Millisecond) || w.WaitRequests(1, time.Millisecond) {
		t.Error("a wait for nothing succeeded")
	}
	if errs := fake.finish(); len(errs) != 2 || !strings.Contains(errs[0], "1 requests in flight") {
		t.Errorf("the test was failed by %q, want two waits", errs)
	}
}

// TestWaiterSeesAnInstant wants a count found that holds for no longer than it
// takes to answer.
func TestWaiterSeesAnInstant(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	c := Dial(t, w.Addr())
	for i := range 200 {
		met := make(chan bool, 1)
		asked := make(chan struct{})
		go func() {
			first := true
			met <- w.WaitFor("instant", func(c Counts) bool {
				if first {
					close(asked)
					first = false
				}
				return c.Requests == i+1 && c.InFlight == 1
			}, within)
		}()
		await(t, asked, "waiter")
		must(t, c.Get("/"))
		mustRead(t, c)
		if !<-met {
			t.Fatalf("round %d: the wait failed", i)
		}
	}
}

func TestRecordsAreBounded(t *testing.T) {
	b := newBooks()
	w := &Worker{books: b}
	link := &conn{w: w}
	for i := range maxRecords + 10 {
		x := &Exchange{conn: link, Target: fmt.Sprintf("/%d", i)}
		b.arrived(x)
	}
	seen := w.Seen()
	if len(seen) != maxRecords || seen[0].Target != "/10" {
		t.Errorf("kept are %d from %s, want %d from /10", len(seen), seen[0].Target, maxRecords)
	}
	if got := w.Requests(); got != maxRecords+10 {
		t.Errorf("requests are %d, want %d", got, maxRecords+10)
	}
	if got := len(b.byPath); got != maxPaths {
		t.Errorf("paths are %d, want %d", got, maxPaths)
	}
	body := make([]byte, maxRecordBytes/4)
	for _, x := range seen[len(seen)-6:] {
		x.body = body
		b.bodyKept(x)
	}
	if got := len(w.Seen()); got != 4 {
		t.Errorf("kept are %d, want the 4 whose bodies fit", got)
	}
	seen[0].body = body
	b.bodyKept(seen[0])
	if got := len(w.Seen()); got != 4 {
		t.Errorf("kept are %d after a forgotten body, want 4", got)
	}
}
