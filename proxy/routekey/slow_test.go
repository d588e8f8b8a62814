package routekey

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
)

// The obviously right versions that the fast code is checked against. They take
// one byte after the other and share no code with it but the list of names.

// slowMembers reads the outermost object of b, as leniently as the package
// promises: what is below the outermost object must only be balanced, a backslash
// escapes the next byte wherever it stands.
func slowMembers(b []byte) (names, vals []string, ok bool) {
	s := strings.TrimPrefix(string(b), "\xef\xbb\xbf")
	const space = " \t\r\n"
	trim := func() { s = strings.TrimLeft(s, space) }
	trim()
	if !strings.HasPrefix(s, "{") {
		return nil, nil, false
	}
	s = s[1:]
	for first := true; ; first = false {
		trim()
		if strings.HasPrefix(s, "}") {
			return names, vals, strings.Trim(s[1:], space) == ""
		}
		if !first {
			if !strings.HasPrefix(s, ",") {
				return nil, nil, false
			}
			s = s[1:]
			trim()
		}
		n := slowString(s)
		if n < 0 {
			return nil, nil, false
		}
		name := s[1 : n-1]
		s = s[n:]
		trim()
		if !strings.HasPrefix(s, ":") {
			return nil, nil, false
		}
		s = s[1:]
		trim()
		if n = slowValue(s); n < 0 {
			return nil, nil, false
		}
		names, vals = append(names, name), append(vals, s[:n])
		s = s[n:]
	}
}

func slowString(s string) int {
	if !strings.HasPrefix(s, `"`) {
		return -1
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func slowValue(s string) int {
	if s == "" {
		return -1
	}
	var shut byte
	switch s[0] {
	case '"':
		return slowString(s)
	case '[':
		shut = ']'
	case '{':
		shut = '}'
	default:
		const scalar = "0123456789+-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		n := len(s) - len(strings.TrimLeft(s, scalar))
		if n == 0 {
			return -1
		}
		return n
	}
	depth, inString := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == s[0]:
			depth++
		case c == shut:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// oddEscape is an escape; its second part is the character of one that JSON doesn't
// have, which stands for itself.
var oddEscape = regexp.MustCompile(`(?s)(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\(.)`)

// slowValues is the raw values by name, the last of each, for the names that
// matter. Names are resolved by encoding/json.
func slowValues(b []byte) (map[string]string, bool) {
	names, vals, ok := slowMembers(b)
	if !ok {
		return nil, false
	}
	m := make(map[string]string)
	for i, raw := range names {
		var name string
		if json.Unmarshal([]byte(`"`+raw+`"`), &name) != nil {
			raw = oddEscape.ReplaceAllString(raw, "$1$2")
			if json.Unmarshal([]byte(`"`+raw+`"`), &name) != nil {
				continue // a name that is not a JSON string is none of ours
			}
		}
		m[name] = vals[i]
	}
	return m, true
}

var slowSegments = []string{
	"tools", "functions", "instructions", "system", "messages", "prompt", "text",
	"input", "input_ids", "token_ids", "query", "documents",
}

// slowStream is the bytes that the key is made of.
func slowStream(m map[string]string) (stream []byte, size int) {
	for i, name := range slowSegments {
		v := m[name]
		switch {
		case v == "" || v == "null":
			continue
		case v[0] == '"':
			v = v[1 : len(v)-1]
		case v[0] == '[':
			v = strings.Trim(v[1:len(v)-1], " \t\r\n")
		case v[0] == '{' && strings.Trim(v[1:len(v)-1], " \t\r\n") == "":
			continue
		}
		if v == "" {
			continue
		}
		stream = append(stream, 0x10+byte(i))
		stream = append(stream, v...)
		size += len(v)
	}
	return stream, size
}

// slowKey is the key of a stream of bytes.
func slowKey(namespace uint64, stream []byte, limit int) (blocks []uint64, head uint64) {
	stream = stream[:min(len(stream), limit)]
	h := namespace
	for len(stream) >= 64 {
		h = slowStep(h, slowBlock(stream[:64]))
		blocks = append(blocks, h)
		stream = stream[64:]
	}
	if len(blocks) >= 16 {
		return blocks, blocks[15]
	}
	return blocks, slowAbsorb(h, stream)
}

func slowAbsorb(h uint64, p []byte) uint64 {
	size := len(p)
	if n := size % 64; n > 0 {
		p = append(bytes.Clone(p), make([]byte, 64-n)...)
	}
	for ; len(p) > 0; p = p[64:] {
		h = slowStep(h, slowBlock(p[:64]))
	}
	return slowStep(h, uint64(size))
}

func slowStep(h, x uint64) uint64 {
	h = (h ^ x) * chainFactor
	return h ^ h>>32
}

func slowBlock(b []byte) uint64 {
	lanes := []uint64{lane0, lane1, lane2, lane3, lane4, lane5, lane6, lane7}
	var folded [4]uint64
	for i := range folded {
		p := new(big.Int).SetUint64(binary.LittleEndian.Uint64(b[16*i:]) ^ lanes[2*i])
		q := new(big.Int).SetUint64(binary.LittleEndian.Uint64(b[16*i+8:]) ^ lanes[2*i+1])
		var wide [16]byte
		p.Mul(p, q).FillBytes(wide[:])
		folded[i] = binary.BigEndian.Uint64(wide[:8]) ^ binary.BigEndian.Uint64(wide[8:])
	}
	return (folded[0] + folded[2]) ^ (folded[1] + folded[3])
}
