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
