package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scripted answers the n-th request of each connection with what script writes,
// until it returns false.
func scripted(t *testing.T, script func(n int, body []byte, w net.Conn) bool) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					body, err := io.ReadAll(req.Body)
					if err != nil || !script(n, body, c) {
						return
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String() + "/v1/chat/completions"
}

// brief is a limit that is to be reached, and not before others have done what they do
// at once: a busy machine may keep any of them waiting for two seconds.
const brief = 2500 * time.Millisecond

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	event      = "data: {\"choices\":[]}\n\n"
	doneEvent  = "data: [DONE]\n\n"
	lastChunk  = "0\r\n\r\n"
)

// What a server writes is told apart: whole answers of every framing, refusals,
// and all the ways to be cut short.
func TestFates(t *testing.T) {
	tests := []struct {
		name, answer string
		closes       bool // after it
		want         string
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false, "ok 0 events 2 bytes"},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", false, "ok 0 events 0 bytes"},
		{"names in any case", "HTTP/1.1 200 OK\r\ncontent-LENGTH:2\r\n\r\n{}", false, "ok 0 events 2 bytes"},
		{"until close", "HTTP/1.1 200 OK\r\n\r\n{}", true, "ok 0 events 2 bytes"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", true, "ok 0 events 2 bytes"},
		{"after a 100", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false, "ok 0 events 2 bytes"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{") + chunk("}") + lastChunk, false, "ok 0 events 2 bytes"},
		{"chunk extension and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n", false, "ok 0 events 2 bytes"},
		{"stream", streamHead + chunk(event) + chunk(event) + chunk(doneEvent) + lastChunk, false, "ok 2 events 58 bytes"},
		{"events cut anywhere", streamHead + chunk("da") + chunk("ta: x\n") + chunk("\ndata: y\n\ndata: [DO") + chunk("NE]\r\n\r\n") + lastChunk, false, "ok 2 events 34 bytes"},
		{"comments are no events", streamHead + chunk(": hello\n\n") + chunk(event) + chunk(doneEvent) + lastChunk, false, "ok 1 events 45 bytes"},
		{"the mark inside an event is none", streamHead + chunk("data: \"data: [DONE]\"\n\n") + lastChunk, false, "truncated 1 events 22 bytes"},
		{"refused", "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}", false, "status 0 events 2 bytes"},
		{"refused stream needs no mark", strings.Replace(streamHead, "200 OK", "500 Bad", 1) + chunk(event) + lastChunk, false, "status 1 events 22 bytes"},
		{"length too short", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", true, "truncated 0 events 2 bytes"},
		{"no last chunk", streamHead + chunk(event) + chunk(doneEvent), true, "truncated 1 events 36 bytes"},
		{"no end mark", streamHead + chunk(event) + lastChunk, false, "truncated 1 events 22 bytes"},
		{"cut in a chunk", streamHead + "30\r\ndata", true, "truncated 0 events 4 bytes"},
		{"bad chunk size", streamHead + "zz\r\n", false, "truncated 0 events 0 bytes"},
		{"closed at once", "", true, "closed 0 events 0 bytes"},
		{"closed in the head", "HTTP/1.1 200 OK\r\nConte", true, "closed 0 events 0 bytes"},
		{"not HTTP", "SSH-2.0-OpenSSH_9\r\n\r\n", false, "malformed 0 events 0 bytes"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, "malformed 0 events 0 bytes"},
		{"endless head", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", bufferBytes), false, "malformed 0 events 0 bytes"},
		{"no answer", "", false, "timeout 0 events 0 bytes"},
		{"stalls in the body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", false, "timeout 0 events 2 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := scripted(t, func(_ int, _ []byte, w net.Conn) bool {
				_, _ = io.WriteString(w, tt.answer)
				return !tt.closes
			})
			cfg := Config{URL: url, Source: Chat{}.Same(), Connections: 1, Requests: 1, Timeout: 20 * time.Second}
			if strings.HasPrefix(tt.want, "timeout") {
				cfg.Timeout = brief
			}
			r := mustRun(t, cfg)
			if got := fmt.Sprintf("%s %d events %d bytes", onlyFate(t, r), r.Events, r.Bytes); got != tt.want {
				t.Errorf("the answer came to %s, want %s", got, tt.want)
			}
		})
	}
}

func mustRun(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// onlyFate names the fate of the report's one request.
func onlyFate(t *testing.T, r *Report) string {
	t.Helper()
	all := maps.Clone(r.Errors)
	for f, n := range map[fate]uint64{ok: r.OK, truncated: r.Truncated} {
		if n > 0 {
			all[string(f)] = n
		}
	}
	for _, n := range r.Statuses {
		all[string(refused)] = n
	}
	if len(all) != 1 || r.Requests != 1 {
		t.Fatalf("%d requests came to %v, want one of one fate", r.Requests, all)
	}
	for f := range all {
		return f
	}
	return ""
}

// A kept connection that the server has closed is replaced, once, and that is no
// error; two requests go over one connection otherwise.
func TestConnectionsAreKept(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	tests := []struct {
		name   string
		answer string
		each   int // requests of a connection before it is closed without an answer
		want   int // connections for six requests
	}{
		{"kept", answer, 100, 1},
		{"closed while idle", answer, 2, 3},
		{"HTTP/1.0", strings.Replace(answer, "/1.1", "/1.0", 1), 100, 6},
		{"HTTP/1.0 that stays", strings.Replace(answer, "/1.1 200 OK", "/1.0 200 OK\r\nConnection: keep-alive", 1), 100, 1},
		{"close is announced", strings.Replace(answer, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), 100, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var connections atomic.Int32
			url := scripted(t, func(n int, _ []byte, w net.Conn) bool {
				if n == 0 {
					connections.Add(1)
				}
				if n >= tt.each {
					return false
				}
				_, _ = io.WriteString(w, tt.answer)
				return true
			})
			r := mustRun(t, Config{URL: url, Source: Chat{}.Same(), Connections: 1, Requests: 6})
			if r.OK != 6 || int(connections.Load()) != tt.want {
				t.Errorf("%d of 6 answers over %d connections, want all over %d", r.OK, connections.Load(), tt.want)
			}
		})
	}
}

// Known pauses of the server are found again in the histograms.
func TestTimes(t *testing.T) {
	const first, gap = 60 * time.Millisecond, 40 * time.Millisecond
	url := scripted(t, func(_ int, _ []byte, w net.Conn) bool {
		_, _ = io.WriteString(w, streamHead+chunk(": not yet\n\n"))
		time.Sleep(first)
		_, _ = io.WriteString(w, chunk(event))
		for range 3 {
			time.Sleep(gap)
			_, _ = io.WriteString(w, chunk(event))
		}
		_, _ = io.WriteString(w, chunk(doneEvent)+lastChunk)
		return true
	})
	r := mustRun(t, Config{URL: url, Source: Chat{Stream: true}.Same(), Connections: 1, Requests: 2})
	tests := []struct {
		name  string
		got   Summary
		count int64
		least time.Duration
	}{
		{"first token", r.TTFT, 2, first},
		{"total", r.Total, 2, first + 3*gap},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The server may sleep longer.
			least := float64(tt.least.Microseconds())
			if tt.got.Count != tt.count || tt.got.Mean < .99*least || tt.got.Mean > least+20e6 {
				t.Errorf("%d times of %.0f µs on average, want %d of about %v", tt.got.Count, tt.got.Mean, tt.count, tt.least)
			}
		})
	}
	if r.TTFT.Mean >= r.Total.Mean {
		t.Errorf("first token after %.0f µs on average, want it before the end after %.0f", r.TTFT.Mean, r.Total.Mean)
	}
	// A reader that is late for the first token sees the gaps behind it shortened; the
	// sum can't be.
	if got, least := r.TTFT.Mean+3*r.Gap.Mean, .99*float64((first+3*gap).Microseconds()); r.Gap.Count != 6 || got < least || r.Gap.Mean > 20e6 {
		t.Errorf("%d gaps of %.0f µs behind %.0f, want 6 and %.0f together", r.Gap.Count, r.Gap.Mean, r.TTFT.Mean, least)
	}
}

// A server that stalls once is charged with the waiting of all requests that were
// due meanwhile: with coordinated omission only one of twenty would be slow.
func TestOpenLoopCountsFromDue(t *testing.T) {
	const stall = 500 * time.Millisecond
	release := sync.OnceValue(func() time.Time { return time.Now().Add(stall) }) // of the first request
	url := scripted(t, func(_ int, _ []byte, w net.Conn) bool {
		time.Sleep(time.Until(release()))
		return answerAll(0, nil, w)
	})
	var trace []time.Duration
	for i := range 20 {
		trace = append(trace, time.Duration(i)*5*time.Millisecond)
	}
	r := mustRun(t, Config{URL: url, Source: Chat{}.Same(), Connections: 20, Arrivals: Times(trace, 1)})
	if least := float64((stall - 200*time.Millisecond).Microseconds()) * .99; r.OK != 20 || r.Total.Min < least {
		t.Errorf("%d of 20 answers, the soonest after %.0f µs, want all and none before %.0f", r.OK, r.Total.Min, least)
	}
	if r.Loop != "open" {
		t.Errorf("the loop is called %q, want open", r.Loop)
	}
}

// A generator that is late says so, and the times count from when a request was due
// all the same.
func TestLateCountsFromDue(t *testing.T) {
	const late = 50 * time.Millisecond
	slow := func(uint64) []byte {
		time.Sleep(late)
		return []byte("{}")
	}
	r := mustRun(t, Config{URL: scripted(t, answerAll), Source: slow, Connections: 1, Arrivals: Times([]time.Duration{0}, 1)})
	if least := float64(late.Microseconds()) * .99; r.OK != 1 || r.Late.Min < least || r.Total.Min < least || r.TTFT.Min < least {
		t.Errorf("late %.0f, first token %.0f, total %.0f µs, want none below %.0f", r.Late.Min, r.TTFT.Min, r.Total.Min, least)
	}
}

func answerAll(_ int, _ []byte, w net.Conn) bool {
	_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	return true
}

// No more requests are under way than there are connections, and those beyond are
// counted.
func TestOpenLoopIsBounded(t *testing.T) {
	const connections = 4
	var open, most atomic.Int32
	all := make(chan struct{})
	url := scripted(t, func(_ int, _ []byte, w net.Conn) bool {
		n := open.Add(1)
		if n > most.Load() {
			most.Store(n)
		}
		if n == connections {
			time.AfterFunc(brief, func() { close(all) })
		}
		<-all
		return answerAll(0, nil, w)
	})
	trace := make([]time.Duration, 30)
	trace[29] = 300 * time.Millisecond
	r := mustRun(t, Config{URL: url, Source: Chat{}.Same(), Connections: connections, Arrivals: Times(trace, 1)})
	if most.Load() > 5 || r.OK+r.Unsent != 30 || r.Unsent == 0 {
		t.Errorf("%d under way, %d answered, %d not sent; want at most 4 at first and 30 together", most.Load(), r.OK, r.Unsent)
	}
}

// A load ends by its number, its duration and its context.
func TestEnds(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	never := func(int, []byte, net.Conn) bool { return true }
	calmly := func(n int, body []byte, w net.Conn) bool {
		time.Sleep(10 * time.Millisecond)
		return answerAll(n, body, w)
	}
	tests := []struct {
		name   string
		ctx    context.Context
		script func(int, []byte, net.Conn) bool
		cfg    Config
		want   func(*Report) bool
	}{
		{"number, closed", context.Background(), answerAll, Config{Connections: 3, Requests: 50}, func(r *Report) bool { return r.OK == 50 }},
		{"number, open", context.Background(), answerAll, Config{Connections: 50, Requests: 50, Arrivals: Poisson(1e4, 1)}, func(r *Report) bool { return r.OK+r.Unsent == 50 }},
		{"duration, closed", context.Background(), calmly, Config{Connections: 3, Duration: brief}, func(r *Report) bool { return r.OK > 0 && r.OK == r.Requests }},
		{"duration, open", context.Background(), answerAll, Config{Connections: 50, Duration: brief, Arrivals: Poisson(20, 1)}, func(r *Report) bool { return r.OK > 0 && r.OK == r.Requests }},
		{"context, closed", ended, never, Config{Connections: 3, Duration: time.Hour}, func(r *Report) bool { return r.Requests == 0 }},
		{"context, open", ended, never, Config{Connections: 3, Duration: time.Hour, Arrivals: Poisson(1000, 1)}, func(r *Report) bool { return r.Requests == 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.URL, tt.cfg.Source = scripted(t, tt.script), Chat{}.Same()
			r, err := Run(tt.ctx, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.want(r) {
				t.Errorf("%d requests, %d ok, %d unsent, %v", r.Requests, r.OK, r.Unsent, r.Errors)
			}
		})
	}
}

// The context ends requests that are under way.
func TestContextDropsRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := scripted(t, func(int, []byte, net.Conn) bool {
		cancel()
		return true
	})
	r, err := Run(ctx, Config{URL: url, Source: Chat{}.Same(), Connections: 1, Requests: 1, Timeout: time.Hour})
	if err != nil || r.Requests != 0 {
		t.Errorf("%v requests, error %v; want a dropped one not to count", r.Requests, err)
	}
}

func TestConfigErrors(t *testing.T) {
	good := Config{URL: "http://127.0.0.1:1/x", Source: Chat{}.Same(), Connections: 1, Requests: 1}
	tests := []struct {
		name  string
		spoil func(*Config)
		want  string
	}{
		{"https", func(c *Config) { c.URL = "https://127.0.0.1/" }, `URL "https://127.0.0.1/": give one like http://127.0.0.1:30000/v1/chat/completions`},
		{"no source", func(c *Config) { c.Source = nil }, "nothing to send: the source is nil"},
		{"no connection", func(c *Config) { c.Connections = 0 }, "0 connections: give 1 to 65536"},
		{"endless", func(c *Config) { c.Requests = 0 }, "a closed loop needs a duration or a number of requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.spoil(&cfg)
			if _, err := Run(t.Context(), cfg); err == nil || err.Error() != tt.want {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
		})
	}
	r := mustRun(t, Config{URL: "http://127.0.0.1:1/", Source: Chat{}.Same(), Connections: 1, Requests: 2})
	if r.Errors[string(noConnect)] != 2 {
		t.Errorf("errors %v, want 2 of connect", r.Errors)
	}
}

// Results of the warm-up are in the counts and not in the times.
func TestWarmUp(t *testing.T) {
	r := mustRun(t, Config{URL: scripted(t, answerAll), Source: Chat{}.Same(), Connections: 1, Requests: 10, WarmUp: time.Hour})
	if r.OK != 10 || r.Total.Count != 0 || r.PerSecond != 0 {
		t.Errorf("%d ok, %d times, %.1f/s, want 10, 0, 0", r.OK, r.Total.Count, r.PerSecond)
	}
}

func TestPrint(t *testing.T) {
	r := Report{
		Loop: "closed", Connections: 2, Seconds: 1.5, Requests: 9, OK: 6, Truncated: 1, PerSecond: 4, Events: 12,
		Errors: map[string]uint64{"timeout": 1}, Statuses: map[string]uint64{"503": 1},
		TTFT: Summary{Count: 6, Mean: 1500, Min: 1000, P50: 1400, P90: 2000, P99: 3000, P999: 3000, Max: 3000},
	}
	const want = `closed loop, 2 connections, 1.5 s: 9 requests, 6 ok (4.0/s), 1 truncated, 0 unsent, 12 events
status 503: 1
timeout: 1
           ms  count   mean    min    p50    p90    p99  p99.9    max
  first token      6  1.500  1.000  1.400  2.000  3.000  3.000  3.000
`
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || out.String() != want {
		t.Errorf("printed\n%s(%v), want\n%s", out.String(), err, want)
	}
}

// The progress line tells the state and ends with the load.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	mustRun(t, Config{URL: scripted(t, answerAll), Source: Chat{}.Same(), Connections: 1, Requests: 10, Progress: &out})
	if got, want := out.String(), "["+strings.Repeat("#", barCells)+"]"; !strings.Contains(got, want) || !strings.Contains(got, "10 ok  0 failed  0 unsent  0 open") || !strings.HasSuffix(got, "\n") {
		t.Errorf("the last line is %q, want a full bar and 10 ok", got)
	}
}
