package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"loadstar/actors"
	"loadstar/proxy/sse"
	"loadstar/proxy/upstream"

	"github.com/valyala/fasthttp"
)

// stream relays the body of an answer after the handler has returned, and owns
// the request's lease while it does. It runs on the client connection's
// goroutine.
//
// It has CloseWithError and, on purpose, no Close: fasthttp calls whichever of
// the two exist, and only the former is told of an error.
type stream struct {
	p *Proxy
	link
	pool   *upstream.Pool
	lease  actors.Lease
	leased bool
	record record

	final actors.Cause // how the request ends if all goes well
	cause actors.Cause // how it has ended

	first     []byte // of the body, taken already
	firstErr  error  // that came with it
	coming    bodyReader
	events    sse.Scanner
	keepAlive bool // of the connection to the worker
	sse       bool
	fixed     bool      // the client was told the length
	pins      bool      // the answer's first piece names a response that its worker stores
	writeBy   time.Time // deadline set on the client for writing
}

// SupportsBodyWriteTo has fasthttp use WriteTo, which hands on what lies in the
// worker connection's buffer.
func (*stream) SupportsBodyWriteTo() bool { return true }

// Read is there for the interface; fasthttp uses WriteTo.
func (*stream) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo relays the body to its end. w is fasthttp's writer of chunks, which
// flushes each, or of a body of known length, which doesn't and is passed by.
func (s *stream) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.p.panicked(s.record.class.String(), r)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if s.fixed {
		w = s.client
	}
	for piece, err := s.first, s.firstErr; ; piece, err = s.coming.next(&s.link, s.p.opts.Timeouts.Idle) {
		if err != nil && !errors.Is(err, io.EOF) {
			s.broke(w, err)
			return n, err
		}
		if len(piece) > 0 {
			if s.pins {
				s.pins = false
				pinAnswer(&s.lease, piece)
			}
			if s.sse && s.leased && s.events.Feed(piece) {
				s.release(s.final) // the worker is through, whatever else its body holds
			}
			if err := s.write(w, piece); err != nil {
				s.cause = actors.ClientGone
				return n, err
			}
			n += int64(len(piece))
		}
		if err != nil {
			s.cause = s.final
			s.release(s.final)
			return n, nil
		}
	}
}

// write sends a piece to the client, at most for as long as a client may take.
func (s *stream) write(w io.Writer, piece []byte) error {
	if stall := s.p.opts.Timeouts.ClientWrite; stall > 0 {
		if now := time.Now(); s.writeBy.Sub(now) < stall/2 {
			s.writeBy = now.Add(stall)
			if err := s.client.SetWriteDeadline(s.writeBy); err != nil {
				return err
			}
			// The watcher's own deadline may have been there before.
			if s.guard.Left() {
				return errClientGone
			}
		}
	}
	n, err := w.Write(piece)
	s.record.bytes += int64(n)
	return err
}

// broke notes why the worker's body ended early, and tells a client that reads
// events. That its body ends uncleanly tells any other. Behind the end mark there
// is nothing to tell: the client has its answer.
func (s *stream) broke(w io.Writer, err error) {
	s.cause = causeOf(err, true)
	if s.sse && !s.leased {
		s.cause = s.final
		return
	}
	if s.cause == actors.ClientGone || !s.sse || s.fixed {
		return
	}
	var event bytes.Buffer
	event.WriteString(s.events.Closing())
	event.WriteString("data: ")
	event.Write((&failure{s.cause, err}).problem().body())
	event.WriteString("\n\n")
	_ = s.write(w, event.Bytes()) // the stream has failed already
}

// release ends the lease, once.
func (s *stream) release(c actors.Cause) {
	if s.leased {
		s.leased = false
		s.lease.Release(c, s.p.now())
	}
}

// CloseWithError ends the request. fasthttp calls it once: when the answer is
// written, or can't be.
func (s *stream) CloseWithError(err error) error {
	if s.cause == actors.Aborted && err != nil {
		s.cause = actors.ClientGone // before WriteTo was reached
	}
	whole := s.cause == s.final
	if whole {
		s.coming.free(&s.link)
	}
	if s.settle(s.pool, whole && s.keepAlive) && !whole {
		s.cause = actors.ClientGone
	}
	s.release(s.cause)
	s.record.cause = s.cause
	p := s.p
	p.finished(&s.record)
	p.guards.Put(s.guard)
	*s = stream{}
	p.streams.Put(s)
	return nil
}

// relayPlain relays the body to a client of HTTP/1.0, which knows no chunks: the
// end of the connection is the end of the body, and a reset that of a broken
// one. It does so before the handler returns, and has fasthttp close.
func (s *stream) relayPlain(ctx *fasthttp.RequestCtx, head []byte) {
	client := s.client
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	_, err := client.Write(head)
	if err == nil {
		_, err = s.WriteTo(client)
	}
	if err != nil {
		resetOnClose(client)
	}
	_ = s.CloseWithError(err)
}

// resetOnClose has the close of a connection look like the failure it is.
func resetOnClose(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}
