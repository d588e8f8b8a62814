package routekey

import (
	"encoding/binary"
	"math/bits"
)

// blockSize is the number of bytes hashed together.
const blockSize = 64

type block = [blockSize]byte

// The constants below are arbitrary. Changing one changes every key, so that
// routers of different builds disagree and sessions move.
//
// Every byte of a lane's key has its high bit set and ASCII text has none: no
// text can make a factor zero and with it hide the other factor.
const (
	lane0 = 0xe897f8eec1c9abf1
	lane1 = 0xebdad283f295b98b
	lane2 = 0xaffdb7f4c8c6d0f5
	lane3 = 0x8bfeeed0f0c586a9
	lane4 = 0x9c91d8f4b2ede3f7
	lane5 = 0xb58b95ac9fd4c4e9
	lane6 = 0xe1cdcb95a9cef789
	lane7 = 0xdbe596beb5c3bbd7

	chainFactor = 0x50dc192b5646f06f

	seedKey = 0x3f607f77c1638a9b
	seedRaw = 0x2f475e7b7d021975
)

// step chains x to h. For one x it maps different h to different results, so
// keys that differ in one block differ in all blocks after it too.
func step(h, x uint64) uint64 {
	h = (h ^ x) * chainFactor
	return h ^ h>>32
}

// fold is the 128-bit product of a and b, folded to 64 bits.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// chainBlocks chains the whole blocks of p to h, writes the value after each to
// dst, which must have room for them, and returns the last. The blocks' own
// hashes don't depend on each other, only the step does, so the processor works
// on several blocks at once. With xxhash for the blocks it takes two and a half
// times as long.
func chainBlocks(h uint64, p []byte, dst []uint64) uint64 {
	for i := range dst[:len(p)/blockSize] {
		b := (*block)(p[i*blockSize:])
		x := fold(binary.LittleEndian.Uint64(b[0:])^lane0, binary.LittleEndian.Uint64(b[8:])^lane1)
		y := fold(binary.LittleEndian.Uint64(b[16:])^lane2, binary.LittleEndian.Uint64(b[24:])^lane3)
		x += fold(binary.LittleEndian.Uint64(b[32:])^lane4, binary.LittleEndian.Uint64(b[40:])^lane5)
		y += fold(binary.LittleEndian.Uint64(b[48:])^lane6, binary.LittleEndian.Uint64(b[56:])^lane7)
		h = step(h, x^y)
		dst[i] = h
	}
	return h
}

// absorb chains all of p to h, the rest after the last whole block and the
// length included.
func absorb(h uint64, p []byte) uint64 {
	size := uint64(len(p))
	var blocks [1]uint64
	for len(p) >= blockSize {
		h = chainBlocks(h, p[:blockSize], blocks[:])
		p = p[blockSize:]
	}
	if len(p) > 0 {
		var pad block
		copy(pad[:], p)
		h = chainBlocks(h, pad[:], blocks[:])
	}
	return step(h, size)
}
