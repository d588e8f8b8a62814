package policy

import (
	"encoding/binary"
)

// The hash of vllm-router, rebuilt so that sessions stay on the workers where it
// put them: FurcHash narrows the key to a number below 2^23-1 and
// MurmurHash64A widens that to 64 bits. So only 23 bits of the result are
// information, and equal hashes of different strings are ordinary.
const (
	refSeed    = 4193360111
	refModulus = 1<<23 - 1
	// furcDepth is the number of bits of the modulus; furcStride is how far apart
	// the bits of one number lie in the stream. Both happen to be 23.
	furcDepth  = 23
	furcStride = 23
	furcTries  = 32
	// furcWords holds the stream as far as the tries can reach.
	furcWords = (furcDepth+furcTries*furcDepth*furcStride)/64 + 1

	murmurFactor = 0xc6a4a7935bd1e995
	murmurShift  = 47
)

// referenceHasher computes that hash in room of its own, so that hashing
// allocates nothing.
type referenceHasher struct {
	words [furcWords]uint64 // the bit stream as far as it has been read
	known int
}

// sum is the hash of key.
func (h *referenceHasher) sum(key []byte) uint64 {
	h.words[0] = murmur(key)
	h.known = 1
	return murmurNumber(uint64(h.furc()), 4)
}

// furc reads a number below the modulus from the stream of bits. Each depth has
// its own starting bit, and a zero there goes to the next lower depth: that is
// what makes the function consistent when the modulus grows.
func (h *referenceHasher) furc() uint32 {
	depth := furcDepth
	at := depth
	for range furcTries {
		for h.bit(at) == 0 {
			if depth == 0 {
				return 0
			}
			depth--
			at = depth
		}
		at += furcStride
		number := uint32(1)
		for range depth - 1 {
			number = number<<1 | h.bit(at)
			at += furcStride
		}
		if number < refModulus {
			return number
		}
	}
	return 0
}

// bit is bit i of the stream, whose words are each the hash of the one before.
func (h *referenceHasher) bit(i int) uint32 {
	word := i / 64
	for h.known <= word {
		h.words[h.known] = murmurNumber(h.words[h.known-1], 8)
		h.known++
	}
	return uint32(h.words[word]>>(i%64)) & 1
}

// murmur is MurmurHash64A of key under the reference's seed.
func murmur(key []byte) uint64 {
	hash := refSeed ^ uint64(len(key))*murmurFactor
	for len(key) >= 8 {
		hash = murmurBlock(hash, binary.LittleEndian.Uint64(key))
		key = key[8:]
	}
	if len(key) > 0 {
		var tail uint64
		for i, b := range key {
			tail |= uint64(b) << (8 * i)
		}
		hash = (hash ^ tail) * murmurFactor
	}
	return murmurEnd(hash)
}

// murmurNumber is murmur of the size low bytes of x, little end first; size is 4
// or 8.
func murmurNumber(x uint64, size uint64) uint64 {
	const start = refSeed
	hash := start ^ size*murmurFactor
	if size == 8 {
		return murmurEnd(murmurBlock(hash, x))
	}
	return murmurEnd((hash ^ x) * murmurFactor)
}

func murmurBlock(hash, block uint64) uint64 {
	block *= murmurFactor
	block ^= block >> murmurShift
	block *= murmurFactor
	return (hash ^ block) * murmurFactor
}

func murmurEnd(hash uint64) uint64 {
	hash ^= hash >> murmurShift
	hash *= murmurFactor
	return hash ^ hash>>murmurShift
}
