// Package watch notices at once when a client leaves, whatever its request is
// waiting for: before the answer's head, in mid-stream, or while the worker is
// silent. fasthttp doesn't look at a client while its request is served, and a
// parked read of the connection would hold the lock that reading a request body
// needs.
//
// One Watcher serves all connections. A request that has lasted a moment arms a
// Guard, which asks the kernel to report the client's FIN or RST, also behind
// pipelined bytes and under TLS. When it comes, the watcher notes that the
// client has left and closes the connection to the worker, which ends whatever
// read the request is blocked in.
//
// Over TLS some clients say goodbye with an alert, close_notify, and keep the TCP
// connection for as long as half a minute, waiting for ours. So there the watcher
// also looks at what arrives, without taking it; see departs.
//
// A client that shuts down only its sending side looks the same as one that
// has left, and is treated as one.
package watch

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// ErrUnsupported says that this platform can't report departures.
var ErrUnsupported = errors.New("clients that leave are noticed on Linux only")

// Watcher watches armed guards. Its state belongs to one goroutine.
type Watcher struct {
	inbox  chan message
	done   chan struct{} // closed when the loop has ended
	poller *poller
	hooks  Hooks
}

// Hooks are called on the watcher's goroutine, so they must not block. Each may
// be nil.
type Hooks struct {
	Left      func(after time.Duration) // a client left; after the kernel's report this passed until all was closed
	Unwatched func(error)               // the kernel would not watch a connection, whose request goes on unwatched
}

type op uint8

const (
	opArm op = iota
	opJoin
	opTarget
	opCut
	opDisarm
	opEvent
	opStop
)

type message struct {
	op     op
	guard  *Guard
	main   *Guard    // opJoin
	closer io.Closer // opTarget; nil clears
	id     uint64    // opEvent
	closed bool      // opEvent: not just arrivals
	at     time.Time // opEvent
}

// inboxSize is how many messages may wait; senders wait for room.
const inboxSize = 256

// New starts a watcher. Call Stop to end it. Errors: ErrUnsupported, or those of
// the kernel.
func New(h Hooks) (*Watcher, error) {
	w := &Watcher{inbox: make(chan message, inboxSize), done: make(chan struct{}), hooks: h}
	p, err := newPoller(w.report)
	if err != nil {
		return nil, err
	}
	w.poller = p
	go w.loop()
	return w, nil
}

// Stop ends the watcher. Guards that are still armed notice nothing more.
func (w *Watcher) Stop() {
	w.send(message{op: opStop})
	<-w.done
}

func (w *Watcher) send(m message) bool {
	select {
	case w.inbox <- m:
		return true
	case <-w.done:
		return false
	}
}

// report takes an event from the poller's goroutine.
func (w *Watcher) report(id uint64, closed bool, at time.Time) {
	w.send(message{op: opEvent, id: id, closed: closed, at: at})
}

// loop owns the armed guards.
func (w *Watcher) loop() {
	defer w.poller.close()
	defer close(w.done)
	armed := make(map[uint64]*Guard)
	arrived := make([]byte, peekSize)
	last := uint64(0)
	for {
		m := <-w.inbox
		g := m.guard
		switch m.op {
		case opArm:
			last++
			g.id, g.fired, g.cut = last, false, false
			armed[g.id] = g
			switch err := w.poller.add(g.raw, g.id, g.tls); {
			case errors.Is(err, net.ErrClosed):
				w.leave(g, time.Now())
			case err != nil && w.hooks.Unwatched != nil:
				w.hooks.Unwatched(err)
			}
		case opJoin:
			g.main, g.fired, g.cut = m.main, false, false
			m.main.side = g
			if m.main.fired {
				g.leave()
			}
		case opTarget:
			g.target = m.closer
			if m.closer != nil && (g.fired || g.cut) {
				m.closer.Close()
			}
			if m.closer == nil {
				g.ack <- struct{}{}
			}
		case opCut:
			if g.main == nil && armed[g.id] != g {
				continue // it was disarmed meanwhile, and is its user's again
			}
			g.cut = true
			if g.target != nil {
				g.target.Close()
			}
		case opDisarm:
			if g.main != nil {
				g.main.side, g.main = nil, nil
			} else {
				w.poller.remove(g.raw)
				delete(armed, g.id)
			}
			g.ack <- struct{}{}
		case opEvent:
			if g = armed[m.id]; g != nil && (m.closed || departs(peek(g.raw, arrived))) {
				w.leave(g, m.at)
			}
		case opStop:
			return
		}
	}
}

// leave notes that a guard's client has left and unblocks what waits for a
// worker or for the client.
func (w *Watcher) leave(g *Guard, at time.Time) {
	if g.fired {
		return
	}
	g.leave()
	if g.side != nil {
		g.side.leave()
	}
	g.client.SetDeadline(time.Unix(1, 0))
	if w.hooks.Left != nil {
		w.hooks.Left(time.Since(at))
	}
}

// leave notes the departure before it closes anything: who is woken, or is about
// to block, finds it.
func (g *Guard) leave() {
	g.fired = true
	g.gone <- struct{}{}
	if g.target != nil {
		g.target.Close()
	}
}

// Guard watches the client of one request at a time. Its methods, but for Cut,
// are for the goroutine that serves the request. The zero Guard is not usable;
// NewGuard makes one, to be used again and again.
type Guard struct {
	watcher *Watcher
	gone    chan struct{} // capacity one; the watcher sends once per Arm
	ack     chan struct{} // capacity one; answers Disarm and clearing the target
	armed   bool
	left    bool // gone was received

	// Set by Arm, then owned by the watcher until Disarm returns.
	client net.Conn
	raw    syscall.RawConn
	tls    bool // client lies beneath TLS
	id     uint64
	fired  bool
	cut    bool
	target io.Closer
	side   *Guard // that has joined this one
	main   *Guard // that this one has joined
}

// NewGuard returns a disarmed guard. A nil watcher gives one that never notices
// anything.
func (w *Watcher) NewGuard() *Guard {
	return &Guard{watcher: w, gone: make(chan struct{}, 1), ack: make(chan struct{}, 1)}
}

// Armed reports whether the client is being watched.
func (g *Guard) Armed() bool { return g.armed }

// Arm starts to watch client, closing target when it leaves; target may be nil.
// A connection that can't be watched stays unwatched.
func (g *Guard) Arm(client net.Conn, target io.Closer) {
	if g.armed || g.watcher == nil {
		return
	}
	t, tls := client.(interface{ NetConn() net.Conn })
	if tls {
		client = t.NetConn()
	}
	sc, ok := client.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	g.client, g.raw, g.tls, g.left, g.target = client, raw, tls, false, target
	g.armed = g.watcher.send(message{op: opArm, guard: g})
}

// Join arms a guard to notice what main notices, for another goroutine that works
// on the same request. Main must be armed, has at most one that joins it, and
// stays armed until that is disarmed. Where main isn't watched, neither is this.
func (g *Guard) Join(main *Guard) {
	if g.armed || !main.armed {
		return
	}
	g.left, g.target = false, nil
	g.armed = g.watcher.send(message{op: opJoin, guard: g, main: main})
}

// Target sets what is closed when the client leaves: at once, if it has left.
// Passing nil takes the target out and waits until the watcher is through with
// it, so that it may be used for another request.
func (g *Guard) Target(c io.Closer) {
	if g.armed && g.watcher.send(message{op: opTarget, guard: g, closer: c}) && c == nil {
		g.await()
	}
}

// Cut closes the target, and any that is set later, as if the client had left,
// who is none the wiser. It may be called by any goroutine, and does nothing if the
// guard is no longer armed.
func (g *Guard) Cut() {
	if g.watcher != nil {
		g.watcher.send(message{op: opCut, guard: g})
	}
}

// Disarm stops watching, and waits until the watcher is through with the
// target. It reports whether the client has left. Only then may the target and
// the guard be used for another request.
func (g *Guard) Disarm() (left bool) {
	if !g.armed {
		return false
	}
	g.armed = false
	if g.watcher.send(message{op: opDisarm, guard: g}) {
		g.await()
	}
	left = g.Left()
	g.client, g.raw, g.left, g.target = nil, nil, false, nil
	return left
}

func (g *Guard) await() {
	select {
	case <-g.ack:
	case <-g.watcher.done:
	}
}

// Left reports whether the client has left. It doesn't wait.
func (g *Guard) Left() bool {
	if !g.left {
		select {
		case <-g.gone:
			g.left = true
		default:
		}
	}
	return g.left
}

// Gone is the channel that gets one value when the client leaves. Who takes it must
// call Note.
func (g *Guard) Gone() <-chan struct{} { return g.gone }

// Note notes that the value of Gone was taken.
func (g *Guard) Note() { g.left = true }

// Wait waits for d, or until the client leaves, and reports whether it left.
func (g *Guard) Wait(d time.Duration) (left bool) { return g.WaitFor(nil, d) }

// WaitFor waits until done is closed, for d, or until the client leaves, and
// reports whether it left.
func (g *Guard) WaitFor(done <-chan struct{}, d time.Duration) (left bool) {
	if g.Left() {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.gone:
		g.left = true
		return true
	case <-done:
		return false
	case <-t.C:
		return false
	}
}
