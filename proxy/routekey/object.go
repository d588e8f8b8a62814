package routekey

// object steps through the members of one JSON object.
type object struct {
	b    []byte
	i    int  // where reading goes on
	some bool // a member has been read
	end  bool // the closing brace has been read
}

// openObject reports false if b doesn't begin with an object. Space before it
// is allowed, and so is the byte order mark that Python's reader takes.
func openObject(b []byte) (object, bool) {
	i := 0
	if len(b) >= 3 && string(b[:3]) == "\xef\xbb\xbf" {
		i = 3
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return object{}, false
	}
	return object{b: b, i: i + 1}, true
}

// next is the next member: its name, which is what stands between the quotes,
// and its raw value. It reports false after the last member and at a fault;
// ended tells the two apart.
func (o *object) next() (name, value []byte, ok bool) {
	b := o.b
	i := skipSpace(b, o.i)
	if i >= len(b) {
		return nil, nil, false
	}
	if b[i] == '}' {
		o.end = true
		o.i = i + 1
		return nil, nil, false
	}
	if o.some {
		if b[i] != ',' {
			return nil, nil, false
		}
		i = skipSpace(b, i+1)
	}
	o.some = true
	if i >= len(b) || b[i] != '"' {
		return nil, nil, false
	}
	nameEnd := stringEnd(b, i)
	if nameEnd < 0 {
		return nil, nil, false
	}
	name = b[i+1 : nameEnd-1]
	i = skipSpace(b, nameEnd)
	if i >= len(b) || b[i] != ':' {
		return nil, nil, false
	}
	i = skipSpace(b, i+1)
	end := valueEnd(b, i)
	if end < 0 {
		return nil, nil, false
	}
	o.i = end
	return name, b[i:end], true
}

// ended reports whether the object was read to its closing brace and nothing
// but space comes after it.
func (o *object) ended() bool {
	return o.end && skipSpace(o.b, o.i) == len(o.b)
}

// valueEnd is the index after the value that begins at b[i], or -1 if there is
// none or it is cut.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		return containerEnd(b, i)
	}
	end := i
	for end < len(b) && inScalar(b[end]) {
		end++
	}
	if end == i {
		return -1
	}
	return end
}

// inScalar reports whether c can stand in a number, true, false, null, or
// Python's NaN and Infinity.
func inScalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

// skipSpace is the index of the first byte from b[i] on that is not space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}
