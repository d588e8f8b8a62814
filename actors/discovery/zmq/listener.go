package zmq

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Listener receives pings. Close ends it.
type Listener struct {
	opts   Options
	in     net.Listener
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	peers  chan struct{}     // holds one for each open connection; its capacity is the most allowed
	inbox  chan event        // from readers to the loop; closed when there are no more readers
	asks   chan chan<- Stats // to the loop
	done   chan struct{}     // closed when every goroutine has ended
}

// event is what a reader has to say to the loop: a ping, or what went wrong.
type event struct {
	note note // noteNothing with a ping
	peer string
	ping Registration
	err  error
}

const (
	// inboxSize evens out bursts. Readers wait when it is full.
	inboxSize = 64

	// acceptPause is how long to wait when accepting failed, as it does when the
	// process has no descriptors left.
	acceptPause = 200 * time.Millisecond

	// peersPerRegistration is how many connections go with a registration.
	peersPerRegistration = 4
)

// Listen starts to receive pings at addr, HOST:PORT, where a host of * or none
// is every interface. What it learns goes to fleet. The error says that the
// address cannot be used.
func Listen(addr string, fleet Fleet, o Options) (*Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%q is no discovery address, write HOST:PORT: %w", addr, err)
	}
	if host == "*" {
		host = "" // as ZeroMQ writes it
	}
	in, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for workers at %s: %w", addr, err)
	}
	return serve(in, fleet, o), nil
}

// serve starts a listener on connections of in.
func serve(in net.Listener, fleet Fleet, o Options) *Listener {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Listener{
		opts:   o,
		in:     in,
		ctx:    ctx,
		cancel: cancel,
		peers:  make(chan struct{}, peersPerRegistration*o.MaxRegistrations),
		inbox:  make(chan event, inboxSize),
		asks:   make(chan chan<- Stats),
		done:   make(chan struct{}),
	}
	go l.accept()
	go l.run(fleet)
	return l
}

// Addr is the address that is listened at.
func (l *Listener) Addr() net.Addr { return l.in.Addr() }

// Close closes all connections and returns when every goroutine has ended, the
// call to the fleet that runs at this moment included. The fleet keeps its
// workers. It may be called again.
func (l *Listener) Close() {
	l.cancel()
	_ = l.in.Close() // of the second call it says that it is closed
	<-l.done
}

// accept starts a reader for each connection, and closes the inbox when the last
// of them has ended.
func (l *Listener) accept() {
	defer close(l.inbox)
	for l.ctx.Err() == nil {
		conn, err := l.in.Accept()
		if err != nil {
			l.acceptFailed(err)
			continue
		}
		select {
		case l.peers <- struct{}{}:
			go l.read(conn)
		default:
			l.tell(event{note: noteCrowded, peer: conn.RemoteAddr().String()})
			_ = conn.Close()
		}
	}
	for range cap(l.peers) {
		l.peers <- struct{}{}
	}
}

func (l *Listener) acceptFailed(err error) {
	if l.ctx.Err() != nil {
		return
	}
	l.tell(event{note: noteAccept, err: err})
	select {
	case <-l.ctx.Done():
	case <-time.After(acceptPause):
	}
}

// tell brings an event to the loop, and waits for room. It reports false if the
// listener ends.
func (l *Listener) tell(e event) bool {
	select {
	case l.inbox <- e:
		return true
	case <-l.ctx.Done():
		return false
	}
}
