package kvevents

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

const (
	// maxMessage bounds a message, in bytes. A batch of a step of 8192 tokens has some
	// 50 kB.
	maxMessage = 16 << 20

	// maxFrames bounds the frames of a message. A batch has three or four.
	maxFrames = 16

	// dialLimit is for how long a connection may take, the handshake included.
	dialLimit = 5 * time.Second

	greetingSize = 64 // bytes with which a peer begins, before any frame
)

// errTooLarge ends a connection whose peer claims a message beyond the bounds.
var errTooLarge = fmt.Errorf("a message has more than %d MiB or %d frames", maxMessage>>20, maxFrames)

// errBroken is the error for a message that has not the frames of a batch.
var errBroken = errors.New("a message is no batch of KV-cache events: is the endpoint one of vLLM's kv-events-config?")

// wire is a connection to a publisher.
type wire struct {
	*zmq4.Conn
	net  net.Conn
	stop func() bool // what closes it when its context ends
}

// dial connects a socket of a kind to an address. The connection is closed when ctx
// ends. Of zmq4 only the protocol of one connection is used: its sockets connect
// without a limit of time and say nothing of connections that break.
func dial(ctx context.Context, addr string, kind zmq4.SocketType) (*wire, error) {
	d := net.Dialer{
		Timeout:         dialLimit,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{net: conn}
	w.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err = conn.SetDeadline(time.Now().Add(dialLimit)); err == nil {
		w.Conn, err = zmq4.Open(newBounded(conn), null.Security(), kind, nil, false, nil)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *wire) close() {
	w.stop()
	_ = w.net.Close() // nothing is left to be sent
}

// receive returns the number and the payload of the next batch, whose frames may have
// others before them. It waits for at most limit, or without end if that is zero.
func (w *wire) receive(limit time.Duration) (seq uint64, payload []byte, err error) {
	var by time.Time
	if limit > 0 {
		by = time.Now().Add(limit)
	}
	if err = w.net.SetReadDeadline(by); err != nil {
		return 0, nil, err
	}
	for {
		m, err := w.RecvMsg()
		switch n := len(m.Frames); {
		case err != nil:
			return 0, nil, err
		case m.Type == zmq4.CmdMsg: // answered
		case n < 2 || len(m.Frames[n-2]) != 8:
			return 0, nil, errBroken
		default:
			return binary.BigEndian.Uint64(m.Frames[n-2]), m.Frames[n-1], nil
		}
	}
}

// bounded is a connection that ends when a message is about to be too large, which
// zmq4 would make room for. It looks at what stands before each frame.
type bounded struct {
	net.Conn
	in     *bufio.Reader
	left   uint64 // bytes until the next frame
	head   [9]byte
	have   int // of head
	size   uint64
	frames int // of the message
}

func newBounded(c net.Conn) *bounded {
	return &bounded{Conn: c, in: bufio.NewReaderSize(c, 64<<10), left: greetingSize}
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if !b.allow(p[:n]) {
		return 0, errTooLarge
	}
	return n, err
}

// allow reports whether all messages stay within bounds as far as p tells.
func (b *bounded) allow(p []byte) bool {
	const more, long = 1, 2 // flags of a frame
	for len(p) > 0 {
		if b.left > 0 {
			n := min(b.left, uint64(len(p)))
			b.left -= n
			p = p[n:]
			continue
		}
		b.head[b.have] = p[0]
		b.have++
		p = p[1:]
		switch {
		case b.head[0]&long == 0 && b.have == 2:
			b.left = uint64(b.head[1])
		case b.have == 9:
			b.left = binary.BigEndian.Uint64(b.head[1:])
		default:
			continue
		}
		b.have = 0
		b.frames++
		if b.left > maxMessage-b.size || b.frames > maxFrames {
			return false
		}
		if b.size += b.left; b.head[0]&more == 0 {
			b.size, b.frames = 0, 0
		}
	}
	return true
}
