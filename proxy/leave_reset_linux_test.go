package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"

	"golang.org/x/sys/unix"
)

// bareWorker is a worker that answers health checks, and hands over the
// connections that carry anything else with nothing but that request's line read.
func bareWorker(t *testing.T) (url string, conns <-chan *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *net.TCPConn, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
			if err == nil && strings.HasPrefix(line, "GET /health") {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				c.Close()
				continue
			}
			got <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return "http://" + ln.Addr().String(), got
}

// waitReset waits for a reset of c, without reading from it.
func waitReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var events int16
		err := raw.Control(func(fd uintptr) {
			p := []unix.PollFd{{Fd: int32(fd)}}
			if _, err := unix.Poll(p, 0); err == nil {
				events = p[0].Revents
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if events&unix.POLLERR != 0 {
			return
		}
	}
	t.Fatalf("the worker's connection was not reset within %v", patience)
}

// TestLeaveResetsWorker: a worker that reads nothing learns all the same that the
// client has left, before the router is through with sending and after.
func TestLeaveResetsWorker(t *testing.T) {
	for _, tc := range []struct {
		name string
		size int
	}{
		{"small request", 10},
		{"request that does not fit into the buffers", 16 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url, conns := bareWorker(t)
			r := startRouter(t, once())
			if _, err := r.AddWorker(WorkerSpec{URL: url}); err != nil {
				t.Fatal(err)
			}
			r.waitHealthy(1)
			c := proxytest.Dial(t, r.addr)
			if err := c.Post(chatPath, chat(strings.Repeat("a", tc.size), false), jsonType); err != nil {
				t.Fatal(err)
			}
			w := <-conns
			defer w.Close()
			c.CloseFIN()
			waitReset(t, w)
		})
	}
}

// TestWriteToGoneClientResets: also where it is a write that has told.
func TestWriteToGoneClientResets(t *testing.T) {
	url, conns := bareWorker(t)
	r := startRouter(t, once())
	if _, err := r.AddWorker(WorkerSpec{URL: url}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	r.watcher.Stop() // so nobody else tells
	c := r.post(chat("hi", true))
	w := <-conns
	defer w.Close()
	ends := make(chan error, 1)
	go func() {
		_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		for ; err == nil; time.Sleep(time.Millisecond) {
			_, err = io.WriteString(w, "data: {}\n\n")
		}
		ends <- err
	}()
	if _, err := c.ReadEvent(patience); err != nil {
		t.Fatal(err)
	}
	c.Reset()
	select {
	case err := <-ends:
		// Behind a FIN it would be a broken pipe.
		if !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the worker's write ends with %v, want a reset", err)
		}
	case <-time.After(patience):
		t.Errorf("the worker's connection was not reset within %v", patience)
	}
}

// TestControlCallsLeaveNoPorts: the router's own calls don't hold their ports
// behind them.
func TestControlCallsLeaveNoPorts(t *testing.T) {
	ends := make(chan error, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			ends <- err
			return
		}
		defer c.Close()
		br := bufio.NewReader(c)
		if _, err = http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_, err = br.ReadByte()
		}
		ends <- err
	}()
	control := newControlClient(testOptions("round_robin"))
	defer control.close()
	got, err := control.call(t.Context(), http.MethodGet, "http://"+ln.Addr().String(), "", 10)
	if err != nil || string(got) != "ok" {
		t.Fatalf("answer %q, %v", got, err)
	}
	if err := <-ends; !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the worker reads %v, want a reset", err)
	}
}

// TestLeavesBehindMoreThanFits: the FIN of a client that has sent more ahead than the
// kernel takes in can't arrive. The next bytes of its answer meet a closed socket,
// which tells as well.
func TestLeavesBehindMoreThanFits(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Event("one")
		for x.Hold() && x.Event("more") {
		}
	})
	r := startRouter(t, testOptions("round_robin"), w)
	c := r.post(chat("hi", true))
	if e, err := c.ReadEvent(patience); err != nil || e.Data != "one" {
		t.Fatalf("first event %+v, %v", e, err)
	}
	ahead := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
	go c.Send(ahead + strings.Repeat("x", 32<<20)) // ends with the connection
	left := func() bool { return w.InFlight() == 0 }
	time.Sleep(100 * time.Millisecond) // for some of it to go out: less shows less
	c.CloseFIN()
	for end := time.Now().Add(patience); !left(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker still works for a client that has left")
		}
		w.Release()
	}
	r.waitOutcome(actors.ClientGone, 1)
}
