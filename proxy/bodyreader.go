package proxy

import (
	"errors"
	"io"
	"time"

	"loadstar/proxy/httphead"
	"loadstar/proxy/upstream"
)

// bodyReader takes the body of an answer from a link, piece by piece, without
// copying it.
type bodyReader struct {
	left    int64 // bytes still to come, httphead.Chunked or httphead.UntilClose
	chunks  upstream.Dechunker
	pending int // bytes at the front of the connection's buffer that were handed out
	ended   bool
}

// next returns the next piece, which is valid until the call that follows. It
// comes with io.EOF when it is the last. patience bounds the wait. Errors: those
// of link.more, upstream.ErrChunk, io.ErrUnexpectedEOF.
func (b *bodyReader) next(l *link, patience time.Duration) ([]byte, error) {
	br := l.conn.Reader()
	b.free(l)
	for !b.ended {
		view, _ := br.Peek(br.Buffered())
		switch b.left {
		case httphead.Chunked:
			data, used, done, err := b.chunks.Decode(view)
			b.pending, b.ended = used, done
			switch {
			case err != nil:
				return nil, err
			case done:
				return data, io.EOF
			case len(data) > 0:
				return data, nil
			}
			b.free(l)
		case httphead.UntilClose:
			if len(view) > 0 {
				b.pending = len(view)
				return view, nil
			}
		default:
			if int64(len(view)) >= b.left {
				view, b.ended = view[:b.left], true
			}
			b.left -= int64(len(view))
			b.pending = len(view)
			switch {
			case b.ended:
				return view, io.EOF
			case len(view) > 0:
				return view, nil
			}
		}
		if err := l.more(patience); err != nil {
			if errors.Is(err, io.EOF) {
				if b.left == httphead.UntilClose {
					b.ended = true
					break
				}
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return nil, io.EOF
}

// free lets go of the piece handed out last.
func (b *bodyReader) free(l *link) {
	l.conn.Reader().Discard(b.pending)
	b.pending = 0
}
