package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWiden checks that what is buffered passes into the wider buffer, and that
// a connection that was put back has its narrow one again.
func TestWiden(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, end := dial(t, p, w)
	sent := strings.Repeat("0123456789abcdef", 1024)
	sendAll(t, end, []byte(sent))
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reader().Discard(10); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reader().Peek(readerSize); err != nil {
		t.Fatal(err)
	}
	c.Widen(len(sent))
	if got := c.Reader().Size(); got != len(sent) {
		t.Errorf("the buffer has %d bytes, want %d", got, len(sent))
	}
	got, err := c.Reader().Peek(len(sent) - 10)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != sent[10:] {
		t.Error("the wider buffer holds something else than was sent")
	}
	if _, err := c.Reader().Discard(len(got)); err != nil {
		t.Fatal(err)
	}
	p.Put(c, time.Now())
	if p.Idle(time.Now()) != c {
		t.Fatal("the connection was not kept")
	}
	if got := c.Reader().Size(); got != readerSize {
		t.Errorf("used again, the buffer has %d bytes, want %d", got, readerSize)
	}
	wantOpen(t, c, end)
}

// TestWidenToLess checks that a limit below the usual buffer loses nothing.
func TestWidenToLess(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, end := dial(t, p, w)
	sendAll(t, end, []byte("abcd"))
	discard(t, c, 1)
	c.Widen(16)
	if b, err := c.Reader().Peek(3); err != nil || string(b) != "bcd" {
		t.Errorf("%q, error %v; want bcd", b, err)
	}
	discard(t, c, 3)
	p.Put(c, time.Now())
	if p.Idle(time.Now()) != c {
		t.Error("the connection was not kept")
	}
}

// sendAll writes b at the worker's end, in the background.
func sendAll(t *testing.T, end net.Conn, b []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := end.Write(b)
		sent <- err
	}()
	t.Cleanup(func() {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

func TestWriteBuffers(t *testing.T) {
	ca := newIssuer(t)
	for _, tt := range []struct {
		name, scheme string
		sizes        []int
	}{
		{"plain", "http", []int{100, 300}},
		{"plain, with empty ones", "http", []int{0, 100, 0, 1}},
		{"plain, large", "http", []int{200, 16 << 20}},
		{"TLS", "https", []int{100, 300}},
		{"TLS, large", "https", []int{200, 16 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			w := newWorker(t, "127.0.0.1", nil)
			if tt.scheme == "https" {
				o.TLS = trusting(ca)
				w = newWorker(t, "127.0.0.1", ca.server(t, "127.0.0.1"))
			}
			p := testPool(t, tt.scheme+"://"+w.addr, o)
			c, end := dial(t, p, w)
			var want []byte
			var b net.Buffers
			for i, n := range tt.sizes {
				part := bytes.Repeat([]byte{byte('a' + i)}, n)
				want, b = append(want, part...), append(b, part)
			}
			type result struct {
				n   int64
				err error
			}
			written := make(chan result, 1)
			go func() {
				n, err := c.WriteBuffers(&b)
				written <- result{n, err}
			}()
			got := make([]byte, len(want))
			if err := end.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(end, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Error("something else came than was written")
			}
			if r := <-written; r.n != int64(len(want)) || r.err != nil || len(b) != 0 {
				t.Errorf("%d bytes written, error %v, %d buffers left; want %d, none, none", r.n, r.err, len(b), len(want))
			}
		})
	}
}

// TestResumes checks what Resumes says: that a write that ran into its deadline
// goes on where it stopped, or never again.
func TestResumes(t *testing.T) {
	ca := newIssuer(t)
	for _, tt := range []struct {
		scheme string
		want   bool
	}{{"http", true}, {"https", false}} {
		t.Run(tt.scheme, func(t *testing.T) {
			o := options()
			w := newWorker(t, "127.0.0.1", nil)
			if tt.scheme == "https" {
				o.TLS = trusting(ca)
				w = newWorker(t, "127.0.0.1", ca.server(t, "127.0.0.1"))
			}
			p := testPool(t, tt.scheme+"://"+w.addr, o)
			c, end := dial(t, p, w)
			want := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
			b := net.Buffers{want[:200], want[200:]}
			if err := c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := c.WriteBuffers(&b)
			if !timedOut(err) || n >= int64(len(want)) {
				t.Fatalf("%d bytes written, error %v; want a part and a timeout", n, err)
			}
			got := make([]byte, len(want))
			read := make(chan int, 1)
			go func() {
				n, _ := io.ReadFull(end, got) // that it is cut short is told by n
				read <- n
			}()
			if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			m, err := c.WriteBuffers(&b)
			c.Close()
			whole := <-read == len(want) && bytes.Equal(got, want)
			if on := err == nil && n+m == int64(len(want)) && whole; on != tt.want || c.Resumes() != tt.want {
				t.Errorf("it went on %v (error %v), Resumes() = %v; want both %v", on, err, c.Resumes(), tt.want)
			}
		})
	}
}

func TestCloseTwice(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, end := dial(t, p, w)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := c.Close(); err == nil {
		t.Error("Close again: no error, want one")
	}
	wantEnd(t, end)
}

// TestReset checks that the worker learns from a reset that nobody wants its answer,
// and from a close that there is nothing more to answer.
func TestReset(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(c *Conn) error
		reset bool
	}{
		{"Close", (*Conn).Close, false},
		{"Reset", func(c *Conn) error { c.Reset(); return nil }, true},
		{"Interrupter", func(c *Conn) error { return c.Interrupter().Close() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t, "127.0.0.1", nil)
			p := testPool(t, "http://"+w.addr, options())
			c, end := dial(t, p, w)
			if err := tt.end(c); err != nil {
				t.Fatal(err)
			}
			if err := end.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			_, err := end.Read(make([]byte, 1))
			if got := errors.Is(err, syscall.ECONNRESET); got != tt.reset || !got && !errors.Is(err, io.EOF) {
				t.Errorf("the worker reads %v, want a reset: %v", err, tt.reset)
			}
		})
	}
}

// TestInterrupter checks that closing what lies beneath ends a read that waits.
func TestInterrupter(t *testing.T) {
	ca := newIssuer(t)
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			o := options()
			w := newWorker(t, "127.0.0.1", nil)
			if scheme == "https" {
				o.TLS = trusting(ca)
				w = newWorker(t, "127.0.0.1", ca.server(t, "127.0.0.1"))
			}
			p := testPool(t, scheme+"://"+w.addr, o)
			c, end := dial(t, p, w)
			read := make(chan error, 1)
			go func() {
				_, err := c.Reader().Peek(1)
				read <- err
			}()
			if err := c.Interrupter().Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-read:
				if err == nil {
					t.Error("the read got something, want an error")
				}
			case <-time.After(patience):
				t.Fatal("the read still waits")
			}
			wantEnd(t, end)
			c.Close()
		})
	}
}
