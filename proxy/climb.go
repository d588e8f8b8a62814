package proxy

import "bytes"

// climbs reports whether a path has a segment that may be read as "..", by whatever
// stands between this router and the engine: under escapes of any depth, between
// slashes of either kind, and in front of what some take for the end of a segment.
// Such a path may leave the prefix of a worker's URL. No client needs it: those that
// resolve references have removed such segments.
func climbs(path []byte) bool {
	if bytes.IndexByte(path, '%') >= 0 {
		var room [256]byte
		path = appendUnescaped(room[:0], path)
	}
	for from := 0; ; {
		at := bytes.Index(path[from:], []byte(".."))
		if at < 0 {
			return false
		}
		at += from
		from = at + len("..")
		if (at == 0 || isSlash(path[at-1])) && (from == len(path) || endsSegment(path[from])) {
			return true
		}
	}
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// endsSegment reports whether c ends a segment, or its name: parameters, a query, a
// fragment, or a string of C may begin there.
func endsSegment(c byte) bool {
	return isSlash(c) || c == ';' || c == '?' || c == '#' || c == 0
}

// appendUnescaped appends s with its percent escapes resolved until there are none,
// in time linear in s.
func appendUnescaped(dst, s []byte) []byte {
	for _, c := range s {
		dst = append(dst, c)
		// What was resolved may end another escape.
		for n := len(dst); n >= 3 && dst[n-3] == '%'; n = len(dst) {
			high, ok1 := hexDigit(dst[n-2])
			low, ok2 := hexDigit(dst[n-1])
			if !ok1 || !ok2 {
				break
			}
			dst = append(dst[:n-3], high<<4|low)
		}
	}
	return dst
}

func hexDigit(c byte) (v byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
