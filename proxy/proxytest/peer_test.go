package proxytest

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bigSize is more than sockets hold, so that whoever writes it to a peer that does
// not read is stuck.
const bigSize = 16 << 20

// TestPeerLeaving has the client leave in every state that a script or a
// connection can be in, and wants it seen at once and for what it is.
func TestPeerLeaving(t *testing.T) {
	post := Request{Method: "POST", Target: "/a", Body: "hello"}
	states := []struct {
		name   string
		script func(reached chan<- struct{}) Script
		early  bool
		send   func(c *Client) error
		noRead bool // the client reads nothing
		noRun  bool // no script is to run
		noFIN  bool // a FIN cannot get through
	}{
		{
			name: "silent",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) { reached <- struct{}{}; x.Hold() }
			},
		},
		{
			name: "sleeping",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) { reached <- struct{}{}; x.Sleep(time.Hour) }
			},
		},
		{
			name: "streaming",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) {
					x.SSEHead()
					x.Event("one")
					reached <- struct{}{}
					for x.Event("more") && x.Sleep(time.Millisecond) {
					}
				}
			},
		},
		{
			name: "streaming without a pause",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) {
					x.SSEHead()
					reached <- struct{}{}
					for x.Event("more") {
					}
				}
			},
		},
		{
			name: "between events",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) {
					x.SSEHead()
					x.Event("one")
					reached <- struct{}{}
					x.Hold()
				}
			},
		},
		{
			// Unread bytes at the client make its kernel answer with an RST
			// whatever it does, so only that is asked for here.
			name: "stuck in a write", noRead: true, noFIN: true,
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) {
					x.Head(200, H("Content-Length", fmt.Sprint(bigSize)))
					reached <- struct{}{}
					x.Raw(strings.Repeat("x", bigSize))
				}
			},
		},
		{
			name: "behind a pipelined request",
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) { reached <- struct{}{}; x.Hold() }
			},
			send: func(c *Client) error {
				return c.Send(post.Head(c.host) + "hello" + post.Head(c.host) + "hello" + "GET /half")
			},
		},
		{
			name: "mid-body", noRun: true,
			script: func(chan<- struct{}) Script { return func(*Exchange) {} },
			send: func(c *Client) error {
				return c.Send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
			},
		},
		{
			name: "mid-chunk", noRun: true,
			script: func(chan<- struct{}) Script { return func(*Exchange) {} },
			send: func(c *Client) error {
				return c.Send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf")
			},
		},
		{
			name: "early script with the body unread", early: true,
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) { reached <- struct{}{}; x.Hold() }
			},
		},
		{
			name: "early script that waits for the body", early: true,
			script: func(reached chan<- struct{}) Script {
				return func(x *Exchange) { reached <- struct{}{}; x.ReadBody() }
			},
			send: func(c *Client) error {
				return c.Send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
			},
		},
	}
	for _, st := range states {
		for _, how := range []string{"FIN", "RST", "half-close"} {
			if st.noFIN && how != "RST" {
				continue
			}
			t.Run(st.name+" "+how, func(t *testing.T) {
				reached := make(chan struct{}, 10)
				script := st.script(reached)
				w := NewWorker(t, script)
				if st.early {
					w.SetScript(func(*Exchange) {})
					w.SetEarly(script)
				}
				c := Dial(t, w.Addr())
				if st.noRead {
					c.StopReading()
				}
				if st.send != nil {
					must(t, st.send(c))
				} else {
					must(t, c.SendRequest(post))
				}
				w.WaitRequests(1, within)
				x := w.Seen()[0]
				if !st.noRun {
					await(t, reached, "script")
				}
				// A client that leaves with unread bytes sends an RST: let it
				// read what was sent before. The stream without a pause has no
				// such moment, and its FIN comes with an RST behind.
				if st.name == "between events" {
					if _, err := c.ReadEvent(within); err != nil {
						t.Fatal(err)
					}
				}
				left := time.Now()
				switch how {
				case "FIN":
					c.CloseFIN()
				case "RST":
					c.Reset()
				default:
					c.HalfClose()
				}
				await(t, x.PeerClosed(), "sign of the peer's leaving")
				if got := w.InFlight(); got != 0 {
					t.Errorf("in flight are %d when the peer is seen to have left, want 0", got)
				}
				if got := x.Outcome(); got != Abandoned {
					t.Errorf("outcome is %v, want %v", got, Abandoned)
				}
				if took := x.PeerClosedAt().Sub(left); took > within {
					t.Errorf("leaving was seen after %v, want less than %v", took, within)
				}
				if got, want := x.PeerReset(), how == "RST"; got != want {
					t.Errorf("reset is %v, want %v", got, want)
				}
				if got := w.OpenConnections(); got != 0 {
					t.Errorf("open connections are %d, want 0", got)
				}
			})
		}
	}
}

// TestResetIsNeverTakenForFIN has a reset race with a stream of writes, which
// may consume the one error by which the kernel tells of it.
func TestResetIsNeverTakenForFIN(t *testing.T) {
	w := NewWorker(t, func(x *Exchange) {
		x.SSEHead()
		for x.Event("more") {
		}
	})
	const rounds = 300
	for i := range rounds {
		c := Dial(t, w.Addr())
		must(t, c.Get("/"))
		if _, err := c.ReadEvent(within); err != nil {
			t.Fatal(err)
		}
		wantReset := i%2 == 0
		if wantReset {
			c.Reset()
		} else {
			c.CloseFIN()
		}
		x := w.Seen()[i]
		await(t, x.PeerClosed(), "sign of the peer's leaving")
		if got := x.PeerReset(); got != wantReset {
			t.Fatalf("round %d: reset is %v, want %v", i, got, wantReset)
		}
	}
}

// TestResetConsumedByAWrite has a write be told of the reset that a read then
// sees as a plain end, at the worst moment: before the write has said so.
func TestResetConsumedByAWrite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	c := Dial(t, l.Addr().String())
	nc, err := l.Accept()
	must(t, err)
	end, err := newLink(nc, nil)
	must(t, err)
	defer end.closeRST()

	end.writing.Lock()
	c.Reset()
	// As a write does, asking for the socket's error consumes it.
	for consumed := false; !consumed; {
		must(t, end.raw.Control(func(fd uintptr) { _, _, consumed = departed(fd) }))
	}
	read := make(chan error, 1)
	go func() {
		_, err := end.read(make([]byte, 1), func() {})
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("the read ended with %v before the write had said what it knows", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := end.noteWrite(syscall.ECONNRESET); !errors.Is(err, ErrReset) {
		t.Errorf("got error %v, want %v", err, ErrReset)
	}
	end.writing.Unlock()
	if err := <-read; !errors.Is(err, ErrReset) {
		t.Errorf("the read ended with %v, want %v", err, ErrReset)
	}
	if !end.reset() {
		t.Error("the link says FIN, want RST")
	}
}

// TestClientTellsResetFromFIN is the same question at the client's end, which
// writes while the worker goes.
func TestClientTellsResetFromFIN(t *testing.T) {
	for _, reset := range []bool{true, false} {
		t.Run(fmt.Sprintf("reset %v", reset), func(t *testing.T) {
			for range 100 {
				w := NewWorker(t, Silent)
				w.SetEarly(func(x *Exchange) {
					if reset {
						x.Reset()
					} else {
						x.HalfClose()
						<-x.PeerClosed()
					}
				})
				c := Dial(t, w.Addr())
				must(t, c.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n"))
				piece := strings.Repeat("x", 1000)
				for i := 0; i < 1000 && c.Send(piece) == nil; i++ {
				}
				await(t, c.PeerClosed(), "sign of the worker's leaving")
				if got := c.PeerReset(); got != reset {
					t.Fatalf("reset is %v, want %v", got, reset)
				}
				c.Close()
				w.finish()
			}
		})
	}
}

// TestParkedReaderStandsStill wants that an early script's body stays in the
// socket: the client must feel it.
func TestParkedReaderStandsStill(t *testing.T) {
	w := NewWorker(t, JSON(200, "{}"))
	w.SetEarly(func(x *Exchange) { x.Hold() })
	c := Dial(t, w.Addr())
	sent := make(chan error, 1)
	go func() { sent <- c.Post("/", strings.Repeat("x", bigSize)) }()
	w.WaitRequests(1, within)
	x := w.Seen()[0]
	select {
	case err := <-sent:
		t.Fatalf("16 MB were sent to a worker that reads nothing (error %v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	if x.BodyWhole() || x.Body() != nil {
		t.Errorf("body was read during the early script")
	}
	x.Release()
	must(t, <-sent)
	if resp := mustRead(t, c); resp.Status != 200 {
		t.Errorf("status is %d, want 200", resp.Status)
	}
	if got := len(x.Body()); got != bigSize {
		t.Errorf("body has %d bytes, want %d", got, bigSize)
	}
}
