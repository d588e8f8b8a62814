package proxytest

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestParserMessages(t *testing.T) {
	tests := []struct {
		name     string
		in       string
		answer   bool
		answerTo string
		body     string
		used     int // bytes of in that belong to the message; -1 is all
		chunks   []int
		trailers []Header
		open     bool // not ended by its bytes
	}{
		{name: "get", in: "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET", used: 27},
		{name: "http 1.0 without host", in: "GET / HTTP/1.0\r\n\r\n", used: -1},
		{name: "length", in: "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcd", body: "abc", used: 51},
		{name: "length zero", in: "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", used: -1},
		{
			name: "chunks", in: "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nA: 1\r\nB:2\r\n\r\n",
			body: "abcd", used: -1, chunks: []int{3, 1}, trailers: []Header{{"A", "1"}, {"B", "2"}},
		},
		{name: "chunk with line ends", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n", answer: true, body: "\r\n\r\n", used: -1, chunks: []int{4}},
		{name: "answer with length", in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", answer: true, body: "ok", used: -1},
		{name: "answer without reason", in: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", answer: true, used: -1},
		{name: "answer up to close", in: "HTTP/1.1 200 OK\r\n\r\nok", answer: true, body: "ok", used: -1, open: true},
		{name: "answer to head", in: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", answer: true, answerTo: "HEAD", used: -1},
		{name: "204", in: "HTTP/1.1 204 No Content\r\n\r\nHTTP", answer: true, used: 27},
		{name: "304 with length", in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", answer: true, used: -1},
		{name: "103", in: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", answer: true, used: -1},
		{name: "101 goes on", in: "HTTP/1.1 101 Switching Protocols\r\n\r\nxyz", answer: true, body: "xyz", used: -1, open: true},
		{name: "length cut", in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", answer: true, body: "ok", used: -1, open: true},
	}
	for _, tt := range tests {
		for _, step := range []int{1, 2, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s by %d", tt.name, step), func(t *testing.T) {
				p := &parser{answer: tt.answer, answerTo: tt.answerTo, keep: true}
				used, err := feedBy(p, tt.in, step)
				if err != nil {
					t.Fatalf("got error %v, want none", err)
				}
				want := tt.used
				if want < 0 {
					want = len(tt.in)
				}
				if used != want {
					t.Errorf("used %d bytes, want %d", used, want)
				}
				if got := p.phase != finished; got != tt.open {
					t.Errorf("open is %v, want %v", got, tt.open)
				}
				if string(p.body) != tt.body {
					t.Errorf("body is %q, want %q", p.body, tt.body)
				}
				if !reflect.DeepEqual(p.chunks, tt.chunks) {
					t.Errorf("chunks are %v, want %v", p.chunks, tt.chunks)
				}
				if !reflect.DeepEqual(p.trailers, tt.trailers) {
					t.Errorf("trailers are %v, want %v", p.trailers, tt.trailers)
				}
				raw := p.body
				if p.framing == byChunks {
					raw = p.wire
				}
				if got := string(p.head) + string(raw); got != tt.in[:used] {
					t.Errorf("head and raw body are %q, want %q", got, tt.in[:used])
				}
			})
		}
	}
}

// feedBy feeds in in pieces of at most step bytes, as long as the parser takes any.
func feedBy(p *parser, in string, step int) (int, error) {
	used := 0
	for used < len(in) && p.phase != finished {
		n, err := p.feed([]byte(in[used:min(len(in), used+step)]))
		used += n
		if err != nil {
			return used, err
		}
	}
	return used, nil
}

func TestParserFaults(t *testing.T) {
	const ask, tell = "POST / HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, in string
		answer   bool
		want     string
	}{
		{"bare line feed", "GET / HTTP/1.1\nHost: h\r\n\r\n", false, "bare line feed"},
		{"empty line first", "\r\nGET / HTTP/1.1\r\n", false, "request line"},
		{"no version", "GET /\r\n\r\n", false, "request line"},
		{"http 2", "PRI * HTTP/2.0\r\n\r\n", false, "HTTP/2.0"},
		{"two spaces", "GET  / HTTP/1.1\r\n", false, "request line"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", false, "0 Host"},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", false, "2 Host"},
		{"folded", ask + "A: b\r\n c\r\n\r\n", false, "folded"},
		{"no colon", ask + "nonsense\r\n\r\n", false, "colon"},
		{"space before colon", ask + "A : b\r\n\r\n", false, "token"},
		{"carriage return in value", ask + "A: b\rc\r\n\r\n", false, "control"},
		{"two lengths", ask + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", false, "2 Content-Length"},
		{"length list", ask + "Content-Length: 1, 1\r\n\r\na", false, "not a number"},
		{"negative length", ask + "Content-Length: -1\r\n\r\n", false, "not a number"},
		{"signed length", ask + "Content-Length: +1\r\n\r\na", false, "not a number"},
		{"length and chunks", ask + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", false, "both"},
		{"two codings", ask + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", false, "2 Transfer-Encoding"},
		{"other coding", ask + "Transfer-Encoding: gzip, chunked\r\n\r\n", false, "gzip"},
		{"chunked http 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", false, "HTTP/1.0"},
		{"chunk size", ask + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n", false, "chunk size"},
		{"empty chunk size", ask + "Transfer-Encoding: chunked\r\n\r\n\r\n", false, "chunk size"},
		{"long chunk", ask + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", false, "longer than its size"},
		{"bare feed after chunk", ask + "Transfer-Encoding: chunked\r\n\r\n1\r\na\n", false, "bare line feed"},
		{"endless head", ask + strings.Repeat("a", maxHead), false, "exceed"},
		{"status line", "HTTP/1.1 20 OK\r\n", true, "status line"},
		{"no status", "hello\r\n", true, "status line"},
		{"answer with both", tell + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", true, "both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1000, 1 << 22} {
				_, err := feedBy(&parser{answer: tt.answer, keep: true}, tt.in, step)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("by %d: got error %v, want one with %q", step, err, tt.want)
				}
			}
		})
	}
}

// FuzzParser cuts a message into pieces anywhere and wants what a slow reading
// of the whole gives.
func FuzzParser(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", uint64(3), false)
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nrest", uint64(77), false)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n", uint64(5), true)
	f.Add("HTTP/1.1 200 OK\r\n\r\nrest", uint64(1), true)
	f.Add("HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nrest", uint64(9), true)
	f.Fuzz(func(t *testing.T, in string, cuts uint64, answer bool) {
		p := &parser{answer: answer, keep: true}
		used := 0
		var err error
		for used < len(in) && p.phase != finished && err == nil {
			cuts = cuts*6364136223846793005 + 1442695040888963407
			var n int
			n, err = p.feed([]byte(in[used:min(len(in), used+1+int(cuts>>60))]))
			used += n
		}
		body, rest, ok := slowParse(in, answer)
		if got := err == nil && p.phase == finished; got != ok {
			t.Fatalf("whole message: got %v (error %v, phase %d), want %v", got, err, p.phase, ok)
		}
		if ok && (string(p.body) != body || in[used:] != rest) {
			t.Fatalf("got body %q and rest %q, want %q and %q", p.body, in[used:], body, rest)
		}
		whole := &parser{answer: answer, keep: true}
		_, wholeErr := feedBy(whole, in, len(in)+1)
		if (wholeErr == nil) != (err == nil) {
			t.Fatalf("in pieces error is %v, at once %v", err, wholeErr)
		}
		if err == nil && (!bytes.Equal(whole.body, p.body) || !bytes.Equal(whole.wire, p.wire) || !reflect.DeepEqual(whole.headers, p.headers)) {
			t.Fatalf("in pieces and at once differ for %q", in)
		}
	})
}

// slowParse reads a message that is whole in in; ok says whether it is, and ends
// before the connection does.
func slowParse(in string, answer bool) (body, rest string, ok bool) {
	head, rest, found := strings.Cut(in, "\r\n\r\n")
	if !found {
		return "", "", false
	}
	lines := strings.Split(head, "\r\n")
	proto, status := "", 0
	if words := strings.SplitN(lines[0], " ", 3); answer {
		if len(words) < 2 || len(words[1]) != 3 {
			return "", "", false
		}
		proto = words[0]
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 100 {
			return "", "", false
		}
		status = n
	} else {
		if len(words) < 3 || words[1] == "" || !isToken(words[0]) {
			return "", "", false
		}
		proto = words[2]
	}
	if proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return "", "", false
	}
	hosts, lengths, codings := 0, []string{}, []string{}
	for _, line := range lines[1:] {
		name, value, colon := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !colon || !isToken(name) || strings.ContainsAny(value, "\r\x00") {
			return "", "", false
		}
		switch strings.ToLower(name) {
		case "host":
			hosts++
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			codings = append(codings, strings.ToLower(value))
		}
	}
	switch {
	case strings.Contains(strings.ReplaceAll(head, "\r\n", ""), "\n"):
		return "", "", false
	case len(lengths)+len(codings) > 1:
		return "", "", false
	case !answer && proto == "HTTP/1.1" && hosts != 1:
		return "", "", false
	case len(codings) == 1 && (codings[0] != "chunked" || proto == "HTTP/1.0"):
		return "", "", false
	}
	length := 0
	if len(lengths) == 1 {
		n, err := strconv.ParseUint(lengths[0], 10, 62)
		if err != nil {
			return "", "", false
		}
		length = int(n)
	}
	switch {
	case answer && (status == 204 || status == 304 || status/100 == 1 && status != 101):
		return "", rest, true
	case len(codings) == 1:
		return slowChunks(rest)
	case len(lengths) == 1:
		if len(rest) < length {
			return "", "", false
		}
		return rest[:length], rest[length:], true
	}
	return "", rest, !answer
}

func slowChunks(in string) (body, rest string, ok bool) {
	for {
		line, after, found := strings.Cut(in, "\r\n")
		digits, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(digits, 16, 62)
		if !found || err != nil || strings.Contains(line, "\n") {
			return "", "", false
		}
		if n == 0 {
			in = after
			break
		}
		if uint64(len(after)) < n+2 || after[n:n+2] != "\r\n" {
			return "", "", false
		}
		body += after[:n]
		in = after[n+2:]
	}
	for {
		line, after, found := strings.Cut(in, "\r\n")
		if !found {
			return "", "", false
		}
		in = after
		if line == "" {
			return body, in, true
		}
		name, value, colon := strings.Cut(line, ":")
		if !colon || !isToken(name) || strings.ContainsAny(value, "\n\x00") || strings.Contains(strings.Trim(value, " \t"), "\r") {
			return "", "", false
		}
	}
}
