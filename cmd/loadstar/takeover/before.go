package takeover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrRefused says that the process before goes on.
var ErrRefused = errors.New("the process before does not hand over")

// Before is the process that is taken over from.
type Before struct {
	PID     int
	conn    *net.UnixConn
	sockets map[string]Socket
	lines   chan line     // what it says; closed when the connection has ended
	closed  chan struct{} // by Close
	gone    bool          // it ended before it was asked
}

// Ask asks at a door for the sockets. It returns nil without an error if nobody is
// there. Errors: ErrRefused, and those of a conversation that fails.
func Ask(path string) (*Before, error) {
	conn, err := net.DialTimeout("unix", path, stepTimeout)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return nil, nil
	case err != nil:
		return nil, err
	}
	c := conn.(*net.UnixConn)
	uid, err := peerUser(c)
	if err == nil && !trusted(uid, os.Geteuid()) {
		err = fmt.Errorf("a process of another user (%d) listens there: choose a path in a directory that only this one may write to", uid)
	}
	var b *Before
	if err == nil {
		b, err = hear(c)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return b, nil
}

// trusted reports whether a process of user uid may give sockets to one of user own.
func trusted(uid, own int) bool { return uid == own || uid == 0 }

// hear takes the sockets.
func hear(c *net.UnixConn) (*Before, error) {
	_ = c.SetDeadline(time.Now().Add(stepTimeout))
	piece, listeners, err := receiveSockets(c)
	if err != nil {
		return nil, err
	}
	r := newReader(io.MultiReader(bytes.NewReader(piece), c))
	hello, err := r.next()
	switch {
	case err == nil && hello.Refused != "":
		err = fmt.Errorf("%w: %s", ErrRefused, hello.Refused)
	case err == nil && (hello.Takeover != version || len(hello.Sockets) != len(listeners)):
		err = fmt.Errorf("%w: version %d with %d sockets, of which %d have come", errLine, hello.Takeover, len(hello.Sockets), len(listeners))
	}
	if err != nil {
		closeAll(listeners)
		return nil, err
	}
	b := &Before{PID: hello.PID, conn: c, sockets: make(map[string]Socket), lines: make(chan line), closed: make(chan struct{})}
	for i, s := range hello.Sockets {
		if twice, ok := b.sockets[s.Name]; ok {
			twice.Listener.Close()
		}
		b.sockets[s.Name] = Socket{s.Name, s.Address, listeners[i]}
	}
	_ = c.SetDeadline(time.Time{})
	go b.listen(r)
	return b, nil
}

func (b *Before) listen(r *reader) {
	defer close(b.lines)
	for {
		l, err := r.next()
		if err != nil {
			return
		}
		select {
		case b.lines <- l:
		case <-b.closed:
			return
		}
	}
}

// Take returns the socket of this name, if it is configured for the same address;
// else nil. Who takes it closes it.
func (b *Before) Take(name, address string) net.Listener {
	s, ok := b.sockets[name]
	if !ok || s.Address != address {
		return nil
	}
	delete(b.sockets, name)
	return s.Listener
}

// Drop gives up the sockets that weren't taken: nobody would accept from them.
func (b *Before) Drop() {
	for name, s := range b.sockets {
		s.Listener.Close()
		delete(b.sockets, name)
	}
}

// Await waits until ready says that this process can serve, for at most patience,
// and then has the sockets be its own. It returns nil also when the process before
// has ended meanwhile: then the sockets are nobody else's. After an error the other
// one goes on. Errors: ErrRefused, that of ctx, and ErrNotReady.
func (b *Before) Await(ctx context.Context, ready <-chan struct{}, patience time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ready:
	case l, open := <-b.lines:
		if !open {
			b.gone = true
			return nil
		}
		return refusal(l)
	case <-late.C:
		return ErrNotReady
	case <-ctx.Done():
		return ctx.Err()
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(stepTimeout))
	// An error means that the other one has closed, of which what it said last tells.
	_, _ = b.conn.Write(appendLine(nil, line{Ready: true}))
	answer := time.NewTimer(stepTimeout)
	defer answer.Stop()
	select {
	case l, open := <-b.lines:
		if open && !l.Yours {
			return refusal(l)
		}
		b.gone = !open
		return nil
	case <-answer.C:
		return fmt.Errorf("%w: it does not answer", ErrRefused)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotReady says that this process was not ready in time.
var ErrNotReady = errors.New("it was not ready in time")

func refusal(l line) error {
	if l.Refused == "" {
		return errLine
	}
	return fmt.Errorf("%w: %s", ErrRefused, l.Refused)
}

// Gone reports whether the process before had ended when Await returned nil.
func (b *Before) Gone() bool { return b.gone }

// Loads gives each of the process before's messages to took, and nothing when it has
// been silent for too long or has ended. It returns at its end.
func (b *Before) Loads(took func([]Load)) {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	defer took(nil)
	for {
		select {
		case l, open := <-b.lines:
			if !open {
				return
			}
			if l.Loads != nil {
				took(*l.Loads)
			}
			quiet.Reset(silence)
		case <-quiet.C:
			took(nil)
		case <-b.closed:
			return
		}
	}
}

// Close ends the conversation and gives up the sockets that nobody took. It is
// called once.
func (b *Before) Close() {
	close(b.closed)
	b.conn.Close()
	b.Drop()
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		ln.Close()
	}
}
