package rawjson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// HasEscape reports whether the inside of a JSON string has an escape in it.
func HasEscape(s []byte) bool { return bytes.IndexByte(s, '\\') >= 0 }

// Unescape appends the inside of a JSON string to dst with its escapes resolved.
// Half of a surrogate pair becomes U+FFFD, and a character that can't be escaped
// stands for itself.
func Unescape(dst, s []byte) []byte {
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 || n+1 == len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		c := s[n+1]
		s = s[n+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s)
			if !ok {
				dst = append(dst, c)
				continue
			}
			s = s[4:]
			if utf16.IsSurrogate(r) {
				low, ok := lowSurrogate(s)
				if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
					s = s[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

// lowSurrogate reads the \uXXXX that s begins with.
func lowSurrogate(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	return hex4(s[2:])
}

// hex4 reads the four hexadecimal digits that s begins with.
func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = (c | 0x20) - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
