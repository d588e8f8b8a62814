package load

import (
	"bytes"
	"time"
)

// scanner looks at a body as it comes.
type scanner struct {
	*answer
	stream bool
	last   time.Time
	line   [16]byte // how the present line begins; the end mark doesn't fill it
	n      int      // bytes of line that are used
}

func (s *scanner) scan(b []byte, now time.Time) {
	if len(b) == 0 {
		return
	}
	s.bytes += int64(len(b))
	s.tail.add(b)
	if !s.stream {
		if s.first.IsZero() {
			s.first = now
		}
		return
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			s.n += copy(s.line[s.n:], b)
			return
		}
		s.n += copy(s.line[s.n:], b[:i])
		s.endLine(now)
		s.n = 0
		b = b[i+1:]
	}
}

func (s *scanner) endLine(now time.Time) {
	data, isData := bytes.CutPrefix(s.line[:s.n], []byte("data:"))
	if !isData {
		return
	}
	if s.n < len(s.line) && string(bytes.TrimSpace(data)) == "[DONE]" {
		s.done = true
		return
	}
	if s.events == 0 {
		s.first = now
	} else if len(s.gaps) < maxGaps {
		s.gaps = append(s.gaps, now.Sub(s.last))
	}
	s.events++
	s.last = now
}
