package load

import (
	"bytes"
	"strconv"
)

// head is what the head of an answer says about its body.
type head struct {
	status  int
	length  int64 // negative if it is not told
	chunked bool
	stream  bool // of events
	closing bool
}

func parseHead(text []byte) (head, error) {
	h := head{length: -1}
	line, rest, _ := bytes.Cut(text, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return h, errMalformed
	}
	h.closing = line[7] == '0'
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil || status < 100 {
		return h, errMalformed
	}
	h.status = status
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			return h, errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			n, err := strconv.ParseUint(string(value), 10, 62)
			if err != nil {
				return h, errMalformed
			}
			h.length = int64(n)
		case is(name, "transfer-encoding"):
			h.chunked = is(value, "chunked")
		case is(name, "connection"):
			h.closing = h.closing && !is(value, "keep-alive") || is(value, "close")
		case is(name, "content-type"):
			const events = "text/event-stream"
			h.stream = len(value) >= len(events) && is(value[:len(events)], events)
		}
	}
	return h, nil
}

// is compares without regard to case.
func is(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}
