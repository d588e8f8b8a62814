package proxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// clientUserTimeoutMillis is how long bytes for a client may stay unacknowledged
// before the kernel gives the connection up. A client that vanishes without a
// FIN holds its worker no longer.
const clientUserTimeoutMillis = 30_000

// listenOptions prepares a listening socket; connections inherit it.
func listenOptions(_, _ string, raw syscall.RawConn) error {
	var errOpt error
	err := raw.Control(func(fd uintptr) {
		errOpt = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, clientUserTimeoutMillis)
	})
	if err != nil {
		return err
	}
	return errOpt
}
