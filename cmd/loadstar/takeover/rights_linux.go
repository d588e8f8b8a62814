package takeover

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Supported says whether sockets can be handed over on this platform.
const Supported = true

// private has the file of a socket that is about to be bound be its owner's alone.
func private(_, _ string, raw syscall.RawConn) error {
	var inner error
	err := raw.Control(func(fd uintptr) { inner = unix.Fchmod(int(fd), 0o600) })
	if err != nil {
		return err
	}
	return inner
}

// peerUser returns the number of the user whose process listens at the other end.
func peerUser(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, inner
	}
	return int(cred.Uid), nil
}

// duplicate makes another descriptor of a listener's socket, which stays as it is.
func duplicate(ln net.Listener) (fd int, err error) {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("a listener of type %T has no socket to hand over", ln)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var inner error
	err = raw.Control(func(own uintptr) { fd, inner = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err != nil {
		return -1, err
	}
	return fd, inner
}

// sendSockets sends text with the sockets of listeners beside it.
func sendSockets(c *net.UnixConn, text []byte, listeners []net.Listener) error {
	fds := make([]int, 0, len(listeners))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // what was sent is another descriptor
		}
	}()
	for _, ln := range listeners {
		fd, err := duplicate(ln)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	n, _, err := c.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
	if err == nil && n < len(text) {
		_, err = c.Write(text[n:])
	}
	return err
}

// receiveSockets reads the first piece of a conversation, with the sockets beside it.
func receiveSockets(c *net.UnixConn) (piece []byte, listeners []net.Listener, err error) {
	text, beside := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxSockets))
	n, nb, _, _, err := c.ReadMsgUnix(text, beside)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(beside[:nb])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "handed over")
			ln, lerr := net.FileListener(f) // of a descriptor of its own
			f.Close()
			if lerr == nil {
				listeners = append(listeners, ln)
				continue
			}
			closeAll(listeners)
			return nil, nil, lerr
		}
	}
	return text[:n], listeners, nil
}
