package upstream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// userTimeoutMillis is how long sent bytes may stay unacknowledged before the
// kernel gives a connection up: a peer that vanishes without a FIN must not
// hold a lease for the quarter of an hour that is the kernel's own patience.
const userTimeoutMillis = 60_000

// setUserTimeout prepares a socket before it connects.
func setUserTimeout(_, _ string, raw syscall.RawConn) error {
	var errOpt error
	err := raw.Control(func(fd uintptr) {
		errOpt = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeoutMillis)
	})
	if err != nil {
		return err
	}
	return errOpt
}

// look notes whether a byte, or the end of the stream, has arrived.
func (c *Conn) look(fd uintptr) {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR { // the runtime's signals interrupt even a poll that doesn't wait
			c.isQuiet = n == 0 && err == nil
			return
		}
	}
}
