package upstream

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// canary surrounds what Decode may touch.
const canary = 0xA5

// feed gives a body to d in pieces as a connection's buffer does: what isn't
// used comes again with what arrives next. It stops at the end or at a fault,
// and checks that d keeps to its bounds.
func feed(t testing.TB, d *Dechunker, pieces ...[]byte) (data []byte, used int, done bool, err error) {
	t.Helper()
	var rest []byte
	for _, piece := range pieces {
		unread := slices.Concat(rest, piece)
		room := bytes.Repeat([]byte{canary}, len(unread)+16)
		p := room[8 : 8+len(unread)] // its capacity reaches past its end
		copy(p, unread)
		got, n, ended, fault := d.Decode(p)
		if n > len(p) || len(got) > n {
			t.Fatalf("%d bytes used and %d returned of %d", n, len(got), len(p))
		}
		if len(got) > 0 && &got[0] != &p[0] {
			t.Fatal("the data was copied, want it moved to the front")
		}
		if !bytes.Equal(p[n:], unread[n:]) {
			t.Fatalf("what isn't used was changed to %q from %q", p[n:], unread[n:])
		}
		if !bytes.Equal(room[:8], room[len(room)-8:]) || room[0] != canary || bytes.Count(room[:8], []byte{canary}) != 8 {
			t.Fatal("something outside of the input was changed")
		}
		data, used, done, err = append(data, got...), used+n, ended, fault
		rest = bytes.Clone(unread[n:])
		if done || err != nil {
			return data, used, done, err
		}
		if len(rest) > maxChunkLine {
			t.Fatalf("%d bytes are left unused, want at most %d", len(rest), maxChunkLine)
		}
	}
	return data, used, done, err
}

// cutAt cuts b into two pieces.
func cutAt(b string, n int) [][]byte { return [][]byte{[]byte(b[:n]), []byte(b[n:])} }

// cutUp cuts b into pieces of n bytes.
func cutUp(b string, n int) (pieces [][]byte) {
	for len(b) > n {
		pieces, b = append(pieces, []byte(b[:n])), b[n:]
	}
	return append(pieces, []byte(b))
}

func TestDecode(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 500)
	for _, tt := range []struct{ name, body, want string }{
		{"empty", "0\r\n\r\n", ""},
		{"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"},
		{"several", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc"},
		{"capital digits", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
		{"small digits", "a\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
		{"zeros in front", "00005\r\nhello\r\n000\r\n\r\n", "hello"},
		{"large", "1f40\r\n" + long + "\r\n0\r\n\r\n", long},
		{"extension", "5;a\r\nhello\r\n0;b=c\r\n\r\n", "hello"},
		{"quoted extension", "5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", "hello"},
		{"blanks", "5 \t\r\nhello\r\n0 \r\n\r\n", "hello"},
		{"blank before the extension", "5 ; a\r\nhello\r\n0\r\n\r\n", "hello"},
		{"line ends in the data", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"},
		{"chunks in the data", "9\r\n0\r\n\r\n5\r\nh\r\n0\r\n\r\n", "0\r\n\r\n5\r\nh"},
		{"trailer", "1\r\na\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n", "a"},
		{"NUL in the data", "2\r\n\x00\n\r\n0\r\n\r\n", "\x00\n"},
		{"longest line", "1;" + strings.Repeat("x", maxChunkLine-3) + "\r\na\r\n0\r\n\r\n", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const behind = "HTTP/1.1 200 OK\r\n"
			stream := tt.body + behind
			check := func(t *testing.T, pieces [][]byte) {
				t.Helper()
				var d Dechunker
				data, used, done, err := feed(t, &d, pieces...)
				if err != nil || !done {
					t.Fatalf("done %v, error %v; want the end", done, err)
				}
				if string(data) != tt.want {
					t.Errorf("data %.100q, want %.100q", data, tt.want)
				}
				if used != len(tt.body) {
					t.Errorf("%d bytes used, want %d: what follows is not the body's", used, len(tt.body))
				}
				if data, used, done, err := d.Decode([]byte(behind)); len(data) > 0 || used != 0 || !done || err != nil {
					t.Errorf("Decode behind the end: %q, %d, %v, %v; want nothing, and done", data, used, done, err)
				}
			}
			for cut := range stream {
				check(t, cutAt(stream, cut))
			}
			for n := 1; n < 20; n++ {
				check(t, cutUp(stream, n))
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"no size", "\r\nhello\r\n0\r\n\r\n"},
		{"only blanks", " \r\nhello\r\n"},
		{"only an extension", ";a\r\nhello\r\n"},
		{"no number", "x\r\nhello\r\n"},
		{"sign", "+5\r\nhello\r\n"},
		{"negative", "-5\r\nhello\r\n"},
		{"prefix", "0x5\r\nhello\r\n"},
		{"underscore", "1_0\r\nhello\r\n"},
		{"blank in front", " 5\r\nhello\r\n"},
		{"blank within", "1 0\r\nhello\r\n"},
		{"other script", "\u0665\r\nhello\r\n"},
		{"16 digits", "0000000000000005\r\nhello\r\n"},
		{"2^64", "10000000000000000\r\nhello\r\n"},
		{"2^64 + 5", "10000000000000005\r\nhello\r\n"},
		{"line feed alone behind the size", "5\nhello\r\n0\r\n\r\n"},
		{"line feed alone behind the data", "5\r\nhello\n0\r\n\r\n"},
		{"line feed alone behind the last size", "5\r\nhello\r\n0\n\r\n"},
		{"line feed alone at the end", "5\r\nhello\r\n0\r\n\n"},
		{"line feed alone in the trailer", "0\r\nX-A: b\n\r\n"},
		{"line feed in an extension", "5;a\nb\r\nhello\r\n"},
		{"CR in an extension", "5;a\rb\r\nhello\r\n"},
		{"CR in the trailer", "0\r\nX-A: b\rX-B: c\r\n\r\n"},
		{"CR twice behind the size", "5\r\r\nhello\r\n"},
		{"more data than announced", "5\r\nhello!\r\n0\r\n\r\n"},
		{"no line end behind the data", "5\r\nhello0\r\n\r\n"},
		{"CR alone behind the data", "5\r\nhello\r0\r\n\r\n"},
		{"line too long", "5;" + strings.Repeat("x", maxChunkLine-2) + "\r\nhello\r\n"},
		{"line without end", strings.Repeat("0", maxChunkLine+1)},
		{"trailer's line too long", "0\r\nX: " + strings.Repeat("x", maxChunkLine) + "\r\n\r\n"},
		{"trailer's line without end", "0\r\n" + strings.Repeat("x", maxChunkLine+1)},
		{"trailer too long", "0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 17) + "\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := max(1, len(tt.body)/200)
			for cut := 0; cut < len(tt.body); cut += step {
				var d Dechunker
				if _, _, done, err := feed(t, &d, cutAt(tt.body, cut)...); !errors.Is(err, ErrChunk) {
					t.Fatalf("cut at %d: done %v, error %v, want %v", cut, done, err, ErrChunk)
				}
			}
		})
	}
}

// TestDecodeAtOnce checks that data is handed out as soon as it has come, that
// a fault behind it is seen without waiting for a line to end, and that what
// came before the fault is there.
func TestDecodeAtOnce(t *testing.T) {
	var d Dechunker
	for _, tt := range []struct {
		piece, want string
		used        int
	}{
		{"5", "", 0},
		{"5\r", "", 0},
		{"5\r\n", "", 3},
		{"h", "h", 1},
		{"ello", "ello", 4},
		{"\r", "", 0},
		{"\r\n3\r\nabc", "abc", 8},
		{"\r\n1\r\n", "", 5},
	} {
		data, used, done, err := d.Decode([]byte(tt.piece))
		if string(data) != tt.want || used != tt.used || done || err != nil {
			t.Fatalf("%q: %q, %d used, done %v, error %v; want %q, %d, and to go on", tt.piece, data, used, done, err, tt.want, tt.used)
		}
	}
	data, _, _, err := d.Decode([]byte("x!"))
	if string(data) != "x" || !errors.Is(err, ErrChunk) {
		t.Errorf("%q and error %v, want x and %v", data, err, ErrChunk)
	}
}

// TestDecodeEndless checks that a chunk of the largest size passes through.
func TestDecodeEndless(t *testing.T) {
	var d Dechunker
	if _, _, _, err := d.Decode([]byte("fffffffffffffff\r\n")); err != nil {
		t.Fatal(err)
	}
	if d.left != 1<<60-1 {
		t.Fatalf("%d bytes left, want 2^60-1", d.left)
	}
	p := bytes.Repeat([]byte("x"), 1<<16)
	for range 100 {
		if data, used, done, err := d.Decode(p); len(data) != len(p) || used != len(p) || done || err != nil {
			t.Fatalf("%d bytes of data, %d used, done %v, error %v; want all, and to go on", len(data), used, done, err)
		}
	}
}

// TestDecodeLongTrailer checks that a trailer just within its bounds passes.
func TestDecodeLongTrailer(t *testing.T) {
	line := "X: " + strings.Repeat("x", 1024-3-2) + "\r\n"
	body := "0\r\n" + strings.Repeat(line, maxTrailerBytes/1024-1) + "Y: " + strings.Repeat("y", 1024-3-2-2) + "\r\n\r\n"
	if got, want := len(body)-3, maxTrailerBytes; got != want {
		t.Fatalf("the trailer has %d bytes, want %d", got, want)
	}
	var d Dechunker
	if _, used, done, err := feed(t, &d, cutUp(body, 1000)...); used != len(body) || !done || err != nil {
		t.Errorf("%d bytes used, done %v, error %v; want %d, and the end", used, done, err, len(body))
	}
}
