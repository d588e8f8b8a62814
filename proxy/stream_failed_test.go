package proxy

import (
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestStreamThatTellsOfAnError: it ends well under status 200 and has failed all
// the same. Its bytes pass as they are.
func TestStreamThatTellsOfAnError(t *testing.T) {
	t.Parallel()
	const (
		word   = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
		broken = `data: {"error": {"message": "EngineCore died", "code": 500}}` + "\n\n"
		end    = "data: [DONE]\n\n"
	)
	withLength := func(status int, stream string) proxytest.Script {
		return func(x *proxytest.Exchange) { x.Reply(status, stream, proxytest.H("Content-Type", "text/event-stream")) }
	}
	for _, tc := range []struct {
		name   string
		stream string
		script proxytest.Script
		want   actors.Cause
	}{
		{"vLLM that is killed", word + broken + end, rawStream(word, broken, end), actors.StreamFailed},
		{"all in one piece", word + broken + end, rawStream(word + broken + end), actors.StreamFailed},
		{"cut anywhere", word + broken + end, rawStream(strings.SplitAfter(word+broken+end, "e")...), actors.StreamFailed},
		{"no end mark", word + broken, rawStream(word, broken), actors.StreamFailed},
		{"with a length", word + broken + end, withLength(200, word+broken+end), actors.StreamFailed},
		{"Responses", "event: response.failed\ndata: {}\n\n", rawStream("event: response.failed\ndata: {}\n\n"), actors.StreamFailed},
		{"behind the end mark", word + end + broken, rawStream(word, end, broken), actors.Completed},
		{"no error", word + end, rawStream(word, end), actors.Completed},
		{"status of an error", broken, withLength(400, broken), actors.ClientError},
		{"no stream", broken, func(x *proxytest.Exchange) { x.Reply(200, broken, jsonType) }, actors.Completed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.script)
			r := startRouter(t, once(), w)
			resp := ask(t, r, chatPath, chat("hi", true))
			wantBytes(t, "the stream", resp.Body, []byte(tc.stream))
			r.waitOutcome(tc.want, 1)
		})
	}
}

// TestFailedStreamsOpenTheBreaker: a worker whose every stream fails is kept out.
func TestFailedStreamsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	bad := proxytest.NewWorker(t, rawStream("data: {\"error\":{}}\n\n", "data: [DONE]\n\n"))
	good := proxytest.NewWorker(t, proxytest.SSE(1, 0))
	o := testOptions("round_robin")
	o.Router.Breaker.FailureThreshold = 3
	r := startRouter(t, o, bad, good)
	for range 20 {
		ask(t, r, chatPath, chat("hi", true))
	}
	if n := bad.Requests(); n != 3 {
		t.Errorf("the worker whose streams fail got %d of 20 requests, want 3", n)
	}
}
