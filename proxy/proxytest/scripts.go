package proxytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// JSON answers with a JSON body.
func JSON(status int, body string) Script {
	return func(x *Exchange) { x.Reply(status, body, H("Content-Type", "application/json")) }
}

// Echoed is the body of Echo's answer.
type Echoed struct {
	RequestLine string
	Headers     []Header
	Body        []byte
	Trailers    []Header
	Conn        int
	Seq         int
}

// Echo answers with what arrived, as the JSON of an Echoed.
func Echo(x *Exchange) {
	b, err := json.Marshal(Echoed{x.RequestLine, x.Headers, x.Body(), x.Trailers(), x.Conn, x.Seq})
	if err != nil {
		panic(err)
	}
	x.Reply(200, string(b), H("Content-Type", "application/json"))
}

// SSE streams n events, gap apart, then the end mark.
func SSE(n int, gap time.Duration) Script { return sse(n, gap, true, 0) }

// SSENoDone streams n events, gap apart, and ends without an end mark.
func SSENoDone(n int, gap time.Duration) Script { return sse(n, gap, false, 0) }

// LingerAfterDone streams n events and the end mark, and leaves the body open
// for another linger.
func LingerAfterDone(n int, gap, linger time.Duration) Script { return sse(n, gap, true, linger) }

func sse(n int, gap time.Duration, done bool, linger time.Duration) Script {
	return func(x *Exchange) {
		ok := x.SSEHead()
		for i := 0; ok && i < n; i++ {
			ok = (i == 0 || gap <= 0 || x.Sleep(gap)) && x.Event(EventData(i))
		}
		if ok && done {
			ok = x.Done() && (linger <= 0 || x.Sleep(linger))
		}
		if ok {
			x.EndChunks()
		}
	}
}

// EventData is the data of the i-th event, from 0, of the streaming scripts.
func EventData(i int) string {
	return fmt.Sprintf(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"t%d "},"finish_reason":null}]}`, i)
}

// Truncated announces a body of contentLength bytes, sends sent of them and
// closes the connection.
func Truncated(contentLength, sent int) Script {
	return func(x *Exchange) {
		x.Head(200, H("Content-Type", "application/json"), H("Content-Length", fmt.Sprint(contentLength)))
		x.Raw(strings.Repeat("x", sent))
		x.CloseFIN()
	}
}

// ResetBeforeHead resets the connection in place of an answer.
func ResetBeforeHead(x *Exchange) { x.Reset() }

// Silent answers nothing until the peer leaves. A Release makes it close.
func Silent(x *Exchange) { x.Hold() }

// Sequence answers the n-th request by the n-th script and the rest by the last.
func Sequence(scripts ...Script) Script {
	var calls atomic.Int64
	return func(x *Exchange) {
		scripts[min(int(calls.Add(1)), len(scripts))-1](x)
	}
}

// ByBody answers by the script of the substring that the body contains, the
// longest if several. The empty string stands for any body; without it a body
// that contains none is answered with a 500.
func ByBody(scripts map[string]Script) Script {
	var keys []string
	for k := range scripts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return func(x *Exchange) {
		body := string(x.Body())
		for _, k := range keys {
			if strings.Contains(body, k) {
				scripts[k](x)
				return
			}
		}
		JSON(500, `{"error":{"message":"the worker's script has no case for this body"}}`)(x)
	}
}

// Slow waits, then answers by s unless the peer has left.
func Slow(delay time.Duration, s Script) Script {
	return func(x *Exchange) {
		if x.Sleep(delay) {
			s(x)
		}
	}
}

// IdleClose answers by s and closes the connection, unannounced, once it has
// been idle for that long.
func IdleClose(after time.Duration, s Script) Script {
	return func(x *Exchange) {
		x.CloseWhenIdle(after)
		s(x)
	}
}

// ReadEcho reads what an Echo has answered.
func ReadEcho(r *Response) (Echoed, error) {
	var e Echoed
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return e, fmt.Errorf("answer with status %d is not an echo: %w", r.Status, err)
	}
	return e, nil
}
