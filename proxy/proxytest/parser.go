package proxytest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxHead = 1 << 20   // bytes of a head, and of a trailer section
	maxBody = 256 << 20 // bytes of a body that is kept
	maxWire = 512 << 20 // bytes of a chunked body as on the wire that are kept

	maxChunks = 1 << 20 // chunk sizes that are kept; later ones are not
)

type phase uint8

const (
	inHead phase = iota
	inBody
	inChunkSize
	inChunkData
	inChunkEnd
	inTrailers
	finished
)

type framing uint8

const (
	noBody framing = iota
	byLength
	byChunks
	byClose // the body ends when the connection does
)

// A parser takes the bytes of one message as they come and knows where it ends.
// It serves requests, answers as a client reads them, and answers as a worker
// writes them.
type parser struct {
	answer   bool   // an answer, not a request
	answerTo string // method of the request it answers; HEAD has no body
	keep     bool   // keep head and body, not just count them

	phase phase
	line  []byte // the line being gathered, with its line end
	size  int    // bytes of the head so far, then of the trailers
	left  int64  // bytes still to come of the body or the chunk

	head      []byte // as on the wire, with the empty line
	startLine string
	method    string
	target    string
	proto     string
	status    int
	headers   []Header
	framing   framing

	body     []byte // without chunk framing
	wire     []byte // a chunked body as on the wire; otherwise empty
	chunks   []int  // sizes of the chunks, without the last, empty one
	trailers []Header
}

// feed takes bytes from b and returns how many. It stops behind the head, so
// that the caller can look at it, and behind the message; otherwise it takes
// all. An error says that b is not HTTP/1.x; the parser is of no use then.
func (p *parser) feed(b []byte) (int, error) {
	n := 0
	for n < len(b) && p.phase != finished {
		before := p.phase
		m, err := p.step(b[n:])
		if before >= inChunkSize && p.keep {
			if len(p.wire)+m > maxWire {
				return n, fmt.Errorf("chunked body exceeds %d bytes on the wire", maxWire)
			}
			p.wire = append(p.wire, b[n:n+m]...)
		}
		n += m
		if err != nil {
			return n, err
		}
		if before == inHead && p.phase != inHead {
			break
		}
	}
	return n, nil
}

func (p *parser) step(b []byte) (int, error) {
	switch p.phase {
	case inHead:
		return p.stepLine(b, p.headLine)
	case inChunkSize:
		return p.stepLine(b, p.chunkSize)
	case inTrailers:
		return p.stepLine(b, p.trailerLine)
	case inChunkEnd:
		return p.stepLine(b, func(line string) error {
			if line != "" {
				return fmt.Errorf("chunk is longer than its size: %.40q follows", line)
			}
			p.phase = inChunkSize
			return nil
		})
	default:
		return p.stepData(b)
	}
}

// stepLine gathers a line and hands it on, without its line end, once whole.
func (p *parser) stepLine(b []byte, take func(line string) error) (int, error) {
	n := bytes.IndexByte(b, '\n') + 1
	whole := n > 0
	if !whole {
		n = len(b)
	}
	p.size += n
	if p.size > maxHead {
		return 0, fmt.Errorf("head, chunk size or trailers exceed %d bytes", maxHead)
	}
	p.line = append(p.line, b[:n]...)
	if p.keep && p.phase == inHead {
		p.head = append(p.head, b[:n]...)
	}
	if !whole {
		return n, nil
	}
	if len(p.line) < 2 || p.line[len(p.line)-2] != '\r' {
		return n, fmt.Errorf("line %.60q ends in a bare line feed", p.line)
	}
	line := string(p.line[:len(p.line)-2])
	p.line = p.line[:0]
	return n, take(line)
}

func (p *parser) stepData(b []byte) (int, error) {
	n := len(b)
	if p.framing != byClose {
		n = int(min(int64(n), p.left))
		p.left -= int64(n)
	}
	if p.keep {
		if len(p.body)+n > maxBody {
			return 0, fmt.Errorf("body exceeds %d bytes", maxBody)
		}
		p.body = append(p.body, b[:n]...)
	}
	if p.framing == byClose || p.left > 0 {
		return n, nil
	}
	if p.phase == inChunkData {
		p.phase, p.size = inChunkEnd, 0
	} else {
		p.phase = finished
	}
	return n, nil
}

func (p *parser) headLine(line string) (err error) {
	switch {
	case p.startLine == "" && p.answer:
		p.startLine = line
		p.proto, p.status, err = parseStatusLine(line)
		return err
	case p.startLine == "":
		p.startLine = line
		p.method, p.target, p.proto, err = parseRequestLine(line)
		return err
	case line == "":
		return p.headDone()
	}
	h, err := parseHeader(line)
	p.headers = append(p.headers, h)
	return err
}

// headDone finds out how the body is framed.
func (p *parser) headDone() error {
	lengths := headerValues(p.headers, "Content-Length")
	codings := headerValues(p.headers, "Transfer-Encoding")
	switch {
	case len(lengths) > 1:
		return fmt.Errorf("%d Content-Length headers", len(lengths))
	case len(codings) > 1:
		return fmt.Errorf("%d Transfer-Encoding headers", len(codings))
	case len(lengths) == 1 && len(codings) == 1:
		return errors.New("both Content-Length and Transfer-Encoding")
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return fmt.Errorf("transfer coding %q; only chunked is known", codings[0])
	case len(codings) == 1 && p.proto == "HTTP/1.0":
		return errors.New("chunked in a message of HTTP/1.0")
	case !p.answer && p.proto == "HTTP/1.1" && len(headerValues(p.headers, "Host")) != 1:
		return fmt.Errorf("%d Host headers; HTTP/1.1 wants one", len(headerValues(p.headers, "Host")))
	}
	if len(lengths) == 1 {
		n, err := strconv.ParseUint(lengths[0], 10, 62)
		if err != nil {
			return fmt.Errorf("Content-Length %q is not a number of bytes", lengths[0])
		}
		p.left = int64(n)
	}
	switch {
	case p.answer && (p.answerTo == "HEAD" || p.interim() || p.status == 204 || p.status == 304):
		p.framing, p.left = noBody, 0
	case len(codings) == 1:
		p.framing = byChunks
	case len(lengths) == 1:
		p.framing = byLength
	case p.answer:
		p.framing = byClose
	}
	switch {
	case p.framing == byChunks:
		p.phase, p.size = inChunkSize, 0
	case p.framing == byClose || p.left > 0:
		p.phase = inBody
	default:
		p.phase = finished
	}
	return nil
}

// interim says whether the answer is one that another follows.
func (p *parser) interim() bool { return p.status >= 100 && p.status < 200 && p.status != 101 }

func (p *parser) chunkSize(line string) error {
	digits, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(digits, 16, 62)
	if err != nil {
		return fmt.Errorf("chunk size %.40q is not a hexadecimal number", line)
	}
	p.left, p.size = int64(n), 0
	if n == 0 {
		p.phase = inTrailers
		return nil
	}
	p.phase = inChunkData
	if p.keep && len(p.chunks) < maxChunks {
		p.chunks = append(p.chunks, int(n))
	}
	return nil
}

func (p *parser) trailerLine(line string) error {
	if line == "" {
		p.phase = finished
		return nil
	}
	h, err := parseHeader(line)
	p.trailers = append(p.trailers, h)
	return err
}
