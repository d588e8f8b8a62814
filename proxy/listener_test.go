package proxy

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// shortListener can't accept for a while, each time for the next reason.
type shortListener struct {
	net.Listener // nil; for the methods that aren't called
	errs         []error
	calls        int
	closed       chan struct{}
}

func (l *shortListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	if l.calls++; l.calls <= len(l.errs) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.errs[l.calls-1])}
	}
	c, other := net.Pipe()
	other.Close()
	return c, nil
}

func (l *shortListener) Close() error { close(l.closed); return nil }

// TestAcceptOutlivesShortages: a listener goes on when resources have run out, and
// waits longer each time.
func TestAcceptOutlivesShortages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs logBuffer
		short := &shortListener{closed: make(chan struct{})}
		for range 4 {
			short.errs = append(short.errs, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED)
		}
		ln := newPatientListener(short, slog.New(slog.NewTextHandler(&logs, nil)))
		began := time.Now()
		c, err := ln.Accept()
		if err != nil {
			t.Fatalf("Accept: %v, want a client", err)
		}
		c.Close()
		// 5, 10, … 640 ms make 1.275 s; 12 s follow.
		if took, want := time.Since(began), 13275*time.Millisecond; took != want {
			t.Errorf("it waited %v in all, want %v", took, want)
		}
		if n := strings.Count(logs.String(), "can't be accepted"); n != 2 {
			t.Errorf("logged %d times in 13 s, want 2", n)
		}
	})
}

func TestAcceptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := &shortListener{closed: make(chan struct{})}
		for range 1000 {
			short.errs = append(short.errs, syscall.EMFILE)
		}
		ln := newPatientListener(short, slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() {
			_, err := ln.Accept()
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		began := time.Now()
		ln.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("Accept: %v, %v after the close; want %v at once", err, time.Since(began), net.ErrClosed)
		}
	})
	broken := newPatientListener(&shortListener{errs: []error{syscall.EINVAL}, closed: make(chan struct{})}, slog.New(slog.DiscardHandler))
	if _, err := broken.Accept(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Accept: %v, want what is no shortage passed on", err)
	}
}

// TestServeBehindShutdown: who is stopped before it has begun to serve doesn't begin.
func TestServeBehindShutdown(t *testing.T) {
	p, err := New(testOptions("round_robin"))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(ln, nil) }()
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("it serves")
	}
}
