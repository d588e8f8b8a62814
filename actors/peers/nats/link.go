// Package nats connects a router to its peers by a NATS server.
//
// One goroutine owns the connection. It connects, publishes what it is given, and
// connects again when the connection is lost, for ever, with growing pauses. Nothing is
// kept for a connection that isn't there: what was true then need not be told later.
package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"loadstar/actors/peers"
)

// Bounds of the connection.
const (
	connectTimeout = 2 * time.Second
	writeTimeout   = time.Second     // a server that takes nothing for as long is lost
	pingEvery      = 2 * time.Second // twice without an answer, and it is lost
	closeTimeout   = 500 * time.Millisecond
	firstPause     = 100 * time.Millisecond
	longestPause   = 2 * time.Second
	steadyAfter    = 5 * time.Second // the next pause is a first one again
	pendingCount   = 1024            // messages that wait to be read, and their bytes
	pendingBytes   = 8 << 20
)

// ErrDown is the error of what was published without a connection.
var ErrDown = errors.New("there is no connection to NATS")

// Options says where the peers are.
type Options struct {
	Servers   []string // URLs, with user and password where they are needed
	CredsFile string   // a user's credentials; empty for none
	Group     string   // of the routers that tell each other: the beginning of subjects
	Name      string   // of this router, for the server's lists

	// Dial connects to a server in this process, in place of Servers; nil if there is none.
	Dial func() (net.Conn, error)
}

// Link is a connection to peers. It implements peers.Link.
type Link struct {
	opts     Options
	receiver peers.Receiver
	requests chan request
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	done     chan struct{}
}

// request is a message to be published.
type request struct {
	kind    peers.Kind
	message []byte
	reply   chan<- error
}

// Open begins to connect, and returns at once.
func Open(o Options, r peers.Receiver) *Link {
	l := &Link{opts: o, receiver: r, requests: make(chan request), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l
}

// Publish implements peers.Link.
func (l *Link) Publish(k peers.Kind, message []byte) error {
	reply := make(chan error, 1)
	select {
	case l.requests <- request{k, message, reply}:
		return <-reply
	case <-l.done:
		return ErrDown
	}
}

// Close implements peers.Link.
func (l *Link) Close() {
	l.cancel()
	<-l.done
}

// run owns the connection.
func (l *Link) run() {
	defer close(l.done)
	pause, told := firstPause, false
	for {
		c, err := l.connect()
		switch {
		case l.ctx.Err() != nil:
			c.end()
			return
		case err != nil:
			if !told {
				told = true
				l.receiver.Changed(peers.LinkState{Err: err})
			}
		default:
			l.receiver.Changed(peers.LinkState{Up: true, Server: l.server(c.Conn)})
			began := time.Now()
			if !l.serve(c) {
				return
			}
			told = true
			l.receiver.Changed(peers.LinkState{Err: lastError(c.Conn)})
			if time.Since(began) > steadyAfter {
				pause = firstPause
			}
		}
		if !l.wait(pause/2 + rand.N(pause)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// lastError is why a connection has ended.
func lastError(c *nats.Conn) error {
	if err := c.LastError(); err != nil {
		return err
	}
	return errors.New("the server has closed the connection")
}

// wait refuses what is to be published for a time. It reports false when the link
// ends.
func (l *Link) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case q := <-l.requests:
			q.reply <- ErrDown
		case <-l.ctx.Done():
			return false
		}
	}
}

// serve publishes until the connection is lost; it reports false when the link ends.
func (l *Link) serve(c *connection) bool {
	defer c.end()
	for {
		select {
		case q := <-l.requests:
			q.reply <- c.Publish(l.subject(q.kind), q.message)
		case <-c.lost:
			return true
		case <-l.ctx.Done():
			// Until the server has it all: closing a connection with something unread
			// would drop what is under way. Who hears nothing will know by the silence.
			_ = c.FlushTimeout(closeTimeout)
			return false
		}
	}
}

// server is what a connection leads to.
func (l *Link) server(c *nats.Conn) string {
	if l.opts.Dial != nil {
		return "in this process"
	}
	return c.ConnectedAddr()
}

func (l *Link) subject(k peers.Kind) string { return l.opts.Group + "." + k.String() }

// connection is one connection, from when it is asked for.
type connection struct {
	*nats.Conn // nil where it didn't come about
	cancel     context.CancelFunc
	lost       chan struct{}
}

func (c *connection) end() {
	if c.Conn != nil {
		c.Close()
	}
	c.cancel()
}

// connect connects and subscribes, and meanwhile refuses what is to be published. The
// connection is to be ended after an error too.
func (l *Link) connect() (*connection, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &connection{cancel: cancel, lost: make(chan struct{})}
	ready := make(chan error, 1)
	go func() { ready <- l.dial(ctx, c) }()
	over := l.ctx.Done()
	for {
		select {
		case err := <-ready:
			if err != nil {
				c.end()
			}
			return c, err
		case q := <-l.requests:
			q.reply <- ErrDown
		case <-over:
			cancel() // which ends the attempt
			over = nil
		}
	}
}

func (l *Link) dial(ctx context.Context, c *connection) (err error) {
	options := []nats.Option{
		nats.Name("loadstar " + l.opts.Name), nats.NoEcho(), nats.NoReconnect(), nats.Timeout(connectTimeout),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(writeTimeout), nats.ReconnectOnFlusherError(),
		nats.SetCustomDialer(dialer{ctx, nil}), nats.ErrorHandler(l.watch()), nats.ClosedHandler(func(*nats.Conn) { close(c.lost) }),
	}
	if l.opts.Dial != nil {
		options = append(options, nats.InProcessServer(dialer{ctx, l.opts.Dial}))
	}
	if l.opts.CredsFile != "" {
		options = append(options, nats.UserCredentials(l.opts.CredsFile))
	}
	if c.Conn, err = nats.Connect(strings.Join(l.opts.Servers, ","), options...); err != nil {
		return err
	}
	for k := range peers.NumKinds {
		sub, err := c.Subscribe(l.subject(k), func(m *nats.Msg) { l.receiver.Hear(k, m.Data) })
		if err == nil {
			err = sub.SetPendingLimits(pendingCount, pendingBytes)
		}
		if err != nil {
			return err
		}
	}
	return c.FlushTimeout(connectTimeout) // so that what others say from here on is heard
}

// watch returns what is called by one goroutine with what goes wrong on a connection
// that goes on: messages lost, or subjects that are not allowed.
func (l *Link) watch() func(*nats.Conn, *nats.Subscription, error) {
	lost, denied := make(map[string]int), false
	return func(c *nats.Conn, s *nats.Subscription, err error) {
		switch {
		case s != nil && errors.Is(err, nats.ErrSlowConsumer):
			if n, err := s.Dropped(); err == nil && n > lost[s.Subject] {
				l.receiver.Lost(n - lost[s.Subject])
				lost[s.Subject] = n
			}
		case errors.Is(err, nats.ErrPermissionViolation) && !denied:
			denied = true
			l.receiver.Changed(peers.LinkState{Up: true, Server: l.server(c), Err: err})
		}
	}
}

// dialer makes connections that end with a context.
type dialer struct {
	ctx    context.Context
	within func() (net.Conn, error) // to a server in this process
}

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.bound((&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address))
}

// InProcessConn implements nats.InProcessConnProvider.
func (d dialer) InProcessConn() (net.Conn, error) { return d.bound(d.within()) }

func (d dialer) bound(c net.Conn, err error) (net.Conn, error) {
	if err == nil {
		context.AfterFunc(d.ctx, func() { _ = c.Close() })
	}
	return c, err
}
