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
	opTarget
	opDisarm
	opEvent
	opStop
)

type message struct {
	op     op
	guard  *Guard
	target int       // opTarget
	closer io.Closer // opTarget; nil clears
	id     uint64    // opEvent
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
func (w *Watcher) report(id uint64, at time.Time) { w.send(message{op: opEvent, id: id, at: at}) }

// loop owns the armed guards.
func (w *Watcher) loop() {
	defer w.poller.close()
	defer close(w.done)
	armed := make(map[uint64]*Guard)
	last := uint64(0)
	for {
		m := <-w.inbox
		g := m.guard
		switch m.op {
		case opArm:
			last++
			g.id, g.fired = last, false
			armed[g.id] = g
			switch err := w.poller.add(g.raw, g.id); {
			case errors.Is(err, net.ErrClosed):
				w.leave(g, time.Now())
			case err != nil && w.hooks.Unwatched != nil:
				w.hooks.Unwatched(err)
			}
		case opTarget:
			g.targets[m.target] = m.closer
			if m.closer != nil && g.fired {
				m.closer.Close()
			}
			if m.closer == nil {
				g.ack <- struct{}{}
			}
		case opDisarm:
			w.poller.remove(g.raw)
			delete(armed, g.id)
			g.ack <- struct{}{}
		case opEvent:
			if g = armed[m.id]; g != nil {
				w.leave(g, m.at)
			}
		case opStop:
			return
		}
	}
}

// leave notes that a guard's client has left and unblocks what waits for the
// worker or for the client. The note comes first: who is woken, or is about to
// block, finds it.
func (w *Watcher) leave(g *Guard, at time.Time) {
	if g.fired {
		return
	}
	g.fired = true
	g.gone <- struct{}{}
	for _, c := range g.targets {
		if c != nil {
			c.Close()
		}
	}
	g.client.SetDeadline(time.Unix(1, 0))
	if w.hooks.Left != nil {
		w.hooks.Left(time.Since(at))
	}
}

// maxTargets is how many connections to workers one request may have: two when
// prefill and decode run at once.
const maxTargets = 2

// Guard watches the client of one request at a time. Its methods are for the
// goroutine that serves the request. The zero Guard is not usable; NewGuard
// makes one, to be used again and again.
type Guard struct {
	watcher *Watcher
	gone    chan struct{} // capacity one; the watcher sends once per Arm
	ack     chan struct{} // capacity one; answers Disarm and clearing a target
	armed   bool
	left    bool // gone was received

	// Set by Arm, then owned by the watcher until Disarm returns.
	client  net.Conn
	raw     syscall.RawConn
	id      uint64
	fired   bool
	targets [maxTargets]io.Closer
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
	if t, ok := client.(interface{ NetConn() net.Conn }); ok {
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
	g.client, g.raw, g.left = client, raw, false
	g.targets = [maxTargets]io.Closer{target}
	g.armed = g.watcher.send(message{op: opArm, guard: g})
}

// Target sets what is closed when the client leaves: at once, if it has left.
// Passing nil takes the target out and waits until the watcher is through with
// it, so that it may be used for another request.
func (g *Guard) Target(i int, c io.Closer) {
	if g.armed && g.watcher.send(message{op: opTarget, guard: g, target: i, closer: c}) && c == nil {
		g.await()
	}
}

// Disarm stops watching, and waits until the watcher is through with the
// targets. It reports whether the client has left. Only then may the targets
// and the guard be used for another request.
func (g *Guard) Disarm() (left bool) {
	if !g.armed {
		return false
	}
	g.armed = false
	if g.watcher.send(message{op: opDisarm, guard: g}) {
		g.await()
	}
	left = g.Left()
	g.client, g.raw, g.left = nil, nil, false
	g.targets = [maxTargets]io.Closer{}
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

// Wait waits for d, or until the client leaves, and reports whether it left.
func (g *Guard) Wait(d time.Duration) (left bool) {
	if g.Left() {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.gone:
		g.left = true
		return true
	case <-t.C:
		return false
	}
}
