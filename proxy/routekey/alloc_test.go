//go:build !race

package routekey

import "testing"

// TestScanAllocates pins that a Scanner that has seen a body as large allocates
// nothing. The race detector allocates on its own.
func TestScanAllocates(t *testing.T) {
	for _, tt := range []struct {
		name string
		body []byte
	}{
		{"tiny", tinyBody()},
		{"prose", proseBody(20_000)},
		{"tools", toolsBody()},
		{"messages", shortMessagesBody(150)},
		{"escapes", escapedBody(20_000)},
		{"1 MB", proseBody(1_000_000)},
		{"escapes in names and values", []byte(`{"mod\u0065l":"\u006d","session_params":{"session\u005fid":"\u0073"},"cache_salt":"\u0074","lora_name":"\u0075","previous_response_id":"\u0076","prompt":[1]}`)},
		{"unreadable", []byte(`{"model":"m","prompt":[`)},
		{"no prompt", []byte(`{"model":"m"}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			s.Scan(tt.body)
			if got, want := testing.AllocsPerRun(100, func() { s.Scan(tt.body) }), 0.0; got != want {
				t.Errorf("%v allocations, want %v", got, want)
			}
		})
	}
}

// TestIdentityAllocates pins that an identity costs no memory either.
func TestIdentityAllocates(t *testing.T) {
	s := Scanner{Identities: true}
	dst := make([]byte, 0, 1024)
	h := IdentityHeaders{Session: []byte("s")}
	for _, body := range []string{
		`{"vllm_xargs":{"agentic_context":{"task_id":"t","agent_id":"t:a"}},"cache_salt":"s","lora_name":"l"}`,
		`{"vllm_xargs":{"agentic_context":"{\"session_id\":\"\\u0073\"}"}}`, `{"agent_hint":{"session_id":7}}`, `{"prompt":"hi"}`,
	} {
		text := []byte(body)
		identify := func() {
			s.Scan(text)
			if dst = s.AppendIdentity(dst[:0], h); len(dst) == 0 {
				t.Fatalf("%s has no identity", body)
			}
		}
		identify()
		if got, want := testing.AllocsPerRun(100, identify), 0.0; got != want {
			t.Errorf("%s: %v allocations, want %v", body, got, want)
		}
	}
}
