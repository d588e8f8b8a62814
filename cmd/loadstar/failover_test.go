package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"loadstar/bench/worker"
)

// TestStreamFailover: simulated engines, one of which breaks off all its streams,
// give the same answers as one that doesn't.
func TestStreamFailover(t *testing.T) {
	var urls []string
	for _, cut := range []int{7, 0} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w := worker.New(worker.Config{OutputTokens: 20, DecodeBase: time.Millisecond, Fault: worker.Fault{Cut: cut}})
		go w.Serve(ln)
		t.Cleanup(w.Close)
		urls = append(urls, "http://"+ln.Addr().String())
	}
	whole := running(t, io.Discard, "--worker-urls", urls[1])
	waitReady(t, whole)
	addr := running(t, io.Discard, "--policy", "round_robin", "--disable-circuit-breaker", "--retry-budget", "none", "--stream-failover", "--worker-urls", urls[0], urls[1])
	waitFleet(t, addr, "two healthy workers", fleetView.healthy)
	for i := range 6 {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d"}],"stream":true,"stream_options":{"include_usage":true}}`, i)
		want := streamed(t, whole, body)
		if got := streamed(t, addr, body); got != want || len(want.text) < 40 {
			t.Errorf("question %d is answered with %+v, want %+v", i, got, want)
		}
	}
	text := metricsOf(t, addr, "vllm_router_request_duration_seconds")
	if strings.Contains(text, "loadstar_stream_failovers_total{result=\"continued\"} 0\n") {
		t.Error("no stream was continued, so nothing was tested")
	}
}

// answered is what a stream of events comes to.
type answered struct {
	text, reason       string
	ids, roles, events int
	tokens             int // by its usage
	ended              bool
}

// streamed reads the answer to a chat.
func streamed(t *testing.T, addr, body string) (a answered) {
	t.Helper()
	resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the stream breaks off: %v behind %s", err, stream)
	}
	ids := map[string]bool{}
	for event := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		data, _ := strings.CutPrefix(event, "data: ")
		a.events++
		if data == "[DONE]" {
			a.ended = true
			continue
		}
		var e struct {
			ID      string
			Choices []struct {
				Delta        struct{ Role, Content string }
				FinishReason string `json:"finish_reason"`
			}
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
				Total      int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", event, err)
		}
		ids[e.ID] = true
		for _, c := range e.Choices {
			a.text += c.Delta.Content
			a.reason += c.FinishReason
			if c.Delta.Role != "" {
				a.roles++
			}
		}
		a.tokens += e.Usage.Completion
		if u := e.Usage; u.Total != u.Prompt+u.Completion {
			t.Errorf("usage %+v doesn't add up", u)
		}
	}
	a.ids = len(ids)
	return a
}
