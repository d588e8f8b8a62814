package watch

import (
	"io"
	"net"
	"testing"
	"time"
)

// pair returns the two ends of a loopback connection.
func pair(t testing.TB) (client *net.TCPConn, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s
}

func newWatcher(t testing.TB) *Watcher {
	t.Helper()
	w, err := New(Hooks{Unwatched: func(err error) { t.Errorf("unwatched: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// target is a connection to a worker as far as the watcher can tell.
type target chan struct{}

func (c target) Close() error { close(c); return nil }

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

func wantClosed(t testing.TB, c target) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("the connection to the worker was not closed within %v", patience)
	}
}

func wantOpen(t testing.TB, c target) {
	t.Helper()
	select {
	case <-c:
		t.Fatal("the connection to the worker was closed")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestClientThatLeaves(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave func(t *testing.T, c *net.TCPConn)
	}{
		{"FIN", func(_ *testing.T, c *net.TCPConn) { c.Close() }},
		{"RST", func(_ *testing.T, c *net.TCPConn) { c.SetLinger(0); c.Close() }},
		{"half close", func(_ *testing.T, c *net.TCPConn) { c.CloseWrite() }},
		{"FIN behind pipelined bytes", func(t *testing.T, c *net.TCPConn) {
			if _, err := c.Write(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}},
	} {
		for _, before := range []bool{true, false} {
			name := tc.name + ", armed before"
			if !before {
				name = tc.name + ", armed after"
			}
			t.Run(name, func(t *testing.T) {
				w := newWatcher(t)
				client, server := pair(t)
				g, up := w.NewGuard(), make(target)
				if before {
					g.Arm(server, up)
					wantOpen(t, up)
				}
				tc.leave(t, client)
				if !before {
					g.Arm(server, up)
				}
				wantClosed(t, up)
				if !g.Left() {
					t.Error("Left() = false after the client left")
				}
				if !g.Disarm() {
					t.Error("Disarm() = false after the client left")
				}
				if _, err := server.Write([]byte("x")); err == nil {
					t.Error("a write to the client went through, want it ended by a deadline")
				}
			})
		}
	}
}

func TestClientThatStays(t *testing.T) {
	w := newWatcher(t)
	client, server := pair(t)
	g, up := w.NewGuard(), make(target)
	g.Arm(server, up)
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, up)
	if g.Left() || g.Disarm() {
		t.Error("a client that stays counts as one that left")
	}
	// Once disarmed, the target may belong to another request.
	client.Close()
	wantOpen(t, up)
}

func TestTargetSetAfterTheClientLeft(t *testing.T) {
	w := newWatcher(t)
	client, server := pair(t)
	g, first, second := w.NewGuard(), make(target), make(target)
	g.Arm(server, first)
	client.Close()
	wantClosed(t, first)
	g.Target(nil)
	g.Target(second)
	wantClosed(t, second)
	g.Disarm()
}

func TestJoin(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run("the client leaves "+when, func(t *testing.T) {
			w := newWatcher(t)
			client, server := pair(t)
			main, side := w.NewGuard(), w.NewGuard()
			first, second := make(target), make(target)
			main.Arm(server, first)
			if when == "before" {
				client.Close()
				wantClosed(t, first)
			}
			side.Join(main)
			side.Target(second)
			if when == "after" {
				wantOpen(t, second)
				client.Close()
				wantClosed(t, first)
			}
			wantClosed(t, second)
			if !side.Left() || !side.Disarm() {
				t.Error("the guard that joined did not notice")
			}
			if !main.Disarm() {
				t.Error("the guard that was joined did not notice")
			}
		})
	}
}

// What ends for one of two goroutines doesn't for the other.
func TestDisarmOfTheSide(t *testing.T) {
	w := newWatcher(t)
	client, server := pair(t)
	main, side := w.NewGuard(), w.NewGuard()
	first, second := make(target), make(target)
	main.Arm(server, first)
	side.Join(main)
	side.Target(second)
	if side.Disarm() {
		t.Error("a client that stays counts as one that left")
	}
	client.Close()
	wantClosed(t, first)
	wantOpen(t, second)
	main.Disarm()
}

func TestCut(t *testing.T) {
	w := newWatcher(t)
	_, server := pair(t)
	main, side := w.NewGuard(), w.NewGuard()
	first, second := make(target), make(target)
	main.Arm(server, first)
	side.Join(main)
	side.Target(second)
	side.Cut()
	wantClosed(t, second)
	wantOpen(t, first)
	third := make(target)
	side.Target(nil)
	side.Target(third)
	wantClosed(t, third) // as is what comes later
	if side.Left() || side.Disarm() || main.Disarm() {
		t.Error("a client that stays counts as one that left")
	}
	// It holds for one use of the guard.
	fourth := make(target)
	main.Arm(server, nil)
	side.Join(main)
	side.Target(fourth)
	wantOpen(t, fourth)
	side.Disarm()
	main.Disarm()
}

// A guard that is disarmed meanwhile isn't the watcher's to touch any more.
func TestCutBesideDisarm(t *testing.T) {
	w := newWatcher(t)
	_, server := pair(t)
	main, side := w.NewGuard(), w.NewGuard()
	main.Arm(server, nil)
	for range 200 {
		side.Join(main)
		side.Target(io.NopCloser(nil))
		cut := make(chan struct{})
		go func() {
			side.Cut()
			close(cut)
		}()
		side.Disarm()
		<-cut
	}
	main.Disarm()
}

func TestTargetTakenOut(t *testing.T) {
	w := newWatcher(t)
	client, server := pair(t)
	g, first, second := w.NewGuard(), make(target), make(target)
	g.Arm(server, first)
	g.Target(nil)
	g.Target(second)
	client.Close()
	wantClosed(t, second)
	wantOpen(t, first)
	g.Disarm()
}

func TestWaitEndsWhenTheClientLeaves(t *testing.T) {
	w := newWatcher(t)
	client, server := pair(t)
	g := w.NewGuard()
	g.Arm(server, nil)
	if g.Wait(time.Millisecond) {
		t.Error("Wait() = true for a client that stays")
	}
	time.AfterFunc(10*time.Millisecond, func() { client.Close() })
	if !g.Wait(time.Minute) {
		t.Error("Wait() = false for a client that left")
	}
	g.Disarm()
}

// TestGuardIsReused: a guard that was told of one client's leaving must not
// hold it against the next.
func TestGuardIsReused(t *testing.T) {
	w := newWatcher(t)
	g := w.NewGuard()
	for range 100 {
		client, server := pair(t)
		g.Arm(server, nil)
		client.Close()
		g.Disarm() // told or not
		_, stays := pair(t)
		g.Arm(stays, nil)
		if g.Left() {
			t.Fatal("the guard remembers the client before")
		}
		if g.Disarm() {
			t.Fatal("a client that stays counts as one that left")
		}
	}
}

// TestDisarmKeepsTheTarget: after Disarm nothing may close the target, however
// close the client's leaving was.
func TestDisarmKeepsTheTarget(t *testing.T) {
	w := newWatcher(t)
	for range 300 {
		client, server := pair(t)
		g, up := w.NewGuard(), make(target)
		g.Arm(server, up)
		go client.Close()
		left := g.Disarm()
		select {
		case <-up:
			if !left {
				t.Fatal("closed, but Disarm() = false")
			}
		default:
			if left {
				t.Fatal("Disarm() = true, but the target is open")
			}
		}
		server.Close()
	}
}

func TestManyAtOnce(t *testing.T) {
	w := newWatcher(t)
	const n = 300
	done := make(chan bool, n)
	for i := range n {
		client, server := pair(t)
		go func() {
			g, up := w.NewGuard(), make(target)
			g.Arm(server, up)
			if i%2 == 0 {
				client.Close()
				<-up
			}
			done <- g.Disarm() == (i%2 == 0)
		}()
	}
	for range n {
		if !<-done {
			t.Fatal("a guard was told of another's client")
		}
	}
}

func TestStopFreesGuards(t *testing.T) {
	w, err := New(Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	_, server := pair(t)
	g := w.NewGuard()
	g.Arm(server, nil)
	w.Stop()
	g.Target(make(target))
	g.Target(nil)
	if g.Disarm() {
		t.Error("a stopped watcher reported that the client left")
	}
	g.Arm(server, nil)
	g.Disarm()
}

func TestNoWatcher(t *testing.T) {
	_, server := pair(t)
	g := (*Watcher)(nil).NewGuard()
	g.Arm(server, nil)
	if g.Armed() || g.Left() || g.Disarm() {
		t.Error("a guard without a watcher noticed something")
	}
}

func BenchmarkArmDisarm(b *testing.B) {
	w := newWatcher(b)
	_, server := pair(b)
	g, up := w.NewGuard(), make(target)
	b.ReportAllocs()
	for b.Loop() {
		g.Arm(server, up)
		g.Disarm()
	}
}

// BenchmarkLeave is the time from a client's close to the worker's connection
// being closed.
func BenchmarkLeave(b *testing.B) {
	w := newWatcher(b)
	g := w.NewGuard()
	for b.Loop() {
		b.StopTimer()
		client, server := pair(b)
		up := make(target)
		g.Arm(server, up)
		time.Sleep(100 * time.Microsecond)
		b.StartTimer()
		client.Close()
		<-up
		b.StopTimer()
		g.Disarm()
		server.Close()
		b.StartTimer()
	}
}
