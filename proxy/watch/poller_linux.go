package watch

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller asks the kernel to report when the peer of a socket closes. It is an
// epoll instance of its own, waited for through the runtime's poller, so that
// no thread is blocked.
type poller struct {
	file *os.File
	fd   int
}

// newPoller starts a poller that calls report, on its own goroutine, for each
// socket whose peer has closed, or has sent something where that was asked for.
func newPoller(report func(id uint64, closed bool, at time.Time)) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, err
	}
	go p.run(raw, report)
	return p, nil
}

// run reports events until close.
func (p *poller) run(raw syscall.RawConn, report func(uint64, bool, time.Time)) {
	var events [64]unix.EpollEvent
	for {
		n := 0
		err := raw.Read(func(fd uintptr) (done bool) {
			n, _ = unix.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		at := time.Now()
		for _, e := range events[:n] {
			report(uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32, e.Events&^unix.EPOLLIN != 0, at)
		}
	}
}

// add watches a socket until remove, or until its descriptor is closed. Without
// arrivals only the peer's closing is asked for, so bytes that the client sends
// ahead wake nobody, and one report is enough. With them there is a report for what
// is there, and one each time that more has come.
func (p *poller) add(raw syscall.RawConn, id uint64, arrivals bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if arrivals {
		ev.Events = unix.EPOLLRDHUP | unix.EPOLLIN | unix.EPOLLET
	}
	var errCtl error
	err := raw.Control(func(fd uintptr) {
		errCtl = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, int(fd), &ev)
	})
	if err != nil {
		return err
	}
	return errCtl
}

func (p *poller) remove(raw syscall.RawConn) {
	// A socket that is closed has left the epoll instance by itself.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(fd), nil)
	})
}

func (p *poller) close() { p.file.Close() }

// peek copies to b what has come and is not read, and leaves it there.
func peek(raw syscall.RawConn, b []byte) []byte {
	n := 0
	_ = raw.Control(func(fd uintptr) { // fails if it is closed: there is nothing then
		n, _, _ = unix.Recvfrom(int(fd), b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return b[:max(n, 0)]
}
