package worker

import (
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
