package sse

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFailed(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         bool
	}{
		{"OpenAI", `data: {"error":{"message":"x","code":500}}` + "\n\n", true},
		{"vLLM, blanks", `data: {"error": {"message": "x"}}` + "\n\ndata: [DONE]\n\n", true},
		{"no blank", `data:{"error":{}}` + "\n\n", true},
		{"text", `data: {"error":"overloaded"}` + "\n\n", true},
		{"CRLF", "data: {\"error\":{}}\r\n\r\n", true},
		{"old vLLM", `data: {"object": "error", "message": "x"}` + "\n\n", true},
		{"Anthropic's data", `data: {"type":"error","error":{}}` + "\n\n", true},
		{"event error", "event: error\ndata: {}\n\n", true},
		{"event error without blank", "event:error\ndata: {}\n\n", true},
		{"response.failed by event", "event: response.failed\ndata: {}\n\n", true},
		{"response.failed by data", `data: { "type" : "response.failed", "response":{}}` + "\n\n", true},
		{"behind other events", "data: {\"id\":\"1\"}\n\n: x\n\ndata: {\"error\":{}}\n\n", true},
		{"null", `data: {"error":null,"choices":[]}` + "\n\n", false},
		{"empty text", `data: {"error":"","choices":[]}` + "\n\n", false},
		{"false", `data: {"error":false}` + "\n\n", false},
		{"within", `data: {"choices":[{"error":{}}]}` + "\n\n", false},
		{"as content", `data: {"delta":"{\"error\":{}}"}` + "\n\n", false},
		{"other name", `data: {"errors":{}}` + "\n\n", false},
		{"other type", `data: {"type":"response.completed"}` + "\n\n", false},
		{"other event", "event: errors\ndata: {}\n\n", false},
		{"other field", `datum: {"error":{}}` + "\n\n", false},
		{"comment", `: data: {"error":{}}` + "\n\n", false},
		{"two blanks", `data:  {"error":{}}` + "\n\n", false},
		{"behind the end mark", "data: [DONE]\n\ndata: {\"error\":{}}\n\n", false},
		{"no stream", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for cut := 0; cut <= len(tc.stream); cut++ {
				var s Scanner
				s.Feed([]byte(tc.stream[:cut]))
				s.Feed([]byte(tc.stream[cut:]))
				if got := s.Failed(); got != tc.want {
					t.Errorf("cut at %d: Failed() = %v, want %v", cut, got, tc.want)
				}
			}
		})
	}
}

// Between is where a comment changes nothing for who reads the stream.
func TestBetween(t *testing.T) {
	for _, tc := range []struct {
		stream string
		want   bool
	}{
		{"", true},
		{"data: x", false},
		{"data: x\n", false},
		{"data: x\n\n", true},
		{"data: x\r\n\r", true},
		{"data: x\r\n\r\n", true},
		{"data: x\r\n", false},
		{"data: x\n\nd", false},
		{": c\n\n", true},
		{"data: x\n\ndata: [DONE]\n\n", false},
		{"data: [DONE]\n", false},
	} {
		for cut := 0; cut <= len(tc.stream); cut++ {
			var s Scanner
			s.Feed([]byte(tc.stream[:cut]))
			s.Feed([]byte(tc.stream[cut:]))
			if got := s.Between(); got != tc.want {
				t.Errorf("%q cut at %d: Between() = %v, want %v", tc.stream, cut, got, tc.want)
			}
		}
	}
}

var failingLine = regexp.MustCompile(`^(event: ?(error|response\.failed)$|data: ?\{ *("error" *: *(\{|"[^"])|"object" *: *"error"|"type" *: *"(error|response\.failed)"))`)

// slowFailed is the obvious way to find a failure in a whole stream.
func slowFailed(stream string) bool {
	lines := strings.Split(strings.ReplaceAll(stream, "\r", "\n"), "\n")
	last := len(lines) - 1
	if i := slices.IndexFunc(lines[:last], func(l string) bool { return l == "data: [DONE]" || l == "data:[DONE]" }); i >= 0 {
		lines, last = lines[:i+1], i+1
	}
	return slices.ContainsFunc(lines[:last], func(l string) bool {
		return failingLine.MatchString(l[:min(len(l), headSize)])
	}) || last < len(lines) && len(lines[last]) >= headSize && failingLine.MatchString(lines[last][:headSize])
}

func FuzzFailed(f *testing.F) {
	f.Add("data: {\"error\":{}}\n\ndata: [DONE]\n\n", 3)
	f.Add("event: response.failed\r\ndata: { \"type\" : \"response.failed\"", 1)
	f.Add("data: {\"error\":null}\rdata: {\"type\":\"error\"}\r", 7)
	f.Add("data: {\"error\":\"x\",\"choices\":[{\"index\":0}]}", 9)
	f.Fuzz(func(t *testing.T, stream string, step int) {
		step = 1 + (step&0x7fffffff)%16
		var s Scanner
		for p := []byte(stream); len(p) > 0; p = p[min(step, len(p)):] {
			s.Feed(p[:min(step, len(p))])
		}
		if got, want := s.Failed(), slowFailed(stream); got != want {
			t.Errorf("Failed() of %q by %d = %v, want %v", stream, step, got, want)
		}
	})
}
