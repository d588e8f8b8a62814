package proxytest

import (
	"regexp"
	"testing"
)

var lineEnd = regexp.MustCompile("\r\n|\n|\r")

// slowSplit finds the events of a body that will not grow, as a splitter does of
// one that may: a CR at its end is not a line end yet.
func slowSplit(body string) (events []string, rest string) {
	from, line := 0, 0
	for _, m := range lineEnd.FindAllStringIndex(body, -1) {
		if m[1] == len(body) && body[m[0]:] == "\r" {
			break
		}
		if m[0] == line {
			events = append(events, body[from:m[1]])
			from = m[1]
		}
		line = m[1]
	}
	return events, body[from:]
}

// FuzzSplitter has a body come in pieces and wants the events of the whole.
func FuzzSplitter(f *testing.F) {
	f.Add("data: a\n\n: c\r\n\r\ndata: b\r\rrest", uint64(1))
	f.Add("\r\n\n\r\r\r\n", uint64(2))
	f.Fuzz(func(t *testing.T, body string, cuts uint64) {
		var s splitter
		var got []string
		for n := 0; n <= len(body); {
			for raw := s.next([]byte(body[:n])); raw != nil; raw = s.next([]byte(body[:n])) {
				got = append(got, string(raw))
			}
			if n == len(body) {
				break
			}
			cuts = cuts*6364136223846793005 + 1442695040888963407
			n = min(len(body), n+1+int(cuts>>61))
		}
		want, rest := slowSplit(body)
		if len(got) != len(want) || body[s.from:] != rest {
			t.Fatalf("%q: got %q and rest %q, want %q and %q", body, got, body[s.from:], want, rest)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q: event %d is %q, want %q", body, i, got[i], want[i])
			}
		}
	})
}
