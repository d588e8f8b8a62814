package compare

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"loadstar/bench/load"
)

// dial opens a connection to a router and sends a request over it.
func dial(address string, chat load.Chat) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	body := chat.Same()(0)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, address, len(body))
	if _, err := c.Write(append([]byte(head), body...)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

var eventStart = []byte("data: {")

// readEvents counts events until the connection ends; first is called at the
// first one. The start of an event that is cut by a read is not counted.
func readEvents(c net.Conn, events *atomic.Int64, first func()) {
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		if found := bytes.Count(buf[:n], eventStart); found > 0 {
			events.Add(int64(found))
			if first != nil {
				first()
				first = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// untilEvent reads until an event has come.
func untilEvent(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	var text []byte
	buf := make([]byte, 2048)
	for len(text) < 1<<16 {
		n, err := c.Read(buf)
		text = append(text, buf[:n]...)
		if bytes.Contains(text, eventStart) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("64 kB of answer hold no event")
}
