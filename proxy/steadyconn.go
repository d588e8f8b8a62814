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
	tls      bool // lies beneath TLS
}

// Accept implements net.Listener.
func (l steadyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newSteadyConn(c, l.patience, l.tls), nil
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
	eager    bool          // deadlines for writing are set as they come: TLS sets them from any goroutine

	// Of the goroutine that reads and writes.
	readBy  lateDeadline
	writeBy lateDeadline
	sent    int64 // bytes given to the kernel
	taken   int64 // of them acknowledged, when that was looked at last
}

// lateDeadline is a deadline that is set late. fasthttp moves a connection's
// deadlines four times a request, nearly always away from the present, and to move
// a timer costs as much as to read. So the timer stays where it is until it goes
// off, and is then set to where the deadline has come.
type lateDeadline struct {
	want time.Time // zero is none
	set  time.Time // when the timer goes off; zero is never
}

// moves reports whether the timer must be moved for a new deadline.
func (d *lateDeadline) moves(t time.Time) bool {
	d.want = t
	if t.IsZero() || !d.set.IsZero() && !d.set.After(t) {
		return false
	}
	d.set = t
	return true
}

// early reports whether the timer has gone off before its time; it is then to be
// set to want.
func (d *lateDeadline) early() bool {
	if d.set.Equal(d.want) || !d.want.IsZero() && !time.Now().Before(d.want) {
		return false
	}
	d.set = d.want
	return true
}

// newSteadyConn returns c itself where the kernel doesn't tell what it has sent.
func newSteadyConn(c net.Conn, patience time.Duration, tls bool) net.Conn {
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
	return &steadyConn{Conn: tc, tcp: tc, raw: raw, patience: patience, ended: make(chan struct{}, 1), eager: tls}
}

// Read implements net.Conn.
func (c *steadyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.tcp.Read(b)
		if err == nil || !isTimeout(err) || !c.readBy.early() || c.tcp.SetReadDeadline(c.readBy.want) != nil || c.over() {
			return n, err
		}
	}
}

// over reports whether a deadline for everything has been set. Whoever moves
// another one looks behind that: one that comes now stands.
func (c *steadyConn) over() bool { return len(c.ended) > 0 }

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
// it gets or the timer was early.
func (c *steadyConn) goesOn() bool {
	if !c.eager && c.writeBy.early() {
		return c.tcp.SetWriteDeadline(c.writeBy.want) == nil && !c.over()
	}
	queued, ok := unacknowledged(c.raw)
	taken := c.sent - int64(queued)
	if !ok || taken <= c.taken {
		return false
	}
	c.taken = taken
	by := time.Now().Add(c.patience)
	if !c.eager {
		c.writeBy = lateDeadline{by, by}
	}
	return c.tcp.SetWriteDeadline(by) == nil && !c.over()
}

// SetReadDeadline implements net.Conn, for the goroutine that reads.
func (c *steadyConn) SetReadDeadline(t time.Time) error {
	if !c.readBy.moves(t) {
		return nil
	}
	return c.tcp.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn, for the goroutine that writes and, beneath
// TLS, for any.
func (c *steadyConn) SetWriteDeadline(t time.Time) error {
	if !c.eager && !c.writeBy.moves(t) {
		return nil
	}
	return c.tcp.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn. A deadline is the end of everything, and may be
// set by any goroutine; the zero time takes those off that the caller has set.
func (c *steadyConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.readBy, c.writeBy = lateDeadline{}, lateDeadline{}
		return c.tcp.SetDeadline(t)
	}
	select {
	case c.ended <- struct{}{}:
	default:
	}
	return c.tcp.SetDeadline(t)
}

// SyscallConn implements syscall.Conn.
func (c *steadyConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// SetLinger is that of the TCP connection.
func (c *steadyConn) SetLinger(sec int) error { return c.tcp.SetLinger(sec) }
