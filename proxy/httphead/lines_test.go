package httphead

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// pairs walks over raw and returns its lines as "name=value".
func pairs(raw string) ([]string, error) {
	var got []string
	l := LinesOf([]byte(raw))
	for l.Next() {
		got = append(got, string(l.Name)+"="+string(l.Value))
	}
	return got, l.Err()
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      []string
	}{
		{"empty", "", nil},
		{"only the empty line", "\r\n", nil},
		{"one", "A: b\r\n\r\n", []string{"A=b"}},
		{"empty line not there", "A: b\r\n", []string{"A=b"}},
		{"order, case and repetitions stay", "b: 2\r\nA: 1\r\nB: 3\r\nb: 2\r\n\r\n", []string{"b=2", "A=1", "B=3", "b=2"}},
		{"blanks around the value", "A: \t b c \t \r\n\r\n", []string{"A=b c"}},
		{"no blank", "A:b\r\n\r\n", []string{"A=b"}},
		{"empty value", "A:\r\nB: \t\r\n\r\n", []string{"A=", "B="}},
		{"colons in the value", "A: b:c: d\r\n\r\n", []string{"A=b:c: d"}},
		{"tab within the value", "A: b\tc\r\n\r\n", []string{"A=b\tc"}},
		{"bytes above ASCII in the value", "A: caf\xe9 \xff\x80\r\n\r\n", []string{"A=caf\xe9 \xff\x80"}},
		{"every punctuation a name may hold", "!#$%&'*+-.^_`|~: x\r\n\r\n", []string{"!#$%&'*+-.^_`|~=x"}},
		{"nothing is read behind the empty line", "A: b\r\n\r\nC d\n", []string{"A=b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := pairs(tt.raw)
			if err != nil {
				t.Fatalf("error %v, want none", err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("lines %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLinesRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      error
	}{
		{"folded by a blank", "A: b\r\n c\r\n\r\n", ErrFolded},
		{"folded by a tab", "A: b\r\n\tc\r\n\r\n", ErrFolded},
		{"folded at the very start", " A: b\r\n\r\n", ErrFolded},
		{"a line of blanks", "A: b\r\n \r\n\r\n", ErrFolded},
		{"blank in front of the colon", "Content-Length : 5\r\n\r\n", ErrName},
		{"tab in front of the colon", "Content-Length\t: 5\r\n\r\n", ErrName},
		{"blank within the name", "Content Length: 5\r\n\r\n", ErrName},
		{"empty name", ": b\r\n\r\n", ErrName},
		{"control character in the name", "A\x01: b\r\n\r\n", ErrName},
		{"NUL in the name", "A\x00: b\r\n\r\n", ErrName},
		{"byte above ASCII in the name", "\xc3\x84: b\r\n\r\n", ErrName},
		{"delimiter in the name", "A(b): c\r\n\r\n", ErrName},
		{"second status line", "HTTP/1.1 200 OK\r\n\r\n", ErrName},
		{"no colon", "A\r\n\r\n", ErrColon},
		{"no colon on the last line", "A: b\r\nC\r\n\r\n", ErrColon},
		{"CR within the value", "A: b\rC: d\r\n\r\n", ErrValue},
		{"CR twice at the end", "A: b\r\r\n\r\n", ErrValue},
		{"CR within the name", "A\rB: c\r\n\r\n", ErrName},
		{"CR for an empty line", "A: b\r\n\r\r\n\r\n", ErrName},
		{"NUL in the value", "A: b\x00c\r\n\r\n", ErrValue},
		{"DEL in the value", "A: b\x7f\r\n\r\n", ErrValue},
		{"escape in the value", "A: \x1b[31m\r\n\r\n", ErrValue},
		{"line feed alone ends a line", "A: b\nC: d\r\n\r\n", ErrLineEnd},
		{"line feed alone ends the head", "A: b\r\n\nC: d\r\n\r\n", ErrLineEnd},
		{"line feeds only", "A: b\n\n", ErrLineEnd},
		{"unended", "A: b", ErrUnended},
		{"unended behind a good line", "A: b\r\nC: d\r", ErrUnended},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := pairs(tt.raw); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestLinesStays checks that a walk that has ended stays where it is.
func TestLinesStays(t *testing.T) {
	for _, raw := range []string{"A: b\r\n\r\nC: d\r\n\r\n", "A: b\r\nC\r\nD: e\r\n\r\n"} {
		l := LinesOf([]byte(raw))
		for l.Next() {
		}
		err := l.Err()
		if l.Next() {
			t.Errorf("%q: a line %q after the end, want none", raw, l.Name)
		}
		if !errors.Is(l.Err(), err) {
			t.Errorf("%q: error %v after the end, want %v as before", raw, l.Err(), err)
		}
	}
}

// TestLinesOfEveryByte puts every byte into a name and into a value.
func TestLinesOfEveryByte(t *testing.T) {
	for c := range 256 {
		letter := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		inName := letter || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0 || c == ':' // the colon ends it
		inValue := c == '\t' || c >= ' ' && c != 0x7f
		if _, err := pairs("a" + string([]byte{byte(c)}) + "b: x\r\n\r\n"); (err == nil) != inName {
			t.Errorf("byte %#x in a name: error %v, want accepted %v", c, err, inName)
		}
		if _, err := pairs("a: x" + string([]byte{byte(c)}) + "y\r\n\r\n"); (err == nil) != inValue {
			t.Errorf("byte %#x in a value: error %v, want accepted %v", c, err, inValue)
		}
	}
}

func TestLinesHuge(t *testing.T) {
	name, value := strings.Repeat("n", 1<<20), strings.Repeat("v", 1<<20)
	got, err := pairs(name + ":" + strings.Repeat(" ", 1<<20) + value + strings.Repeat("\t", 1<<20) + "\r\n\r\n")
	if err != nil || len(got) != 1 || got[0] != name+"="+value {
		t.Errorf("%d lines, error %v; want the one line whole", len(got), err)
	}
	many := strings.Repeat("A: b\r\n", 100_000)
	if got, err := pairs(many + "\r\n"); err != nil || len(got) != 100_000 {
		t.Errorf("%d lines, error %v; want 100000 and none", len(got), err)
	}
}

func TestIs(t *testing.T) {
	for _, tt := range []struct {
		name, lower string
		want        bool
	}{
		{"host", "host", true},
		{"HoSt", "host", true},
		{"HOST", "host", true},
		{"hosts", "host", false},
		{"hos", "host", false},
		{"", "host", false},
		{"", "", true},
		{"x-a_b.c~1", "x-a_b.c~1", true},
		{"[", "{", false}, // 32 apart like a letter from its capital
		{"@", "`", false},
		{"\u212aeep", "keep", false}, // the Kelvin sign folds to k in Unicode
	} {
		if got := Is([]byte(tt.name), tt.lower); got != tt.want {
			t.Errorf("Is(%q, %q) = %v, want %v", tt.name, tt.lower, got, tt.want)
		}
	}
}

func TestIsHop(t *testing.T) {
	hop := []string{
		"connection", "keep-alive", "proxy-connection", "te", "trailer", "trailers", "transfer-encoding",
		"upgrade", "proxy-authenticate", "proxy-authorization",
	}
	for _, n := range hop {
		for _, n := range []string{n, strings.ToUpper(n), strings.ToUpper(n[:1]) + n[1:]} {
			if !IsHop([]byte(n)) {
				t.Errorf("IsHop(%q) = false, want true", n)
			}
		}
		for _, n := range []string{n + "x", n[1:], "x" + n, n[:len(n)-1] + "\x00"} {
			if IsHop([]byte(n)) {
				t.Errorf("IsHop(%q) = true, want false", n)
			}
		}
	}
	for _, n := range []string{
		"", "t", "et", "host", "via", "expect", "cookie", "upgrade-insecure-requests", "content-length", "content-type",
		"cache-control", "authorization", "www-authenticate", "set-cookie", "x-request-id", "date", "server",
	} {
		if IsHop([]byte(n)) {
			t.Errorf("IsHop(%q) = true, want false", n)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, tt := range []struct {
		name         string
		values       []string
		has, without []string
		empty        bool
	}{
		{"nothing", nil, nil, []string{"", "x-a"}, true},
		{"one", []string{"X-A"}, []string{"x-a", "X-A", "x-A"}, []string{"x-ab", "x", "x-b"}, false},
		{"several", []string{"X-A, x-b ,\tX-C\t"}, []string{"x-a", "x-b", "x-c"}, []string{"x-d", "x-a, x-b"}, false},
		{"several headers", []string{"X-A", "x-b"}, []string{"x-a", "x-b"}, []string{"x-c"}, false},
		{"options are no names", []string{"close, Keep-Alive, CLOSE"}, nil, []string{"close", "keep-alive"}, true},
		{"option and name", []string{"keep-alive, X-A"}, []string{"x-a"}, []string{"keep-alive"}, false},
		{"empty members", []string{",, ,X-A,,"}, []string{"x-a"}, []string{"", " "}, false},
		{"quotes are not understood", []string{`"X-A, X-B"`}, nil, []string{"x-a", "x-b"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n Named
			for _, v := range tt.values {
				if err := n.Add([]byte(v)); err != nil {
					t.Fatalf("Add(%q): %v", v, err)
				}
			}
			for _, h := range tt.has {
				if !n.Has([]byte(h)) {
					t.Errorf("Has(%q) = false, want true", h)
				}
			}
			for _, h := range tt.without {
				if n.Has([]byte(h)) {
					t.Errorf("Has(%q) = true, want false", h)
				}
			}
			if n.Empty() != tt.empty {
				t.Errorf("Empty() = %v, want %v", n.Empty(), tt.empty)
			}
			n.Reset()
			if !n.Empty() {
				t.Error("Empty() = false after Reset, want true")
			}
			for _, h := range tt.has {
				if n.Has([]byte(h)) {
					t.Errorf("Has(%q) = true after Reset, want false", h)
				}
			}
		})
	}
}

func TestNamedIsBounded(t *testing.T) {
	var n Named
	full := strings.TrimSuffix(strings.Repeat("X-A,close,", maxNamed), ",")
	if err := n.Add([]byte(full)); err != nil {
		t.Fatalf("Add of %d names: %v", maxNamed, err)
	}
	if err := n.Add([]byte("close, keep-alive,")); err != nil {
		t.Errorf("Add of options: %v, want none: they need no room", err)
	}
	if err := n.Add([]byte("X-B")); !errors.Is(err, ErrNamed) {
		t.Errorf("Add of one more: %v, want %v", err, ErrNamed)
	}
	n.Reset()
	if err := n.Add([]byte(full + ",X-B")); !errors.Is(err, ErrNamed) {
		t.Errorf("Add of all at once: %v, want %v", err, ErrNamed)
	}
}

func TestHasOption(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  bool
	}{
		{"", false},
		{"close", true},
		{"Close", true},
		{" \tCLOSE\t ", true},
		{"keep-alive, close", true},
		{"close,keep-alive", true},
		{"a,b,,close", true},
		{"closed", false},
		{"not close", false},
		{"clo se", false},
		{"close;q=1", false},
		{`"close"`, false},
		{"keep-alive", false},
		{",", false},
	} {
		if got := HasOption([]byte(tt.value), "close"); got != tt.want {
			t.Errorf("HasOption(%q, close) = %v, want %v", tt.value, got, tt.want)
		}
	}
}
