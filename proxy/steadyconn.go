package proxy

import (
	"net"
	"syscall"
	"time"
)

// steadyListener makes of what it accepts connections whose writes end when the
// client has taken nothing for patience, and not when it is slow.
type steadyListener struct {
	net.Listener
	patience time.Duration
}

// Accept implements net.Listener.
func (l steadyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newSteadyConn(c, l.patience), nil
}

// steadyConn is a client's connection. When a write meets its deadline and the
// client has acknowledged bytes since that was looked at last, it has a deadline
// anew. So a write that gets nowhere ends between one and two patiences later.
//
// It lies beneath TLS and beneath fasthttp's buffers, for which an error of a write
// would be the last. There is no NetConn, by which others tell TLS.
type steadyConn struct {
	net.Conn // tcp, without what would send past Write
	tcp      *net.TCPConn
	raw      syscall.RawConn
	patience time.Duration
	ended    chan struct{} // holds one when a deadline for everything was set: whoever sets it wants an end

	// Of the goroutine that writes.
	sent  int64 // bytes given to the kernel
	taken int64 // of them acknowledged, when that was looked at last
}

// newSteadyConn returns c itself where the kernel doesn't tell what it has sent.
func newSteadyConn(c net.Conn, patience time.Duration) net.Conn {
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return c
	}
	if _, ok := unacknowledged(raw); !ok {
		return c
	}
	return &steadyConn{Conn: tc, tcp: tc, raw: raw, patience: patience, ended: make(chan struct{}, 1)}
}

// Write implements net.Conn.
func (c *steadyConn) Write(b []byte) (n int, err error) {
	for {
		m, err := c.tcp.Write(b[n:])
		n += m
		c.sent += int64(m)
		if err == nil || !isTimeout(err) || !c.goesOn() {
			return n, err
		}
	}
}

// goesOn gives a write that met its deadline another one, if the client takes what
// it gets.
func (c *steadyConn) goesOn() bool {
	queued, ok := unacknowledged(c.raw)
	taken := c.sent - int64(queued)
	if !ok || taken <= c.taken {
		return false
	}
	c.taken = taken
	if c.tcp.SetWriteDeadline(time.Now().Add(c.patience)) != nil {
		return false
	}
	// A deadline for everything may have been there before; one that comes now
	// stands.
	return len(c.ended) == 0
}

// SetDeadline implements net.Conn. It may be called by any goroutine.
func (c *steadyConn) SetDeadline(t time.Time) error {
	if !t.IsZero() {
		select {
		case c.ended <- struct{}{}:
		default:
		}
	}
	return c.tcp.SetDeadline(t)
}

// SyscallConn implements syscall.Conn.
func (c *steadyConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// SetLinger is that of the TCP connection.
func (c *steadyConn) SetLinger(sec int) error { return c.tcp.SetLinger(sec) }
