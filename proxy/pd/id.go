package pd

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// ID tells one attempt from all others: a random UUID of version 4.
type ID [16]byte

// NewID makes an ID. Every attempt needs one of its own.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// appendHex appends the id as 32 hexadecimal digits.
func (id ID) appendHex(dst []byte) []byte { return hex.AppendEncode(dst, id[:]) }

// appendUUID appends the id in groups, with dashes.
func (id ID) appendUUID(dst []byte) []byte {
	for i := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, id[i:i+1])
	}
	return dst
}

// Address is the host and port in base, the base URL of a worker: what is left
// without the scheme, without a slash at the end and without the rank behind an
// at sign.
func Address(base string) string {
	base = strings.TrimPrefix(base, "http://")
	base = strings.TrimPrefix(base, "https://")
	if at := strings.IndexByte(base, '@'); at >= 0 && isRank(base[at+1:]) {
		base = base[:at]
	}
	return strings.TrimSuffix(base, "/")
}

func isRank(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
