package kvevents

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// content is the hash of a block's tokens alone.
func content(tokens []uint32) uint64 {
	var buf [4 * 64]byte
	if len(tokens) <= len(buf)/4 {
		return xxhash.Sum64(putTokens(buf[:0], tokens))
	}
	var d xxhash.Digest
	d.Reset()
	for len(tokens) > 0 {
		n := min(len(tokens), len(buf)/4)
		_, _ = d.Write(putTokens(buf[:0], tokens[:n])) // which never fails
		tokens = tokens[n:]
	}
	return d.Sum64()
}

func putTokens(b []byte, tokens []uint32) []byte {
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return b
}

// link is the hash of a block and all before it. The first block follows zero.
func link(before, content uint64) uint64 {
	h := (before ^ content) * 0x9fb21c651e98df25
	return h ^ h>>32
}

// AppendBlocks appends one hash for each whole block of size tokens to dst. Equal
// values at one place mean that all tokens up to there are equal.
func AppendBlocks(dst []uint64, tokens []uint32, size int) []uint64 {
	h := uint64(0)
	for ; len(tokens) >= size; tokens = tokens[size:] {
		h = link(h, content(tokens[:size]))
		dst = append(dst, h)
	}
	return dst
}

// nameSeed stands for an adapter; zero is the model itself.
func nameSeed(name []byte) uint64 {
	if len(name) == 0 {
		return 0
	}
	return xxhash.Sum64(name)*2 + 1
}
