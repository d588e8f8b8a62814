package upstream

import (
	"io"
	"syscall"
)

// Asks reports whether a small request goes out by Ask.
func (c *Conn) Asks() bool { return c.plain() }

// Ask has the next read write b first, if nothing has happened to the connection
// since its last answer was read: else that read returns ErrStirred, and the worker
// has got nothing. b must be kept until a read has returned something else than a
// timeout.
//
// To look before the write, and not to look behind it, saves two calls of the kernel
// for each request. Nothing can slip through: the runtime's poller is told to wait
// for news before the look, and whatever comes behind the look is news.
func (c *Conn) Ask(b []byte) { c.ask = b }

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	if c.ask == nil {
		return c.Conn.Read(p)
	}
	c.into = p
	err := c.raw.Read(c.turns)
	n, rest := c.n, c.ask
	c.into, c.n = nil, 0
	switch {
	case err != nil:
		return 0, err
	case rest != nil: // the socket hasn't taken all of it, or has failed: what fails here fails the read as well
		c.ask = nil
		_, _ = c.tcp.Write(rest)
		return c.tcp.Read(p)
	case c.failed != nil:
		err, c.failed = c.failed, nil
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// turn is called by the runtime's poller: first to write, then whenever there is
// something to read. It reports whether the read is over.
func (c *Conn) turn(fd uintptr) (over bool) {
	n, err := c.take(fd)
	if c.ask == nil {
		c.n, c.failed = max(n, 0), err
		return err != syscall.EAGAIN //nolint:errorlint // the kernel wraps nothing
	}
	if err != syscall.EAGAIN { //nolint:errorlint // likewise
		c.ask, c.failed = nil, ErrStirred
		return true
	}
	n, err = syscall.Write(int(fd), c.ask)
	if err != nil || n < len(c.ask) {
		c.ask = c.ask[max(n, 0):]
		return true
	}
	c.ask = nil
	return false
}

// take reads what there is, without waiting.
func (c *Conn) take(fd uintptr) (n int, err error) {
	for {
		n, err = syscall.Read(int(fd), c.into)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
