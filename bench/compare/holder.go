package compare

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"loadstar/bench/worker/null"
)

// What a request asks of a holder, at the start of its prompt and with a parameter
// and a bracket behind. Without it the answer comes at once. Every router passes
// prompts on, which can't be said of headers and of other fields.
const (
	askMute  = "[bench-mute-"  // ID: no answer
	askStall = "[bench-stall-" // ID: a head and one event, and no more
	askPace  = "[bench-pace-"  // milliseconds: an event, and another each time these are over
	askThink = "[bench-think-" // milliseconds before the answer
)

// Bounds of what a holder holds.
const (
	holdLongest = 3 * time.Second // until a request that nobody takes back is given up

	paceLongest = 5 * time.Minute
	eventBytes  = 150
	bodyBytes   = 200
)

// sighting is what a holder says about a held request.
type sighting struct {
	id   string
	left bool // the peer is gone; otherwise the request came
	at   time.Time
}

// holder is a worker that does as a request asks and sees its peer close at once.
type holder struct {
	ln    net.Listener
	seen  chan<- sighting
	count atomic.Int64 // generations
}

// newHolder starts a holder on a free port. Sightings that find seen full are lost.
func newHolder(seen chan<- sighting) (*holder, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &holder{ln: ln, seen: seen}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return h, nil
}

func (h *holder) address() string { return h.ln.Addr().String() }

func (h *holder) tell(id string, left bool) {
	select {
	case h.seen <- sighting{id, left, time.Now()}:
	default:
	}
}

func (h *holder) serve(c net.Conn) {
	Converse(c, 8<<10, func(r *bufio.Reader, req *http.Request, body []byte) bool { return h.answer(c, r, req, body) })
}

// Converse hands the requests that come over a connection to answer, one after
// another, until one ends it, and closes it. It reads through size bytes.
func Converse(c net.Conn, size int, answer func(r *bufio.Reader, req *http.Request, body []byte) (again bool)) {
	defer c.Close()
	r := bufio.NewReaderSize(c, size)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || !answer(r, req, body) {
			return
		}
	}
}

// answer reports whether the connection may be used again.
func (h *holder) answer(c net.Conn, r *bufio.Reader, req *http.Request, body []byte) bool {
	switch req.URL.Path {
	case path:
	case "/health":
		return write(c, whole("200 OK", ""))
	case "/v1/models":
		return write(c, whole("200 OK", null.Models))
	case "/version":
		return write(c, whole("200 OK", null.Version))
	default:
		return write(c, whole("404 Not Found", ""))
	}
	h.count.Add(1)
	ask := asked(body)
	switch {
	case strings.HasPrefix(ask, askMute):
		h.hold(c, r, ask)
		return false
	case strings.HasPrefix(ask, askStall):
		if write(c, streamHead+eventChunk) {
			h.hold(c, r, ask)
		}
		return false
	case strings.HasPrefix(ask, askPace):
		pace(c, r, millis(ask[len(askPace):]))
		return false
	case strings.HasPrefix(ask, askThink):
		time.Sleep(millis(ask[len(askThink):]))
	}
	return write(c, wholeAnswer)
}

// hold waits until the peer is gone.
func (h *holder) hold(c net.Conn, r *bufio.Reader, id string) {
	_ = c.SetReadDeadline(time.Now().Add(holdLongest))
	h.tell(id, false)
	_, err := r.ReadByte()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	h.tell(id, true)
}

// pace sends events until the peer is gone.
func pace(c net.Conn, r *bufio.Reader, every time.Duration) {
	gone := make(chan struct{})
	_ = c.SetReadDeadline(time.Now().Add(paceLongest))
	go func() {
		defer close(gone)
		_, _ = r.ReadByte()
	}()
	defer func() { // the goroutine is not left behind
		_ = c.Close()
		<-gone
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for text := streamHead + eventChunk; write(c, text); text = eventChunk {
		select {
		case <-tick.C:
		case <-gone:
			return
		}
	}
}

func write(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

func millis(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(min(max(n, 1), 60_000)) * time.Millisecond
}

// asked finds in a body what is asked of a holder, without the closing bracket.
func asked(body []byte) string {
	i := bytes.Index(body, []byte(`"[bench-`))
	if i < 0 {
		return ""
	}
	text, _, _ := bytes.Cut(body[i+1:], []byte("]"))
	return string(text)
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

var (
	eventChunk  = chunked(padded(eventBytes, `data: {"id":"bench","object":"chat.completion.chunk","model":"null","choices":[{"index":0,"delta":{"content":"`, "\"},\"finish_reason\":null}]}\n\n"))
	wholeAnswer = whole("200 OK", padded(bodyBytes, `{"id":"bench","object":"chat.completion","created":0,"model":"null","choices":[{"index":0,"message":{"role":"assistant","content":"`, `"},"finish_reason":"stop"}]}`))
)

func whole(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func chunked(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// padded puts as many x between before and after as make size bytes.
func padded(size int, before, after string) string {
	return before + strings.Repeat("x", size-len(before)-len(after)) + after
}
