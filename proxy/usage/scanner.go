package usage

import "bytes"

// key is the member that is looked for.
var key = []byte(`"usage"`)

const (
	longestName = len("cache_creation_input_tokens") // of interest
	maxDigits   = 15                                 // more tokens than that are no tokens
	maxDepth    = 32                                 // a usage that is deeper is none
)

// Scanner reads the usage of one answer over any cuts between the pieces it is fed.
// Its zero value stands at the start of an answer. It doesn't allocate.
type Scanner struct {
	tokens [numCounts]uint64
	told   uint8 // bit n is set if tokens[n] was told

	at   place
	seen uint8 // bytes of the key with which the last piece has ended
	last byte  // of the last piece, or of the usage that has ended

	depth   uint8  // brackets that are open, that of the usage included
	squares uint32 // bit n is set if bracket n+1 is a square one
	naming  bool   // the next string is a name
	details bool   // the object of depth 2 is the details of the prompt
	escaped bool   // the next byte of the string is
	length  uint8  // of name; more than longestName if it isn't one of interest
	digits  uint8  // of number; more than maxDigits if it isn't one
	number  uint64
	name    [longestName]byte
}

// place is where in the text the scanner stands.
type place uint8

const (
	outside   place = iota // of any usage
	behindKey              // a colon is to come
	beforeUse              // an object is to come
	within                 // a usage, between its tokens
	inString
	inScalar
)

// Feed takes the next piece of the answer.
func (s *Scanner) Feed(p []byte) {
	for i := 0; i < len(p); {
		if s.at == outside {
			i = s.find(p, i)
			continue
		}
		s.step(p[i])
		i++
	}
}

// find looks for the key from p[i] on, and returns the index after it, or the end
// of p.
func (s *Scanner) find(p []byte, i int) int {
	for s.seen > 0 {
		if p[i] != key[s.seen] {
			s.last, s.seen = key[s.seen-1], 0
			break
		}
		i++
		if s.seen++; int(s.seen) == len(key) {
			s.at, s.seen = behindKey, 0
			return i
		}
		if i == len(p) {
			return i
		}
	}
	for from := i; ; {
		n := bytes.Index(p[i:], key)
		if n < 0 {
			s.end(p, from)
			return len(p)
		}
		at := i + n
		i = at + len(key)
		if s.begins(p, from, at) {
			s.at = behindKey
			return i
		}
	}
}

// begins reports whether a name may begin at p[at]. What is before from is not
// looked at.
func (s *Scanner) begins(p []byte, from, at int) bool {
	before := s.last
	if at > from {
		before = p[at-1]
	}
	switch before {
	case '{', ',', ' ', '\t', '\n', '\r':
		return true
	}
	return false // another string ends there, or an escape
}

// end notes how much of the key p ends with.
func (s *Scanner) end(p []byte, from int) {
	tail := p[max(from, len(p)-len(key)+1):]
	if n := bytes.LastIndexByte(tail, '"'); n >= 0 && bytes.HasPrefix(key, tail[n:]) && s.begins(p, from, len(p)-len(tail)+n) {
		s.seen = uint8(len(tail) - n)
		return
	}
	s.last = p[len(p)-1]
}

// leave goes on looking for a usage, behind c.
func (s *Scanner) leave(c byte) { s.at, s.last = outside, c }

// step takes a byte that isn't outside.
func (s *Scanner) step(c byte) {
	switch s.at {
	case inString:
		s.inString(c)
		return
	case inScalar:
		if s.inScalar(c) {
			return
		}
		s.at = within
	}
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
	case s.at == behindKey && c == ':':
		s.at = beforeUse
	case s.at == beforeUse && c == '{':
		s.at, s.depth, s.details, s.length = within, 0, false, 0
		s.open(c)
	case s.at == within:
		s.within(c)
	default:
		s.leave(c)
	}
}

// within takes a byte between the tokens of a usage.
func (s *Scanner) within(c byte) {
	switch c {
	case '"':
		s.at, s.escaped = inString, false
		if s.naming {
			s.length = 0
		}
	case ':':
		s.naming = false
	case ',':
		s.naming = !s.square()
	case '{', '[':
		s.open(c)
	case '}', ']':
		if s.square() != (c == ']') {
			s.leave(c)
			return
		}
		if s.depth--; s.depth == 0 {
			s.leave(c)
			return
		}
		s.details = s.details && s.depth > 1
		s.naming = false
	default:
		if s.naming || !scalar(c) {
			s.leave(c)
			return
		}
		s.at, s.number, s.digits = inScalar, 0, 0
		s.inScalar(c)
	}
}

// square reports whether the innermost bracket is a square one.
func (s *Scanner) square() bool { return s.squares>>(s.depth-1)&1 == 1 }

func (s *Scanner) open(c byte) {
	if s.depth == maxDepth {
		s.leave(c)
		return
	}
	s.details = s.details || s.depth == 1 && c == '{' && isDetails(string(s.named()))
	s.squares &^= 1 << s.depth
	if c == '[' {
		s.squares |= 1 << s.depth
	}
	s.depth++
	s.naming = c == '{'
}

// named is the name of the member at hand, or empty if it isn't one of interest.
func (s *Scanner) named() []byte {
	if int(s.length) > longestName {
		return nil
	}
	return s.name[:s.length]
}

// inString takes a byte of a string, its closing quote included.
func (s *Scanner) inString(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '"':
		s.at = within
		return
	case c < ' ':
		s.leave(c) // it isn't JSON
		return
	case c == '\\':
		s.escaped = true
	}
	switch {
	case !s.naming:
	case int(s.length) >= longestName || c == '\\':
		s.length = uint8(longestName) + 1
	default:
		s.name[s.length] = c
		s.length++
	}
}

// inScalar takes a byte of a number or a literal. It reports false, and notes the
// number, if c comes behind it.
func (s *Scanner) inScalar(c byte) bool {
	switch {
	case '0' <= c && c <= '9' && s.digits < maxDigits && (s.digits == 0 || s.number > 0):
		s.number = s.number*10 + uint64(c-'0')
		s.digits++
		return true
	case scalar(c):
		s.digits = maxDigits + 1
		return true
	}
	if s.digits > maxDigits || s.square() || s.depth > 1 && (s.depth > 2 || !s.details) {
		return false
	}
	if n := countNamed(string(s.named()), s.details); n != other {
		s.tokens[n] = s.number
		s.told |= 1 << n
	}
	return false
}

// scalar reports whether c can stand in a number or a literal.
func scalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}
