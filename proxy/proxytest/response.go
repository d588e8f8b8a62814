package proxytest

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A Response is an answer as it came.
type Response struct {
	StatusLine string // without its line end
	Proto      string
	Status     int
	Headers    []Header
	RawHead    []byte      // up to and with the empty line
	Interim    []*Response // heads of 1xx answers that came before

	Body     []byte // without chunk framing; what came, if the answer was cut
	RawBody  []byte // as on the wire, with chunk framing and trailers
	Chunked  bool
	Chunks   []int // sizes of the chunks, the first 1,048,576
	Trailers []Header
	Clean    bool // the answer ended as its head promised

	FirstAt time.Time // arrival of the first byte
	HeadAt  time.Time // arrival of the head's last byte
	EndAt   time.Time // arrival of the last byte, or of the end of the connection
}

// Get returns the first value of a header, in any case, or "".
func (r *Response) Get(name string) string { return headerValue(r.Headers, name) }

// Values returns all values of a header, in any case.
func (r *Response) Values(name string) []string { return headerValues(r.Headers, name) }

// reading is an answer that is being read.
type reading struct {
	resp   *Response
	p      *parser
	method string
	err    error // why nothing more will come of it
	events splitter
}

func (r *reading) headDone() bool { return r.p.phase != inHead }

// fill copies what the parser knows into the response.
func (r *reading) fill() *Response {
	p, resp := r.p, r.resp
	resp.StatusLine, resp.Proto, resp.Status = p.startLine, p.proto, p.status
	resp.Headers, resp.RawHead, resp.Trailers = p.headers, p.head, p.trailers
	resp.Body, resp.RawBody, resp.Chunks = p.body, p.body, p.chunks
	if resp.Chunked = p.framing == byChunks; resp.Chunked {
		resp.RawBody = p.wire
	}
	return resp
}

// ReadHead reads up to the end of the next answer's head, the 1xx heads before
// it included. After an error it returns what had come, or nil.
func (c *Client) ReadHead(timeout time.Duration) (*Response, error) {
	deadline := time.Now().Add(timeout)
	r := c.current("")
	for !r.headDone() {
		if err := c.advance(r, deadline); err != nil {
			return c.partial(r, err)
		}
	}
	return r.fill(), nil
}

// ReadResponse reads the next answer, or the rest of the one that ReadHead or
// ReadEvent has begun. If the answer does not end as its head promised, or not
// in time, what had come is returned beside the error, nil if nothing had; an
// answer that was late can be read on.
func (c *Client) ReadResponse(timeout time.Duration) (*Response, error) {
	return c.ReadResponseTo("", timeout)
}

// ReadResponseTo is ReadResponse for the answer to a method that only Send knows
// of: HEAD, whose answer has no body.
func (c *Client) ReadResponseTo(method string, timeout time.Duration) (*Response, error) {
	deadline := time.Now().Add(timeout)
	r := c.current(method)
	for r.p.phase != finished {
		if err := c.advance(r, deadline); err != nil {
			return c.partial(r, err)
		}
	}
	c.answer = nil
	return r.fill(), r.err
}

// partial is what there is of an answer that does not go on.
func (c *Client) partial(r *reading, err error) (*Response, error) {
	if !errors.Is(err, ErrTimeout) {
		c.answer = nil
	}
	if r.resp.FirstAt.IsZero() {
		return nil, err
	}
	return r.fill(), err
}

// current is the answer being read, begun if need be. An empty method is that
// of the oldest request not yet answered.
func (c *Client) current(method string) *reading {
	if c.answer == nil {
		if method == "" {
			select {
			case method = <-c.asked:
			default:
			}
		}
		c.answer = &reading{resp: &Response{}, method: method, p: &parser{answer: true, answerTo: method, keep: true}}
	}
	return c.answer
}

// advance uses the next piece. An error is final for the answer, but for
// ErrTimeout.
func (c *Client) advance(r *reading, deadline time.Time) error {
	if r.err != nil {
		return r.err
	}
	if len(c.rest.data) == 0 {
		p, err := c.in.take(deadline)
		if err != nil {
			return c.stopped(r, err)
		}
		c.rest = p
	}
	if r.resp.FirstAt.IsZero() {
		r.resp.FirstAt = c.rest.at
	}
	inHead := !r.headDone()
	n, err := r.p.feed(c.rest.data)
	c.rest.data = c.rest.data[n:]
	if err != nil {
		r.err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return r.err
	}
	if inHead && r.headDone() {
		r.resp.HeadAt = c.rest.at
		if r.p.interim() {
			r.resp.Interim = append(r.resp.Interim, (&reading{resp: &Response{
				FirstAt: r.resp.FirstAt, HeadAt: c.rest.at, EndAt: c.rest.at, Clean: true,
			}, p: r.p}).fill())
			r.p = &parser{answer: true, answerTo: r.method, keep: true}
			r.resp.HeadAt = time.Time{}
		}
	}
	if r.p.phase == finished {
		r.resp.Clean, r.resp.EndAt = true, c.rest.at
	}
	return nil
}

// stopped says what the end of the connection, or of the time, means for an
// answer.
func (c *Client) stopped(r *reading, err error) error {
	if errors.Is(err, ErrTimeout) {
		return err
	}
	r.resp.EndAt = c.link.peerLeftAt()
	if errors.Is(err, io.EOF) && r.p.phase == inBody && r.p.framing == byClose {
		r.p.phase, r.resp.Clean = finished, true
		return nil
	}
	what := ErrTruncated
	if r.resp.FirstAt.IsZero() {
		what = ErrNoAnswer
	}
	r.err = what
	if !errors.Is(err, io.EOF) {
		r.err = fmt.Errorf("%w: %w", what, err)
	}
	return r.err
}
