package load

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

const (
	bufferBytes = 16 << 10 // of one connection; the longest head of an answer
	maxGaps     = 1 << 16  // gaps between events that are kept of one answer
)

var (
	errMalformed = errors.New("the answer is not HTTP/1.1")
	errCut       = errors.New("the answer ends before it is whole")
)

// answer is what came back for one request.
type answer struct {
	status  int
	first   time.Time // first event of a stream, or first byte of another body
	end     time.Time
	bytes   int64 // of the body
	events  int   // without the end mark
	gaps    []time.Duration
	done    bool // the end mark came
	closing bool // the connection can't be used again
	begun   bool // a byte of the answer came
	tail    tail // of the body
}

// reset forgets an answer, whose memory the next one uses again.
func (a *answer) reset() {
	*a = answer{gaps: a.gaps[:0], tail: tail{keep: a.tail.keep, text: a.tail.text[:0]}}
}

// begins is when the first token came; an empty body begins with its end.
func (a *answer) begins() time.Time {
	if a.first.IsZero() {
		return a.end
	}
	return a.first
}

// wire reads answers from a connection.
type wire struct {
	from  io.Reader
	buf   [bufferBytes]byte
	r, w  int
	stamp time.Time // of the last read
}

// fill reads more behind what is there.
func (x *wire) fill() error {
	if x.r > 0 {
		x.w = copy(x.buf[:], x.buf[x.r:x.w])
		x.r = 0
	}
	if x.w == len(x.buf) {
		return errMalformed
	}
	n, err := x.from.Read(x.buf[x.w:])
	x.stamp = time.Now()
	x.w += n
	if n > 0 {
		return nil
	}
	return err
}

// read reads an answer whole into a, whose gaps and tail it uses again.
func (x *wire) read(a *answer) error {
	a.reset()
	var h head
	for {
		text, err := x.head(a)
		if err != nil {
			return err
		}
		if h, err = parseHead(text); err != nil {
			return err
		}
		if h.status >= 200 { // others announce an answer
			break
		}
	}
	a.status, a.closing = h.status, h.closing
	s := scanner{answer: a, stream: h.stream}
	err := x.body(h, &s)
	a.end = x.stamp
	if errors.Is(err, io.EOF) {
		err = errCut
	}
	if err == nil && h.stream && h.status < 300 && !a.done {
		err = errCut
	}
	if err != nil {
		a.closing = true
	}
	return err
}

// head takes a head with its empty line from the buffer. The result is good until
// the next read.
func (x *wire) head(a *answer) ([]byte, error) {
	for {
		if i := bytes.Index(x.buf[x.r:x.w], []byte("\r\n\r\n")); i >= 0 {
			text := x.buf[x.r : x.r+i+4]
			x.r += i + 4
			return text, nil
		}
		if err := x.fill(); err != nil {
			return nil, err
		}
		a.begun = true
	}
}

func (x *wire) body(h head, s *scanner) error {
	switch {
	case h.status == 204 || h.status == 304:
		return nil
	case h.chunked:
		return x.chunks(s)
	case h.length >= 0:
		return x.take(h.length, s)
	}
	s.closing = true
	for {
		s.scan(x.buf[x.r:x.w], x.stamp)
		x.r = x.w
		if err := x.fill(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// take scans n bytes.
func (x *wire) take(n int64, s *scanner) error {
	for n > 0 {
		if x.r == x.w {
			if err := x.fill(); err != nil {
				return err
			}
		}
		part := x.buf[x.r:min(int64(x.w), int64(x.r)+n)]
		s.scan(part, x.stamp)
		x.r += len(part)
		n -= int64(len(part))
	}
	return nil
}

// chunks scans a chunked body.
func (x *wire) chunks(s *scanner) error {
	for {
		line, err := x.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 62)
		if err != nil {
			return errMalformed
		}
		if n == 0 {
			break
		}
		if err := x.take(int64(n), s); err != nil {
			return err
		}
		if line, err := x.line(); err != nil || len(line) > 0 {
			return errors.Join(errMalformed, err)
		}
	}
	for { // trailers
		if line, err := x.line(); err != nil || len(line) == 0 {
			return err
		}
	}
}

// line takes a line from the buffer, which is returned without its end.
func (x *wire) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(x.buf[x.r:x.w], '\n'); i >= 0 {
			line := x.buf[x.r : x.r+i]
			x.r += i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if err := x.fill(); err != nil {
			return nil, err
		}
	}
}
