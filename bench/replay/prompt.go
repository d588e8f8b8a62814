package replay

import (
	"strconv"

	"loadstar/bench/worker"
	"loadstar/bench/workload"
)

const (
	letters   = "abcdefghijklmnop" // one for four bits
	perNumber = 16                 // letters of a 64-bit number
)

// body is a chat completion whose prompt is these blocks, of which the last is cut to
// what the request's tokens leave for it, if a block has a number of tokens.
func body(model string, r workload.Request, salt uint64, blockTokens int) []byte {
	const (
		start = `{"model":"`
		user  = `","messages":[{"role":"user","content":"`
		rest  = `"}],"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":`
	)
	b := make([]byte, 0, len(start)+len(model)+len(user)+len(rest)+len(r.Blocks)*worker.BlockBytes+8)
	b = append(b, start...)
	b = append(b, model...) // has nothing to escape; see Settings.check
	b = append(b, user...)
	for _, id := range r.Blocks {
		b = appendBlock(b, id, salt)
	}
	if left := r.Input - (len(r.Blocks)-1)*blockTokens; r.Input != workload.Unknown && left > 0 && left < blockTokens {
		b = b[:len(b)-worker.BlockBytes+max(1, worker.BlockBytes*left/blockTokens)]
	}
	b = append(b, rest...)
	b = strconv.AppendInt(b, int64(r.Output), 10)
	return append(b, '}')
}

// appendBlock appends the text of a block. The first letters are a bijection of the
// id for each salt, so no two ids have the same.
func appendBlock(b []byte, id, salt uint64) []byte {
	x := workload.Mix(id ^ salt)
	for range worker.BlockBytes / perNumber {
		for shift := 60; shift >= 0; shift -= 4 {
			b = append(b, letters[x>>shift&15])
		}
		x = workload.Mix(x + 0x9e3779b97f4a7c15)
	}
	return b
}
