package rawjson

// MaxName is the length in bytes up to which Is, Member, Members and edits know
// names. It bounds what a name costs that is written in escapes.
const MaxName = 64

// Is reports whether name, as Next returns it, is want once its escapes are
// resolved.
func Is(name []byte, want string) bool {
	return string(name) == want || HasEscape(name) && isEscaped(name, want)
}

// isEscaped is Is for a name with escapes.
func isEscaped(name []byte, want string) bool {
	var buf [6 * MaxName]byte // each letter as \uXXXX
	return len(name) <= len(buf) && string(Unescape(buf[:0], name)) == want
}

// Member is the raw value of the member called name in object, the last one of
// several, or nil if object is not a readable JSON object or has none.
func Member(object []byte, name string) []byte {
	var value [1][]byte
	Members(object, []string{name}, value[:])
	return value[0]
}

// Members puts the raw values of the members called names into values, one for
// each name: the last one of several, nil if there is none. It reports false,
// and they are all nil, if object is not a JSON object that could be read to its
// end. values must be as long as names.
func Members(object []byte, names []string, values [][]byte) bool {
	clear(values)
	o, ok := OpenObject(object)
	if !ok {
		return false
	}
	for {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		escaped := HasEscape(name)
		for i, want := range names {
			if string(name) == want || escaped && isEscaped(name, want) {
				values[i] = value
				break
			}
		}
	}
	if !o.Ended() {
		clear(values)
		return false
	}
	return true
}
