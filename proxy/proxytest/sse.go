package proxytest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"
)

// An Event is one block of an event stream, up to and with its empty line.
type Event struct {
	Raw     []byte    // as in the body, without chunk framing
	Name    string    // of the event: line
	ID      string    // of the id: line
	Data    string    // of the data: lines, joined by line feeds
	Comment string    // of the lines that begin with a colon, joined by line feeds
	At      time.Time // arrival of its last byte
}

// ReadEvent reads the next event of the answer, its head too if need be. Behind
// the last it returns io.EOF if the answer ended as promised. Bytes without an
// empty line at the end are returned as Raw, alone, beside the error; ReadResponse
// still returns the whole answer then.
func (c *Client) ReadEvent(timeout time.Duration) (Event, error) {
	deadline := time.Now().Add(timeout)
	r := c.current("")
	for {
		if raw := r.events.next(r.p.body); raw != nil {
			// Events are looked for behind every piece, so this one ended in the latest.
			return parseEvent(raw, r.events.at), nil
		}
		var err error
		if r.p.phase == finished {
			err = io.EOF
		} else if err = c.advance(r, deadline); err == nil {
			r.events.at = c.rest.at
			continue
		}
		if errors.Is(err, ErrTimeout) {
			return Event{}, err
		}
		ev := Event{Raw: r.p.body[r.events.from:], At: r.resp.EndAt}
		r.events.from = len(r.p.body)
		return ev, err
	}
}

// A splitter finds the empty lines in a growing body.
type splitter struct {
	from   int // begin of the event
	line   int // begin of the line that is not whole yet
	looked int // up to here that line has no end
	at     time.Time
}

// next returns the next event in body, or nil if it has not come whole. A line
// ends in LF, CR or CR LF; a CR at the end of body waits for what follows it.
func (s *splitter) next(body []byte) []byte {
	for {
		i := bytes.IndexAny(body[s.looked:], "\r\n")
		if i < 0 {
			s.looked = len(body)
			return nil
		}
		s.looked += i
		end := s.looked + 1
		if body[s.looked] == '\r' {
			if end == len(body) {
				return nil
			}
			if body[end] == '\n' {
				end++
			}
		}
		empty := s.looked == s.line
		s.line, s.looked = end, end
		if empty {
			raw := body[s.from:end]
			s.from = end
			return raw
		}
	}
}

func parseEvent(raw []byte, at time.Time) Event {
	ev := Event{Raw: raw, At: at}
	var data, comments []string
	text := strings.ReplaceAll(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\r", "\n")
	for line := range strings.SplitSeq(text, "\n") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			if line != "" {
				comments = append(comments, value)
			}
		case "event":
			ev.Name = value
		case "id":
			ev.ID = value
		case "data":
			data = append(data, value)
		}
	}
	ev.Data, ev.Comment = strings.Join(data, "\n"), strings.Join(comments, "\n")
	return ev
}
