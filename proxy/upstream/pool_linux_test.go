package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"loadstar/proxy/proxytest"

	"golang.org/x/sys/unix"
)

// TestIdleLooks checks that a worker that has closed an unused connection, or has
// sent something unasked, is noticed before the connection is used: before it is
// handed out, or before the first byte is written.
func TestIdleLooks(t *testing.T) {
	ca := newIssuer(t)
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, end *net.TCPConn)
	}{
		{"close", func(_ *testing.T, end *net.TCPConn) { end.Close() }},
		{"reset", func(t *testing.T, end *net.TCPConn) {
			if err := end.SetLinger(0); err != nil {
				t.Fatal(err)
			}
			end.Close()
		}},
		{"half-close", func(t *testing.T, end *net.TCPConn) {
			if err := end.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a byte", func(t *testing.T, end *net.TCPConn) {
			if _, err := end.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(tt.name+"/"+scheme, func(t *testing.T) {
				o := options()
				w := newWorker(t, "127.0.0.1", nil)
				if scheme == "https" {
					o.TLS = trusting(ca)
					w = newWorker(t, "127.0.0.1", ca.server(t, "127.0.0.1"))
				}
				p := testPool(t, scheme+"://"+w.addr, o)
				good, goodEnd := dial(t, p, w)
				c, end := dial(t, p, w)
				wantOpen(t, c, end)
				wantOpen(t, good, goodEnd)
				now := time.Now()
				p.Put(c, now)
				p.Put(good, now)
				if !c.Quiet() {
					t.Fatal("quiet() = false, want true: nothing has happened yet")
				}
				raw, ok := end.(*net.TCPConn)
				if !ok {
					raw = end.(*tls.Conn).NetConn().(*net.TCPConn)
				}
				tt.do(t, raw)
				await(t, "the end is seen", func() bool { return !c.Quiet() })
				if scheme == "http" {
					wantStirred(t, p, c, raw)
				}
				if got := p.Idle(now); got != good {
					t.Errorf("Idle() = %p, want %p, the other one", got, good)
				}
				if err := c.Interrupter().Close(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Close: %v, want %v: it was closed", err, net.ErrClosed)
				}
			})
		}
	}
}

// wantStirred checks that the pool's next connection is c, that nothing can be asked
// over it, and that its other end gets nothing.
func wantStirred(t *testing.T, p *Pool, c *Conn, end *net.TCPConn) {
	t.Helper()
	if got := p.Idle(time.Now()); got != c {
		t.Fatalf("Idle() = %p, want %p", got, c)
	}
	c.Ask([]byte("request"))
	if _, err := c.Reader().Peek(1); !errors.Is(err, ErrStirred) {
		t.Errorf("read: %v, want %v", err, ErrStirred)
	}
	c.Close()
	if err := end.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return // it is closed
	}
	if n, _ := end.Read(make([]byte, 8)); n > 0 { // whatever ends it
		t.Errorf("the worker got %d bytes, want none", n)
	}
}

// TestIdleUnderSignals checks that a signal, of which the runtime sends itself
// many, isn't taken for something that the worker did.
func TestIdleUnderSignals(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, _ := dial(t, p, w)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, thread := unix.Getpid(), unix.Gettid()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(pid, thread, unix.SIGURG) // can't fail: it is this process
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for i := range 300_000 {
		if !c.Quiet() {
			t.Fatalf("look %d: quiet() = false, want true: nothing has come", i)
		}
	}
}

// TestUserTimeout checks that a worker that vanishes is given up.
func TestUserTimeout(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, _ := dial(t, p, w)
	var got, alive int
	var errGot, errAlive error
	err := c.raw.Control(func(fd uintptr) {
		got, errGot = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		alive, errAlive = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
	})
	if err := errors.Join(err, errGot, errAlive); err != nil {
		t.Fatal(err)
	}
	if got != userTimeoutMillis || alive == 0 {
		t.Errorf("user timeout %d ms, keep-alive %d; want %d and on", got, alive, userTimeoutMillis)
	}
}

// TestDialBlackHole dials a port that answers no SYN.
func TestDialBlackHole(t *testing.T) {
	addr := proxytest.Reserve(t)
	proxytest.Hang(t, addr)
	t.Run("timeout", func(t *testing.T) {
		o := options()
		o.ConnectTimeout = 50 * time.Millisecond
		p := testPool(t, "http://"+addr, o)
		started := time.Now()
		c, err := p.Dial(t.Context())
		if err == nil {
			c.Close()
			t.Fatal("no error, want a timeout")
		}
		if !timedOut(err) || time.Since(started) < o.ConnectTimeout {
			t.Errorf("error %v after %v, want a timeout after %v", err, time.Since(started), o.ConnectTimeout)
		}
	})
	t.Run("context ended", func(t *testing.T) {
		o := options()
		o.ConnectTimeout = 0
		p := testPool(t, "http://"+addr, o)
		ctx, cancel := context.WithCancel(t.Context())
		dialled := make(chan error, 1)
		go func() {
			c, err := p.Dial(ctx)
			if err == nil {
				c.Close()
			}
			dialled <- err
		}()
		cancel()
		select {
		case err := <-dialled:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
		case <-time.After(patience):
			t.Fatal("Dial still waits")
		}
	})
}
