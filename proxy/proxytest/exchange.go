package proxytest

import (
	"strings"
	"time"
)

// Outcome is how a request went out of flight.
type Outcome uint8

// The outcomes of a request.
const (
	InFlight  Outcome = iota // not decided yet
	Answered                 // the last byte of its answer, or its SSE end mark, was sent
	Abandoned                // its peer sent a FIN or RST first
	Cut                      // the worker ended the connection first
)

func (o Outcome) String() string {
	return [...]string{"in flight", "answered", "abandoned", "cut"}[o]
}

// An Exchange is one request as it arrived, and the way to answer it. Its fields
// do not change; its methods may be called from any goroutine and, but for
// those that write, after its end.
type Exchange struct {
	RequestLine string // without its line end
	Method      string
	Target      string // as in the request line, with the query
	Proto       string // "HTTP/1.1" or "HTTP/1.0"
	Headers     []Header
	RawHead     []byte // up to and with the empty line
	Chunked     bool   // the body came chunked
	Conn        int    // number of the connection at the worker, from 1
	Seq         int    // number of the request on its connection, from 1
	ArrivedAt   time.Time

	conn    *conn
	health  bool
	expects bool          // the client waits for a 100
	hold    chan struct{} // capacity 1: one Release is remembered

	turn       chan struct{} // closed when the request is first in its queue
	bodyWanted chan struct{} // closed when the body may be read past an early script
	bodyDone   chan struct{} // closed when nothing more of the body will come

	// Guarded by Worker.mu.
	body     []byte
	wire     []byte
	chunks   []int
	trailers []Header
	whole    bool // the body has arrived to its end
	bodyOver bool // bodyDone is closed
	wanted   bool // bodyWanted is closed
	early    bool // an early script runs or will
	started  bool
	dropped  bool // no longer in Seen
	outcome  Outcome
	endedAt  time.Time

	// Guarded by link.writing.
	out       *parser // follows what is written
	lost      bool    // what was written is not an answer
	wrote     bool    // something of a final answer was written
	hinted    bool    // an interim answer was written
	finishing bool    // a FIN was sent
	keepAlive keepAlive
	closeIdle time.Duration
	err       error
}

type keepAlive uint8

const (
	keepAsSaid keepAlive = iota // as request and answer say
	keepForced
	keepDenied
)

func newExchange(c *conn, p *parser) *Exchange {
	x := &Exchange{
		RequestLine: p.startLine, Method: p.method, Target: p.target, Proto: p.proto,
		Headers: p.headers, RawHead: p.head, Chunked: p.framing == byChunks,
		Conn: c.number, ArrivedAt: time.Now(),
		conn: c, hold: make(chan struct{}, 1),
		turn: make(chan struct{}), bodyWanted: make(chan struct{}), bodyDone: make(chan struct{}),
		out: &parser{answer: true, answerTo: p.method},
	}
	x.health = p.method == "GET" && x.Path() == "/health"
	x.expects = p.phase != finished && hasToken(p.headers, "Expect", "100-continue")
	return x
}

// setBody keeps what has arrived of the body. The caller holds Worker.mu.
func (x *Exchange) setBody(p *parser, whole bool) {
	if x.bodyOver {
		return
	}
	x.body, x.wire, x.chunks, x.trailers, x.whole = p.body, p.wire, p.chunks, p.trailers, whole
	x.bodyOver = true
	close(x.bodyDone)
	x.conn.w.bodyKept(x)
}

// Path is the target up to its query.
func (x *Exchange) Path() string {
	path, _, _ := strings.Cut(x.Target, "?")
	return path
}

// Get returns the first value of a header, in any case, or "".
func (x *Exchange) Get(name string) string { return headerValue(x.Headers, name) }

// Values returns all values of a header, in any case.
func (x *Exchange) Values(name string) []string { return headerValues(x.Headers, name) }

// Body is the body without chunk framing; until it has ended it is nil, and if
// the peer left in the middle it is what had come.
func (x *Exchange) Body() []byte {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.body
}

// RawBody is the body as on the wire, with its chunk framing and trailers.
func (x *Exchange) RawBody() []byte {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	if x.Chunked {
		return x.wire
	}
	return x.body
}

// Chunks are the sizes of the body's chunks, the first 1,048,576.
func (x *Exchange) Chunks() []int {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.chunks
}

// Trailers are the header lines behind a chunked body.
func (x *Exchange) Trailers() []Header {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.trailers
}

// BodyWhole says whether the body has arrived to its end.
func (x *Exchange) BodyWhole() bool {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.whole
}

// ReadBody lets the body be read during an early script and waits for its end,
// or for the end of the connection. Elsewhere the body is there already.
func (x *Exchange) ReadBody() []byte {
	x.wantBody()
	<-x.bodyDone
	return x.Body()
}

func (x *Exchange) wantBody() {
	x.conn.w.mu.Lock()
	first := !x.wanted
	x.wanted = true
	x.conn.w.mu.Unlock()
	if first {
		close(x.bodyWanted)
		x.conn.link.rouse()
	}
}

// Outcome is how the request went out of flight; InFlight while it has not.
func (x *Exchange) Outcome() Outcome {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.outcome
}

// EndedAt is when the request went out of flight; zero while it has not.
func (x *Exchange) EndedAt() time.Time {
	x.conn.w.mu.Lock()
	defer x.conn.w.mu.Unlock()
	return x.endedAt
}

// PeerClosed is closed when the peer's FIN or RST has been seen, which is at
// once whatever the script does, and when the worker ends the connection.
func (x *Exchange) PeerClosed() <-chan struct{} { return x.conn.link.gone }

// PeerClosedAt is when the peer's FIN or RST was seen; zero if it was not, or if
// the worker ended the connection first.
func (x *Exchange) PeerClosedAt() time.Time { return x.conn.link.peerLeftAt() }

// PeerReset says that the peer left by an RST.
func (x *Exchange) PeerReset() bool { return x.conn.link.reset() }

// Sleep waits for d and returns true, or returns false as soon as the
// connection ends.
func (x *Exchange) Sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.PeerClosed():
		return false
	}
}

// Hold waits for Release and returns true, or returns false as soon as the
// connection ends.
func (x *Exchange) Hold() bool {
	select {
	case <-x.hold:
		return true
	case <-x.PeerClosed():
		return false
	}
}

// Release ends a Hold, the next one if the script does not hold yet.
func (x *Exchange) Release() {
	select {
	case x.hold <- struct{}{}:
	default:
	}
}
