package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// frame is a frame's head as it stands on the wire, and a body that may be shorter.
func frame(more bool, claimed uint64, body int) []byte {
	flags := byte(0)
	if more {
		flags = 1
	}
	if claimed < 256 {
		return append([]byte{flags, byte(claimed)}, make([]byte, body)...)
	}
	return append(binary.BigEndian.AppendUint64([]byte{flags | 2}, claimed), make([]byte, body)...)
}

func TestMessagesAreBounded(t *testing.T) {
	small := frame(false, 10, 10)
	for _, tc := range []struct {
		name   string
		stream []byte
		ok     bool
	}{
		{"small ones, without end", bytes.Repeat(small, 100), true},
		{"the largest one", append(frame(false, maxMessage, maxMessage), small...), true},
		{"one that is larger", frame(false, maxMessage+1, 0), false},
		{"far beyond what there is", frame(false, 1<<63, 0), false},
		{"two frames that are too large together", append(frame(true, maxMessage/2, maxMessage/2), frame(false, maxMessage/2+1, 0)...), false},
		{"two messages that would be", append(frame(false, maxMessage/2, maxMessage/2), frame(false, maxMessage/2+1, 0)...), true},
		{"as many frames as may be", append(bytes.Repeat(frame(true, 1, 1), maxFrames-1), small...), true},
		{"one more", append(bytes.Repeat(frame(true, 1, 1), maxFrames), small...), false},
		{"empty frames without end", bytes.Repeat(frame(true, 0, 0), maxFrames+1), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			b := bounded{left: greetingSize}
			ok := b.allow(make([]byte, greetingSize))
			for p := tc.stream; ok && len(p) > 0; { // in pieces, as they come
				n := min(1+r.IntN(20), len(p))
				if r.IntN(2) == 0 {
					n = len(p)
				}
				ok = b.allow(p[:n])
				p = p[n:]
			}
			if ok != tc.ok {
				t.Errorf("allowed: %v, want %v", ok, tc.ok)
			}
		})
	}
}

// A peer that claims a huge message ends its connection, and nothing is made room for.
func TestPeerThatClaimsMuch(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		greeting := [greetingSize]byte{0: 0xFF, 9: 0x7F, 10: 3, 12: 'N', 13: 'U', 14: 'L', 15: 'L'}
		ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
		c.Write(greeting[:])
		c.Write(append([]byte{4, byte(len(ready))}, ready...))
		c.Write(frame(false, 1<<40, 0))
		io.Copy(io.Discard, c)
	}()
	w, err := dial(t.Context(), l.Addr().String(), zmq4.Sub)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if _, _, err := w.receive(20 * time.Second); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v, want %v", err, errTooLarge)
	}
}

// A peer that says nothing doesn't keep a source from ending.
func TestSilentPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		accepted <- c
	}()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := dial(ctx, l.Addr().String(), zmq4.Sub)
		failed <- err
	}()
	c := <-accepted
	defer c.Close()
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("the handshake went well, want an error")
		}
	case <-time.After(4 * time.Second): // the handshake's own limit is longer
		t.Error("the source still waits for its peer")
	}
}
