package zmq

import (
	"bytes"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleet records calls. Its methods may be told to wait or to refuse.
type fleet struct {
	mu      sync.Mutex
	workers map[identity]Registration
	calls   []string
	refuse  error
	gate    chan struct{} // if not nil, each call waits for a value
}

func newFleet() *fleet { return &fleet{workers: make(map[identity]Registration)} }

func (f *fleet) call(name string, old, changed Registration) error {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if f.refuse != nil && changed != none {
		return f.refuse
	}
	delete(f.workers, old.identity())
	if changed != none {
		f.workers[changed.identity()] = changed
	}
	return nil
}

func (f *fleet) Register(r Registration) error   { return f.call("register", none, r) }
func (f *fleet) Replace(a, b Registration) error { return f.call("replace", a, b) }
func (f *fleet) Expire(r Registration)           { _ = f.call("expire", r, none) }

func (f *fleet) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fleet) have() map[identity]Registration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.workers)
}

func (f *fleet) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// lines counts the lines that hold a text.
func (l *logged) lines(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// pipes is a net.Listener whose connections are pipes, so that a synctest bubble
// knows when all is quiet.
type pipes struct {
	conns chan net.Conn
	fails chan error
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.fails:
		return nil, err
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// rig is a listener in a bubble.
type rig struct {
	*Listener
	t     *testing.T
	began time.Time
	pipes *pipes
	fleet *fleet
	log   *logged
}

// bubble runs f on a listener in a synctest bubble, and closes it.
func bubble(t *testing.T, o Options, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), fails: make(chan error), done: make(chan struct{})}
		r := &rig{t: t, began: time.Now(), pipes: p, fleet: newFleet(), log: new(logged)}
		o.Log = r.log.logger()
		r.Listener = serve(r.pipes, r.fleet, o)
		defer r.Close()
		f(r)
	})
}

// connect opens a connection whose peer reads and forgets what it gets.
func (r *rig) connect() net.Conn {
	here, there := net.Pipe()
	r.pipes.conns <- there
	go io.Copy(io.Discard, here)
	r.t.Cleanup(func() { here.Close() })
	return here
}

// dealer opens a connection and shakes hands.
func (r *rig) dealer() net.Conn {
	r.t.Helper()
	c := r.connect()
	r.write(c, string(greeting[:])+dealerReady)
	return c
}

func (r *rig) write(c net.Conn, s string) {
	r.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		r.t.Errorf("cannot write to the listener: %v", err)
	}
}

// ping sends one ping and waits until all is quiet.
func (r *rig) ping(c net.Conn, fields map[string]any) {
	r.t.Helper()
	r.write(c, message(r.t, fields))
	synctest.Wait()
}

// pass lets time pass, with a ping of c every three seconds if there is one.
func (r *rig) pass(d time.Duration, c net.Conn, fields map[string]any) {
	r.t.Helper()
	const every = 3 * time.Second
	for ; c != nil && d >= every; d -= every {
		time.Sleep(every)
		r.ping(c, fields)
	}
	time.Sleep(d)
	synctest.Wait()
}

// message gives the bytes of a ping on the wire.
func message(t testing.TB, fields map[string]any) string {
	b := pack(t, fields)
	return string(append([]byte{0, byte(len(b))}, b...))
}
