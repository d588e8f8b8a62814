package null

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
	})
	tests := []struct {
		name, method, path, body string
		status                   int
		contentType              string
		size, lines              int // of the answer
	}{
		{"health", "GET", "/health", "", 200, "", 0, 0},
		{"models", "GET", "/v1/models", "", 200, "application/json", len(Models), 0},
		{"version", "GET", "/version", "", 200, "application/json", len(Version), 0},
		{"plain chat", "POST", "/v1/chat/completions", `{"messages":[]}`, 200, "application/json", 200, 0},
		{"plain completion", "POST", "/v1/completions", `{"stream":false}`, 200, "application/json", 200, 0},
		{"stream", "POST", "/v1/chat/completions", `{"stream":true}`, 200, "text/event-stream; charset=utf-8", 16*150 + 14, 17},
		{"stream with spaces", "POST", "/v1/completions", `{"x":1, "stream" : true}`, 200, "text/event-stream; charset=utf-8", 16*150 + 14, 17},
		{"stream inside a prompt", "POST", "/v1/completions", `{"prompt":"\"stream\":true"}`, 200, "application/json", 200, 0},
		{"stream as a value", "POST", "/v1/completions", `{"prompt":"stream","stream":true}`, 200, "text/event-stream; charset=utf-8", 16*150 + 14, 17},
		{"other path", "POST", "/v1/chat/completions/render", `{}`, 404, "", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+ln.Addr().String()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got.StatusCode != tt.status || got.Header.Get("Content-Type") != tt.contentType || len(body) != tt.size {
				t.Errorf("%d, %q, %d bytes, want %d, %q, %d", got.StatusCode, got.Header.Get("Content-Type"), len(body), tt.status, tt.contentType, tt.size)
			}
			if n := checkLines(t, body); n != tt.lines {
				t.Errorf("%d events, want %d", n, tt.lines)
			}
		})
	}
}

// checkLines checks that all data is JSON or the end mark, and counts the events.
func checkLines(t *testing.T, body []byte) int {
	t.Helper()
	n := 0
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		data, isData := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if isData {
			n++
		}
		if len(data) > 0 && string(data) != "[DONE]" && !json.Valid(data) {
			t.Errorf("%q is not JSON", data)
		}
	}
	return n
}

// An engine sends each event in a chunk of its own; so must its stand-in.
func TestEventsAreChunks(t *testing.T) {
	r := &eventReader{left: stream}
	b := make([]byte, 4096)
	for i := range tokens + 1 {
		n, err := r.Read(b)
		if err != nil || !bytes.Equal(b[:n], stream[i]) {
			t.Errorf("read %d gave %q, %v, want %q", i, b[:n], err, stream[i])
		}
	}
	if n, err := r.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the last read gave %d, %v, want 0, EOF", n, err)
	}
}
