package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
)

// asked returns a connection that has carried a request before, and its other end.
func asked(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	w := newWorker(t, "127.0.0.1", nil)
	p := testPool(t, "http://"+w.addr, options())
	c, end := dial(t, p, w)
	p.Put(c, time.Now())
	if got := p.Idle(time.Now()); got != c || !c.Asks() {
		t.Fatalf("Idle() = %p, Asks() = %v; want %p, true", got, c.Asks(), c)
	}
	for _, e := range []net.Conn{c, end} {
		if err := e.SetDeadline(time.Now().Add(3 * patience)); err != nil { // for many rounds
			t.Fatal(err)
		}
	}
	return c, end
}

// TestAskManyTimes checks that an answer is noticed whenever it comes: before the
// read has begun to wait, at that moment, or later.
func TestAskManyTimes(t *testing.T) {
	c, end := asked(t)
	const rounds = 20_000
	served := make(chan error, 1)
	go func() {
		b := make([]byte, 7)
		for i := range rounds {
			if _, err := io.ReadFull(end, b); err != nil {
				served <- err
				return
			}
			for range i % 5 {
				runtime.Gosched()
			}
			if _, err := end.Write([]byte("answer")); err != nil {
				served <- err
				return
			}
		}
		served <- nil
	}()
	for i := range rounds {
		c.Ask([]byte("request"))
		got, err := c.Reader().Peek(6)
		if err != nil || string(got) != "answer" {
			t.Fatalf("round %d: %q, error %v; want an answer", i, got, err)
		}
		if _, err := c.Reader().Discard(6); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestAskTimeout checks that a read whose deadline comes has written what was asked,
// once, and that a later read gets the answer.
func TestAskTimeout(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
	}{{"over already", -time.Second}, {"soon", 20 * time.Millisecond}} {
		t.Run(tt.name, func(t *testing.T) {
			c, end := asked(t)
			if err := c.SetReadDeadline(time.Now().Add(tt.wait)); err != nil {
				t.Fatal(err)
			}
			c.Ask([]byte("request"))
			if _, err := c.Reader().Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) || !timedOut(err) {
				t.Fatalf("read: %v, want a timeout", err)
			}
			if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			got := make(chan []byte, 1)
			go func() {
				b := make([]byte, 7)
				_, _ = io.ReadFull(end, b) // what it got is compared
				_, _ = end.Write([]byte("answer"))
				end.Close()
				rest, _ := io.ReadAll(end)
				got <- append(b, rest...)
			}()
			if b, err := io.ReadAll(c.Reader()); err != nil || string(b) != "answer" {
				t.Errorf("%q, error %v; want the answer", b, err)
			}
			if b := <-got; string(b) != "request" {
				t.Errorf("the worker got %q, want the request once", b)
			}
		})
	}
}

// TestAskLarge checks that what the socket doesn't take at once still arrives.
func TestAskLarge(t *testing.T) {
	c, end := asked(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, len(want))
		_, _ = io.ReadFull(end, b) // what it got is compared
		_, _ = end.Write([]byte("answer"))
		got <- b
	}()
	c.Ask(want)
	if b, err := c.Reader().Peek(6); err != nil || string(b) != "answer" {
		t.Errorf("%q, error %v; want the answer", b, err)
	}
	if !bytes.Equal(<-got, want) {
		t.Error("the worker got something else than was written")
	}
}

// TestAskEnds checks how a read ends that waits for an answer which doesn't come.
func TestAskEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(c *Conn, end net.Conn)
		want error
	}{
		{"the worker closes", func(_ *Conn, end net.Conn) { end.Close() }, io.EOF},
		{"the client leaves", func(c *Conn, _ net.Conn) { c.Interrupter().Close() }, net.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, end := asked(t)
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.ReadFull(end, make([]byte, 7)) // it is the read's end that counts
				tt.do(c, end)
			}()
			c.Ask([]byte("request"))
			if _, err := c.Reader().Peek(1); !errors.Is(err, tt.want) {
				t.Errorf("read: %v, want %v", err, tt.want)
			}
			<-read
		})
	}
}
