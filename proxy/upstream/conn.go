package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// readerSize is the size of a connection's read buffer while in use. It holds
// the heads that workers send; a longer head gets a buffer of its own.
const readerSize = 4096

// Conn is a connection to a worker. While in use it belongs to one goroutine.
type Conn struct {
	net.Conn               // plain or TLS
	tcp      *net.TCPConn  // beneath it
	br       *bufio.Reader // while in use
	wide     *bufio.Reader // in front of br, since a long head came
	reused   bool
	usedAt   time.Time

	raw     syscall.RawConn
	looks   func(fd uintptr) // look, bound once
	isQuiet bool             // what it has found

	// Of Ask.
	ask    []byte                // to be written by the next read; nil is nothing
	turns  func(fd uintptr) bool // turn, bound once
	into   []byte                // where that read puts what comes
	n      int                   // bytes that it has got
	failed error                 // why it got none
}

// ErrStirred says that a kept connection is of no use: since its last answer was
// read the worker has closed it, or has sent something that nobody asked for.
// Nothing was written to it.
var ErrStirred = errors.New("the worker has closed a connection that was not in use, or has sent something over it")

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

func (c *Conn) attach() {
	c.br = readers.Get().(*bufio.Reader)
	c.br.Reset(c)
}

func (c *Conn) detach() {
	if c.br != nil {
		c.br.Reset(nil)
		readers.Put(c.br)
	}
	c.br, c.wide, c.ask, c.failed = nil, nil, nil, nil
}

// Reader reads what the worker sends.
func (c *Conn) Reader() *bufio.Reader {
	if c.wide != nil {
		return c.wide
	}
	return c.br
}

// WriteBuffers writes all of b, with one call of the kernel where it can.
func (c *Conn) WriteBuffers(b *net.Buffers) (int64, error) {
	if c.plain() {
		return b.WriteTo(c.tcp)
	}
	return b.WriteTo(c.Conn)
}

// Resumes reports whether a write that ran into its deadline may be taken up where
// it stopped. One to a TLS connection may not: the record it cut off is lost, and
// every later write fails.
func (c *Conn) Resumes() bool { return c.plain() }

// plain reports whether no TLS lies between this and the socket.
func (c *Conn) plain() bool { return c.Conn == net.Conn(c.tcp) }

// Widen gives the connection a read buffer of n bytes, keeping what is buffered.
func (c *Conn) Widen(n int) {
	c.wide = bufio.NewReaderSize(c.br, n)
}

// Reused reports whether the connection has carried a request before.
func (c *Conn) Reused() bool { return c.reused }

// drained reports whether nothing that the worker sent is left unread here.
func (c *Conn) drained() bool {
	if c.br.Buffered() > 0 || c.wide != nil && c.wide.Buffered() > 0 {
		return false
	}
	return c.plain() || c.decrypted()
}

// longPast is a deadline that is over.
var longPast = time.Unix(1, 0)

// decrypted reports whether no record is left within a TLS connection, which
// reads ahead: a read whose deadline is over gets that and nothing else.
func (c *Conn) decrypted() bool {
	if c.SetReadDeadline(longPast) != nil {
		return false
	}
	_, err := c.br.Peek(1)
	var t net.Error
	return errors.As(err, &t) && t.Timeout() && c.SetReadDeadline(time.Time{}) == nil
}

// Interrupter is what may be closed from another goroutine to end whatever the
// connection's user is blocked in, with a reset. Closing a TLS connection could
// wait for the peer, so it closes what lies beneath.
func (c *Conn) Interrupter() io.Closer { return interrupter{c.tcp} }

// Close closes the connection at once. What was written before still goes out.
func (c *Conn) Close() error {
	c.detach()
	return c.tcp.Close()
}

// Reset closes the connection with a reset, for when nobody wants the answer any
// more. The worker learns of it even if it reads nothing, whatever was written
// before is thrown away, and the port is free at once for another connection.
func (c *Conn) Reset() {
	c.detach()
	_ = interrupter{c.tcp}.Close() // fails if it is closed already
}

// interrupter closes a connection with a reset.
type interrupter struct{ tcp *net.TCPConn }

func (i interrupter) Close() error {
	_ = i.tcp.SetLinger(0) // fails if it is closed already
	return i.tcp.Close()
}

// Quiet reports whether the worker has neither closed the connection nor sent
// anything that is not read yet, as far as the platform can tell.
func (c *Conn) Quiet() bool {
	c.isQuiet = false
	if err := c.raw.Control(c.looks); err != nil {
		return false
	}
	return c.isQuiet
}
