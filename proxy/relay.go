package proxy

import (
	"bufio"
	"errors"
	"io"
	"strconv"

	"github.com/valyala/fasthttp"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
)

func itoa(n int) string { return strconv.Itoa(n) }

func appendStatus(dst []byte, status int) []byte {
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	if status == 499 { // nginx's, which the standard has no words for
		return append(dst, "Client Closed Request"...)
	}
	return append(dst, fasthttp.StatusMessage(status)...)
}

// takeHead turns the head of the worker's answer, the first size bytes of what
// is buffered, into one for the client, in x.clean, and lets go of the bytes.
func (x *exchange) takeHead(size int) {
	a := &x.answer
	c := a.AppendHead(x.clean[:0], "x-request-id")
	c = httphead.AppendLine(c, "x-request-id", x.id)
	x.sse = a.EventStream()
	if x.sse {
		// A proxy in front of this one would gather events otherwise.
		if !a.HasAccelBuffering {
			c = append(c, "X-Accel-Buffering: no\r\n"...)
		}
		if !a.HasCacheControl {
			c = append(c, "Cache-Control: no-cache\r\n"...)
		}
	}
	c = x.appendCORS(c)
	x.coming = bodyReader{left: a.Length}
	if !a.HasBody(x.ctx.IsHead()) {
		x.coming = bodyReader{ended: true}
	}
	switch {
	case a.HasLength:
		c = append(c, "Content-Length: "...)
		c = strconv.AppendInt(c, a.Length, 10)
		c = append(c, "\r\n"...)
	case x.coming.ended:
	case x.ctx.Request.Header.IsHTTP11():
		c = append(c, "Transfer-Encoding: chunked\r\n"...)
	default:
		c = append(c, "Connection: close\r\n"...)
	}
	x.clean = append(c, "\r\n"...)
	x.record.status = a.Status
	x.link.conn.Reader().Discard(size)
}

// cleanSize is the size of the reader that fasthttp parses heads from.
const cleanSize = 4096

// setHead makes x.clean the head of the answer. fasthttp offers no way to set
// headers that keeps their order, their case and the worker's Date, so it is
// given bytes to parse.
func (x *exchange) setHead() {
	x.cleanIn.Reset(x.clean)
	br := x.cleanBr
	switch {
	case len(x.clean) > cleanSize:
		br = bufio.NewReaderSize(&x.cleanIn, len(x.clean))
	case br == nil:
		br = bufio.NewReaderSize(&x.cleanIn, cleanSize)
		x.cleanBr = br
	default:
		br.Reset(&x.cleanIn)
	}
	h := &x.ctx.Response.Header
	if err := h.Read(br); err != nil {
		panic("a head that was read can't be read again: " + err.Error())
	}
	h.ResetConnectionClose()
	if x.p.stopping() {
		h.SetConnectionClose()
	}
}

// relay sends the worker's answer to the client, or leaves that to a stream. It
// reports whether the connection to the worker may carry another request. A
// *failure says that nothing was sent yet and why.
func (x *exchange) relay(pool *upstream.Pool, lease *actors.Lease) (reuse bool, err error) {
	ctx, b := x.ctx, &x.coming
	ctx.Response.ResetBody() // of an error that was kept
	x.kept = false
	if b.ended {
		x.setHead()
		return x.answer.KeepAlive, nil
	}
	if whole, err := x.gather(); err != nil {
		return false, &failure{causeOf(err, true), err}
	} else if whole != nil {
		x.pinAnswer(lease, whole)
		x.setHead()
		ctx.Response.SetBody(whole)
		x.record.bytes += int64(len(whole))
		b.free(&x.link)
		return x.answer.KeepAlive, nil
	}
	first, ferr := b.buffered(&x.link)
	if ferr != nil && !errors.Is(ferr, io.EOF) {
		return false, &failure{causeOf(ferr, true), ferr}
	}
	x.setHead()
	s := x.p.streams.Get().(*stream)
	*s = stream{
		p: x.p, link: x.link, pool: pool, lease: *lease, leased: true, record: x.record,
		final: actors.CauseOf(x.answer.Status), cause: actors.Aborted,
		first: first, firstErr: ferr, coming: *b, keepAlive: x.answer.KeepAlive, sse: x.sse, fixed: b.left >= 0, pins: x.stores(),
	}
	x.moved = true
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
		s.relayPlain(ctx, x.clean)
	}
	return false, nil
}

// gather returns the whole body if it fits into the connection's buffer and is
// there, or comes in a moment. It returns nil otherwise, having taken nothing.
func (x *exchange) gather() ([]byte, error) {
	b, br := &x.coming, x.link.conn.Reader()
	if b.left < 0 || b.left > int64(br.Size()) {
		return nil, nil
	}
	for int64(br.Buffered()) < b.left {
		ok, err := x.link.poll()
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
