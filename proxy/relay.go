package proxy

import (
	"errors"
	"io"
	"strconv"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"

	"github.com/valyala/fasthttp"
)

func itoa(n int) string { return strconv.Itoa(n) }

// carrier is the header that brings all others past fasthttp; see setHead.
const carrier = "x-request-id"

// takeHead turns the head of the worker's answer, the first size bytes of what
// is buffered, into header lines for the client, in x.lines, and lets go of the
// bytes.
func (x *exchange) takeHead(size int) {
	a := &x.answer
	h := x.appendLines(x.lines[:0])
	x.sse, x.encoded = a.EventStream(), len(a.Encoding) > 0
	if x.sse {
		// A proxy in front of this one would gather events otherwise.
		if !a.HasAccelBuffering {
			h = append(h, "X-Accel-Buffering: no\r\n"...)
		}
		if !a.HasCacheControl {
			h = append(h, "Cache-Control: no-cache\r\n"...)
		}
	}
	x.reason = append(x.reason[:0], a.Reason...)
	x.coming = bodyReader{left: a.Length}
	if !a.HasBody(x.ctx.IsHead()) {
		x.coming = bodyReader{ended: true}
		// The length of a body that isn't sent; fasthttp writes that of one that is.
		if a.HasLength && (x.ctx.IsHead() || a.Status == fasthttp.StatusNotModified) && a.Status != fasthttp.StatusNoContent {
			h = append(h, "Content-Length: "...)
			h = strconv.AppendInt(h, a.Length, 10)
			h = append(h, "\r\n"...)
		}
	}
	x.lines = h
	x.record.status = a.Status
	x.link.conn.Reader().Discard(size)
}

// setHead makes a status and x.lines the head of the answer.
//
// Where fasthttp has fields for headers it keeps neither their repetitions nor
// the case of their names, and it has its own idea of Date. So it is told of the
// status and of one header, whose value is then written over with the lines of
// all others.
func (x *exchange) setHead(status int, reason []byte) {
	if len(x.id) == 0 {
		x.id = appendRequestID(x.id, x.path)
	}
	x.lines = x.appendCORS(x.appendWorker(x.lines))
	v := append(x.carried[:0], x.id...)
	if n := len(x.lines); n > 0 {
		v = append(v, "\r\n"...)
		v = append(v, x.lines[:n-len("\r\n")]...)
	}
	x.carried = v
	h := &x.ctx.Response.Header
	h.Del(carrier) // of an answer that was kept
	h.SetStatusCode(status)
	if string(reason) == fasthttp.StatusMessage(status) {
		reason = nil // fasthttp has the whole line ready
	}
	h.SetStatusMessage(reason)
	h.AddBytesV(carrier, v) // with blanks for the line ends
	if held := h.Peek(carrier); len(held) != len(v) || copy(held, v) != len(v) {
		panic("fasthttp has changed the length of a header's value")
	}
	if x.p.closing() {
		h.SetConnectionClose()
	}
}

// setWorkerHead makes the head of the worker's answer that of the answer.
func (x *exchange) setWorkerHead() { x.setHead(x.answer.Status, x.reason) }

// relay sends the worker's answer to the client, or leaves that to a stream. It
// reports whether the connection to the worker may carry another request. A
// *failure says that nothing was sent yet and why.
func (x *exchange) relay(pool *upstream.Pool, lease *actors.Lease) (reuse bool, err error) {
	ctx, b := x.ctx, &x.coming
	ctx.Response.ResetBody() // of an error that was kept
	x.kept = false
	if b.ended {
		x.setWorkerHead()
		return x.answer.KeepAlive, nil
	}
	rewrite, err := x.rewriter()
	if err != nil {
		return false, err
	}
	if rewrite != nil && x.split.asked.Merge && !x.sse {
		return x.relayMerged(lease)
	}
	if whole, err := x.gather(); err != nil {
		return false, &failure{cause: causeOf(err, true), err: err}
	} else if whole != nil {
		x.pinAnswer(lease, whole)
		if x.learns(lease) {
			x.record.told(x.p.learn(lease, whole))
		}
		if x.counts() {
			x.record.countTokens(whole)
		}
		if rewrite != nil {
			if whole, err = rewrite.whole(whole); err != nil {
				return false, err
			}
		}
		x.setWorkerHead()
		ctx.Response.SetBody(whole)
		x.record.bytes += int64(len(whole))
		b.free(&x.link)
		return x.answer.KeepAlive, nil
	}
	first, ferr := b.buffered(&x.link)
	if x.split.run != nil && len(first) == 0 && ferr == nil {
		// The prefill may yet fail. Until a token has come that can be answered with
		// its error, or by another attempt.
		first, ferr = b.next(&x.link, x.p.opts.Timeouts.Idle)
	}
	if ferr != nil && !errors.Is(ferr, io.EOF) {
		return false, &failure{cause: causeOf(ferr, true), err: ferr}
	}
	x.setWorkerHead()
	s := x.p.streams.Get().(*stream)
	*s = stream{
		p: x.p, link: x.link, pool: pool, lease: *lease, leased: true, record: x.record,
		final: actors.CauseOf(x.answer.Status), cause: actors.Aborted,
		first: first, firstErr: ferr, coming: *b, keepAlive: x.answer.KeepAlive, sse: x.sse, fixed: b.left >= 0 && rewrite == nil, pins: x.stores(),
		tells: x.sse && x.p.router.NeedsFirstByte(x.query.Served()), learns: x.learns(lease), counts: x.counts(),
		rewriting: rewrite, run: x.split.run, admission: x.query.Admission, beat: x.beatOf(),
		pardoned: blames(actors.CauseOf(x.answer.Status)) && x.pardons(lease),
	}
	x.split.run = nil
	x.charge()
	x.moved = true
	x.lend(s)
	switch {
	case s.fixed:
		// What fasthttp buffers of a body with a length is sent only when the
		// buffer is full, so the stream writes past it.
		ctx.Response.SetBodyStream(s, int(b.left)+len(first))
		ctx.Response.ImmediateHeaderFlush = true
	case ctx.Request.Header.IsHTTP11():
		ctx.Response.SetBodyStream(s, httphead.Chunked)
		ctx.Response.ImmediateHeaderFlush = len(first) == 0 && ferr == nil
	default:
		s.relayPlain(ctx, x.plainHead())
	}
	return false, nil
}

// plainHead is the head of the worker's answer for a client of HTTP/1.0 whose
// body ends with the connection.
func (x *exchange) plainHead() []byte {
	c := append(x.carried[:0], "HTTP/1.1 "...)
	c = strconv.AppendInt(c, int64(x.answer.Status), 10)
	c = append(c, ' ')
	c = append(c, x.reason...)
	c = append(c, "\r\n"...)
	c = httphead.AppendLine(c, carrier, x.id)
	c = append(c, x.lines...)
	x.carried = append(c, "Connection: close\r\n\r\n"...)
	return x.carried
}

// gather returns the whole body if it fits into the connection's buffer and is
// there, or comes in a moment. It returns nil otherwise, having taken nothing. A
// stream of events is not gathered: it has to be read for how it ends.
func (x *exchange) gather() ([]byte, error) {
	b, br := &x.coming, x.link.conn.Reader()
	if x.sse || b.left < 0 || b.left > int64(br.Size()) {
		return nil, nil
	}
	var by time.Time
	for int64(br.Buffered()) < b.left {
		if by.IsZero() {
			by = time.Now().Add(armAfter)
		}
		ok, err := x.link.poll(by)
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case !ok:
			return nil, nil
		}
	}
	whole, err := b.next(&x.link, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return whole, err
}
