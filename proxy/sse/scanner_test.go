package sse

import (
	"bytes"
	"strings"
	"testing"
)

func TestEndMark(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         bool
		closing      string
	}{
		{"usual", "data: {\"a\":1}\n\ndata: [DONE]\n\n", true, ""},
		{"without blank", "data:[DONE]\n\n", true, ""},
		{"CRLF", "data: x\r\n\r\ndata: [DONE]\r\n\r\n", true, ""},
		{"only CR", "data: [DONE]\r", true, ""},
		{"line not ended yet", "data: [DONE]", false, "\n\n"},
		{"inside JSON", "data: {\"content\":\"data: [DONE]\"}\n\n", false, ""},
		{"JSON that holds an escaped line end", `data: {"content":"\ndata: [DONE]\n"}` + "\n\n", false, ""},
		{"longer", "data: [DONE]!\n\n", false, ""},
		{"two blanks", "data:  [DONE]\n\n", false, ""},
		{"other field", "event: [DONE]\n\n", false, ""},
		{"comment", ": data: [DONE]\n\n", false, ""},
		{"empty", "", false, ""},
		{"after empty lines", "\n\n\ndata: [DONE]\n", true, ""},
		{"event not ended yet", "data: x\n\ndata: y\n", false, "\n"},
		{"event not ended yet, CRLF", "data: x\r\n\r\ndata: y\r\n", false, "\n"},
		{"event not ended yet, CR", "data: x\r\rdata: y\r", false, "\n\n"},
		{"short lines", "a\nb\n\nc\n", false, "\n"},
		{"ended, CRLF", "data: x\r\n\r\n", false, ""},
		{"ended, CR", "data: x\r\r", false, ""},
		{"ended, CR and LF", "data: x\n\r\n", false, ""},
		{"many empty lines", "data: x\n\n\n\r\n\r", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for cut := 0; cut <= len(tc.stream); cut++ {
				var s Scanner
				s.Feed([]byte(tc.stream[:cut]))
				if got := s.Feed([]byte(tc.stream[cut:])); got != tc.want {
					t.Errorf("cut at %d: done = %v, want %v", cut, got, tc.want)
				}
				if got := s.Closing(); !tc.want && got != tc.closing {
					t.Errorf("cut at %d: Closing() = %q, want %q", cut, got, tc.closing)
				}
			}
		})
	}
}

// slow is the obvious way to find the end mark in a whole stream.
func slow(stream []byte) bool {
	lines := strings.Split(strings.ReplaceAll(string(stream), "\r", "\n"), "\n")
	for _, line := range lines[:len(lines)-1] { // the last one has not ended
		if line == "data: [DONE]" || line == "data:[DONE]" {
			return true
		}
	}
	return false
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte("data: x\n\ndata: [DONE]\n\n"), 3)
	f.Add([]byte("data:[DONE]\r"), 1)
	f.Add([]byte("data: data: [DONE]\n"), 7)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		if !bytes.Contains(stream, []byte("[DONE]")) {
			stream = append(stream, "data: [DONE]\n"...)
		}
		step = 1 + (step&0x7fffffff)%16
		var s Scanner
		got := false
		for p := stream; len(p) > 0; p = p[min(step, len(p)):] {
			got = s.Feed(p[:min(step, len(p))])
		}
		if want := slow(stream); got != want {
			t.Errorf("Feed(%q) by %d = %v, want %v", stream, step, got, want)
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	event := []byte("data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n")
	b.SetBytes(int64(len(event)))
	var s Scanner
	for b.Loop() {
		s.Feed(event)
	}
}
