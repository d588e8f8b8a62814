package load

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

// An answer is read alike however it is cut into reads.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}",
		streamHead + chunk(event) + chunk(doneEvent) + lastChunk,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.0 503 Busy\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > bufferBytes/2 { // what is too long for the buffer depends on the reads
			return
		}
		var a, b answer
		err := (&wire{from: bytes.NewReader(text)}).read(&a)
		errBytewise := (&wire{from: iotest.OneByteReader(bytes.NewReader(text))}).read(&b)
		if (err == nil) != (errBytewise == nil) || a.status != b.status || a.bytes != b.bytes || a.events != b.events || a.done != b.done || a.closing != b.closing {
			t.Fatalf("at once: %+v, %v; byte by byte: %+v, %v", a, err, b, errBytewise)
		}
	})
}

// Events of a stream in chunks of any size are those of its lines.
func FuzzEvents(f *testing.F) {
	f.Add("data: x\n\n: ping\n\ndata: [DONE]\n\n", 3)
	f.Add("data:[DONE]\r\ndata: [DONE]    x\ndat: a\n", 100)
	f.Add("data: [DONE]", 1)
	f.Fuzz(func(t *testing.T, body string, size int) {
		if len(body) > 4096 {
			return
		}
		size = min(max(size, 1), 4096)
		text := streamHead
		for rest := body; rest != ""; {
			n := min(size, len(rest))
			text, rest = text+chunk(rest[:n]), rest[n:]
		}
		var a answer
		err := (&wire{from: strings.NewReader(text + lastChunk)}).read(&a)
		events, done := slow(body)
		if a.events != events || a.done != done || a.bytes != int64(len(body)) || (err == nil) != done {
			t.Fatalf("%d events, end mark: %v, %d bytes, %v; want %d, %v, %d", a.events, a.done, a.bytes, err, events, done, len(body))
		}
	})
}

// slow counts events by whole lines.
func slow(body string) (events int, done bool) {
	lines := strings.Split(body, "\n")
	for _, line := range lines[:len(lines)-1] {
		data, isData := strings.CutPrefix(line, "data:")
		switch {
		case !isData:
		case len(line) < 16 && strings.TrimSpace(data) == "[DONE]":
			done = true
		default:
			events++
		}
	}
	return events, done
}
