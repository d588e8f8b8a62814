package httphead

import (
	"errors"
	"strings"
	"testing"
)

// parse reads a head given with \n for line ends, without its empty line.
func parse(t testing.TB, head string) *Answer {
	t.Helper()
	a := new(Answer)
	if err := a.ParseAnswer([]byte(wire(head))); err != nil {
		t.Fatalf("ParseAnswer(%q): %v", head, err)
	}
	return a
}

func wire(head string) string { return strings.ReplaceAll(head+"\n\n", "\n", "\r\n") }

func TestStatusLine(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		status     int
		reason     string
	}{
		{"usual", "HTTP/1.1 200 OK", 200, "OK"},
		{"HTTP/1.0", "HTTP/1.0 404 Not Found", 404, "Not Found"},
		{"no reason", "HTTP/1.1 200 ", 200, ""},
		{"no blank either", "HTTP/1.1 200", 200, ""},
		{"reason with blanks around", "HTTP/1.1 200  OK ", 200, " OK "},
		{"reason with a tab", "HTTP/1.1 200 a\tb", 200, "a\tb"},
		{"reason above ASCII", "HTTP/1.1 200 Tr\xe8s bien \xff", 200, "Tr\xe8s bien \xff"},
		{"reason with colon", "HTTP/1.1 500 oh: no", 500, "oh: no"},
		{"lowest", "HTTP/1.1 100 Continue", 100, "Continue"},
		{"highest", "HTTP/1.1 999 ?", 999, "?"},
		{"unknown", "HTTP/1.1 299 Mostly", 299, "Mostly"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := parse(t, tt.line)
			if a.Status != tt.status || string(a.Reason) != tt.reason {
				t.Errorf("status %d %q, want %d %q", a.Status, a.Reason, tt.status, tt.reason)
			}
		})
	}
}

func TestStatusLineRefused(t *testing.T) {
	for _, tt := range []struct{ name, head string }{
		{"empty", ""},
		{"no line end", "HTTP/1.1 200 OK"},
		{"empty line", "\r\n\r\n"},
		{"line feed alone", "HTTP/1.1 200 OK\n\r\n"},
		{"HTTP/2", "HTTP/2 200 OK\r\n\r\n"},
		{"HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n"},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"},
		{"HTTP/1", "HTTP/1 200 OK\r\n\r\n"},
		{"HTTP/1.11", "HTTP/1.11 200 OK\r\n\r\n"},
		{"HTTP/0.9", "HTTP/0.9 200 OK\r\n\r\n"},
		{"lower case", "http/1.1 200 OK\r\n\r\n"},
		{"other protocol", "ICY 200 OK\r\n\r\n"},
		{"two blanks", "HTTP/1.1  200 OK\r\n\r\n"},
		{"tab", "HTTP/1.1\t200 OK\r\n\r\n"},
		{"blank in front", " HTTP/1.1 200 OK\r\n\r\n"},
		{"two digits", "HTTP/1.1 20 OK\r\n\r\n"},
		{"four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"letter", "HTTP/1.1 2o0 OK\r\n\r\n"},
		{"sign", "HTTP/1.1 +20 OK\r\n\r\n"},
		{"below 100", "HTTP/1.1 099 OK\r\n\r\n"},
		{"zero", "HTTP/1.1 000 OK\r\n\r\n"},
		{"reason glued on", "HTTP/1.1 200OK\r\n\r\n"},
		{"tab behind the status", "HTTP/1.1 200\tOK\r\n\r\n"},
		{"CR in the reason", "HTTP/1.1 200 O\rK\r\n\r\n"},
		{"CR twice", "HTTP/1.1 200 OK\r\r\n\r\n"},
		{"NUL in the reason", "HTTP/1.1 200 O\x00K\r\n\r\n"},
		{"DEL in the reason", "HTTP/1.1 200 \x7f\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := new(Answer).ParseAnswer([]byte(tt.head)); !errors.Is(err, ErrStatusLine) {
				t.Errorf("error %v, want %v", err, ErrStatusLine)
			}
		})
	}
}

func TestFraming(t *testing.T) {
	const chunked = "\nTransfer-Encoding: chunked"
	for _, tt := range []struct {
		name, head string
		length     int64
		hasLength  bool
		keepAlive  bool
	}{
		{"length", "HTTP/1.1 200 OK\nContent-Length: 5", 5, true, true},
		{"length of none", "HTTP/1.1 200 OK\nContent-Length: 0", 0, true, true},
		{"length with zeros in front", "HTTP/1.1 200 OK\nContent-Length: 0000000000000000000000005", 5, true, true},
		{"length in capitals", "HTTP/1.1 200 OK\nCONTENT-LENGTH:5", 5, true, true},
		{"longest length", "HTTP/1.1 200 OK\nContent-Length: 4611686018427387903", 1<<62 - 1, true, true},
		{"chunked", "HTTP/1.1 200 OK" + chunked, Chunked, false, true},
		{"chunked in capitals", "HTTP/1.1 200 OK\nTRANSFER-ENCODING: Chunked", Chunked, false, true},
		{"chunked and close", "HTTP/1.1 200 OK\nConnection: close" + chunked, Chunked, false, false},
		{"chunked behind a length", "HTTP/1.1 200 OK\nContent-Length: 5" + chunked, Chunked, false, false},
		{"chunked before a length", "HTTP/1.1 200 OK" + chunked + "\nContent-Length: 5", Chunked, false, false},
		{"until the end", "HTTP/1.1 200 OK", UntilClose, false, false},
		{"until the end, said so", "HTTP/1.1 200 OK\nConnection: close", UntilClose, false, false},
		{"until the end, whatever is said", "HTTP/1.1 200 OK\nConnection: keep-alive", UntilClose, false, false},
		{"no body can follow", "HTTP/1.1 204 No Content", UntilClose, false, true},
		{"not modified", "HTTP/1.1 304 Not Modified", UntilClose, false, true},
		{"interim", "HTTP/1.1 103 Early Hints", UntilClose, false, true},
		{"close", "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close", 5, true, false},
		{"close among others", "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: x-a , CLOSE", 5, true, false},
		{"close in the second of two", "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: keep-alive\nConnection: close", 5, true, false},
		{"close in the first of two", "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\nConnection: keep-alive", 5, true, false},
		{"closed is not close", "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: closed", 5, true, true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\nContent-Length: 5", 5, true, false},
		{"HTTP/1.0 until the end", "HTTP/1.0 200 OK", UntilClose, false, false},
		{"HTTP/1.0 until the end, whatever is said", "HTTP/1.0 200 OK\nConnection: keep-alive", UntilClose, false, false},
		{"HTTP/1.0 keep-alive", "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: Keep-Alive", 5, true, true},
		{"HTTP/1.0 keep-alive and close", "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: keep-alive, close", 5, true, false},
		{"HTTP/1.0 close, then keep-alive", "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: close\nConnection: keep-alive", 5, true, false},
		{"HTTP/1.0 keep-alive, then close", "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: keep-alive\nConnection: close", 5, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := parse(t, tt.head)
			if a.Length != tt.length || a.HasLength != tt.hasLength || a.KeepAlive != tt.keepAlive {
				t.Errorf("length %d (sent %v), keep-alive %v; want %d (%v), %v",
					a.Length, a.HasLength, a.KeepAlive, tt.length, tt.hasLength, tt.keepAlive)
			}
		})
	}
}

func TestFramingRefused(t *testing.T) {
	length := func(v string) string { return "HTTP/1.1 200 OK\nContent-Length: " + v }
	coding := func(v string) string { return "HTTP/1.1 200 OK\nTransfer-Encoding: " + v }
	for _, tt := range []struct {
		name, head string
		want       error
	}{
		{"no number", length(""), ErrLength},
		{"sign", length("+5"), ErrLength},
		{"negative", length("-5"), ErrLength},
		{"negative zero", length("-0"), ErrLength},
		{"hexadecimal", length("0x5"), ErrLength},
		{"hexadecimal digit", length("5a"), ErrLength},
		{"underscore", length("1_000"), ErrLength},
		{"fraction", length("5.0"), ErrLength},
		{"exponent", length("5e1"), ErrLength},
		{"blank within", length("5 0"), ErrLength},
		{"comma", length("5,"), ErrLength},
		{"list of equals", length("5, 5"), ErrLength},
		{"digits of another script", length("\u0665"), ErrLength},
		{"2^62", length("4611686018427387904"), ErrLength},
		{"2^63", length("9223372036854775808"), ErrLength},
		{"2^64 + 5", length("18446744073709551621"), ErrLength},
		{"huge", length(strings.Repeat("9", 10_000)), ErrLength},
		{"twice", length("5\nContent-Length: 6"), ErrLength},
		{"twice the same", length("5\ncontent-length: 5"), ErrLength},
		{"twice beside chunked", length("5\nTransfer-Encoding: chunked\nContent-Length: 6"), ErrLength},
		{"invalid beside chunked", length("x\nTransfer-Encoding: chunked"), ErrLength},
		{"gzip", coding("gzip"), ErrCoding},
		{"gzip, then chunked", coding("gzip, chunked"), ErrCoding},
		{"chunked, then gzip", coding("chunked, gzip"), ErrCoding},
		{"chunked twice", coding("chunked, chunked"), ErrCoding},
		{"chunked in two headers", coding("chunked\nTransfer-Encoding: chunked"), ErrCoding},
		{"chunked, then identity in another", coding("chunked\nTransfer-Encoding: identity"), ErrCoding},
		{"identity", coding("identity"), ErrCoding},
		{"empty", coding(""), ErrCoding},
		{"with a parameter", coding("chunked;q=1"), ErrCoding},
		{"quoted", coding(`"chunked"`), ErrCoding},
		{"vertical tab", coding("\vchunked"), ErrValue},
		{"HTTP/1.0", "HTTP/1.0 200 OK\nTransfer-Encoding: chunked", ErrCoding},
		{"too many names", "HTTP/1.1 200 OK\nConnection: " + strings.Repeat("a,", maxNamed+1), ErrNamed},
		{"header at fault", "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length : 6", ErrName},
		{"fault behind the framing", coding("chunked\nA\x00: b"), ErrName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := new(Answer).ParseAnswer([]byte(wire(tt.head))); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestParseAnswerForgets checks that an Answer that is used again holds nothing
// of the answer before.
func TestParseAnswerForgets(t *testing.T) {
	a := parse(t, "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Type: a/b\nContent-Encoding: gzip\nCache-Control: no-store\n"+
		"X-Accel-Buffering: no\nRetry-After: 1\nEndpoint-Load-Metrics: TEXT a=1\nConnection: x-a")
	if !a.HasLength || !a.HasCacheControl || !a.HasAccelBuffering || !a.HasRetryAfter || a.Type == nil || a.Encoding == nil || string(a.Report) != "TEXT a=1" {
		t.Fatalf("not everything was found: %+v", a)
	}
	if err := a.ParseAnswer([]byte(wire("HTTP/1.0 500 \nX-A: 1"))); err != nil {
		t.Fatal(err)
	}
	if a.HasLength || a.HasCacheControl || a.HasAccelBuffering || a.HasRetryAfter || a.Type != nil || a.Encoding != nil || a.Report != nil ||
		a.Reason != nil || a.Length != UntilClose || a.KeepAlive {
		t.Errorf("something was kept: %+v", a)
	}
	if got, want := string(a.AppendLines(nil, "")), "X-A: 1\r\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func TestHasBody(t *testing.T) {
	for _, tt := range []struct {
		head          string
		ofGet, ofHead bool
	}{
		{"HTTP/1.1 200 OK\nContent-Length: 5", true, false},
		{"HTTP/1.1 200 OK\nContent-Length: 0", false, false},
		{"HTTP/1.1 200 OK\nTransfer-Encoding: chunked", true, false},
		{"HTTP/1.1 200 OK", true, false},
		{"HTTP/1.1 204 No Content\nContent-Length: 5", false, false},
		{"HTTP/1.1 204 No Content\nTransfer-Encoding: chunked", false, false},
		{"HTTP/1.1 304 Not Modified\nContent-Length: 5", false, false},
		{"HTTP/1.1 205 Reset Content\nContent-Length: 5", true, false},
		{"HTTP/1.1 100 Continue\nContent-Length: 5", false, false},
		{"HTTP/1.1 404 Not Found\nContent-Length: 5", true, false},
	} {
		a := parse(t, tt.head)
		if got := a.HasBody(false); got != tt.ofGet {
			t.Errorf("%q: HasBody(GET) = %v, want %v", tt.head, got, tt.ofGet)
		}
		if got := a.HasBody(true); got != tt.ofHead {
			t.Errorf("%q: HasBody(HEAD) = %v, want %v", tt.head, got, tt.ofHead)
		}
	}
}

// TestHeadEnd feeds a head cut at every byte, and looks from where an earlier
// call has ended.
func TestHeadEnd(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \r\n\r\n",
		"\r\n\r\n",
		"\r\r\n\r\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \rb\r\n\r\n",
		// Those that are at fault end there.
		"HTTP/1.1 200 OK\n",
		"HTTP/1.1 200 OK\r\nA: b\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n\n",
		"\n",
	} {
		const body = "x\r\n\r\ny\n\n\r\n"
		all := []byte(head + body)
		for cut := range all {
			want := -1
			if cut >= len(head) {
				want = len(head)
			}
			for from := 0; from <= min(cut, len(head)-1); from++ {
				if got := HeadEnd(all[:cut], from); got != want {
					t.Errorf("HeadEnd(%q, %d) = %d, want %d", all[:cut], from, got, want)
				}
			}
		}
	}
}

func TestEventStream(t *testing.T) {
	for _, tt := range []struct {
		name, headers string
		want          bool
	}{
		{"plain", "Content-Type: text/event-stream", true},
		{"charset", "Content-Type: text/event-stream; charset=utf-8", true},
		{"charset without blank", "Content-Type: text/event-stream;charset=utf-8", true},
		{"blank before the parameter", "Content-Type: text/event-stream ; charset=utf-8", true},
		{"tab before the parameter", "Content-Type: text/event-stream\t;a=b", true},
		{"capitals", "CONTENT-TYPE: Text/Event-Stream", true},
		{"no type", "X-A: text/event-stream", false},
		{"empty type", "Content-Type:", false},
		{"JSON", "Content-Type: application/json", false},
		{"longer", "Content-Type: text/event-streams", false},
		{"shorter", "Content-Type: text/event-strea", false},
		{"in a parameter", "Content-Type: text/plain; a=text/event-stream", false},
		{"list", "Content-Type: text/event-stream, text/plain", false},
		{"gzip", "Content-Type: text/event-stream\nContent-Encoding: gzip", false},
		{"identity", "Content-Type: text/event-stream\nContent-Encoding: Identity", true},
		{"empty encoding", "Content-Type: text/event-stream\nContent-Encoding:", true},
		{"two encodings", "Content-Encoding: gzip\nContent-Type: text/event-stream\nContent-Encoding: identity", false},
		{"encoding first", "Content-Encoding: br\nContent-Type: text/event-stream", false},
		{"the last type counts", "Content-Type: text/event-stream\nContent-Type: text/plain", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := parse(t, "HTTP/1.1 200 OK\n"+tt.headers).EventStream(); got != tt.want {
				t.Errorf("EventStream() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAppendLines(t *testing.T) {
	for _, tt := range []struct{ name, head, want string }{
		{"nothing", "HTTP/1.1 200 OK", ""},
		{
			"order, case and repetitions",
			"HTTP/1.1 200 OK\nx-b: 2\nX-A: 1\nDate: d\nSet-Cookie: a=1\nX-B: 3\nset-cookie: b=2\nServer: s\nx-b: 2",
			"x-b: 2\nX-A: 1\nDate: d\nSet-Cookie: a=1\nX-B: 3\nset-cookie: b=2\nServer: s\nx-b: 2\n",
		},
		{"blanks", "HTTP/1.1 200 OK\nA:b\nC:  \td  e\t ", "A: b\nC: d  e\n"},
		{"empty value", "HTTP/1.1 200 OK\nA:\nB: ", "A: \nB: \n"},
		{
			"of this hop",
			"HTTP/1.1 200 OK\nA: 1\nConnection: close\nKEEP-ALIVE: timeout=5\nproxy-connection: x\nTe: trailers\nTrailer: X-T\ntrailers: x\n" +
				"Transfer-Encoding: chunked\nUpgrade: h2c\nProxy-Authenticate: Basic\nProxy-Authorization: x\nB: 2",
			"A: 1\nB: 2\n",
		},
		{"length", "HTTP/1.1 200 OK\nA: 1\nCONTENT-length: 5\nB: 2", "A: 1\nB: 2\n"},
		{"request id", "HTTP/1.1 200 OK\nx-request-id: 1\nX-Request-ID: 2\nX-Request-Id2: 3", "X-Request-Id2: 3\n"},
		{
			"named",
			"HTTP/1.1 200 OK\nx-A: 1\nConnection: X-a, X-C\nX-B: 2\nX-C: 3\nX-C: 4\nConnection: X-D\nX-D: 5",
			"X-B: 2\n",
		},
		{"named in front of and behind it", "HTTP/1.1 200 OK\nX-A: 1\nConnection: X-A\nX-A: 2", ""},
		{"end-to-end ones that look like hops", "HTTP/1.1 200 OK\nVia: x\nConnections: 5\nUpgrades: 1", "Via: x\nConnections: 5\nUpgrades: 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := parse(t, tt.head)
			got := string(a.AppendLines([]byte("before"), "x-request-id"))
			if want := "before" + strings.ReplaceAll(tt.want, "\n", "\r\n"); got != want {
				t.Errorf("lines %q, want %q", got, want)
			}
		})
	}
}

func TestAppendLine(t *testing.T) {
	got := string(AppendLine(AppendLine([]byte("x"), "A", []byte("b")), []byte("C"), ""))
	if want := "xA: b\r\nC: \r\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
}
