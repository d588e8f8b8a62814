package proxy

import (
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// TestFirstByteOfAStream: engines send the head of a stream before they look at the
// prompt, so its first byte is one of its body, also for the pending prompt work.
func TestFirstByteOfAStream(t *testing.T) {
	const prefill = 200 * time.Millisecond
	var r *router
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		time.Sleep(prefill)
		if v := r.snapshot(); v.Workers[0].Pending == 0 {
			t.Error("no work is pending before the first event, want the prompt's")
		}
		x.Event(`{"choices":[]}`)
		x.Done()
		x.EndChunks()
	})
	r = startRouter(t, testOptions("least_work"), w)
	if got, err := r.post(chat("the prompt "+string(make([]byte, 500)), true)).ReadResponse(patience); err != nil || !got.Clean {
		t.Fatalf("answer %+v, error %v; want a whole one", got, err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		m := r.scrape()
		if m["loadstar_first_byte_seconds_count"] == 1 {
			if got := m["loadstar_first_byte_seconds_sum"]; got < prefill.Seconds() {
				t.Errorf("the first byte took %v s, want %v at least", got, prefill)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("no first byte is told in the metrics")
		}
	}
}
