package proxy

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// fillUp connects as many clients as may be, and returns them.
func fillUp(t *testing.T, r *router) []*proxytest.Client {
	t.Helper()
	in := make([]*proxytest.Client, r.opts.Limits.Connections)
	for i := range in {
		in[i] = proxytest.Dial(t, r.addr)
		if err := in[i].Get("/liveness"); err != nil {
			t.Fatal(err)
		}
		if got, err := in[i].ReadResponse(patience); err != nil || got.Status != 200 {
			t.Fatalf("client %d of %d: %v, %v; want it served", i+1, len(in), got, err)
		}
	}
	return in
}

func crowdedOptions() Options {
	o := testOptions("round_robin")
	o.Limits.Connections = 3
	return o
}

// TestCaseB63TooManyConnections: who finds all places taken is told so as clients'
// libraries can show it, sees an orderly end, and is served when a place is free.
func TestCaseB63TooManyConnections(t *testing.T) {
	t.Parallel()
	r := startRouter(t, crowdedOptions())
	in := fillUp(t, r)
	for _, tc := range []struct{ name, raw string }{
		{"a head", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"half a head", "GET /health HT"},
		{"a body", "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000)},
		{"nothing", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := proxytest.Dial(t, r.addr)
			if err := c.Send(tc.raw); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, got, 503, "too_many_connections")
			wantValues(t, got, "Retry-After", "1")
			wantValues(t, got, "Connection", "close")
			select {
			case <-c.PeerClosed():
			case <-time.After(patience):
				t.Fatal("the connection stays open")
			}
			if c.PeerReset() {
				t.Error("the connection was reset, want it closed")
			}
		})
	}
	t.Run("net/http", func(t *testing.T) {
		tr := &http.Transport{DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Post("http://"+r.addr+chatPath, "application/json", strings.NewReader(chat("hi", false)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 503 || !strings.Contains(string(body), "too_many_connections") {
			t.Errorf("answer %d %q, %v; want the 503", resp.StatusCode, body, err)
		}
	})
	if n := r.metrics.turnedAway.Get(); n != 5 {
		t.Errorf("%d connections were counted as refused, want 5", n)
	}
	in[0].Close()
	r.until("a place that was given back", func() bool {
		got, err := proxytest.Try(r.addr, proxytest.Request{Method: "GET", Target: "/liveness"}, patience)
		return err == nil && got.Status == 200
	})
	for _, c := range in[1:] {
		if err := c.Get("/liveness"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
			t.Errorf("a client that was there: %v, %v; want it served", got, err)
		}
	}
}

// TestTooManyConnectionsOtherwise: what is spoken decides what a client that is
// turned away is told.
func TestTooManyConnectionsOtherwise(t *testing.T) {
	t.Parallel()
	t.Run("compat", func(t *testing.T) {
		t.Parallel()
		o := crowdedOptions()
		o.Compat = true
		r := startRouter(t, o)
		fillUp(t, r)
		c := proxytest.Dial(t, r.addr)
		if err := c.Get("/health"); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil || got.Status != 503 || !strings.HasPrefix(string(got.Body), "The router serves no more than 3 connections") {
			t.Errorf("answer %v, %v; want 503 in words", got, err)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		r := startRouter(t, crowdedOptions())
		certs, trust := certificate(t)
		addr := r.serveTLS(certs)
		fillUp(t, r)
		if c, err := proxytest.Connect(addr, trust); err == nil {
			c.Close()
			t.Error("TLS was agreed on, want the connection closed at once")
		}
		if n := r.metrics.turnedAway.Get(); n != 1 {
			t.Errorf("%d connections were counted as refused, want 1", n)
		}
	})
	t.Run("HTTP/1.0 gives its place back", func(t *testing.T) {
		t.Parallel()
		w := proxytest.NewWorker(t, proxytest.SSE(2, 0)) // streams end with the connection there
		r := startRouter(t, crowdedOptions(), w)
		for range 3 * r.opts.Limits.Connections {
			r.until("an answer", func() bool {
				c := proxytest.Dial(t, r.addr)
				defer c.Close()
				if err := c.Send("POST " + chatPath + " HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
					return false
				}
				got, err := c.ReadResponse(patience)
				return err == nil && got.Status == 200
			})
		}
	})
}

// TestFloodOfConnections: thousands that connect and stay cost neither goroutines
// nor descriptors beyond those set aside for telling them why, and those who were
// there first are served.
func TestFloodOfConnections(t *testing.T) {
	r := startRouter(t, crowdedOptions())
	in := fillUp(t, r)
	goroutines, fds := runtime.NumGoroutine(), proxytest.FDs()
	const flood, atATime = 3000, 300
	for round := range flood / atATime {
		var conns []net.Conn
		for range atATime {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		r.until("all to be counted", func() bool { return r.metrics.turnedAway.Get() == uint64((round+1)*atATime) })
		if n := runtime.NumGoroutine() - goroutines; n > toldAtATime+20 {
			t.Errorf("%d goroutines more, want no more than %d that tell clients why, and a few", n, toldAtATime)
		}
		// Theirs, ours for those that are told, and a few of the accepting.
		if n := proxytest.FDs() - fds; fds > 0 && n > atATime+toldAtATime+20 {
			t.Errorf("%d descriptors more, want %d of the clients and no more than %d", n, atATime, toldAtATime)
		}
		if err := in[1].Get("/liveness"); err != nil {
			t.Fatal(err)
		}
		if got, err := in[1].ReadResponse(patience); err != nil || got.Status != 200 {
			t.Fatalf("who was there: %v, %v; want it served", got, err)
		}
		for _, c := range conns {
			c.Close()
		}
	}
	r.until("the goroutines to end", func() bool { return len(r.crowd.told) == 0 })
}

// chatty is a connection whose client sends up to left bytes, and that writes down
// what happens to it.
type chatty struct {
	net.Conn // nil; for the methods that aren't called
	left     int
	log      []string
	read     int
}

func (c *chatty) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), c.left)
	c.left -= n
	c.read += n
	c.note("read")
	return n, nil
}

func (c *chatty) Write(b []byte) (int, error) { c.note("write"); return len(b), nil }
func (c *chatty) CloseWrite() error           { c.note("end"); return nil }
func (c *chatty) Close() error                { c.note("close"); return nil }
func (*chatty) SetDeadline(time.Time) error   { return nil }

func (c *chatty) note(what string) {
	if n := len(c.log); n == 0 || c.log[n-1] != what {
		c.log = append(c.log, what)
	}
}

// TestTell: a client that is turned away is listened to, told, and then listened to
// until it is silent, or for so long.
func TestTell(t *testing.T) {
	for _, tc := range []struct {
		name       string
		sends, got int
		log        string
	}{
		{"leaves", 0, 0, "close"},
		{"asks", 100, 100, "read write end close"},
		{"sends a body", 100_000, 100_000, "read write end read close"},
		{"never ends", 1 << 30, toldBytes + 4<<10, "read write end read close"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &crowd{told: make(chan struct{}, 1), plain: []byte("no")}
			c.told <- struct{}{}
			conn := &chatty{left: tc.sends}
			c.tell(conn)
			if got := strings.Join(conn.log, " "); got != tc.log || conn.read != tc.got {
				t.Errorf("%d bytes in %q, want %d in %q", conn.read, got, tc.got, tc.log)
			}
			if len(c.told) != 0 {
				t.Error("the place of who is told is not given back")
			}
		})
	}
}
