package proxytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// stopTimeout is how long the end of a test waits for scripts to return after
// their connections have been reset.
const stopTimeout = 20 * time.Second

// A Script answers one request. It runs on a goroutine of its own, after the
// request's body has arrived, one at a time per connection. When it returns
// with the answer incomplete, or with none, the connection is closed. A script
// that waits for anything but its exchange must also watch PeerClosed, which
// the end of the test closes.
type Script func(x *Exchange)

// A Worker is a scripted HTTP/1.1 server on a plain socket.
type Worker struct {
	t     testing.TB
	addr  string
	tasks sync.WaitGroup // goroutines of the worker, scripts included
	*books

	// The rest is guarded by books.mu.
	listener net.Listener
	conns    map[*conn]struct{} // not yet closed here
	script   Script
	health   Script
	early    Script
	faults   []error
}

// NewWorker starts a worker on a free port of 127.0.0.1, which nobody else gets
// before the end of the test. That resets its connections, waits for its scripts
// and fails the test for faults that were not taken.
func NewWorker(t testing.TB, script Script) *Worker {
	t.Helper()
	return NewWorkerAt(t, Reserve(t), script)
}

// NewWorkerAt is NewWorker at addr, host:port: a worker that comes back after
// another was stopped there.
func NewWorkerAt(t testing.TB, addr string, script Script) *Worker {
	t.Helper()
	l, err := listen(addr)
	if err != nil {
		t.Fatalf("worker cannot listen: %v", err)
	}
	w := &Worker{
		t: t, addr: l.Addr().String(), books: newBooks(), listener: l, conns: map[*conn]struct{}{},
		script: script, health: JSON(200, `{"status":"ok"}`),
	}
	w.tasks.Add(1)
	go w.accept(l)
	t.Cleanup(w.finish)
	return w
}

func listen(addr string) (net.Listener, error) {
	// Multipath TCP, Go's default, answers TCP_INFO differently.
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(context.Background(), "tcp", addr)
}

// URL is the worker's address with its scheme, without a slash at the end.
func (w *Worker) URL() string { return "http://" + w.addr }

// Addr is the worker's host:port.
func (w *Worker) Addr() string { return w.addr }

// SetScript makes s answer the requests whose scripts have not started yet.
func (w *Worker) SetScript(s Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = s
}

// SetHealth makes s answer GET /health in place of a 200.
func (w *Worker) SetHealth(s Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health = s
}

// SetEarly makes s run for each later request once its head has arrived, before
// anything of its body is read and before the worker's 100 to an Expect. If s
// sends a final answer or ends the connection, the worker's own script does not
// run; otherwise all goes on as without s. No byte of the body is read until s
// returns or calls ReadBody.
func (w *Worker) SetEarly(s Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.early = s
}

// Stop closes the listener: new connections are refused and those that are open
// live on.
func (w *Worker) Stop() {
	w.mu.Lock()
	l := w.listener
	w.listener = nil
	w.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// Resume listens again where Stop or Kill has ended it, which fails if another
// has taken the port meanwhile. See Reserve.
func (w *Worker) Resume() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		return nil
	}
	l, err := listen(w.addr)
	if err != nil {
		return err
	}
	w.listener = l
	w.tasks.Add(1)
	go w.accept(l)
	return nil
}

// Kill closes the listener and resets every connection, as a crash does.
func (w *Worker) Kill() {
	w.Stop()
	for _, c := range w.open() {
		c.end(true)
	}
}

// DropConnections resets every open connection; the worker goes on listening.
func (w *Worker) DropConnections() {
	for _, c := range w.open() {
		c.end(true)
	}
}

func (w *Worker) open() []*conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	cs := make([]*conn, 0, len(w.conns))
	for c := range w.conns {
		cs = append(cs, c)
	}
	return cs
}

// finish ends the worker with its test.
func (w *Worker) finish() {
	w.t.Helper()
	w.Kill()
	done := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(done)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		w.t.Errorf("worker %s: a script still runs %v after the end of its connection; it must watch PeerClosed", w.addr, stopTimeout)
	}
	for _, err := range w.TakeFaults() {
		w.t.Errorf("worker %s: %v", w.addr, err)
	}
}

func (w *Worker) accept(l net.Listener) {
	defer w.tasks.Done()
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			w.fault(fmt.Errorf("cannot accept: %w", err))
			return
		}
		c := &conn{w: w}
		c.link, err = newLink(nc, c.peerLeft)
		if err != nil {
			w.fault(err)
			nc.Close()
			continue
		}
		w.touch()
		w.mu.Lock()
		stopped := w.listener == nil
		w.counts.Connections++
		c.number = w.counts.Connections
		if !stopped {
			w.counts.OpenConnections++
			c.open = true
			w.conns[c] = struct{}{}
			w.tasks.Add(1)
		}
		w.changed()
		w.mu.Unlock()
		if stopped {
			c.link.closeRST()
			continue
		}
		go c.read()
	}
}

func (w *Worker) fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, err)
}

// TakeFaults returns what the worker found wrong and forgets it: requests that
// are not HTTP/1.x, which it answers with a 400, and failures of its own.
func (w *Worker) TakeFaults() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.faults
	w.faults = nil
	return faults
}

// Seen returns the requests whose heads have arrived, in that order and without
// health checks. Of very many, or very big ones, the oldest are forgotten:
// 65,536 requests and 512 MB of bodies are kept.
func (w *Worker) Seen() []*Exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Exchange(nil), w.seen...)
}

// Forget drops the records of the requests that are over, which Seen has no more
// of then, so that a long test does not grow.
func (w *Worker) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetEnded()
}

// Requests counts the requests whose heads have arrived, without health checks:
// all, or those for the given paths (without query; of the first 4096 paths).
func (w *Worker) Requests(paths ...string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(paths) == 0 {
		return w.counts.Requests
	}
	n := 0
	for _, p := range paths {
		n += w.byPath[p]
	}
	return n
}

// Counts returns all counts at one instant.
func (w *Worker) Counts() Counts { return w.snapshot() }

// HealthChecks counts GET /health.
func (w *Worker) HealthChecks() int { return w.snapshot().HealthChecks }

// InFlight is the number of requests in flight; see the package comment.
func (w *Worker) InFlight() int { return w.snapshot().InFlight }

// MaxInFlight is the most that InFlight has been.
func (w *Worker) MaxInFlight() int { return w.snapshot().MaxInFlight }

// Connections counts the connections accepted so far.
func (w *Worker) Connections() int { return w.snapshot().Connections }

// OpenConnections counts the connections that neither side has ended.
func (w *Worker) OpenConnections() int { return w.snapshot().OpenConnections }

// QuietSince is when something last happened on the worker's sockets: a
// connection, bytes either way, an end. Without any it is the worker's start.
func (w *Worker) QuietSince() time.Time { return w.quietSince() }

// WaitInFlight waits until exactly n requests are in flight, if only for an
// instant. After timeout it fails the test and returns false.
func (w *Worker) WaitInFlight(n int, timeout time.Duration) bool {
	w.t.Helper()
	return w.WaitFor(fmt.Sprintf("%d requests in flight", n), func(c Counts) bool { return c.InFlight == n }, timeout)
}

// WaitRequests waits until at least n requests have arrived. After timeout it
// fails the test and returns false.
func (w *Worker) WaitRequests(n int, timeout time.Duration) bool {
	w.t.Helper()
	return w.WaitFor(fmt.Sprintf("%d requests", n), func(c Counts) bool { return c.Requests >= n }, timeout)
}

// WaitFor waits until cond holds, if only for an instant. After timeout it fails
// the test, naming what was waited for, and returns false. cond must be quick
// and must not call the worker.
func (w *Worker) WaitFor(what string, cond func(Counts) bool, timeout time.Duration) bool {
	w.t.Helper()
	if w.wait(cond, timeout) {
		return true
	}
	w.t.Errorf("worker %s: no %s within %v: %+v", w.addr, what, timeout, w.snapshot())
	return false
}

// Release lets every exchange whose script holds, or holds later, go on: one
// Hold of each request that has arrived so far.
func (w *Worker) Release() {
	for _, x := range w.Seen() {
		x.Release()
	}
}
