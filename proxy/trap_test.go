package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// A trap makes the router panic in the middle of a request of a test's choice: at
// a call to what the test has handed in, the client's connection or the log. It is
// the log of its router, and keeps of that only what it did not expect.
type trap struct {
	mu     sync.Mutex
	armed  map[string]trapPoint // by the client's port
	sprung int
	others []string          // the first panics that are not its own
	recent map[string]string // what the log says of the last requests, by id
	ids    []string          // of those, the oldest first
}

// trapPoint is where a request meets its panic.
type trapPoint string

const (
	trapBody   trapPoint = "body"   // while its body is read, before it has a lease
	trapGrant  trapPoint = "grant"  // when a worker has just been granted
	trapWatch  trapPoint = "watch"  // while it waits for its worker
	trapWrite  trapPoint = "write"  // while its answer is written
	trapEnd    trapPoint = "end"    // on the way out of the handler
	trapAccess trapPoint = "access" // when it is logged, behind everything
)

var trapPoints = []trapPoint{trapBody, trapGrant, trapWatch, trapWrite, trapEnd, trapAccess}

// errTrap is what a trap panics with.
var errTrap = errors.New("a trap of the test")

// startTrapped is startRouter with a trap.
func startTrapped(t testing.TB, o Options, workers ...*proxytest.Worker) (*router, *trap) {
	t.Helper()
	tr := &trap{armed: map[string]trapPoint{}, recent: map[string]string{}}
	o.Log, o.AccessLog = slog.New(tr), true
	serve := func(p *Proxy, ln net.Listener) error {
		return p.server.Serve(trapListener{p.listener(ln, nil, p.crowd), tr})
	}
	return startServed(t, o, serve, workers...), tr
}

// set sets the trap for the next request of a client. The request must have the
// header that is returned.
func (tr *trap) set(cl *proxytest.Client, at trapPoint) proxytest.Header {
	port := clientPort(cl.LocalAddr())
	tr.mu.Lock()
	tr.armed[port] = at
	tr.mu.Unlock()
	return proxytest.H("X-Request-Id", trapID+port)
}

const trapID = "trap-"

func clientPort(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// clear takes away a trap that was not sprung.
func (tr *trap) clear(cl *proxytest.Client) {
	tr.mu.Lock()
	delete(tr.armed, clientPort(cl.LocalAddr()))
	tr.mu.Unlock()
}

// said is what the log says of a request.
func (tr *trap) said(id string) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.recent[id]
}

// count is how often a trap was sprung.
func (tr *trap) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.sprung
}

// spring panics if a trap is set for this client at this point, once. Of several
// functions that the point is in, one has to be at work.
func (tr *trap) spring(port string, at trapPoint, within ...string) {
	tr.mu.Lock()
	set := tr.armed[port] == at && (len(within) == 0 || atWork(within))
	if set {
		delete(tr.armed, port)
		tr.sprung++
	}
	tr.mu.Unlock()
	if set {
		panic(errTrap)
	}
}

// atWork reports whether one of the functions has called whoever asks.
func atWork(names []string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		for _, name := range names {
			if strings.HasSuffix(f.Function, name) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}

// Enabled implements slog.Handler.
func (tr *trap) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (tr *trap) WithAttrs([]slog.Attr) slog.Handler { return tr }

// WithGroup implements slog.Handler.
func (tr *trap) WithGroup(string) slog.Handler { return tr }

// Handle implements slog.Handler.
func (tr *trap) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.String(); return true })
	port, _ := strings.CutPrefix(attrs["id"], trapID)
	tr.mu.Lock()
	if id := attrs["id"]; id != "" {
		if _, known := tr.recent[id]; !known {
			tr.ids = append(tr.ids, id)
		}
		tr.recent[id] += fmt.Sprintf("%s: %v; ", r.Message, attrs)
		if len(tr.ids) > 512 {
			delete(tr.recent, tr.ids[0])
			tr.ids = tr.ids[1:]
		}
	}
	if r.Message == "a request made the router panic" && attrs["panic"] != errTrap.Error() && len(tr.others) < 3 {
		tr.others = append(tr.others, fmt.Sprint(attrs))
	}
	tr.mu.Unlock()
	switch r.Message {
	case "decision":
		tr.spring(port, trapGrant)
	case "request":
		tr.spring(port, trapAccess)
	}
	return nil
}

// trapListener accepts connections that may be trapped.
type trapListener struct {
	net.Listener
	trap *trap
}

// Accept implements net.Listener.
func (l trapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if s, ok := c.(*steadyConn); ok {
		return &trapConn{s, l.trap, clientPort(s.RemoteAddr().String())}, nil
	}
	return c, nil
}

// trapConn panics where its trap is set. What fasthttp does with it by itself is
// left alone: no handler is at work there.
type trapConn struct {
	*steadyConn
	trap *trap
	port string
}

func (c *trapConn) SetReadDeadline(t time.Time) error {
	c.trap.spring(c.port, trapBody, "proxy.readBody")
	return c.steadyConn.SetReadDeadline(t)
}

func (c *trapConn) SyscallConn() (syscall.RawConn, error) {
	c.trap.spring(c.port, trapWatch, "watch.(*Guard).Arm")
	return c.steadyConn.SyscallConn()
}

func (c *trapConn) Write(b []byte) (int, error) {
	c.trap.spring(c.port, trapWrite, "proxy.(*stream).WriteTo", "proxy.(*stream).relayPlain")
	return c.steadyConn.Write(b)
}

func (c *trapConn) SetWriteDeadline(t time.Time) error {
	c.trap.spring(c.port, trapEnd, "proxy.(*exchange).end")
	return c.steadyConn.SetWriteDeadline(t)
}
