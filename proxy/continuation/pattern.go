package continuation

import "bytes"

// pattern is an event that others are like, but for the text in it: nearly all of
// a stream's are. Such an event need not be read. Its zero value is like none.
type pattern struct {
	event  []byte
	from   int // where the text begins in it, behind the quote
	behind int // bytes from the closing quote on
}

// learn takes an event for the pattern; text is a string in it, raw, and a slice of
// the same array.
func (p *pattern) learn(event, text []byte) {
	p.event = append(p.event[:0], event...)
	p.from = cap(event) - cap(text) + 1
	p.behind = len(event) - p.from - len(text) + len(`""`)
}

// matches reports whether an event is the same but for the text, which has no
// escape.
func (p *pattern) matches(event []byte) bool {
	end := len(event) - p.behind
	if p.behind == 0 || end < p.from ||
		!bytes.Equal(event[end:], p.event[len(p.event)-p.behind:]) || !bytes.Equal(event[:p.from], p.event[:p.from]) {
		return false
	}
	for _, c := range event[p.from:end] {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
