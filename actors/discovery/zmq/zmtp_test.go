package zmq

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"loadstar/actors"
)

// fromLibzmq is what a DEALER of libzmq 4.3.5 (pyzmq 27.3.0) sent: its greeting,
// its READY, one ping packed by Python's msgpack 1.2, and a heartbeat.
const fromLibzmq = "ff00000000000000117f03014e554c4c000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" +
	"04390552454144590b536f636b65742d54797065000000064445414c4552084964656e74697479000000103139322e302e322e34303a3231303031" +
	"004283a474797065a150ac687474705f61646472657373af3139322e302e322e34303a38303030ab7a6d715f61646472657373b03139322e302e322e34303a3231303031" +
	"04070450494e470000"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{in: bufio.NewReaderSize(in, bufferSize), out: out}
}

func TestLibzmq(t *testing.T) {
	var sent bytes.Buffer
	// A byte at a time, as a network may.
	w := newWire(iotest.OneByteReader(bytes.NewReader(unhex(t, fromLibzmq))), &sent)
	if err := w.handshake(); err != nil {
		t.Fatal(err)
	}
	message, err := w.readMessage()
	if err != nil {
		t.Fatal(err)
	}
	want := Registration{Role: actors.Prefill, HTTPAddress: addr, ZMQAddress: zaddr, TPSize: 1, DPSize: 1}
	if got, err := parse(message, false); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	const hello = "ff00000000000000017f03014e554c4c000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" +
		"04290552454144590b536f636b65742d5479706500000006524f55544552084964656e7469747900000000"
	if got := hex.EncodeToString(sent.Bytes()); got != hello {
		t.Errorf("it was greeted %s, want %s", got, hello)
	}
	sent.Reset()
	if _, err := w.readMessage(); !errors.Is(err, io.EOF) {
		t.Errorf("after the heartbeat got %v, want %v", err, io.EOF)
	}
	if got, want := sent.String(), "\x04\x05\x04PONG"; got != want {
		t.Errorf("the heartbeat was answered %q, want %q", got, want)
	}
}

const dealerReady = "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"

func TestHandshakeRefuses(t *testing.T) {
	hello := string(greeting[:])
	tests := []struct {
		name, bytes, want string
	}{
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "does not speak ZeroMQ: its first byte is 0x47"},
		{"TLS", "\x16\x03\x01", "does not speak ZeroMQ"},
		{"ZMTP 2.0", "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x05", "older than 3.0"},
		{"revision 2", "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x02\x05", "older than 3.0"},
		{"ZMTP 1.0", "\xff\x00\x00\x00\x00\x00\x00\x00\x05\x00id..", "older than 3.0"},
		{"PLAIN", strings.Replace(hello, "NULL\x00", "PLAIN", 1), `mechanism "PLAIN"`},
		{"CURVE", strings.Replace(hello, "NULL\x00", "CURVE", 1), `mechanism "CURVE"`},
		{"no READY", hello + "\x00\x01x", "no READY"},
		{"an empty message for READY", hello + "\x00\x00", "no READY"},
		{"an empty command for READY", hello + "\x04\x00", "cut short"},
		{"READY as a message", hello + strings.Replace(dealerReady, "\x04", "\x00", 1), "no READY"},
		{"another command", hello + "\x04\x05\x04PING", "no READY"},
		{"an ERROR", hello + "\x04\x0a\x05ERROR\x03no!", `the peer ended the handshake: "\x03no!"`},
		{"a command longer than its frame", hello + "\x04\x06\x06READY", "cut short"},
		{"no socket type", hello + "\x04\x06\x05READY", `a "" socket`},
		{"REQ", hello + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ", `a "REQ" socket`},
		{"a property longer than its frame", hello + strings.Replace(dealerReady, "\x06D", "\x07D", 1), "cut short"},
		{"a property of four billion", hello + strings.Replace(dealerReady, "\x00\x00\x00\x06", "\xff\xff\xff\xff", 1), "cut short"},
		{"a property's name longer than its frame", hello + "\x04\x0a\x05READY\x04abc", "cut short"},
		{"a property without a value", hello + "\x04\x0a\x05READY\x03abc", "cut short"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := newWire(strings.NewReader(tt.bytes), io.Discard).handshake()
			var fault protocolError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a protocol error with %q", err, tt.want)
			}
		})
	}
}

// Names of properties have no case, and one may come before another.
func TestHandshakeTakes(t *testing.T) {
	in := string(greeting[:]) + "\x04\x29\x05READY\x08identity\x00\x00\x00\x00\x0bSOCKET-TYPE\x00\x00\x00\x06DEALER"
	if err := newWire(strings.NewReader(in), io.Discard).handshake(); err != nil {
		t.Error(err)
	}
}

// A connection that ends early is nobody's fault.
func TestHandshakeCut(t *testing.T) {
	whole := string(greeting[:]) + dealerReady
	for n := range len(whole) {
		err := newWire(strings.NewReader(whole[:n]), io.Discard).handshake()
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("after %d bytes got %v, want the end of the stream", n, err)
		}
	}
}

func TestReadMessage(t *testing.T) {
	long := strings.Repeat("x", maxFrame)
	many := strings.Repeat("\x01\x00", maxFrames-1)
	tests := []struct {
		name, bytes, want, wantErr string
	}{
		{name: "short", bytes: "\x00\x02ab", want: "ab"},
		{name: "empty", bytes: "\x00\x00", want: ""},
		{name: "short with a long size", bytes: "\x02\x00\x00\x00\x00\x00\x00\x00\x02ab", want: "ab"},
		{name: "the longest", bytes: "\x02\x00\x00\x00\x00\x00\x00\x40\x00" + long, want: long},
		{name: "behind commands", bytes: "\x04\x05\x04PONG\x04\x04\x03FOO\x00\x02ab", want: "ab"},
		{name: "of many frames", bytes: "\x01\x02ab\x01\x00\x00\x01c", want: "ab"},
		{name: "of as many frames as allowed", bytes: many + "\x00\x00", want: ""},
		{name: "of too many frames", bytes: many + "\x01\x00\x00\x00", wantErr: "more than 16 frames"},
		{name: "one byte too long", bytes: "\x02\x00\x00\x00\x00\x00\x00\x40\x01" + long, wantErr: "a frame has 16385 bytes"},
		{name: "as long as can be", bytes: "\x02\xff\xff\xff\xff\xff\xff\xff\xff", wantErr: "a frame has 18446744073709551615 bytes"},
		{name: "a second frame too long", bytes: "\x01\x02ab\x02\xff\xff\xff\xff\xff\xff\xff\xff", wantErr: "a frame has"},
		{name: "reserved flags", bytes: "\x08\x00", wantErr: "the flags 0x08"},
		{name: "a command with more", bytes: "\x05\x05\x04PONG", wantErr: "the flags 0x05"},
		{name: "a command within", bytes: "\x01\x02ab\x04\x05\x04PONG", wantErr: "a command within"},
		{name: "an empty command", bytes: "\x04\x00", wantErr: "a command is cut short"},
		{name: "a PING without a time", bytes: "\x04\x05\x04PING", wantErr: "a PING has the wrong size"},
		{name: "a PING with half a time", bytes: "\x04\x06\x04PING\x00", wantErr: "a PING has the wrong size"},
		{name: "a PING with too much", bytes: "\x04\x18\x04PING\x00\x00" + strings.Repeat("x", 17), wantErr: "a PING has the wrong size"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newWire(strings.NewReader(tt.bytes), io.Discard).readMessage()
			if tt.wantErr == "" {
				if err != nil || string(got) != tt.want {
					t.Errorf("got %.40q, %v, want %.40q", got, err, tt.want)
				}
				return
			}
			var fault protocolError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %.40q, %v, want a protocol error with %q", got, err, tt.wantErr)
			}
		})
	}
}

// The frames of a message behind its first don't reach into the next message.
func TestReadMessages(t *testing.T) {
	w := newWire(strings.NewReader("\x01\x02ab\x01\x03\x00\x01x\x00\x01c\x00\x02de"), io.Discard)
	for _, want := range []string{"ab", "de"} {
		if got, err := w.readMessage(); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestPong(t *testing.T) {
	var sent bytes.Buffer
	context := strings.Repeat("c", 16)
	w := newWire(strings.NewReader("\x04\x17\x04PING\x00\x0a"+context), &sent)
	if _, err := w.readMessage(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got, want := sent.String(), "\x04\x15\x04PONG"+context; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// No bytes break the reader, and what it holds is bounded.
func FuzzWire(f *testing.F) {
	f.Add(unhex(f, fromLibzmq))
	f.Add([]byte(string(greeting[:]) + dealerReady + "\x01\x02ab\x00\x01c\x04\x07\x04PING\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWire(bytes.NewReader(b), io.Discard)
		err := w.handshake()
		for n := 0; err == nil; n++ {
			if n > len(b) {
				t.Fatalf("%d bytes gave more messages than bytes", len(b))
			}
			var message []byte
			if message, err = w.readMessage(); err == nil {
				_, _ = parse(message, n%2 == 0)
			}
		}
		if cap(w.frame) > maxFrame {
			t.Fatalf("the buffer has %d bytes, want at most %d", cap(w.frame), maxFrame)
		}
	})
}
