// Package sse looks at a stream of server-sent events as it passes, without
// touching or keeping its bytes.
package sse

import "bytes"

// Scanner follows a stream of server-sent events over any cuts between the
// pieces it is fed. Its zero value stands at the start of a stream.
type Scanner struct {
	matched  int  // bytes of the end mark seen on the present line; mismatch if it is none
	inLine   bool // the last byte was not a line end
	inEvent  bool // no empty line has come since the last one that wasn't
	afterCR  bool // a line feed that follows ends no line of its own
	finished bool
}

// endMark is the line by which OpenAI-compatible servers end a stream. The
// blank behind the colon may be missing.
const endMark = "data: [DONE]"

// mismatch says that the present line isn't the end mark.
const mismatch = -1

// Feed takes the next piece of the stream and reports whether the end mark,
// a line of its own, has been seen.
func (s *Scanner) Feed(p []byte) (done bool) {
	for len(p) > 0 && !s.finished {
		if s.matched == mismatch {
			i := bytes.IndexAny(p, "\r\n")
			if i < 0 {
				break
			}
			s.matched, s.inLine, s.afterCR = 0, false, p[i] == '\r'
			p = p[i+1:]
			continue
		}
		c := p[0]
		p = p[1:]
		switch {
		case c == '\n' || c == '\r':
			s.finished = s.matched == len(endMark)
			s.inEvent = s.inEvent && (s.inLine || s.afterCR && c == '\n')
			s.matched, s.inLine, s.afterCR = 0, false, c == '\r'
			continue
		case s.matched < len(endMark) && c == endMark[s.matched]:
			s.matched++
		case s.matched == len("data:") && c == endMark[s.matched+1]:
			s.matched += 2
		default:
			s.matched = mismatch
		}
		s.inLine, s.inEvent, s.afterCR = true, true, false
	}
	return s.finished
}

// Closing is what has to be written to end the event that the stream, up to the
// end mark, stands in; "" if it stands in none.
func (s *Scanner) Closing() string {
	switch {
	case !s.inEvent:
		return ""
	case s.inLine || s.afterCR:
		return "\n\n"
	default:
		return "\n"
	}
}
