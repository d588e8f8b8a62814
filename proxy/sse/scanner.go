// Package sse looks at a stream of server-sent events as it passes, without
// touching or keeping its bytes.
package sse

import "bytes"

// Scanner follows a stream of server-sent events over any cuts between the
// pieces it is fed. Its zero value stands at the start of a stream.
type Scanner struct {
	head     [headSize]byte // how the present line begins, if earlier pieces held a part of that
	seen     int            // bytes of the present line, up to headSize
	inLine   bool           // the last byte was not a line end
	inEvent  bool           // no empty line has come since the last one that wasn't
	afterCR  bool           // a line feed that follows ends no line of its own
	finished bool
	failed   bool
}

// headSize is how much of a line is looked at: no mark is longer, with a blank
// wherever an encoder of JSON puts one.
const headSize = 40

// EndMark is the line by which OpenAI-compatible servers end a stream. The
// blank behind the colon may be missing.
const EndMark = "[DONE]"

// Feed takes the next piece of the stream and reports whether the end mark,
// a line of its own, has been seen.
func (s *Scanner) Feed(p []byte) (done bool) {
	lf := -1 // where in p the next line feed is; looked for again when it is passed
	for i := 0; i < len(p) && !s.finished; {
		if lf < i {
			lf = len(p)
			if n := bytes.IndexByte(p[i:], '\n'); n >= 0 {
				lf = i + n
			}
		}
		end := lf
		if n := bytes.IndexByte(p[i:lf], '\r'); n >= 0 {
			end = i + n
		}
		s.part(p[i:end], end < len(p))
		if end < len(p) {
			c := p[end]
			s.inEvent = s.inEvent && (s.inLine || s.afterCR && c == '\n')
			s.seen, s.inLine, s.afterCR = 0, false, c == '\r'
		}
		i = end + 1
	}
	return s.finished
}

// part takes a part of a line, its line end excluded. whole says that the line
// ends with it.
func (s *Scanner) part(b []byte, whole bool) {
	if len(b) > 0 {
		s.inLine, s.inEvent, s.afterCR = true, true, false
	}
	if s.seen == headSize {
		return // its head has been judged
	}
	head := b[:min(len(b), headSize)]
	if s.seen > 0 || !whole && len(head) < headSize {
		n := copy(s.head[s.seen:], b)
		head = s.head[:s.seen+n]
	}
	s.seen = len(head)
	if s.seen == headSize || whole {
		s.judge(head)
	}
}

// judge looks at a line by its head, which is all of it if it is shorter than
// headSize.
func (s *Scanner) judge(head []byte) {
	if rest, ok := bytes.CutPrefix(head, []byte("data:")); ok {
		if len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		s.finished = string(rest) == EndMark
		s.failed = s.failed || Failure(rest)
		return
	}
	if rest, ok := bytes.CutPrefix(head, []byte("event:")); ok {
		if len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		s.failed = s.failed || string(rest) == "error" || string(rest) == "response.failed"
	}
}

// Failed reports whether an event has told of an error, in front of the end mark:
// one whose data is an object that begins with an error, as OpenAI's and vLLM's do,
// or is of a type that says so, as Anthropic's and those of the Responses API are.
func (s *Scanner) Failed() bool { return s.failed }

// Between reports whether the stream, up to the end mark, stands between two
// events, so that a comment may be put in.
func (s *Scanner) Between() bool { return !s.inEvent && !s.finished }

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
