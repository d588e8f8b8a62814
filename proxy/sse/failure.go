package sse

import "bytes"

// Failure reports whether JSON that begins like this is an error, as told by its
// first member: {"error": an object or some text, {"object":"error",
// {"type":"error" or {"type":"response.failed". An "error" that is null or empty
// is none.
func Failure(json []byte) bool {
	if len(json) == 0 || json[0] != '{' {
		return false
	}
	b := bytes.TrimLeft(json[1:], " ")
	for _, m := range failures {
		if v, ok := bytes.CutPrefix(b, m.name); ok {
			if v, ok = bytes.CutPrefix(bytes.TrimLeft(v, " "), colon); ok {
				return m.tells(bytes.TrimLeft(v, " "))
			}
		}
	}
	return false
}

var (
	colon    = []byte(":")
	failures = [...]struct {
		name  []byte
		tells func(value []byte) bool
	}{
		{[]byte(`"error"`), func(v []byte) bool {
			return len(v) > 0 && v[0] == '{' || len(v) > 1 && v[0] == '"' && v[1] != '"'
		}},
		{[]byte(`"object"`), isErrorName},
		{[]byte(`"type"`), func(v []byte) bool {
			return isErrorName(v) || bytes.HasPrefix(v, []byte(`"response.failed"`))
		}},
	}
)

func isErrorName(v []byte) bool { return bytes.HasPrefix(v, []byte(`"error"`)) }
