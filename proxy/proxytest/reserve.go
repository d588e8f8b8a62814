package proxytest

import (
	"fmt"
	"syscall"
	"testing"
)

// Reserve finds a free port of 127.0.0.1 and keeps it, until the end of the test,
// from whoever asks for any port: a connection that leaves from it would keep a
// worker from coming back there. A worker may listen on it, more than once.
func Reserve(t testing.TB) (addr string) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatalf("cannot reserve a port: %v", err)
		}
	}
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	fail(err)
	t.Cleanup(func() { syscall.Close(fd) })
	fail(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	// Only behind the bind, so that it does not get the port of another reservation.
	fail(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	sa, err := syscall.Getsockname(fd)
	fail(err)
	return fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
}
