package rawjson

// Object steps through the members of one JSON object.
type Object struct {
	b    []byte
	i    int  // where reading goes on
	at   int  // where the present member begins
	some bool // a member has been read
	end  bool // the closing brace has been read
}

// OpenObject reports false if b doesn't begin with an object. Space before it
// is allowed, and so is the byte order mark that Python's reader takes.
func OpenObject(b []byte) (Object, bool) {
	i := 0
	if len(b) >= 3 && string(b[:3]) == "\xef\xbb\xbf" {
		i = 3
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return Object{}, false
	}
	return Object{b: b, i: i + 1}, true
}

// Next is the next member: its name, which is what stands between the quotes,
// and its raw value. It reports false after the last member and at a fault;
// Ended tells the two apart.
func (o *Object) Next() (name, value []byte, ok bool) {
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
	o.at = i
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

// Span is where the member that Next returned stands in the text: from the
// opening quote of its name up to the end of its value.
func (o *Object) Span() (start, end int) { return o.at, o.i }

// Ended reports whether the object was read to its closing brace and nothing
// but space comes after it.
func (o *Object) Ended() bool {
	return o.end && skipSpace(o.b, o.i) == len(o.b)
}

// Array steps through the elements of one JSON array.
type Array struct {
	b    []byte
	i    int  // where reading goes on
	some bool // an element has been read
	end  bool // the closing bracket has been read
}

// OpenArray reports false if b doesn't begin with an array. Space before it is
// allowed.
func OpenArray(b []byte) (Array, bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return Array{}, false
	}
	return Array{b: b, i: i + 1}, true
}

// Next is the next element, raw. It reports false after the last one and at a
// fault; Ended tells the two apart.
func (a *Array) Next() (value []byte, ok bool) {
	b := a.b
	i := skipSpace(b, a.i)
	if i >= len(b) {
		return nil, false
	}
	if b[i] == ']' {
		a.end = true
		a.i = i + 1
		return nil, false
	}
	if a.some {
		if b[i] != ',' {
			return nil, false
		}
		i = skipSpace(b, i+1)
	}
	a.some = true
	end := valueEnd(b, i)
	if end < 0 {
		return nil, false
	}
	a.i = end
	return b[i:end], true
}

// End is where the element that Next returned ends in the text.
func (a *Array) End() int { return a.i }

// Ended reports whether the array was read to its closing bracket and nothing
// but space comes after it.
func (a *Array) Ended() bool {
	return a.end && skipSpace(a.b, a.i) == len(a.b)
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

// TrimSpace is b without the JSON space at its ends.
func TrimSpace(b []byte) []byte {
	b = b[skipSpace(b, 0):]
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
