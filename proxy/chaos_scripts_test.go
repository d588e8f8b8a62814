package proxy

import (
	"fmt"
	"strings"
	"time"

	"loadstar/proxy/proxytest"
)

var (
	// chaosSound are kinds of answers that are right and come to an end.
	chaosSound = []string{
		"plain", "plain", "slow plain", "drip", "big plain", "two writes", "stream", "stream", "burst", "linger",
		"until close", "interim", "empty", "closing",
	}
	// chaosUnsound are failures of a worker, and lies.
	chaosUnsound = []string{
		"idle close",                                                                                // a request may be on its way by then
		"no end mark", "busy", "limited", "broken", "refused", "close", "reset", "truncated", "cut", // failures
		"garbage", "no head", "bad status", "long head", "endless head", // heads
		"longer", "unasked", "shorter", "shorter, reset", "negative length", "garbled length", "two lengths", "length and chunks", // lengths
		"chunks cut", "chunk cut", "bad chunk", "huge chunk",
	}
	// chaosEndless are kinds that run until somebody leaves or lets them go.
	chaosEndless = []string{"silent", "stalled stream", "short of its length", "flowing"}
)

// unasked marks what a worker sends that belongs to no request.
const unasked = "unasked"

func okBody(id string) string  { return fmt.Sprintf(`{"ok":%q}`, id) }
func bigBody(id string) string { return id + strings.Repeat("0123456789", 20_000) + id }

// isSound has the kinds of chaosSound.
var isSound = func() map[string]bool {
	m := map[string]bool{}
	for _, kind := range chaosSound {
		m[kind] = true
	}
	return m
}()

// wantChaos is the body of a sound answer.
func wantChaos(kind, id string) string {
	stream := func(n int) string { return strings.Repeat("data: "+id+"\n\n", n) + "data: [DONE]\n\n" }
	switch kind {
	case "stream":
		return stream(8)
	case "burst":
		return stream(30)
	case "linger":
		return stream(3)
	case "big plain":
		return bigBody(id)
	case "until close":
		return id
	case "empty":
		return ""
	default:
		return okBody(id)
	}
}

// chaosScript does what the request asks for.
func chaosScript(x *proxytest.Exchange) {
	kind, id := x.Get("X-Chaos"), x.Get("X-Chaos-Id")
	ok := okBody(id)
	length := func(of string) proxytest.Header { return proxytest.H("Content-Length", of) }
	whole := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	events := func(n int, pause time.Duration) bool {
		x.SSEHead()
		for range n {
			if !x.Event(id) || !x.Sleep(pause) {
				return false
			}
		}
		return true
	}
	switch kind {
	case "plain":
		x.Reply(200, ok, jsonType)
	case "slow plain":
		if x.Sleep(4 * time.Millisecond) {
			x.Reply(200, ok, jsonType)
		}
	case "drip":
		for rest := whole(ok); rest != ""; {
			n := min(len(rest), 7)
			if !x.Raw(rest[:n]) || !x.Sleep(200*time.Microsecond) {
				return
			}
			rest = rest[n:]
		}
	case "big plain":
		x.Reply(200, bigBody(id), jsonType)
	case "two writes":
		x.Head(200, jsonType, length(fmt.Sprint(len(ok))))
		x.Sleep(time.Millisecond)
		x.Raw(ok)
	case "stream":
		if events(8, time.Millisecond) {
			x.Done()
			x.EndChunks()
		}
	case "burst":
		if events(30, 0) {
			x.Done()
			x.EndChunks()
		}
	case "linger":
		if events(3, 0) {
			x.Done()
			x.Sleep(10 * time.Millisecond)
			x.EndChunks()
		}
	case "until close":
		x.Head(200, proxytest.H("Content-Type", "text/plain"))
		x.Raw(id)
		x.CloseFIN()
	case "interim":
		x.Head(103, proxytest.H("Link", "</a>; rel=preload"))
		x.Reply(200, ok, jsonType)
	case "empty":
		x.Reply(204, "")
	case "closing":
		x.KeepAlive(false)
		x.Reply(200, ok, jsonType)

	case "idle close":
		x.CloseWhenIdle(3 * time.Millisecond)
		x.Reply(200, ok, jsonType)
	case "no end mark":
		if events(4, time.Millisecond) {
			x.EndChunks()
		}
	case "busy":
		x.Reply(503, `{"error":{"message":"busy"}}`, jsonType)
	case "limited":
		x.Reply(429, `{"error":{"message":"slow down"}}`, jsonType, proxytest.H("Retry-After", "1"))
	case "broken":
		x.Reply(500, `{"error":{"message":"oops"}}`, jsonType)
	case "refused":
		x.Reply(400, `{"error":{"message":"no"}}`, jsonType)
	case "close":
		x.CloseFIN()
	case "reset":
		x.Reset()
	case "truncated":
		proxytest.Truncated(20_000, 5_000)(x)
	case "cut":
		events(1, 0)
		x.Chunk("data: tw")
		x.Sleep(time.Millisecond)
		x.Reset()

	case "garbage":
		x.Raw("\x16\x03\x01 this is not HTTP\r\n\r\n")
		x.CloseFIN()
	case "no head":
		x.Raw("\r\n\r\n")
		x.CloseFIN()
	case "bad status":
		x.KeepAlive(true)
		x.Raw("HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n")
	case "long head":
		x.KeepAlive(true)
		x.Raw("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("a", 40<<10) + "\r\nContent-Length: 0\r\n\r\n")
	case "endless head":
		x.Raw("HTTP/1.1 200 OK\r\n")
		for range 16 { // many times what is allowed
			if !x.Raw(strings.Repeat("X-More: of the same\r\n", 1000)) {
				return
			}
		}

	case "longer": // with the answer, so that it is there before another request can be
		x.Raw(whole(ok) + unasked)
	case "unasked":
		x.Raw(whole(ok) + whole(okBody(unasked)))
	case "shorter":
		x.Head(200, jsonType, length("100"))
		x.Raw(ok)
		x.CloseFIN()
	case "shorter, reset":
		x.Head(200, jsonType, length("100"))
		x.Raw(ok)
		x.Sleep(time.Millisecond)
		x.Reset()
	case "negative length":
		x.KeepAlive(true)
		x.Raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + ok)
	case "garbled length":
		x.KeepAlive(true)
		x.Raw("HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\n" + ok)
	case "two lengths":
		x.KeepAlive(true)
		x.Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\n%s", len(ok), ok))
	case "length and chunks":
		x.KeepAlive(true)
		x.Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(ok), ok))
	case "chunks cut":
		x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
		x.Chunk(ok)
		x.CloseFIN()
	case "chunk cut":
		x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
		x.Raw("40\r\n" + ok)
		x.CloseFIN()
	case "bad chunk":
		x.KeepAlive(true)
		x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
		x.Raw("zz\r\n" + ok + "\r\n0\r\n\r\n")
	case "huge chunk":
		x.KeepAlive(true)
		x.Head(200, proxytest.H("Transfer-Encoding", "chunked"))
		x.Raw("ffffffffffffffff1\r\n" + ok)

	case "silent":
		x.Hold()
		x.Reply(200, ok, jsonType)
	case "stalled stream":
		events(1, 0)
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	case "short of its length":
		x.Head(200, jsonType, length(fmt.Sprint(len(ok))))
		x.Raw(ok[:5])
		if x.Hold() {
			x.Raw(ok[5:])
		}
	case "flowing":
		x.SSEHead()
		for x.Sleep(3 * time.Millisecond) {
			x.Event(id)
		}
	default:
		x.Reply(404, fmt.Sprintf(`{"error":{"message":"no kind %q"}}`, kind), jsonType)
	}
}

var (
	// chaosPulls and chaosPushes are the ways of a prefill worker that is well, of
	// either mode.
	chaosPulls  = []string{"ok", "slow", "two writes"}
	chaosPushes = []string{"push", "slow push"}
	// chaosPrefills are all ways that come to an end. To change the mode is the way of
	// a worker that was started again.
	chaosPrefills = []string{
		"ok", "ok", "ok", "ok", "ok", "slow", "slow", "slow", "two writes", "push", "push", "push", "push", "slow push", "slow push",
		"no params", "no JSON", "refused", "busy", "broken", "close", "reset", "truncated", "longer", "two lengths", "chunk cut",
	}
)

// chaosPush is a prefill worker's reply in push mode.
var chaosPush = strings.Replace(nixlReply, `"kv_transfer_params":{`, `"kv_transfer_params":{"transfer_mode":"push",`, 1)

// chaosPrefill answers as the request wants its prefill worker to.
func chaosPrefill(x *proxytest.Exchange) {
	length := proxytest.H("Content-Length", fmt.Sprint(len(nixlReply)))
	how := x.Get("X-Chaos-Prefill")
	if x.Path() == "/tokenize" {
		how = "" // it has no phases
	}
	switch how {
	case "ok":
		x.Reply(200, nixlReply, jsonType)
	case "slow":
		if x.Sleep(4 * time.Millisecond) {
			x.Reply(200, nixlReply, jsonType)
		}
	case "push":
		x.Reply(200, chaosPush, jsonType)
	case "slow push":
		if x.Sleep(4 * time.Millisecond) {
			x.Reply(200, chaosPush, jsonType)
		}
	case "two writes":
		x.Head(200, jsonType, length)
		x.Raw(nixlReply[:50])
		x.Sleep(time.Millisecond)
		x.Raw(nixlReply[50:])
	case "no params":
		x.Reply(200, `{"choices":[]}`, jsonType)
	case "no JSON":
		x.Reply(200, "hello")
	case "refused":
		x.Reply(400, `{"error":{"message":"no"}}`, jsonType)
	case "busy":
		x.Reply(503, `{"error":{"message":"busy"}}`, jsonType)
	case "broken":
		x.Reply(500, `{"error":{"message":"oops"}}`, jsonType)
	case "close":
		x.CloseFIN()
	case "reset":
		x.Reset()
	case "truncated":
		proxytest.Truncated(20_000, 5_000)(x)
	case "longer":
		x.Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(nixlReply), nixlReply, unasked))
	case "two lengths":
		x.KeepAlive(true)
		x.Head(200, jsonType, length, proxytest.H("Content-Length", "5"))
		x.Raw(nixlReply)
	case "chunk cut":
		x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
		x.Raw("fff\r\n" + nixlReply)
		x.CloseFIN()
	case "silent":
		x.Hold()
		x.Reply(200, nixlReply, jsonType)
	default:
		chaosScript(x)
	}
}
