package proxytest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A link is one end of a connection that knows how and when the other end left.
// The kernel reports a reset once, to whichever call comes first; a link brings
// together what reads and writes were told.
type link struct {
	conn net.Conn     // what bytes go through: tcp, or TLS over it
	tcp  *net.TCPConn // what is closed and reset
	raw  syscall.RawConn

	// onGone runs once, before gone is closed, when the peer has left.
	onGone func(at time.Time)

	ended bool // by this end, so writeNow sends no more; guarded by the lock it is given

	// writing is held during a write until its error has been noted.
	writing sync.Mutex

	mu      sync.Mutex
	gone    chan struct{} // closed when either end has ended the connection
	shut    chan struct{} // closed when this end has
	isShut  bool
	over    bool      // gone is closed or about to be
	leftAt  time.Time // when the peer left; zero while it has not
	isReset bool      // the peer left by RST
	wasSent bool      // a write was told of an RST
}

// newLink wraps conn, which is a *net.TCPConn or a *tls.Conn over one.
func newLink(conn net.Conn, onGone func(time.Time)) (*link, error) {
	l := &link{conn: conn, onGone: onGone, gone: make(chan struct{}), shut: make(chan struct{})}
	under := conn
	if t, ok := conn.(*tls.Conn); ok {
		under = t.NetConn()
	}
	tcp, ok := under.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("connection is a %T, not TCP", under)
	}
	raw, err := tcp.SyscallConn()
	l.tcp, l.raw = tcp, raw
	return l, err
}

// read is one read. Its first error is final and says that the connection has
// ended; a reset is ErrReset. A deadline in the past is how park and the client
// interrupt a read, so onTimeout runs and the read goes on.
func (l *link) read(b []byte, onTimeout func()) (int, error) {
	for {
		n, err := l.conn.Read(b)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			continue
		}
		if isTimeout(err) {
			_ = l.tcp.SetReadDeadline(time.Time{})
			onTimeout()
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			l.endHere()
			return 0, err
		}
		if l.peerLeft(errors.Is(err, syscall.ECONNRESET)) {
			return 0, ErrReset
		}
		return 0, io.EOF
	}
}

// peerLeft notes that the peer has left and says whether by a reset, which is
// known or has to be found out.
func (l *link) peerLeft(reset bool) bool {
	if !reset {
		var dead bool
		_ = l.raw.Control(func(fd uintptr) { _, dead, reset = departed(fd) })
		if dead && !reset {
			// A write may have consumed the reset. On a dead connection none
			// blocks, so wait until it has said so.
			l.writing.Lock()
			l.writing.Unlock() //nolint:staticcheck // an empty section is a wait
			reset = l.writeSawReset()
		}
	}
	l.note(reset)
	return l.reset()
}

func (l *link) writeSawReset() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wasSent
}

// note records the first way in which the peer left.
func (l *link) note(reset bool) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.over, l.isReset, l.leftAt = true, reset, time.Now()
	at := l.leftAt
	l.mu.Unlock()
	if l.onGone != nil {
		l.onGone(at)
	}
	close(l.gone)
}

// endHere records that this end has closed the connection.
func (l *link) endHere() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.gone)
	}
	if !l.isShut {
		l.isShut = true
		close(l.shut)
	}
}

// peerLeftAt is when the peer left; zero if it has not, or if this end closed first.
func (l *link) peerLeftAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftAt
}

func (l *link) reset() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isReset
}

// park waits for wake without reading, and notes it if the peer leaves
// meanwhile. The waker closes wake and then calls rouse. It also returns when
// this end has closed the connection.
func (l *link) park(wake <-chan struct{}) {
	woken := func() bool {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	for !woken() {
		var left, dead, reset bool
		err := l.raw.Read(func(fd uintptr) bool {
			if woken() {
				return true
			}
			left, dead, reset = departed(fd)
			return left
		})
		if left {
			if dead && !reset {
				l.peerLeft(false)
			} else {
				l.note(reset)
			}
			select {
			case <-wake:
			case <-l.shut:
			}
			return
		}
		switch {
		case err == nil:
		case isTimeout(err):
			_ = l.tcp.SetReadDeadline(time.Time{})
		default:
			return
		}
	}
}

// rouse ends a park or interrupts a read.
func (l *link) rouse() { _ = l.tcp.SetReadDeadline(time.Unix(1, 0)) }

// write sends b whole. The caller holds l.writing.
func (l *link) write(b []byte) error {
	_, err := l.conn.Write(b)
	return l.noteWrite(err)
}

// writeNow sends b without going through the runtime's write loop: try is
// called with each attempt's count of bytes, on a lock of the caller's choice
// which is held from before the system call until after it. The caller holds
// l.writing.
func (l *link) writeNow(b []byte, mu sync.Locker, try func(n int)) error {
	var failed error
	err := l.raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			mu.Lock()
			if l.ended {
				mu.Unlock()
				failed = net.ErrClosed
				return true
			}
			n, err := syscall.Write(int(fd), b)
			if n > 0 {
				b = b[n:]
				try(n)
			}
			mu.Unlock()
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				return false
			case err != nil:
				failed = err
				return true
			}
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return l.noteWrite(err)
}

// noteWrite makes the errors of a write those of the package.
func (l *link) noteWrite(err error) error {
	if !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	l.mu.Lock()
	l.wasSent = true
	l.mu.Unlock()
	l.note(true)
	return ErrReset
}

// closeFIN ends the connection; its FIN goes out before anything else does, even
// if unread bytes make the kernel send an RST behind it.
func (l *link) closeFIN() {
	l.endHere()
	l.halfClose()
	l.conn.Close()
}

// halfClose sends a FIN and goes on reading.
func (l *link) halfClose() {
	if t, ok := l.conn.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	_ = l.tcp.CloseWrite()
}

// closeRST ends the connection by a reset; bytes not yet sent are lost.
func (l *link) closeRST() {
	l.endHere()
	_ = l.tcp.SetLinger(0)
	l.tcp.Close()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
