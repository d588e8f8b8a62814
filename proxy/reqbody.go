package proxy

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// keptBody is the largest body buffer that stays with its exchange: a few big
// uploads must not stay in memory.
const keptBody = 64 << 10

// bodyPool holds unused buffers of bodyUnit, as *[]byte. Larger ones are not kept:
// what lies here is beyond any budget.
var bodyPool sync.Pool

// largerBody is the capacity that a body buffer of size bytes grows to, at most
// limit: at once to what one unit of bodyMemory covers, then to twice what has
// arrived.
func largerBody(size, limit int) int {
	larger := 2 * size
	switch {
	case size < keptBody:
		larger = keptBody
	case size < bodyUnit:
		larger = bodyUnit
	}
	return min(larger, limit)
}

// bodyBuffer returns an empty buffer of size bytes.
func bodyBuffer(size int) []byte {
	if size == bodyUnit {
		if b, ok := bodyPool.Get().(*[]byte); ok {
			return *b
		}
	}
	return make([]byte, 0, size)
}

// reuseBody has a buffer used again that nobody refers to any more. It returns what
// the exchange keeps of it.
func reuseBody(b []byte) []byte {
	if cap(b) <= keptBody {
		return b[:0]
	}
	if cap(b) == bodyUnit {
		unused := b[:0]
		bodyPool.Put(&unused)
	}
	return nil
}

// firstBody is what is set aside for a body of unknown or large size; it grows
// as bytes come, never by what a client merely announces.
const firstBody = 32 << 10

// prefetched is how much of a body fasthttp reads before it calls the handler.
const prefetched = 8 << 10

var (
	errTooLarge = errors.New("the body is larger than allowed")
	errNoRoom   = errors.New("no memory is left for the body")
)

// readBody appends a request's body to dst, at most limit bytes of it. silence
// bounds the wait for each piece. What memory it takes is covered by share, unless
// that is nil. Errors: errTooLarge, errNoRoom, those of the connection.
func readBody(dst []byte, r *fasthttp.Request, conn net.Conn, limit int, silence time.Duration, share *bodyShare) ([]byte, error) {
	stream := r.BodyStream()
	length := r.Header.ContentLength()
	if stream == nil || length == 0 {
		return dst, nil
	}
	if length > limit {
		return dst, errTooLarge
	}
	first := firstBody
	if length > 0 {
		first = min(first, length+1) // one more, so that the end is met without growing
	}
	dst = slices.Grow(dst, first)
	// What the server has read ahead needs no deadline.
	timed := silence > 0 && (length < 0 || length > prefetched)
	for {
		if len(dst) == cap(dst) {
			size := largerBody(len(dst), limit+1)
			if !share.cover(size) {
				return dst, errNoRoom
			}
			larger := append(bodyBuffer(size), dst...)
			reuseBody(dst)
			dst = larger
		}
		if timed {
			if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
				return dst, err
			}
		}
		n, err := stream.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, errTooLarge
		case errors.Is(err, io.EOF):
			if length > 0 && len(dst) < length {
				return dst, io.ErrUnexpectedEOF
			}
			if timed {
				return dst, conn.SetReadDeadline(time.Time{})
			}
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// lingering is the answer to a request whose body was refused half-way. It
// reads on for a while after it was sent: to close with bytes unread would
// reset the connection, and the client would never see the answer.
type lingering struct {
	answer []byte
	client net.Conn
	unread io.Reader
}

// Bounds of lingering.
const (
	lingerBytes = 256 << 20
	lingerTime  = 5 * time.Second
)

func answerLingering(ctx *fasthttp.RequestCtx, e *problem) {
	answerProblem(ctx, e)
	body := e.body()
	ctx.SetConnectionClose()
	if unread := ctx.RequestBodyStream(); unread != nil {
		ctx.Response.SetBodyStream(&lingering{answer: body, client: ctx.Conn(), unread: unread}, len(body))
		ctx.Response.ImmediateHeaderFlush = true
	}
}

// SupportsBodyWriteTo has fasthttp use WriteTo.
func (*lingering) SupportsBodyWriteTo() bool { return true }

// WriteTo sends the answer past fasthttp's buffer, which would keep it until
// the body is read, and then reads on.
func (l *lingering) WriteTo(io.Writer) (int64, error) {
	n, err := l.client.Write(l.answer)
	if err == nil && l.client.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		// Whatever ends this, the connection is closed next.
		_, _ = io.CopyN(io.Discard, l.unread, lingerBytes)
	}
	return int64(n), err
}

// Read is there for the interface; fasthttp uses WriteTo.
func (*lingering) Read([]byte) (int, error) { return 0, io.EOF }
