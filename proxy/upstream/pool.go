// Package upstream keeps connections to one worker, and decodes the chunked
// bodies that come over them.
//
// fasthttp's HostClient isn't used for this, because a request must be able to
// interrupt its own dial, to ask for a connection that isn't from the pool, and
// to have its connection closed under it when the client leaves.
package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Options configures the connections to a worker.
type Options struct {
	ConnectTimeout time.Duration // of dial and TLS handshake together; 0 is none
	IdleTimeout    time.Duration // how long an unused connection is kept; 0 keeps none. Engines close theirs after 5 s, so stay well below.
	MaxIdle        int           // most unused connections
	TLS            *tls.Config   // for https workers; nil is the system's defaults
}

// hotSize is how many connections are handed out again before the rest is
// touched, so that what a burst has left over can grow old.
const hotSize = 8

// sweepEvery is how often unused connections are looked through for old ones.
const sweepEvery = time.Second

// Pool holds the idle connections to one worker. Its methods are safe for
// concurrent use.
type Pool struct {
	opts    Options
	network struct {
		addr string // host:port to dial
		tls  *tls.Config
	}
	host   []byte // value of the Host header
	prefix []byte // path in front of every request's path

	hot, idle chan *Conn      // what is unused; taken from hot first
	retired   <-chan struct{} // closed by retire
	retire    context.CancelFunc
}

// NewPool returns a pool for the worker at a canonical base URL. Call Retire
// when the worker is gone. Errors: base is no URL, or one of another scheme than
// http and https.
func NewPool(base string, o Options) (*Pool, error) {
	p, err := newPool(base, o)
	if err != nil {
		return nil, err
	}
	go p.sweep(time.Tick(sweepEvery))
	return p, nil
}

// newPool is NewPool without what closes connections that grow old.
func newPool(base string, o Options) (*Pool, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	hot := max(min(o.MaxIdle, hotSize), 0)
	p := &Pool{
		opts: o, host: []byte(authority(u)), prefix: []byte(u.EscapedPath()),
		hot: make(chan *Conn, hot), idle: make(chan *Conn, max(o.MaxIdle, 0)-hot),
	}
	p.network.addr = u.Host
	switch u.Scheme {
	case "http":
	case "https":
		p.network.tls = &tls.Config{}
		if o.TLS != nil {
			p.network.tls = o.TLS.Clone()
		}
		if p.network.tls.ServerName == "" {
			p.network.tls.ServerName = zoneless(u)
		}
		p.network.tls.NextProtos = []string{"http/1.1"}
	default:
		return nil, fmt.Errorf("%s: the scheme must be http or https", base)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.retired, p.retire = ctx.Done(), cancel
	return p, nil
}

// zoneless is the host without its port, and without the zone of an IPv6
// address, which means nothing beyond this machine (RFC 6874 §4).
func zoneless(u *url.URL) string {
	host, _, _ := strings.Cut(u.Hostname(), "%")
	return host
}

// authority is the value of the Host header for a worker: its port is left out
// where it is the scheme's own.
func authority(u *url.URL) string {
	host, port := zoneless(u), u.Port()
	if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, port)
}

// Host is the value of the Host header for this worker.
func (p *Pool) Host() []byte { return p.host }

// Prefix is what stands in front of the path of every request to this worker.
func (p *Pool) Prefix() []byte { return p.prefix }

// Idle returns an unused connection, or nil when there is none. What the worker has
// sent since its last answer was read must not be taken for the next one: so each is
// looked at first, but for one that Asks, which is looked at when it is written to.
// Its deadlines are those of its last use.
func (p *Pool) Idle(now time.Time) *Conn {
	for {
		var c *Conn
		select {
		case c = <-p.hot:
		default:
			select {
			case c = <-p.idle:
			default:
				return nil
			}
		}
		if now.Sub(c.usedAt) >= p.opts.IdleTimeout || !c.Asks() && !c.Quiet() {
			c.Close()
			continue
		}
		c.reused = true
		c.attach()
		return c
	}
}

// Dial opens a new connection. Ending ctx interrupts it.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) {
	if p.opts.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.opts.ConnectTimeout)
		defer cancel()
	}
	d := net.Dialer{Control: setUserTimeout}
	nc, err := d.DialContext(ctx, "tcp", p.network.addr)
	if err != nil {
		return nil, err
	}
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		nc.Close()
		return nil, fmt.Errorf("%s: not a TCP connection", p.network.addr)
	}
	c := &Conn{Conn: nc, tcp: tc}
	if c.raw, err = tc.SyscallConn(); err != nil {
		nc.Close()
		return nil, err
	}
	c.looks, c.turns = c.look, c.turn
	if p.network.tls != nil {
		t := tls.Client(nc, p.network.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		c.Conn = t
	}
	c.attach()
	return c, nil
}

// Put takes back a connection whose last answer has been read to its end. It
// closes one that it has no use for.
func (p *Pool) Put(c *Conn, now time.Time) {
	if !c.drained() || p.opts.IdleTimeout <= 0 {
		c.Close()
		return
	}
	c.detach()
	c.usedAt = now
	select {
	case p.hot <- c:
	default:
		select {
		case p.idle <- c:
		default:
			c.Close()
			return
		}
	}
	// Retire may have emptied the pool just before.
	select {
	case <-p.retired:
		p.closeIdle()
	default:
	}
}

// Retire closes what is unused, and whatever comes back later. It may be called
// again.
func (p *Pool) Retire() {
	p.retire()
	p.closeIdle()
}

func (p *Pool) closeIdle() {
	for {
		select {
		case c := <-p.hot:
			c.Close()
		case c := <-p.idle:
			c.Close()
		default:
			return
		}
	}
}

// sweep closes connections that have been unused for too long, until the pool
// is retired.
func (p *Pool) sweep(ticks <-chan time.Time) {
	for {
		select {
		case <-p.retired:
			p.closeIdle() // expire may have put one back behind Retire
			return
		case now := <-ticks:
			p.expire(p.hot, now)
			p.expire(p.idle, now)
		}
	}
}

// expire looks at each connection in one queue once.
func (p *Pool) expire(q chan *Conn, now time.Time) {
	for range len(q) {
		select {
		case c := <-q:
			if now.Sub(c.usedAt) >= p.opts.IdleTimeout {
				c.Close()
				continue
			}
			select {
			case q <- c:
			default:
				c.Close()
			}
		default:
			return
		}
	}
}
