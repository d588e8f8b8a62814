package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// Looking at one byte after the other costs a mispredicted branch at every
// quote and backslash, and a body can be full of them. So strings and brackets
// are found 64 bytes at a time, without branches: bit n of a mask stands for
// byte n of the block.

// blockSize is the number of bytes looked at together.
const blockSize = 64

type block = [blockSize]byte

const (
	everyByte = 0x0101010101010101
	lowBits   = 0x7f * everyByte
	highBits  = 0x80 * everyByte
	quote     = '"' * everyByte
	backslash = '\\' * everyByte
	evenBits  = 0x5555555555555555

	// gather brings the high bits of the eight bytes together in the top byte
	// of the product, in order.
	gather = 0x0002040810204081
	top    = 0xff << 56
)

// blockAt is the block at b[i]. If fewer bytes are left it is pad with those
// bytes in front; pad must come zeroed.
func blockAt(b []byte, i int, pad *block) *block {
	if len(b)-i >= blockSize {
		return (*block)(b[i:])
	}
	copy(pad[:], b[i:])
	return pad
}

// differs sets the high bit of every byte of w that is not the ASCII character
// that every byte of pattern is. The other bits mean nothing.
func differs(w, pattern uint64) uint64 {
	return (w&lowBits ^ pattern) + lowBits | w
}

// collect makes way in mask for the next eight bytes, whose high bits in w
// become its top byte.
func collect(mask, w uint64) uint64 {
	return mask>>8 | (w&highBits)*gather&top
}

// find is the masks of the two characters that p and q are patterns of. It is
// written out because a loop costs a quarter more.
func find(b *block, p, q uint64) (ps, qs uint64) {
	w := binary.LittleEndian.Uint64(b[0:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[8:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[16:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[24:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[32:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[40:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[48:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	w = binary.LittleEndian.Uint64(b[56:])
	ps, qs = collect(ps, differs(w, p)), collect(qs, differs(w, q))
	return ^ps, ^qs
}

// hasEither reports whether one of the two characters is in b, for half the
// price of find.
func hasEither(b *block, p, q uint64) bool {
	neither := ^uint64(0)
	w := binary.LittleEndian.Uint64(b[0:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[8:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[16:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[24:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[32:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[40:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[48:])
	neither &= differs(w, p) & differs(w, q)
	w = binary.LittleEndian.Uint64(b[56:])
	neither &= differs(w, p) & differs(w, q)
	return neither&highBits != highBits
}

// escapedBy is the mask of the bytes after runs of backslashes that escape them:
// those after a run of odd length. carry is 1 if the first byte is escaped from
// the block before, and the second result is the carry for the block after.
func escapedBy(slashes, carry uint64) (escaped, next uint64) {
	if slashes == 0 {
		return carry, 0
	}
	first := carry
	slashes &^= first // an escaped backslash begins no run
	starts := slashes &^ (slashes << 1)
	// Adding a run's first bit to the run moves it to the bit after the run. A
	// run that begins at an even place and ends before an odd one is odd, and
	// the other way round.
	even, _ := bits.Add64(slashes, starts&evenBits, 0)
	odd, next := bits.Add64(slashes, starts&^evenBits, 0)
	return first | even&^slashes&^evenBits | odd&^slashes&evenBits, next
}

// parity has bit n set if an odd number of the bits up to n are set in m: from
// each opening quote up to before the closing one.
func parity(m uint64) uint64 {
	m ^= m << 1
	m ^= m << 2
	m ^= m << 4
	m ^= m << 8
	m ^= m << 16
	m ^= m << 32
	return m
}
