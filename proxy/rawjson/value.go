package rawjson

// IsObject reports whether a raw value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// Count is the value of a number of things: an integer of up to 15 digits.
func Count(value []byte) (n uint64, ok bool) {
	if len(value) == 0 || len(value) > 15 || value[0] == '0' && len(value) > 1 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
