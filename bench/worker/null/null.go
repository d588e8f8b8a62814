// Package null is a worker that does nothing, as fast as it can: it answers every
// generation at once with the same bytes, so that what a benchmark sees is the
// price of the router before it.
package null

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/valyala/fasthttp"
)

const (
	bodyBytes  = 200
	eventBytes = 150
	tokens     = 16
)

// What GET /v1/models and GET /version are answered with.
const (
	Models  = `{"object":"list","data":[{"id":"null","object":"model","created":0,"owned_by":"vllm","root":"null","max_model_len":1048576}]}`
	Version = `{"version":"0.32.0"}`
)

var (
	whole  = wholeBody()
	stream = streamEvents()
)

// Serve answers on ln until ln is closed, when it returns nil, or fails.
//
// POST /v1/chat/completions and /v1/completions get a JSON body of 200 bytes, or,
// if the body says "stream": true, 16 events of 150 bytes and [DONE], each in a
// write of its own as an engine would send them, but without a pause. GET /health
// gets 200, GET /v1/models and /version what tells routers that ask that this is
// vLLM with the model "null", everything else 404.
func Serve(ln net.Listener) error {
	server := &fasthttp.Server{
		Handler:                       handle,
		NoDefaultServerHeader:         true,
		DisableHeaderNamesNormalizing: true,
		DisablePreParseMultipartForm:  true,
		MaxRequestBodySize:            64 << 20,
	}
	return server.Serve(ln)
}

func handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/v1/chat/completions", "/v1/completions":
		if wantsStream(ctx.PostBody()) {
			ctx.SetContentType("text/event-stream; charset=utf-8")
			ctx.SetBodyStream(&eventReader{left: stream}, -1)
			return
		}
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyRaw(whole)
	case "/health":
	case "/v1/models":
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyString(Models)
	case "/version":
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyString(Version)
	default:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// eventReader yields one event per Read. fasthttp writes and flushes what each
// Read returns as a chunk.
type eventReader struct{ left [][]byte }

func (r *eventReader) Read(b []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.left[0]) // fasthttp's buffer is 4 KB: an event fits
	r.left = r.left[1:]
	return n, nil
}

// wantsStream looks for "stream": true. Inside a JSON string the quotes would be
// escaped, so a prompt with these words isn't taken for it.
func wantsStream(body []byte) bool {
	const key = `"stream"`
	for {
		at := bytes.Index(body, []byte(key))
		if at < 0 {
			return false
		}
		body = body[at+len(key):]
		if value, ok := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte(":")); ok {
			return bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("true"))
		}
	}
}

func wholeBody() []byte {
	return padded(bodyBytes, `{"id":"null","object":"chat.completion","created":0,"model":"null","choices":[{"index":0,`+
		`"message":{"role":"assistant","content":"`, `"},"finish_reason":"stop"}]}`)
}

func streamEvents() [][]byte {
	var events [][]byte
	for i := range tokens {
		reason := "null"
		if i == tokens-1 {
			reason = `"stop"`
		}
		events = append(events, padded(eventBytes,
			`data: {"id":"null","object":"chat.completion.chunk","model":"null","choices":[{"index":0,"delta":{"content":"`,
			fmt.Sprintf("\"},\"finish_reason\":%s}]}\n\n", reason)))
	}
	return append(events, []byte("data: [DONE]\n\n"))
}

// padded puts as many x between before and after as make size bytes.
func padded(size int, before, after string) []byte {
	return []byte(before + strings.Repeat("x", size-len(before)-len(after)) + after)
}
