package replay

import (
	"strconv"

	"loadstar/bench/worker"
)

const (
	letters   = "abcdefghijklmnop" // one for four bits
	perNumber = 16                 // letters of a 64-bit number
)

// body is a chat completion whose prompt is these blocks.
func body(model string, r request, salt uint64) []byte {
	const (
		start = `{"model":"`
		user  = `","messages":[{"role":"user","content":"`
		rest  = `"}],"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":`
	)
	b := make([]byte, 0, len(start)+len(model)+len(user)+len(rest)+len(r.blocks)*worker.BlockBytes+8)
	b = append(b, start...)
	b = append(b, model...) // has nothing to escape; see Settings.check
	b = append(b, user...)
	for _, id := range r.blocks {
		b = appendBlock(b, id, salt)
	}
	b = append(b, rest...)
	b = strconv.AppendInt(b, int64(r.output), 10)
	return append(b, '}')
}

// appendBlock appends the text of a block. The first letters are a bijection of the
// id for each salt, so no two ids have the same.
func appendBlock(b []byte, id, salt uint64) []byte {
	x := mix(id ^ salt)
	for range worker.BlockBytes / perNumber {
		for shift := 60; shift >= 0; shift -= 4 {
			b = append(b, letters[x>>shift&15])
		}
		x = mix(x + 0x9e3779b97f4a7c15)
	}
	return b
}

// mix spreads x over 64 bits (the finalizer of splitmix64), one to one.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
