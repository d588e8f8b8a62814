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
	"loadstar/proxy/usage"

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
	fault actors.Cause // of the prefill, where that has ended it; else zero

	begun     bool   // WriteTo was called
	first     []byte // of the body, taken already
	firstErr  error  // that came with it
	coming    bodyReader
	events    sse.Scanner
	keepAlive bool // of the connection to the worker
	sse       bool
	fixed     bool // the client was told the length
	pins      bool // the answer's first piece names a response that its worker stores
	pardoned  bool // another worker has answered in the same way
	tells     bool // that its first event has come
	learns    bool // from usage
	counts    bool // tokens, for the trace
	usage     usage.Scanner
	admission actors.Admission
	rewriting *rewriter
	run       *prefillRun   // that still runs, or has ended and not been joined
	toldAt    time.Time     // when its progress was told last
	beat      time.Duration // of heartbeats; 0 for none
	failover  failover
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
	s.begun = true
	if s.fixed {
		w = s.client
	}
	for piece, err := s.first, s.firstErr; ; piece, err = s.next(w) {
		if s.failover.follows {
			piece, err = s.follow(w, piece, err)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			s.broke(w, err)
			return n, err
		}
		if len(piece) > 0 {
			if n == 0 {
				s.record.firstPiece()
			}
			if s.pins {
				s.pins = false
				pinAnswer(&s.lease, piece)
			}
			if s.sse && s.record.first == 0 {
				s.p.began(&s.record, &s.lease)
			}
			if s.tells && s.leased {
				s.tells = false
				s.toldAt = time.Now() // for it is progress, too
				s.lease.FirstByte(s.p.at(s.toldAt))
			}
			s.progress()
			if s.sse && s.record.trace != nil {
				s.record.trace.FirstToken()
			}
			if (s.learns || s.counts) && s.leased {
				s.usage.Feed(piece)
			}
			if s.sse && s.leased {
				done := s.events.Feed(piece)
				s.noteFailure()
				if done {
					s.release(s.final) // the worker is through, whatever else its body holds
				}
			}
			if s.rewriting != nil {
				piece = s.rewriting.rewrite(piece)
			}
			if err := s.write(w, piece); err != nil {
				s.cause = actors.ClientGone
				return n, err
			}
			n += int64(len(piece))
			if s.rewriting != nil && s.rewriting.waiting() {
				rest, failed := s.rewriting.rest()
				if failed != nil && s.leased {
					s.broke(w, failed)
					return n, failed
				}
				if failed != nil {
					rest = s.held() // the end mark has come: the answer is whole
				}
				if err := s.write(w, rest); err != nil {
					s.cause = actors.ClientGone
					return n, err
				}
				n += int64(len(rest))
			}
		}
		if err != nil {
			if held := s.held(); len(held) > 0 {
				if err := s.write(w, held); err != nil {
					s.cause = actors.ClientGone
					return n, err
				}
				n += int64(len(held))
			}
			s.cause = s.final
			s.release(s.final)
			return n, nil
		}
	}
}

// held is what rewriting has held back of an answer that has ended.
func (s *stream) held() []byte {
	if s.rewriting == nil {
		return nil
	}
	return s.rewriting.close()
}

// progressEvery is how often a stream tells that its worker sends on.
const progressEvery = time.Second

func (s *stream) progress() {
	if !s.leased || !s.p.router.NeedsProgress() {
		return
	}
	if now := time.Now(); now.Sub(s.toldAt) >= progressEvery {
		s.toldAt = now
		s.lease.Progress(s.p.now())
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
	if len(piece) == 0 {
		return nil // an empty chunk would be the last
	}
	n, err := w.Write(piece)
	s.record.bytes += int64(n)
	return err
}

// problem is what the client is told when the worker's body has ended with err. A
// prefill beside it that has failed has ended it, and is to blame.
func (s *stream) problem(err error) *problem {
	f := &failure{cause: s.cause, err: err}
	if s.record.prefill != "" {
		f.phase = actors.Decode.String()
	}
	if s.run == nil {
		return f.problem()
	}
	select {
	case <-s.run.over:
	default:
		return f.problem()
	}
	if s.run.err == nil {
		return f.problem()
	}
	s.cause, s.fault = actors.Aborted, causeOfPrefill(s.run.err)
	var r *refusal
	if errors.As(s.run.err, &r) {
		return workerProblem(actors.Prefill, r.status, r.retryAfter, r.body)
	}
	f.cause, f.phase = s.fault, actors.Prefill.String()
	return f.problem()
}

// broke notes why the worker's body ended early, and tells a client that reads
// events. That its body ends uncleanly tells any other. Behind the end mark there
// is nothing to tell: the client has its answer.
func (s *stream) broke(w io.Writer, err error) {
	s.cause = causeOf(err, true)
	told := s.problem(err)
	if errors.Is(err, errTold) {
		s.cause = actors.StreamFailed
		return
	}
	if s.sse && !s.leased && !s.failover.adrift {
		s.cause = s.final
		return
	}
	if s.cause == actors.ClientGone || !s.sse || s.fixed {
		return
	}
	var event bytes.Buffer
	event.Write(s.held())
	event.WriteString(s.events.Closing())
	event.WriteString("data: ")
	event.Write(told.body())
	event.WriteString("\n\n")
	_ = s.write(w, event.Bytes()) // the stream has failed already
}

// release ends the lease, once.
func (s *stream) release(c actors.Cause) {
	if s.leased {
		s.leased = false
		if s.learns && c == actors.Completed {
			u := s.usage.Usage()
			s.p.learnt(&s.lease, u)
			s.record.told(u)
		}
		if s.record.trace != nil {
			s.traceRelease(c)
		}
		if s.pardoned && blames(c) {
			s.lease.ReleaseUnjudged(c, s.p.now())
		} else {
			s.lease.Release(c, s.p.now())
		}
	}
}

// CloseWithError ends the request. fasthttp calls it once: when the answer is
// written, or can't be.
func (s *stream) CloseWithError(err error) error {
	defer func() {
		if r := recover(); r != nil { // the stream itself is not used again
			s.p.panicked(s.record.class.String(), r)
			s.release(actors.Aborted)
		}
	}()
	if s.cause == actors.Aborted && err != nil && !s.begun {
		s.cause = actors.ClientGone // else it has panicked
	}
	whole := s.cause == s.final
	if whole {
		s.coming.free(&s.link)
		if !s.coming.ended {
			// The end mark has come, and the end of the body has not: what is left of
			// it must not be taken for the answer to another request.
			s.drop()
		}
	}
	if s.run != nil {
		s.run.end()
	}
	if s.cause == actors.ClientGone {
		s.drop() // it may be the write that has told, and the watcher not yet
	}
	if s.settle(s.pool, whole && s.keepAlive) && !whole {
		s.cause = actors.ClientGone
	}
	s.release(s.cause)
	if s.record.cause = s.cause; s.fault != 0 {
		s.record.cause = s.fault
	}
	p := s.p
	s.admission.Release(p.now())
	p.finished(&s.record)
	p.guards.Put(s.guard)
	s.endFailover()
	*s = stream{}
	p.streams.Put(s)
	return nil
}

// relayPlain relays the body to a client of HTTP/1.0, which knows no chunks: the
// end of the connection is the end of the body, and a reset that of a broken
// one. It does so before the handler returns, and has fasthttp close.
func (s *stream) relayPlain(ctx *fasthttp.RequestCtx, head []byte) {
	client, err := s.client, errors.New("the router panicked")
	s.begun = true
	defer func() {
		if err != nil {
			resetOnClose(client)
		}
		_ = s.CloseWithError(err)
	}()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	if _, err = client.Write(head); err != nil {
		s.cause = actors.ClientGone
		return
	}
	_, err = s.WriteTo(client)
}

// resetOnClose has the close of a connection look like the failure it is.
func resetOnClose(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if t, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0)
	}
}
