package scale

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"loadstar/bench/compare"
)

// A prompt that begins with startOfName, a name and a bracket is answered with a
// stream whose events have that name and a number, one at once and then one a pace,
// until all streams are finished.
const (
	startOfName = "[stream-"
	pace        = time.Second
	finishPath  = "/bench/finish"
	eventFormat = `data: {"stream":%q,"n":%d,"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}]}`
	doneLine    = "data: [DONE]"
)

// paced is workers that stream at a pace, each connection on a goroutine of its own.
type paced struct {
	mu       sync.Mutex
	finished chan struct{} // closed when the streams that are open are to end
}

func newPaced() *paced { return &paced{finished: make(chan struct{})} }

func (p *paced) serve(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go p.converse(c)
	}
}

// finish ends all open streams.
func (p *paced) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.finished)
	p.finished = make(chan struct{})
}

func (p *paced) untilFinished() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished
}

func (p *paced) converse(c net.Conn) {
	compare.Converse(c, 2<<10, func(_ *bufio.Reader, req *http.Request, body []byte) bool {
		var err error
		name, named := nameIn(body)
		switch {
		case named:
			err = p.stream(c, name)
		case req.URL.Path == finishPath:
			p.finish()
			fallthrough
		default:
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		}
		return err == nil
	})
}

func nameIn(body []byte) (string, bool) {
	_, rest, _ := bytes.Cut(body, []byte(startOfName))
	name, _, found := bytes.Cut(rest, []byte("]"))
	return string(name), found
}

// stream answers with events until the streams are finished.
func (p *paced) stream(c net.Conn, name string) error {
	finished := p.untilFinished()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for n := 0; ; n++ {
		if _, err := io.WriteString(c, head+chunk(fmt.Sprintf(eventFormat, name, n))); err != nil {
			return err
		}
		head = ""
		select {
		case <-tick.C:
		case <-finished:
			_, err := io.WriteString(c, chunk(doneLine)+"0\r\n\r\n")
			return err
		}
	}
}

func chunk(line string) string { return fmt.Sprintf("%x\r\n%s\n\n\r\n", len(line)+2, line) }
