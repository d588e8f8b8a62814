package proxytest

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"
)

const (
	dialTimeout = 20 * time.Second
	sendTimeout = 60 * time.Second // for one Send
	doTimeout   = 60 * time.Second // for a whole Do
)

// A Client is one connection that sends any bytes and reads answers strictly.
// Sending and ending the connection may be done from any goroutine; reading is
// for one at a time.
type Client struct {
	link   *link
	in     *intake
	host   string
	asked  chan string // methods of requests sent and not yet answered
	answer *reading    // the answer being read
	rest   piece       // read and not yet used
}

// maxAsked is how many requests may be sent ahead of their answers; the methods
// of more are forgotten, which matters for HEAD alone.
const maxAsked = 4096

// Dial connects to addr, host:port. The end of the test closes the connection.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	return DialTLS(t, addr, nil)
}

// DialTLS is Dial with TLS, unless cfg is nil.
func DialTLS(t testing.TB, addr string, cfg *tls.Config) *Client {
	t.Helper()
	c, err := Connect(addr, cfg)
	if err != nil {
		t.Fatalf("client cannot connect: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Connect is DialTLS without a test: the caller closes the client.
func Connect(addr string, cfg *tls.Config) (*Client, error) {
	d := net.Dialer{Timeout: dialTimeout}
	d.SetMultipathTCP(false)
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		tc := tls.Client(nc, cfg)
		_ = nc.SetDeadline(time.Now().Add(dialTimeout))
		if err := tc.Handshake(); err != nil {
			nc.Close()
			return nil, fmt.Errorf("cannot agree on TLS with %s: %w", addr, err)
		}
		_ = nc.SetDeadline(time.Time{})
		nc = tc
	}
	l, err := newLink(nc, nil)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Client{link: l, in: newIntake(l), host: addr, asked: make(chan string, maxAsked)}, nil
}

// Send writes raw as it is, in one write. The error is ErrReset if the peer has
// reset the connection; an answer that came before can still be read. An answer
// to a HEAD sent this way must be read by ReadResponseTo, and Send should not
// share a connection with a HEAD by SendRequest.
func (c *Client) Send(raw string) error { return c.write([]byte(raw)) }

func (c *Client) write(b []byte) error {
	c.link.writing.Lock()
	defer c.link.writing.Unlock()
	_ = c.link.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	return c.link.write(b)
}

// SendRequest writes r; a chunked body takes a write per chunk.
func (c *Client) SendRequest(r Request) error {
	select {
	case c.asked <- r.method():
	default:
	}
	for _, b := range r.segments(c.host) {
		if err := c.write(b); err != nil {
			return err
		}
	}
	return nil
}

// Post sends a POST with a Host, the headers in their order and a
// Content-Length.
func (c *Client) Post(target, body string, headers ...Header) error {
	return c.SendRequest(Request{Method: "POST", Target: target, Headers: headers, Body: body})
}

// Get sends a GET with a Host and the headers in their order.
func (c *Client) Get(target string, headers ...Header) error {
	return c.SendRequest(Request{Method: "GET", Target: target, Headers: headers})
}

// Close ends the connection and returns when the client's goroutine has.
func (c *Client) Close() {
	c.link.closeFIN()
	<-c.in.ended
}

// CloseFIN ends the connection as a client does that is finished with it. The
// FIN goes out first; unread bytes make the kernel send an RST behind it.
func (c *Client) CloseFIN() { c.Close() }

// Reset ends the connection by an RST.
func (c *Client) Reset() {
	c.link.closeRST()
	<-c.in.ended
}

// HalfClose sends a FIN and goes on reading.
func (c *Client) HalfClose() { c.link.halfClose() }

// StopReading leaves further bytes in the socket, which takes some megabytes
// before the peer feels it. The peer's end is not seen meanwhile.
func (c *Client) StopReading() { c.ReadRate(0) }

// ReadRate makes the client read that many bytes a second: 0 none, below 0 as
// fast as they come.
func (c *Client) ReadRate(bytesPerSecond int) {
	c.in.setRate(int64(bytesPerSecond))
}

// PeerClosed is closed when the peer's FIN or RST has been seen, behind all that
// the peer sent, or when the client has ended the connection.
func (c *Client) PeerClosed() <-chan struct{} { return c.link.gone }

// PeerClosedAt is when the peer's FIN or RST was seen; zero if it was not.
func (c *Client) PeerClosedAt() time.Time { return c.link.peerLeftAt() }

// PeerReset says that the peer ended the connection by an RST.
func (c *Client) PeerReset() bool { return c.link.reset() }

// LocalAddr is the client's end, host:port.
func (c *Client) LocalAddr() string { return c.link.tcp.LocalAddr().String() }

// Try sends r on a connection of its own and reads the answer, however early it
// comes. Of what had come of a faulty answer the Response tells; it is nil if
// nothing had.
func Try(addr string, r Request, timeout time.Duration) (*Response, error) {
	c, err := Connect(addr, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sendErr := c.SendRequest(r)
	resp, err := c.ReadResponse(timeout)
	if resp == nil && sendErr != nil {
		return nil, fmt.Errorf("%w, after the request could not be sent: %w", err, sendErr)
	}
	return resp, err
}

// Do is Try with a minute's time for a request that is to be answered: if its
// answer does not end as promised the test fails. The Response is never nil.
func Do(t testing.TB, addr string, r Request) *Response {
	t.Helper()
	resp, err := Try(addr, r, doTimeout)
	if err != nil {
		t.Errorf("%s %s: %v", r.method(), r.Target, err)
	}
	if resp == nil {
		resp = &Response{}
	}
	return resp
}
