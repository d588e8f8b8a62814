package server

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// Bounds of starting and ending.
const (
	startTimeout = 5 * time.Second
	look         = 50 * time.Millisecond // for that it listens, between two for that it won't
	stopTimeout  = 2 * time.Second
	firstPause   = 50 * time.Millisecond // between attempts to listen
	longestPause = 2 * time.Second
	patience     = 5 * time.Second // with attempts that fail, before it is told
)

// Options says what server to run.
type Options struct {
	Host string
	Port int // 0 lets the system choose

	// What who connects presents: User and Password, or Token; nothing if all are
	// empty. With routes it is not a Token, and it is also what is presented to others.
	User, Password, Token string

	// Routes are where other routers' servers listen; this one may be among them. With
	// any, servers are taken at the address, and no clients.
	Routes   []Route
	Resolver Resolver // the system's if nil

	// Insist has a server that can't listen try again until Close: who has the address
	// is about to give it up. Without, one attempt is all.
	Insist bool

	Tell func(Event) // called by one goroutine
}

// Event is something to be written down.
type Event struct {
	Level Level
	Text  string
	Err   error
	More  int // events since the last one that were not told, as there were too many
}

// Level says to whom an event matters.
type Level uint8

// The levels.
const (
	Debug   Level = iota
	Warning       // something is wrong outside of this process, or will get better by itself
)

// Server is a server in this process.
type Server struct {
	opts   Options
	every  time.Duration // names are asked for
	events chan Event    // from the library, which never waits; see log
	ctx    context.Context
	cancel context.CancelFunc
	began  chan struct{} // closed when it listens, or won't; what follows is set then
	nats   *natsd.Server // nil if it doesn't listen
	addr   string
	err    error
	done   chan struct{}
}

// errNotYet is the error of a connection to a server that isn't there.
var errNotYet = errors.New("the NATS server of this process does not listen")

// Open begins to run a server, and returns at once.
func Open(o Options) *Server { return open(o, askEvery) }

func open(o Options, every time.Duration) *Server {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	s := &Server{opts: o, every: every, events: make(chan Event, waitingEvents), began: make(chan struct{}), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Await waits until the server listens, and gives the address, or why it doesn't.
func (s *Server) Await() (addr string, err error) {
	<-s.began
	return s.addr, s.err
}

// Dial makes a connection within this process, which needs no user. It doesn't wait.
func (s *Server) Dial() (net.Conn, error) {
	select {
	case <-s.began:
	default:
		return nil, errNotYet
	}
	if s.nats == nil {
		return nil, errNotYet
	}
	return s.nats.InProcessConn()
}

// Close ends the server and all connections to it. It waits for that, but not for
// long, and may be called again.
func (s *Server) Close() {
	s.cancel()
	<-s.done
}

// run owns the server.
func (s *Server) run() {
	defer close(s.done)
	r := newRoutes(s.opts.Routes)
	n, err := s.begin(r)
	if err != nil {
		s.err = err
		close(s.began)
		return
	}
	s.nats, s.addr = n, s.opts.where(n)
	close(s.began)
	s.follow(n, r)
	s.end(n)
}

// begin starts a server. With Insist it tries until Close.
func (s *Server) begin(r *routes) (*natsd.Server, error) {
	began, told, pause := time.Now(), false, firstPause
	for {
		n, err := s.start(r)
		if err == nil || !s.opts.Insist {
			return n, err
		}
		if !told && time.Since(began) > patience {
			told = true
			s.opts.Tell(Event{Level: Warning, Text: "the NATS server of this process can't listen: going on without, and trying again", Err: err})
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil, err
		}
		pause = min(2*pause, longestPause)
	}
}

// start makes one attempt.
func (s *Server) start(r *routes) (*natsd.Server, error) {
	at := net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port))
	ln, err := net.Listen("tcp", at) // the library's own error would be a line of its log
	if err != nil {
		return nil, err
	}
	ln.Close()
	return s.launch(s.opts.library(s.opts.urls(r.addresses())))
}

// launch starts a server of the library, and returns when it listens.
func (s *Server) launch(o *natsd.Options) (*natsd.Server, error) {
	n, err := natsd.NewServer(o)
	if err != nil {
		return nil, err
	}
	l := newLog(s.events, &s.opts)
	n.SetLoggerV2(l, false, false, false)
	go n.Start()
	err = errors.New("the NATS server is not ready in time")
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		if n.ReadyForConnections(look) {
			return n, nil
		}
		select {
		case err = <-l.fatal:
			end = time.Time{}
		default:
		}
	}
	s.end(n)
	return nil, err
}

// end stops a server.
func (s *Server) end(n *natsd.Server) {
	over := make(chan struct{})
	go func() {
		n.Shutdown()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(stopTimeout): // all its connections are closed; what it waits for goes on alone
	}
}

// where is the address at which a server listens.
func (o *Options) where(n *natsd.Server) string {
	if len(o.Routes) > 0 {
		return n.ClusterAddr().String()
	}
	return n.Addr().String()
}
