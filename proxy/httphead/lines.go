// Package httphead reads and filters the heads of HTTP/1.1 messages as bytes, so
// that a proxy passes on what it received: order, repetitions and the case of
// names stay.
package httphead

import (
	"bytes"
	"errors"
)

// Errors of Lines.
var (
	ErrFolded  = errors.New("a header is folded over several lines")
	ErrName    = errors.New("a header name is empty or holds an invalid character")
	ErrColon   = errors.New("a header line has no colon")
	ErrValue   = errors.New("a header value holds a control character")
	ErrLineEnd = errors.New("a header line ends in a line feed without a carriage return")
	ErrUnended = errors.New("a header line does not end")
)

// Lines walks the header lines of a head, behind its first line and up to the
// empty line. It is strict: what two parsers might read differently is an
// error, because one of them is the next hop's.
type Lines struct {
	rest        []byte
	Name, Value []byte // of the present line; the value without surrounding blanks
	err         error
}

// LinesOf returns a walk over raw.
func LinesOf(raw []byte) Lines { return Lines{rest: raw} }

// Next goes to the next line. It reports false at the end or at a fault, which
// Err tells.
func (l *Lines) Next() bool {
	if len(l.rest) == 0 || l.err != nil {
		return false
	}
	end := bytes.IndexByte(l.rest, '\n')
	if end < 0 {
		l.err = ErrUnended
		return false
	}
	if end == 0 || l.rest[end-1] != '\r' {
		l.err = ErrLineEnd
		return false
	}
	line := l.rest[:end-1]
	l.rest = l.rest[end+1:]
	if len(line) == 0 {
		l.rest = nil
		return false
	}
	if line[0] == ' ' || line[0] == '\t' {
		l.err = ErrFolded
		return false
	}
	colon := 0
	for colon < len(line) && isToken[line[colon]] {
		colon++
	}
	switch {
	case colon == len(line):
		l.err = ErrColon
		return false
	case colon == 0 || line[colon] != ':':
		l.err = ErrName
		return false
	}
	v := line[colon+1:]
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	for n := len(v); n > 0 && (v[n-1] == ' ' || v[n-1] == '\t'); n-- {
		v = v[:n-1]
	}
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			l.err = ErrValue
			return false
		}
	}
	l.Name, l.Value = line[:colon], v
	return true
}

// Err is the fault that ended the walk, or nil.
func (l *Lines) Err() error { return l.err }

// isToken marks the bytes that a header name may hold (RFC 9110 §5.6.2).
var isToken = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// Is reports whether a header name equals lower, which is in lower case.
func Is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i := range len(lower) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// IsHop reports whether a header concerns only one hop, and so is never passed
// on (RFC 9110 §7.6.1, and the older ones that are still met).
func IsHop(name []byte) bool {
	switch len(name) {
	case 2:
		return Is(name, "te")
	case 7:
		return Is(name, "trailer") || Is(name, "upgrade")
	case 8:
		return Is(name, "trailers")
	case 10:
		return Is(name, "connection") || Is(name, "keep-alive")
	case 16:
		return Is(name, "proxy-connection")
	case 17:
		return Is(name, "transfer-encoding")
	case 18:
		return Is(name, "proxy-authenticate")
	case 19:
		return Is(name, "proxy-authorization")
	}
	return false
}

// maxNamed is how many names Connection headers may list.
const maxNamed = 32

// Named holds the header names that the Connection headers of a message list:
// these concern one hop too.
type Named struct {
	names [maxNamed][]byte
	n     int
}

// ErrNamed says that Connection headers list too many names.
var ErrNamed = errors.New("the Connection header lists too many names")

// Reset forgets all names.
func (n *Named) Reset() { n.n = 0 }

// Add takes the value of a Connection header. The options close and keep-alive
// name no header. Errors: ErrNamed.
func (n *Named) Add(value []byte) error {
	for len(value) > 0 {
		name := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			name, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		name = bytes.Trim(name, " \t")
		if len(name) == 0 || Is(name, "close") || Is(name, "keep-alive") {
			continue
		}
		if n.n == maxNamed {
			return ErrNamed
		}
		n.names[n.n] = name
		n.n++
	}
	return nil
}

// Empty reports whether no name is listed.
func (n *Named) Empty() bool { return n.n == 0 }

// Has reports whether a header of this name concerns one hop only.
func (n *Named) Has(name []byte) bool {
	for _, x := range n.names[:n.n] {
		if bytes.EqualFold(x, name) {
			return true
		}
	}
	return false
}

// HasOption reports whether the value of a Connection header holds an option,
// given in lower case.
func HasOption(value []byte, option string) bool {
	for len(value) > 0 {
		o := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			o, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		if Is(bytes.Trim(o, " \t"), option) {
			return true
		}
	}
	return false
}
