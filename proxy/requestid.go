package proxy

import (
	"bytes"
	"math/rand/v2"
)

const idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// idLength is how many random characters a made-up request id has.
const idLength = 24

// appendRequestID appends a new request id for a path, with the prefix that
// vllm-router gives it.
func appendRequestID(dst, path []byte) []byte {
	switch {
	case bytes.Contains(path, []byte("/chat/completions")):
		dst = append(dst, "chatcmpl-"...)
	case bytes.Contains(path, []byte("/completions")):
		dst = append(dst, "cmpl-"...)
	case bytes.Contains(path, []byte("/generate")):
		dst = append(dst, "gnt-"...)
	default:
		dst = append(dst, "req-"...)
	}
	var bits uint64
	for i := range idLength {
		if i%10 == 0 { // 62^10 fits 64 bits
			bits = rand.Uint64()
		}
		dst = append(dst, idAlphabet[bits%62])
		bits /= 62
	}
	return dst
}
