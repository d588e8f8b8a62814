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
	broken  error // how the framing is wrong, behind the piece handed out last
}

// next returns the next piece, which is valid until the call that follows. It
// comes with io.EOF when it is the last. patience bounds the wait. Errors: those
// of link.more, upstream.ErrChunk, io.ErrUnexpectedEOF.
func (b *bodyReader) next(l *link, patience time.Duration) ([]byte, error) {
	for {
		piece, err := b.buffered(l)
		if len(piece) > 0 || err != nil {
			return piece, err
		}
		if err := l.more(patience); err != nil {
			if errors.Is(err, io.EOF) {
				if b.left == httphead.UntilClose {
					b.ended = true
					return nil, io.EOF
				}
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// buffered is next without waiting: when nothing of the body is there, it
// returns neither a piece nor an error.
func (b *bodyReader) buffered(l *link) ([]byte, error) {
	b.free(l)
	switch {
	case b.broken != nil:
		return nil, b.broken
	case b.ended:
		return nil, io.EOF
	}
	br := l.conn.Reader()
	view, _ := br.Peek(br.Buffered())
	switch b.left {
	case httphead.Chunked:
		data, used, done, err := b.chunks.Decode(view)
		b.pending, b.ended, b.broken = used, done, err
		switch {
		case done:
			return data, io.EOF
		case len(data) > 0:
			return data, nil
		case err != nil:
			return nil, err
		}
		b.free(l)
		return nil, nil
	case httphead.UntilClose:
		b.pending = len(view)
		return view, nil
	}
	if int64(len(view)) >= b.left {
		view, b.ended = view[:b.left], true
	}
	b.left -= int64(len(view))
	b.pending = len(view)
	if b.ended {
		return view, io.EOF
	}
	return view, nil
}

// free lets go of the piece handed out last.
func (b *bodyReader) free(l *link) {
	l.conn.Reader().Discard(b.pending)
	b.pending = 0
}
