package proxytest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestReserve: a worker comes and goes on a reserved port, which no connection
// and no listener gets by chance meanwhile.
func TestReserve(t *testing.T) {
	addr := Reserve(t)
	for range 3 {
		w := NewWorkerAt(t, addr, JSON(200, `{}`))
		Do(t, addr, Request{Target: "/"})
		w.Kill()
		if err := w.Resume(); err != nil {
			t.Fatalf("Resume: %v", err)
		}
		if got := Do(t, addr, Request{Target: "/"}).Status; got != 200 {
			t.Errorf("behind Resume: status %d, want 200", got)
		}
		w.Kill()
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Error("a worker that was killed takes connections")
		}
	}
	if other, err := net.Listen("tcp", "127.0.0.1:0"); err != nil || other.Addr().String() == addr {
		t.Errorf("another listener is at %v (%v)", addr, err)
	} else {
		other.Close()
	}
}

// TestForget: what is over is forgotten, and what runs can still be released.
func TestForget(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		if x.Path() == "/held" {
			x.Hold()
		}
		x.Reply(200, "ok")
	})
	held := Dial(t, w.Addr())
	if err := held.Post("/held", "body"); err != nil {
		t.Fatal(err)
	}
	w.WaitInFlight(1, within)
	Do(t, w.Addr(), Request{Method: "POST", Target: "/over", Body: "body"})
	w.Forget()
	if seen := w.Seen(); len(seen) != 1 || seen[0].Path() != "/held" {
		t.Errorf("behind Forget %d requests are known, want the one that is held", len(seen))
	}
	w.Release()
	if _, err := held.ReadResponse(within); err != nil {
		t.Errorf("the request that was held: %v", err)
	}
	if n := w.Requests(); n != 2 {
		t.Errorf("%d requests are counted, want 2", n)
	}
}

// TestWorkersKeepTheirPorts: nobody else gets the port of a worker that is gone, before
// the test ends.
func TestWorkersKeepTheirPorts(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	w.Kill()
	at, err := net.ResolveTCPAddr("tcp4", w.Addr())
	must(t, err)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(fd)
	// As the kernel does for who asks for any port.
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: at.Port, Addr: [4]byte{127, 0, 0, 1}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another socket at the port: %v, want %v", err, syscall.EADDRINUSE)
	}
}
