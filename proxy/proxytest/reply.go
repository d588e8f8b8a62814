package proxytest

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// lastPiece is how many bytes before an answer's end are written under the lock
// of the books, so that the end and the count change as one.
const lastPiece = 4 << 10

// Raw writes s as it is. Like all that write it returns false, and Err says why,
// once the connection takes no more bytes.
func (x *Exchange) Raw(s string) bool { return x.write([]byte(s), false) }

// Head writes a status line and exactly these headers. A status of 1xx but 101
// is an interim answer.
func (x *Exchange) Head(status int, headers ...Header) bool {
	b := appendHeaders(appendStatusLine(nil, status), headers)
	return x.write(append(b, "\r\n"...), false)
}

// Reply writes a whole answer in one write: the headers, a Content-Length unless
// they frame the body or the status has none, and a Connection: close if the
// worker is going to. A HEAD and a status without a body get the head alone.
func (x *Exchange) Reply(status int, body string, headers ...Header) bool {
	bodiless := status == 204 || status == 304
	b := appendHeaders(appendStatusLine(nil, status), headers)
	if !bodiless && !hasHeader(headers, "Content-Length") && !hasHeader(headers, "Transfer-Encoding") {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(body))
	}
	if x.willClose() && !hasHeader(headers, "Connection") {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !bodiless && x.Method != "HEAD" {
		b = append(b, body...)
	}
	return x.write(b, false)
}

// SSEHead writes the head of an event stream: chunked, or up to the end of the
// connection for a client of HTTP/1.0.
func (x *Exchange) SSEHead(headers ...Header) bool {
	hs := []Header{{"Content-Type", "text/event-stream"}}
	if x.Proto != "HTTP/1.0" {
		hs = append(hs, Header{"Transfer-Encoding", "chunked"})
	}
	return x.Head(200, append(hs, headers...)...)
}

// Chunk writes a piece of the body in one write, as a chunk if the head said so.
// An empty piece writes nothing.
func (x *Exchange) Chunk(data string) bool { return x.piece(data, false) }

// Event writes an SSE event with one data line.
func (x *Exchange) Event(data string) bool { return x.piece("data: "+data+"\n\n", false) }

// Done writes the SSE end mark, which ends the request's being in flight. The
// chunked body is still open: EndChunks ends it.
func (x *Exchange) Done() bool { return x.piece("data: [DONE]\n\n", true) }

func (x *Exchange) piece(data string, done bool) bool {
	if data == "" {
		return x.Err() == nil
	}
	if x.inChunks() {
		data = fmt.Sprintf("%x\r\n%s\r\n", len(data), data)
	}
	return x.write([]byte(data), done)
}

// EndChunks writes the last chunk, with trailers. For a body that is not chunked
// it writes nothing.
func (x *Exchange) EndChunks(trailers ...Header) bool {
	if !x.inChunks() {
		return x.Err() == nil
	}
	b := appendHeaders([]byte("0\r\n"), trailers)
	return x.write(append(b, "\r\n"...), false)
}

// KeepAlive decides whether the connection stays open behind the answer, in
// place of what request and answer say: Connection headers and the version. An
// answer with neither length nor chunks is ended by closing all the same.
func (x *Exchange) KeepAlive(keep bool) {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	x.keepAlive = keepDenied
	if keep {
		x.keepAlive = keepForced
	}
}

// CloseWhenIdle closes the connection, unannounced, when it has been idle for
// that long after this request.
func (x *Exchange) CloseWhenIdle(after time.Duration) {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	x.closeIdle = after
}

// CloseFIN closes the connection. Bytes of the peer that nobody has read, such
// as the body at an early script, make the kernel send an RST behind the FIN.
func (x *Exchange) CloseFIN() { x.endAnswer(); x.conn.end(false) }

// Reset ends the connection by an RST; bytes just written may be lost.
func (x *Exchange) Reset() { x.conn.end(true) }

// HalfClose sends a FIN and leaves the other direction open until the script
// returns.
func (x *Exchange) HalfClose() {
	x.endAnswer()
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	x.finishing = true
	x.conn.link.halfClose()
}

// endAnswer takes the request out of flight because the worker ends its
// direction of the connection, which may be how its answer ends.
func (x *Exchange) endAnswer() {
	x.conn.link.writing.Lock()
	_, asPromised := x.verdict()
	x.conn.link.writing.Unlock()
	how := Cut
	if asPromised {
		how = Answered
	}
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	x.conn.w.end(x, how, time.Now())
}

// Err is the first error of a write: ErrReset, or the system's.
func (x *Exchange) Err() error {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	return x.err
}

// inChunks says whether the answer's head, if there is one, promised chunks.
func (x *Exchange) inChunks() bool {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	return !x.lost && x.out.framing == byChunks
}

func (x *Exchange) willClose() bool {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	return !x.keeps(x.Headers, x.Proto)
}

// keeps says whether the connection stays open behind a message with these
// headers. The caller holds link.writing.
func (x *Exchange) keeps(hs []Header, proto string) bool {
	switch {
	case x.keepAlive != keepAsSaid:
		return x.keepAlive == keepForced
	case proto == "HTTP/1.0":
		return hasToken(hs, "Connection", "keep-alive")
	default:
		return !hasToken(hs, "Connection", "close")
	}
}

// final says whether anything of a final answer was written, or that none can
// be. The caller holds link.writing.
func (x *Exchange) final() bool { return x.wrote || x.finishing || x.err != nil }

// verdict says of an exchange whose script has returned whether its connection
// can serve another, and whether the answer was all that its head promised. The
// caller holds link.writing.
func (x *Exchange) verdict() (keep, asPromised bool) {
	switch {
	case x.out.phase == finished:
		keep = x.keeps(x.Headers, x.Proto) && x.keeps(x.out.headers, x.out.proto)
		asPromised = true
	case x.lost:
		keep = x.keepAlive == keepForced
		asPromised = true
	default:
		asPromised = x.out.phase == inBody && x.out.framing == byClose
	}
	return keep && !x.finishing && x.err == nil, asPromised && x.err == nil
}

// sayContinue writes the 100 that the client waits for, unless an early script
// has written or ended something. It runs on the reader's goroutine.
func (x *Exchange) sayContinue() {
	x.conn.link.writing.Lock()
	defer x.conn.link.writing.Unlock()
	if !x.final() && !x.hinted {
		x.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"), false)
	}
}

// write sends b. done says that b ends the request's being in flight although
// not its answer.
func (x *Exchange) write(b []byte, done bool) bool {
	l := x.conn.link
	l.writing.Lock()
	ok := x.err == nil && x.send(b, done)
	broken := !x.finishing && errors.Is(x.err, syscall.EPIPE)
	l.writing.Unlock()
	if broken {
		// The peer has gone and the reader is being told how. Were the script
		// to end before that, it would seem that the worker went first.
		<-l.gone
	}
	return ok
}

// send sends b and keeps the error. The caller holds link.writing.
func (x *Exchange) send(b []byte, done bool) bool {
	l := x.conn.link
	end := x.follow(b)
	if done {
		end = len(b)
	}
	cut := len(b)
	if end >= 0 {
		cut = max(0, end-lastPiece)
	}
	var err error
	if cut > 0 {
		err = l.write(b[:cut])
	}
	if err == nil && cut < len(b) {
		err = x.writeEnd(b[cut:], end-cut)
	}
	x.conn.w.touch()
	if err != nil {
		x.err = fmt.Errorf("cannot write %d bytes of an answer: %w", len(b), err)
	}
	return err == nil
}

// writeEnd writes b and, as one with the write of its first end bytes, takes x
// out of flight.
func (x *Exchange) writeEnd(b []byte, end int) error {
	w := x.conn.w
	return x.conn.link.writeNow(b, &w.mu, func(n int) {
		if end -= n; end <= 0 {
			w.end(x, Answered, time.Now())
		}
	})
}

// follow takes note of b, which is about to be written, and returns how many of
// its bytes belong to the answer if that ends in b; otherwise -1. The caller
// holds link.writing.
func (x *Exchange) follow(b []byte) int {
	if x.lost || x.out.phase == finished {
		return -1
	}
	n := 0
	for n < len(b) {
		m, err := x.out.feed(b[n:])
		n += m
		if err != nil {
			x.lost, x.wrote = true, true
			return -1
		}
		if x.out.phase == finished && x.out.interim() {
			x.hinted, x.wrote = true, false
			x.out = &parser{answer: true, answerTo: x.Method}
			continue
		}
		x.wrote = true
		if x.out.phase == finished {
			return n
		}
	}
	return -1
}
