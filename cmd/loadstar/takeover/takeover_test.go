//go:build linux

package takeover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

func pathOf(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "door")
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func openDoor(t *testing.T, path string, sockets ...Socket) *Door {
	t.Helper()
	d, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Open(sockets); err != nil {
		t.Fatal(err)
	}
	return d
}

func askAt(t *testing.T, path string) *Before {
	t.Helper()
	b, err := Ask(path)
	if err != nil || b == nil {
		t.Fatalf("Ask = %v, %v, want the process before", b, err)
	}
	return b
}

var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// A connection that waits in the queue of a socket, and one that comes while nobody
// accepts, are both served by the next process.
func TestHandOver(t *testing.T) {
	path, ln := pathOf(t), listen(t)
	d := openDoor(t, path, Socket{"clients", "a:1", ln}, Socket{"spare", "b:2", listen(t)})
	defer d.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the door: %v, %v, want mode 0600", info, err)
	}
	queued, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer queued.Close()
	io.WriteString(queued, "one")

	b := askAt(t, path)
	defer b.Close()
	if got := b.Take("clients", "other:1"); got != nil {
		t.Error("Take for another address gave a socket, want none")
	}
	got := b.Take("clients", "a:1")
	if got == nil || b.Take("clients", "a:1") != nil {
		t.Fatal("Take twice: want the socket and then none")
	}
	defer got.Close()
	b.Drop()
	awaited := make(chan error, 1)
	go func() { awaited <- b.Await(t.Context(), always, patience) }()
	next := <-d.Asked()
	if err := next.Yield(); err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := <-awaited; err != nil || b.Gone() {
		t.Fatalf("Await: %v, gone %v, want neither", err, b.Gone())
	}
	late, err := net.Dial("tcp", got.Addr().String())
	if err != nil {
		t.Fatalf("a connection after the hand-over: %v", err)
	}
	defer late.Close()
	io.WriteString(late, "two")
	for _, want := range []string{"one", "two"} {
		c, err := got.Accept()
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 3)
		if _, err := io.ReadFull(c, text); err != nil || string(text) != want {
			t.Errorf("read %q, %v, want %q", text, err, want)
		}
		c.Close()
	}

	told := make(chan []Load, 100)
	go b.Loads(func(l []Load) { told <- l })
	telling, stop := context.WithCancel(t.Context())
	want := []Load{{"http://w:1", 3}}
	go next.Tell(telling, func() ([]Load, bool) { return want, true })
	for n := 0; n < 3; {
		switch l := <-told; {
		case slices.Equal(l, want):
			n++
		case l != nil: // nothing is what counts when a slow machine has been silent
			t.Fatalf("told %v, want %v", l, want)
		}
	}
	stop()
	for end := time.After(patience); ; {
		select {
		case l := <-told:
			if l == nil {
				return
			}
		case <-end:
			t.Fatal("what was told still counts after the connection has ended")
		}
	}
}

// Whoever is silent for a second counts for nothing, and counts again when he
// speaks.
func TestSilence(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	b := &Before{lines: make(chan line), closed: make(chan struct{})}
	go b.listen(newReader(ours))
	told := make(chan []Load, 100)
	go b.Loads(func(l []Load) { told <- l })
	for range 2 {
		started := time.Now()
		theirs.Write(appendLine(nil, line{Loads: &[]Load{{"w", 1}}}))
		if l := <-told; len(l) != 1 {
			t.Fatalf("told %v, want one load", l)
		}
		if l := <-told; l != nil || time.Since(started) < silence/2 {
			t.Fatalf("told %v after %v, want nothing after %v", l, time.Since(started), silence)
		}
	}
	theirs.Write([]byte("no line\n"))
	for end := time.After(patience); ; {
		select {
		case _, open := <-b.lines:
			if !open {
				return
			}
		case <-end:
			t.Fatal("a line that can't be understood doesn't end the conversation")
		}
	}
}

func TestNobodyThere(t *testing.T) {
	path := pathOf(t)
	if b, err := Ask(path); b != nil || err != nil {
		t.Errorf("Ask where there is nothing = %v, %v, want neither", b, err)
	}
	d, err := Make(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before Open there is something at the path: %v", err)
	}
	d.Close()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close() // left behind by a process that crashed
	if b, err := Ask(path); b != nil || err != nil {
		t.Errorf("Ask where somebody crashed = %v, %v, want neither", b, err)
	}
	d = openDoor(t, path)
	other := openDoor(t, path) // in its place
	d.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a door was taken away with the one before it: %v", err)
	}
	other.Close()
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("%q is left behind", left)
	}
}

// One at a time, and whoever ends or gives up leaves everything as it was.
func TestOneAtATime(t *testing.T) {
	path, ln := pathOf(t), listen(t)
	d := openDoor(t, path, Socket{"clients", "a:1", ln})
	b := askAt(t, path)
	if _, err := Ask(path); !errors.Is(err, ErrRefused) {
		t.Errorf("a second one: %v, want %v", err, ErrRefused)
	}
	if err := b.Await(t.Context(), nil, time.Millisecond); !errors.Is(err, ErrNotReady) {
		t.Errorf("Await of one that isn't ready: %v, want %v", err, ErrNotReady)
	}
	b.Close()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		b, err := Ask(path)
		if err == nil {
			go func() {
				next := <-d.Asked()
				next.Refuse("not today")
			}()
			if err := b.Await(t.Context(), always, patience); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "not today") {
				t.Errorf("Await: %v, want %v: not today", err, ErrRefused)
			}
			b.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after one has given up: %v", err)
		}
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Errorf("the socket: %v", err)
	}
	d.Close()
}

// The process before ends while the next one isn't ready: the sockets are its own.
func TestBeforeEnds(t *testing.T) {
	path, ln := pathOf(t), listen(t)
	d := openDoor(t, path, Socket{"clients", "a:1", ln})
	b := askAt(t, path)
	defer b.Close()
	got := b.Take("clients", "a:1")
	defer got.Close()
	d.Close()
	ln.Close()
	if err := b.Await(t.Context(), nil, patience); err != nil || !b.Gone() {
		t.Errorf("Await: %v, gone %v, want nil and true", err, b.Gone())
	}
	if _, err := net.Dial("tcp", got.Addr().String()); err != nil {
		t.Errorf("the socket: %v", err)
	}
}

// A line never gets longer than the other side reads.
func TestLongLoads(t *testing.T) {
	all := make([]Load, maxWorkers)
	for i := range all {
		all[i] = Load{strings.Repeat("w", 4000), i}
	}
	text := appendLine(nil, line{Loads: &all})
	if len(text) > maxLine {
		t.Errorf("%d bytes, want at most %d", len(text), maxLine)
	}
	if l, err := newReader(bytes.NewReader(text)).next(); err != nil || l.Loads == nil || len(*l.Loads) == 0 {
		t.Errorf("it is read as %v", err)
	}
}

// Whatever comes, a line is understood within bounds or refused.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		`{"takeover":1,"pid":7,"sockets":[{"name":"clients","address":"127.0.0.1:30000"}]}`,
		`{"ready":true}`, `{"yours":true}`, `{"refused":"why"}`, `{"loads":[]}`, `{"loads":[{"w":"http://a:1","n":3}]}`, `{"loads":[{"w":"a","n":-1}]}`, ``, `[]`, `nul`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLine(text)
		if err != nil {
			return
		}
		if len(l.Sockets) > maxSockets || l.Loads != nil && len(*l.Loads) > maxWorkers {
			t.Fatalf("%d sockets, beyond all bounds", len(l.Sockets))
		}
		if l.Loads != nil {
			for _, at := range *l.Loads {
				if at.N < 0 {
					t.Fatalf("a load of %d", at.N)
				}
			}
		}
		again, err := parseLine(bytes.TrimSuffix(appendLine(nil, l), []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(l)
		if b, _ := json.Marshal(again); !bytes.Equal(a, b) {
			t.Fatalf("%s is read again as %s", a, b)
		}
	})
}

func TestTrusted(t *testing.T) {
	for _, tc := range []struct {
		uid, own int
		want     bool
	}{{7, 7, true}, {0, 7, true}, {8, 7, false}, {7, 0, false}, {0, 0, true}} {
		if got := trusted(tc.uid, tc.own); got != tc.want {
			t.Errorf("trusted(%d, %d) = %v, want %v", tc.uid, tc.own, got, tc.want)
		}
	}
	path := pathOf(t)
	d := openDoor(t, path)
	defer d.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if uid, err := peerUser(c.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
		t.Errorf("the user at the other end is %d, %v, want %d", uid, err, os.Geteuid())
	}
}
