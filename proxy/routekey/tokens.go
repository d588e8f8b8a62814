package routekey

// tokensOf is the array under the first of those members that may hold a prompt's
// token ids, or nil. It may hold something else.
func tokensOf(v *values) []byte {
	for _, f := range [...]field{fieldPrompt, fieldInputIDs, fieldTokenIDs} {
		if raw := v.raw[f]; len(raw) > 0 && raw[0] == '[' {
			return raw
		}
	}
	return nil
}

// AppendTokens appends the token ids of a JSON array to dst. It reports false if the
// array is empty or holds anything but whole numbers from 0 to 4294967295.
func AppendTokens(dst []uint32, array []byte) ([]uint32, bool) {
	if len(array) < 2 || array[0] != '[' || array[len(array)-1] != ']' {
		return dst, false
	}
	b := array[1 : len(array)-1]
	for i := 0; ; i++ {
		i = space(b, i)
		n, digits := uint64(0), i
		for ; i < len(b) && b[i]-'0' <= 9 && n < 1<<32; i++ {
			n = 10*n + uint64(b[i]-'0')
		}
		if i == digits || n >= 1<<32 || b[digits] == '0' && i > digits+1 {
			return dst, false
		}
		dst = append(dst, uint32(n))
		if i = space(b, i); i == len(b) {
			return dst, true
		}
		if b[i] != ',' {
			return dst, false
		}
	}
}

// space returns the place of the next character that is no space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
