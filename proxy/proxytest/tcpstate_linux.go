package proxytest

import (
	"golang.org/x/sys/unix"
)

// TCP states as TCP_INFO numbers them.
const (
	tcpTimeWait  = 6
	tcpClose     = 7
	tcpCloseWait = 8
	tcpLastAck   = 9
	tcpClosing   = 11
)

// departed looks at a socket without reading from it. left says that the peer
// has sent its FIN or RST, even behind unread bytes. dead says that the kernel
// has ended the connection, so that only an error can tell FIN from RST; reset
// is that error, unless another call has consumed it.
func departed(fd uintptr) (left, dead, reset bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false, false, false
	}
	switch info.State {
	case tcpClose:
		code, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return true, true, code == int(unix.ECONNRESET)
	case tcpCloseWait, tcpLastAck, tcpClosing, tcpTimeWait:
		return true, false, false
	}
	return false, false, false
}
