package proxy

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listenOptions prepares a listening socket, whose options connections inherit:
// the kernel gives a client up that has taken nothing for patience, so that one
// that vanished without a FIN holds its worker no longer. Zero leaves that to
// the kernel.
func listenOptions(patience time.Duration) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var errOpt error
		err := raw.Control(func(fd uintptr) {
			errOpt = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return errOpt
	}
}

// unacknowledged is the number of bytes that were written to a socket and that the
// peer has not acknowledged.
func unacknowledged(raw syscall.RawConn) (n int, ok bool) {
	err := raw.Control(func(fd uintptr) {
		queued, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		n, ok = queued, err == nil
	})
	return n, ok && err == nil
}
