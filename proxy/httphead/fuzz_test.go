package httphead

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// slowLine is the grammar of a header line, of bytes read as Latin-1.
var slowLine = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*((?:[!-~\u0080-\u00ff](?:[\t -~\u0080-\u00ff]*[!-~\u0080-\u00ff])?)?)[\t ]*$")

// slowLines is LinesOf, plainly written.
func slowLines(raw []byte) (lines []string, ok bool) {
	runes := make([]rune, len(raw))
	for i, c := range raw {
		runes[i] = rune(c)
	}
	rest := string(runes)
	for rest != "" {
		line, after, ended := strings.Cut(rest, "\n")
		if !ended || !strings.HasSuffix(line, "\r") {
			return lines, false
		}
		if line = line[:len(line)-1]; line == "" {
			break
		}
		m := slowLine.FindStringSubmatch(line)
		if m == nil {
			return lines, false
		}
		lines, rest = append(lines, m[1]+"="+m[2]), after
	}
	return lines, true
}

func latin1(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "\r\n", "A: b\r\n\r\n", "A: b\n\n", "A: b\r\n c\r\n\r\n", "A : b\r\n", ": b\r\n", "A\r\n", "A: \x00\r\n", "A: b\rc\r\n",
		"A:\xff\r\n", "a:\t b\t \r\nB:\r\n\r\nC", "A: b\r\r\n", "A: b\r\n\nC: d\r\n\r\n", "A:\r\n\t\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		want, ok := slowLines(raw)
		var got []string
		l := LinesOf(raw)
		for l.Next() {
			got = append(got, latin1(l.Name)+"="+latin1(l.Value))
		}
		if (l.Err() == nil) != ok {
			t.Fatalf("%q: error %v, want accepted %v", raw, l.Err(), ok)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: lines %q, want %q", raw, got, want)
		}
		if !bytes.Equal(raw, before) {
			t.Fatalf("the input was changed to %q from %q", raw, before)
		}
	})
}

// heads are where the fuzzing of answers begins.
var heads = []string{
	"HTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 4611686018427387903\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 4611686018427387904\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 0005\r\nConnection: close\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nTrailer: X-T\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: X-A, keep-alive\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
	"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
	"HTTP/1.1 200 \r\nContent-Type: text/event-stream; charset=utf-8\r\nServer: s\r\nServer: t\r\nDate: d\r\n\r\n",
	"HTTP/1.1 299 \xe9\t \r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b\r\nContent-Encoding: gzip\r\nx-a: \xff\r\nX-a:\r\n\r\n",
	"HTTP/1.1 200 OK\nA: b\n\nbody\r\n\r\n",
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nPragma: no-cache\r\nx-request-id: 1\r\n\r\n",
	"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n\r\n",
}

// lines are header lines that say something to a parser.
var lines = []string{
	"Content-Length: 5", "content-length: 5", "Content-Length: 0", "Content-Length: 6", "Content-Length:", "Content-Length: +5",
	"Content-Length: 4611686018427387903", "Content-Length: 9223372036854775807", "Content-Length : 5",
	"Transfer-Encoding: chunked", "TRANSFER-ENCODING: Chunked", "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked",
	"Connection: close", "connection: keep-alive", "CONNECTION: Keep-Alive, X-A", "Connection: x-b ,close", "Connection: Content-Type",
	"Connection: upgrade", "Upgrade: h2c", "Keep-Alive: timeout=5", "Trailer: X-A", "TE: trailers", "Proxy-Connection: close",
	"X-A: 1", "x-a: 2", "X-B:", "X-B: \t b \t", "x-request-id: r", "X-Request-ID: s", "Date: d", "Server: s", "server: t",
	"Content-Type: text/event-stream", "content-type: text/plain", "Content-Encoding: gzip", "Set-Cookie: a=b; Path=/", "set-cookie: =",
	"Set-Cookie:", "Cache-Control: no-store", "Pragma: no-cache", "Retry-After: 1", "X-Accel-Buffering: no", "Vary: *", "Content-Type:", "Server:", "Content-Encoding:", "Content-Encoding: identity", "HTTP/1.1: 200 OK",
	" folded", "\tfolded", "no colon", ": no name", "X-A: \xff\x80", "X-A: \x00", "X A: blank", "X-A: a\rb", "X-A: b\nX-B: c", "",
}

// headOf puts together the head that a recipe asks for: a byte for the status
// line, then one for each header line. raw goes in front of the line at its end.
func headOf(recipe, raw []byte) []byte {
	if len(recipe) == 0 {
		return raw
	}
	statuses := []string{
		"HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 200", "HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified",
		"HTTP/1.1 100 Continue", "HTTP/1.0 302 Found", "HTTP/1.1 503 \xe9 \t",
	}
	head := []byte(statuses[int(recipe[0])%len(statuses)])
	for _, b := range recipe[1:] {
		head = append(append(head, "\r\n"...), lines[int(b)%len(lines)]...)
	}
	if len(raw) > 0 {
		head = append(append(head, "\r\n"...), raw...)
	}
	return append(head, "\r\n\r\n"...)
}

// addHeads gives a fuzz target its first inputs.
func addHeads(add func(recipe, raw []byte)) {
	for _, h := range heads {
		add(nil, []byte(h))
	}
	for i := range lines {
		for s := range 2 {
			add([]byte{byte(s), byte(i)}, []byte("X-C: 1"))
		}
	}
}

// parsed is the head at the front of data, or nil when there is none that is
// accepted.
func parsed(t *testing.T, data []byte) (head []byte, a *Answer) {
	t.Helper()
	end := HeadEnd(data, 0)
	if end < 0 {
		return nil, nil
	}
	a = new(Answer)
	if a.ParseAnswer(data[:end]) != nil {
		return nil, nil
	}
	if i := bytes.Index(data, crlf2); i != end-len(crlf2) {
		t.Fatalf("%q: accepted up to %d, but its empty line is at %d", data, end, i)
	}
	return data[:end], a
}

// FuzzAnswer checks against net/http that whatever is accepted means the same
// to it.
func FuzzAnswer(f *testing.F) {
	addHeads(func(recipe, raw []byte) {
		f.Add(recipe, raw, false)
		f.Add(recipe, raw, true)
	})
	f.Fuzz(func(t *testing.T, recipe, raw []byte, isHead bool) {
		head, a := parsed(t, headOf(recipe, raw))
		if head == nil {
			return
		}
		method := http.MethodGet
		if isHead {
			method = http.MethodHead
		}
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: method})
		if err != nil {
			if strings.Contains(err.Error(), "trailer key") {
				return // what a Trailer header says is not looked at here
			}
			t.Fatalf("%q: accepted, but net/http says %v", head, err)
		}
		defer want.Body.Close()
		checkStatus(t, head, a, want)
		checkFraming(t, head, a, want, isHead)
		checkHeaders(t, head, a, want)
	})
}

func checkStatus(t *testing.T, head []byte, a *Answer, want *http.Response) {
	t.Helper()
	// net/http keeps the status line from its code on.
	reason := strings.TrimPrefix(strings.TrimPrefix(want.Status, strconv.Itoa(want.StatusCode)), " ")
	if a.Status != want.StatusCode || strings.Trim(string(a.Reason), " \t") != strings.Trim(reason, " \t") {
		t.Fatalf("%q: status %d %q, want %d %q", head, a.Status, a.Reason, want.StatusCode, reason)
	}
}

func checkFraming(t *testing.T, head []byte, a *Answer, want *http.Response, isHead bool) {
	t.Helper()
	chunked := slices.Equal(want.TransferEncoding, []string{"chunked"})
	if chunked && a.Length != Chunked {
		t.Fatalf("%q: length %d, want chunks", head, a.Length)
	}
	if a.HasBody(isHead) {
		length := int64(-1)
		if a.Length > 0 {
			length = a.Length
		}
		if want.ContentLength != length || chunked != (a.Length == Chunked) {
			t.Fatalf("%q: length %d, want %d, chunked %v", head, a.Length, want.ContentLength, chunked)
		}
	} else if !isHead && want.ContentLength != 0 {
		t.Fatalf("%q: no body, want one of length %d", head, want.ContentLength)
	}
	keepAlive := !want.Close
	if a.Length == Chunked && bytes.Contains(bytes.ToLower(head), []byte("\r\ncontent-length:")) {
		keepAlive = false // stricter here: two framings are one too many
	}
	if isHead && a.Length == UntilClose && a.mayHaveBody() {
		keepAlive = false // stricter here, too
	}
	if a.KeepAlive != keepAlive {
		t.Fatalf("%q: keep-alive %v, want %v", head, a.KeepAlive, keepAlive)
	}
}

func checkHeaders(t *testing.T, head []byte, a *Answer, want *http.Response) {
	t.Helper()
	got := http.Header{}
	for l := LinesOf(a.Headers); l.Next(); {
		got[textproto.CanonicalMIMEHeaderKey(string(l.Name))] = append(got[textproto.CanonicalMIMEHeaderKey(string(l.Name))], string(l.Value))
	}
	// What net/http takes out or makes up.
	own := []string{"Connection", "Transfer-Encoding", "Content-Length", "Trailer"}
	if len(got["Pragma"]) > 0 {
		own = append(own, "Cache-Control")
	}
	for _, h := range own {
		delete(got, h)
		delete(want.Header, h)
	}
	if len(got) != len(want.Header) {
		t.Fatalf("%q: headers %q, want %q", head, got, want.Header)
	}
	for name, values := range got {
		if !slices.Equal(values, want.Header[name]) {
			t.Fatalf("%q: %s is %q, want %q", head, name, values, want.Header[name])
		}
	}
}

// FuzzAppendLines checks that fasthttp, which sends answers to clients, reads any
// head made here, and means the same by it.
func FuzzAppendLines(f *testing.F) {
	addHeads(func(recipe, raw []byte) { f.Add(recipe, raw) })
	f.Fuzz(func(t *testing.T, recipe, raw []byte) {
		head, a := parsed(t, headOf(recipe, raw))
		if head == nil || a.Status < 200 {
			return
		}
		out := fmt.Appendf(nil, "HTTP/1.1 %03d %s\r\n", a.Status, a.Reason)
		out = a.AppendLines(out, "x-request-id")
		switch {
		case a.HasLength:
			out = AppendLine(out, "Content-Length", strconv.FormatInt(a.Length, 10))
		case a.HasBody(false):
			out = append(out, "Transfer-Encoding: chunked\r\n"...)
		}
		out = append(out, "\r\n"...)

		var h fasthttp.ResponseHeader
		h.DisableNormalizing()
		h.SetNoDefaultContentType(true)
		br := bufio.NewReaderSize(bytes.NewReader(out), max(4096, len(out)))
		if err := h.Read(br); err != nil {
			t.Fatalf("%q was made %q, and fasthttp says: %v", head, out, err)
		}
		if n := br.Buffered(); n != 0 {
			t.Fatalf("%q was made %q, of which fasthttp leaves %d bytes", head, out, n)
		}
		if h.StatusCode() != a.Status {
			t.Fatalf("%q: status %d, want %d", out, h.StatusCode(), a.Status)
		}
		if a.HasLength && int64(h.ContentLength()) != a.Length {
			t.Fatalf("%q: length %d, want %d", out, h.ContentLength(), a.Length)
		}
		// Read again here, it is the same but for what was to be left out.
		var again Answer
		if err := again.ParseAnswer(out); err != nil {
			t.Fatalf("%q was made %q: %v", head, out, err)
		}
		var kept []string
		for l := LinesOf(a.Headers); l.Next(); {
			if !dropped(a, l.Name) {
				kept = append(kept, string(l.Name)+": "+string(l.Value))
			}
		}
		var left []string
		for l := LinesOf(again.Headers); l.Next(); {
			if !Is(l.Name, "content-length") && !Is(l.Name, "transfer-encoding") {
				left = append(left, string(l.Name)+": "+string(l.Value))
			}
		}
		if !slices.Equal(left, kept) {
			t.Fatalf("%q: kept %q, want %q", head, left, kept)
		}
	})
}

// dropped reports whether AppendLines has to leave a header out.
func dropped(a *Answer, name []byte) bool {
	n := strings.ToLower(string(name))
	if slices.Contains([]string{
		"connection", "keep-alive", "proxy-connection", "te", "trailer", "trailers", "transfer-encoding", "upgrade",
		"proxy-authenticate", "proxy-authorization", "content-length", "x-request-id",
	}, n) {
		return true
	}
	for l := LinesOf(a.Headers); l.Next(); {
		if !strings.EqualFold(string(l.Name), "connection") {
			continue
		}
		for o := range strings.SplitSeq(string(l.Value), ",") {
			if o = strings.Trim(o, " \t"); o != "" && strings.EqualFold(o, n) && n != "close" {
				return true
			}
		}
	}
	return false
}
