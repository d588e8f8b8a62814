package proxy

import (
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestEndMarkIsNotTheEnd: a stream whose end mark has come is answered, but its
// connection may carry another request only if its body has ended too. What is left
// of it would be taken for the next one's answer.
func TestEndMarkIsNotTheEnd(t *testing.T) {
	const left = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n\"left\""
	mark := func(x *proxytest.Exchange) { x.SSEHead(); x.Event(`{"choices":[]}`); x.Done() }
	for _, tc := range []struct {
		name   string
		total  bool // what ends the wait is the limit on the whole
		script proxytest.Script
	}{
		{"no last chunk", false, func(x *proxytest.Exchange) { mark(x); x.Hold(); x.Raw("0\r\n\r\n") }},
		{"no last chunk, total timeout", true, func(x *proxytest.Exchange) { mark(x); x.Hold(); x.Raw("0\r\n\r\n") }},
		{"within a chunk", false, func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Raw("1000\r\ndata: [DONE]\n\n")
			x.Hold()
			x.Raw(left)
		}},
		{"wrong framing", false, func(x *proxytest.Exchange) { mark(x); x.Raw("zz\r\n"); x.Hold(); x.Raw(left) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.script)
			o := testOptions("round_robin")
			if tc.total {
				o.Timeouts.Total = brief
			} else {
				o.Timeouts.Idle = brief
			}
			r := startRouter(t, o, w)
			got, _ := r.post(chat("first", true)).ReadResponse(patience)
			if got == nil || !strings.HasSuffix(string(got.Body), "data: [DONE]\n\n") || got.Clean {
				t.Errorf("answer %v, want one with the end mark, and cut off behind it", got)
			}
			r.waitLoad(w, 0)
			x := nthGeneration(t, w, 0)
			w.SetScript(proxytest.JSON(200, `"own"`))
			wantAnswer(t, r.call("POST", chatPath, chat("second", false)), 200, `"own"`)
			wantClosed(t, "an answer that has not ended", x)
			if n := w.Requests(); n != 2 {
				t.Errorf("the worker got %d requests, want 2", n)
			}
		})
	}
}
