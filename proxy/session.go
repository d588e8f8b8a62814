package proxy

import (
	"crypto/sha256"
	"encoding/hex"
)

// Bounds of session keys, in bytes.
const (
	longestSession = 1 << 10 // that policies get, which keep many
	keptSession    = 4 << 10 // buffer that is kept for another request
)

// boundSession returns a session key, or a digest of one that is too long, in the
// same buffer. No shorter key begins like a digest: each begins with what names it.
func boundSession(key []byte) []byte {
	if len(key) <= longestSession {
		return key
	}
	sum := sha256.Sum256(key)
	return hex.AppendEncode(append(key[:0], "sha256:"...), sum[:])
}
