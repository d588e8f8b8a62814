package sse

import "bytes"

// Lines follows a stream of server-sent events over any cuts and finds where
// events end. Its zero value stands at the start of a stream.
type Lines struct {
	inLine  bool // the line at hand is not empty
	afterCR bool // a line feed that follows ends no line of its own
	between bool // that carriage return has ended an event
}

// EventEnd is the index after the first empty line in p, up to which it moves,
// or -1 if there is none, and it moves past p.
func (l *Lines) EventEnd(p []byte) int {
	for i := 0; i < len(p); i++ {
		if l.inLine {
			n := lineEnd(p[i:])
			if n < 0 {
				return -1
			}
			i += n
			l.inLine, l.afterCR, l.between = false, p[i] == '\r', false
			continue
		}
		afterCR := l.afterCR
		l.afterCR = false
		switch {
		case p[i] == '\n' && (!afterCR || l.between):
			return i + 1
		case p[i] == '\n': // the rest of a line end
		case p[i] == '\r' && i+1 < len(p) && p[i+1] == '\n':
			return i + 2
		case p[i] == '\r':
			l.afterCR, l.between = true, true
			return i + 1
		default:
			l.inLine = true
		}
	}
	return -1
}

// lineEnd is the index of the first carriage return or line feed in p, or -1.
func lineEnd(p []byte) int {
	const window = 512 // so that looking for one doesn't pass many of the other
	for at := 0; at < len(p); at += window {
		w := p[at:min(at+window, len(p))]
		n := bytes.IndexByte(w, '\n')
		if n >= 0 {
			w = w[:n]
		}
		if r := bytes.IndexByte(w, '\r'); r >= 0 {
			n = r
		}
		if n >= 0 {
			return at + n
		}
	}
	return -1
}

// DataLine is where the value of the only data line of an event stands. It
// reports false if there is none, or several: an object over several lines is
// more than any engine sends.
func DataLine(event []byte) (start, end int, ok bool) {
	for i := 0; i < len(event); i++ {
		n := lineEnd(event[i:])
		if n < 0 {
			n = len(event) - i
		}
		line := event[i : i+n]
		if bytes.HasPrefix(line, []byte("data:")) || string(line) == "data" {
			if ok {
				return 0, 0, false
			}
			start, end, ok = i+min(n, len("data:")), i+n, true
		}
		i += n
	}
	return start, end, ok
}
