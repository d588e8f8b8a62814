package upstream

import (
	"bytes"
	"io"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// slowSize is the grammar of the line that announces a chunk.
var slowSize = regexp.MustCompile(`^([0-9A-Fa-f]{1,15})[ \t]*(?s:;.*)?$`)

// slowDechunk decodes a body that is whole, plainly written.
func slowDechunk(stream []byte) (data []byte, used int, done, bad bool) {
	s := string(stream)
	pos := 0
	// line takes a line; it reports false if there is none, and sets bad if
	// there can't be.
	line := func() (string, bool) {
		i := strings.Index(s[pos:], "\n")
		if i < 0 {
			bad = len(s)-pos > maxChunkLine
			return "", false
		}
		l := s[pos : pos+i]
		if i > maxChunkLine || !strings.HasSuffix(l, "\r") || strings.Count(l, "\r") != 1 {
			bad = true
			return "", false
		}
		pos += i + 1
		return l[:i-1], true
	}
	for {
		l, ok := line()
		if !ok {
			return data, pos, false, bad
		}
		m := slowSize.FindStringSubmatch(l)
		if m == nil {
			return data, pos, false, true
		}
		size, err := strconv.ParseInt(m[1], 16, 64)
		if err != nil {
			panic(err)
		}
		if size == 0 {
			break
		}
		n := int(min(size, int64(len(s)-pos)))
		data = append(data, s[pos:pos+n]...)
		pos += n
		end := s[pos:min(pos+2, len(s))]
		switch {
		case int64(n) < size:
			return data, pos, false, false
		case end != crlf[:len(end)]:
			return data, pos, false, true
		case len(end) < 2:
			return data, pos, false, false
		}
		pos += 2
	}
	for start := pos; ; {
		l, ok := line()
		if !ok {
			return data, pos, false, bad
		}
		if pos-start > maxTrailerBytes {
			return data, pos, false, true
		}
		if l == "" {
			return data, pos, true, false
		}
	}
}

// chunkParts are what the fuzzer builds bodies of.
var chunkParts = []string{
	"0\r\n", "\r\n", "1\r\n", "5\r\n", "A\r\n", "1f\r\n", "hello", "x", "0\r\n\r\n", "5\r\nhello\r\n", "1\r\nx\r\n", "1;a=b\r\nx\r\n",
	"5 \r\n", "5 ;a\r\n", ";", "\n", "\r", " ", "\t", "X-A: b\r\n", "000000000000005\r\n", "0000000000000005\r\n",
	"fffffffffffffff\r\n", "ffffffffffffffff\r\n", "10000000000000005\r\n", "+5\r\n", "-1\r\n", "0x5\r\n", "\x00",
	strings.Repeat("x", 500), strings.Repeat("y", 1020), "2\r\n\r\n\r\n", "HTTP/1.1 200 OK\r\n",
}

func FuzzDechunker(f *testing.F) {
	for i := range chunkParts {
		f.Add([]byte{9, byte(i), 8}, []byte(nil), uint16(1))
		f.Add([]byte{byte(i)}, []byte("5\r\nhello\r\n0\r\n\r\n"), uint16(3))
	}
	f.Add([]byte(nil), []byte("5\r\nhello\r\n0\r\nX: y\r\n\r\nmore"), uint16(0x0105))
	f.Fuzz(func(t *testing.T, recipe, raw []byte, step uint16) {
		var body []byte
		for _, b := range recipe {
			body = append(body, chunkParts[int(b)%len(chunkParts)]...)
		}
		body = append(body, raw...)

		want, wantUsed, wantDone, wantBad := slowDechunk(body)
		for _, pieces := range [][][]byte{{body}, irregular(body, step)} {
			var d Dechunker
			data, used, done, err := feed(t, &d, pieces...)
			if !bytes.Equal(data, want) || done != wantDone || (err != nil) != wantBad {
				t.Fatalf("%q: data %q, done %v, error %v; want %q, %v, at fault %v", body, data, done, err, want, wantDone, wantBad)
			}
			if err == nil && used != wantUsed {
				t.Fatalf("%q: %d bytes used, want %d", body, used, wantUsed)
			}
		}
		agree(t, body, want, wantUsed, wantDone)
	})
}

// irregular cuts b into pieces whose sizes change with step.
func irregular(b []byte, step uint16) (pieces [][]byte) {
	small, large := int(step&0xff)+1, int(step>>8)+1
	for i := 0; len(b) > 0; i++ {
		n := min(small, len(b))
		if i%2 == 1 {
			n = min(large, len(b))
		}
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// agree checks against net/http that a body accepted here is one to it, with the
// same data. It leaves the trailer to its caller.
func agree(t *testing.T, body, data []byte, used int, done bool) {
	t.Helper()
	if !done {
		return
	}
	got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body[:used])))
	switch {
	case err == nil && !bytes.Equal(got, data):
		t.Fatalf("%q: data %q, but net/http reads %q", body, data, got)
	case err == nil:
	case strings.Contains(err.Error(), "too much non-data"): // its bound on extensions
	case strings.Contains(err.Error(), "invalid byte") && regexp.MustCompile(`[ \t];`).Match(body):
		// RFC 9112 allows blanks before an extension.
	default:
		t.Fatalf("%q: accepted, but net/http says %v", body, err)
	}
}
