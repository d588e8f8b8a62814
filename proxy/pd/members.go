package pd

import "loadstar/proxy/rawjson"

// members finds the values of the outermost members of a JSON object that comes
// in pieces. Its zero value stands before the object.
type members struct {
	state state
	name  []byte // of the present member, as far as it can be one of interest
	open  byte   // opening bracket of the present value, 0 if it is a string
	depth int    // of brackets of that kind
	quote bool   // in a string of the value
	esc   bool   // the next byte is escaped
}

// state says what the next byte may belong to.
type state uint8

const (
	beforeObject state = iota
	beforeMember
	afterMember
	inName
	beforeColon
	beforeValue
	inValue
	inScalar
	over // the object, at its end or at a fault
)

// found is what members has come upon.
type found uint8

const (
	nothing found = iota
	valueBegins
	valueEnds
)

// maxRawName is the longest name of interest with each letter as \uXXXX.
const maxRawName = 6 * len(kvField)

// next moves to where a value begins or ends, or to the end of p. n is the
// number of bytes it has moved past.
func (m *members) next(p []byte) (n int, what found) {
	for i, c := range p {
		switch m.state {
		case inName:
			switch {
			case !m.esc && c == '"':
				m.state = beforeColon
				continue
			case len(m.name) <= maxRawName:
				m.name = append(m.name, c)
			}
			m.esc = !m.esc && c == '\\'
			continue
		case inValue:
			n, ended := m.skip(p[i:])
			if !ended {
				return len(p), nothing
			}
			m.state = afterMember
			return i + n, valueEnds
		case inScalar:
			if inScalarText(c) {
				continue
			}
			m.state = afterMember
			return i, valueEnds
		case over:
			return len(p), nothing
		}
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		switch {
		case m.state == beforeObject && c == '{':
			m.state = beforeMember
		case m.state == beforeMember && c == '"':
			m.state, m.name = inName, m.name[:0]
		case m.state == beforeColon && c == ':':
			m.state = beforeValue
		case m.state == afterMember && c == ',':
			m.state = beforeMember
		case m.state == beforeValue:
			m.begin(c)
			return i, valueBegins
		default:
			m.state = over
		}
	}
	return len(p), nothing
}

// begin readies m for the value whose first byte is c.
func (m *members) begin(c byte) {
	m.open, m.depth, m.quote, m.esc = 0, 0, false, false
	switch {
	case c == '{' || c == '[':
		m.state, m.open = inValue, c
	case c == '"':
		m.state = inValue
	case inScalarText(c):
		m.state = inScalar
	default:
		m.state = over
	}
}

// skip moves past a string or container, or to the end of p.
func (m *members) skip(p []byte) (n int, ended bool) {
	for i, c := range p {
		switch {
		case m.esc:
			m.esc = false
		case c == '\\':
			m.esc = true
		case c == '"':
			m.quote = !m.quote
			if !m.quote && m.depth == 0 {
				return i + 1, true
			}
		case m.quote:
		case c == m.open:
			m.depth++
		case c == m.open+2: // the bracket that closes it
			if m.depth--; m.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(p), false
}

// is reports whether the present member is called name.
func (m *members) is(name string) bool { return rawjson.Is(m.name, name) }

func inScalarText(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}
