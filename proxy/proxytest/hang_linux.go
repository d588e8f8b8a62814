package proxytest

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// Hang has a port of 127.0.0.1 take no connection until the end of the test, and not
// refuse one either: somebody listens there whose queue is full. A Worker that was
// there has to be stopped before.
func Hang(t testing.TB, addr string) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatalf("cannot have %s hang: %v", addr, err)
		}
	}
	a, err := net.ResolveTCPAddr("tcp4", addr)
	fail(err)
	at := &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte{127, 0, 0, 1}}
	open := func(flags int) int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|flags, 0)
		fail(err)
		t.Cleanup(func() { syscall.Close(fd) })
		return fd
	}
	l := open(0)
	fail(syscall.SetsockoptInt(l, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	fail(syscall.Bind(l, at))
	fail(syscall.Listen(l, 0)) // one connection fills the queue
	c := open(syscall.SOCK_NONBLOCK)
	if err := syscall.Connect(c, at); err != syscall.EINPROGRESS {
		fail(err)
	}
	for end := time.Now().Add(stopTimeout); ; time.Sleep(time.Millisecond) {
		if _, err := syscall.Getpeername(c); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the queue of %s doesn't fill", addr)
		}
	}
}
