package scale

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/load"
)

const atOnce = 32 // streams that are being opened

// crowd is clients that each have a stream open.
type crowd struct {
	opened int
	begun  chan struct{} // told by each stream at its first event
	ended  chan error    // told by each stream at its end: nil if all of its answer was right
	events atomic.Int64
	conns  []net.Conn
}

// open opens n streams and returns when each has had an event.
func open(ctx context.Context, url string, n int) (*crowd, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*5*time.Millisecond+time.Minute)
	defer cancel()
	c := &crowd{begun: make(chan struct{}, n), ended: make(chan error, n)}
	begun := 0
	for begun < n {
		if c.opened < n && c.opened-begun < atOnce {
			conn, err := c.ask(url, strconv.Itoa(c.opened))
			if err != nil {
				c.close()
				return nil, fmt.Errorf("%d streams are open, and another can't be: %w", begun, err)
			}
			c.conns = append(c.conns, conn)
			c.opened++
			continue
		}
		select {
		case <-c.begun:
			begun++
		case err := <-c.ended:
			c.close()
			return nil, fmt.Errorf("a stream ended while %d of %d were open: %w", begun, n, err)
		case <-ctx.Done():
			c.close()
			return nil, fmt.Errorf("%d of %d streams are open: %w", begun, n, ctx.Err())
		}
	}
	return c, nil
}

// close leaves streams that haven't ended.
func (c *crowd) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// ask sends a request for a stream and has its answer read.
func (c *crowd) ask(url, name string) (net.Conn, error) {
	chat := load.Chat{Model: compare.Model, Bytes: 200, Stream: true, Start: startOfName + name + "]"}
	body := chat.Same()(0)
	address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, address, len(body), body); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go func() {
		defer conn.Close()
		c.ended <- c.read(conn, name)
	}()
	return conn, nil
}

// read reads an answer, and errs unless it has all events of that name in their
// order, the mark of the end and the end, and nothing else.
func (c *crowd) read(conn net.Conn, name string) error {
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 512), 4<<10)
	n, done := 0, false
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "":
		case done:
			return fmt.Errorf("%q follows the end of stream %s", line, name)
		case line == doneLine:
			done = true
		case line == fmt.Sprintf(eventFormat, name, n):
			if n++; n == 1 {
				c.begun <- struct{}{}
			}
			c.events.Add(1)
		default:
			return fmt.Errorf("%q is event %d of stream %s", line, n, name)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("stream %s ended without its mark, after %d events", name, n)
	}
	return nil
}
