package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the worker itself costs, with its simulated times cut to nothing: a bench
// of a router must know when its workers are the limit.
func BenchmarkWorker(b *testing.B) {
	for _, size := range []int{200, 20_000} {
		for _, stream := range []bool{false, true} {
			b.Run(fmt.Sprintf("prompt=%d/stream=%t", size, stream), func(b *testing.B) {
				_, url := start(b, Config{TimeScale: 1e9, OutputTokens: 16})
				body := fmt.Sprintf(`{"stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, strings.Repeat("word ", size/5))
				b.ReportAllocs()
				for b.Loop() {
					got, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, got.Body); err != nil {
						b.Fatal(err)
					}
					_ = got.Body.Close()
				}
			})
		}
	}
}

// The same for a request in two halves, with the reading of the hand-over.
func BenchmarkPair(b *testing.B) {
	for _, size := range []int{200, 20_000} {
		b.Run(fmt.Sprintf("prompt=%d", size), func(b *testing.B) {
			_, prefillURL := start(b, Config{TimeScale: 1e9})
			_, decodeURL := start(b, Config{TimeScale: 1e9, OutputTokens: 16})
			prompt := strings.Repeat("word ", size/5)
			b.ReportAllocs()
			for b.Loop() {
				first := benchPost(b, prefillURL+completions, prefill(prompt, toDecode))
				var body struct {
					KV json.RawMessage `json:"kv_transfer_params"`
				}
				if err := json.Unmarshal(first, &body); err != nil {
					b.Fatal(err)
				}
				benchPost(b, decodeURL+completions, fmt.Sprintf(`{"prompt":%q,"kv_transfer_params":%s}`, prompt, body.KV))
			}
		})
	}
}

func benchPost(b *testing.B, url, body string) []byte {
	got, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer got.Body.Close()
	read, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		b.Fatalf("status %d, %v", got.StatusCode, err)
	}
	return read
}
