package routekey

import (
	"math/bits"
	"slices"

	"loadstar/proxy/rawjson"
)

const (
	// HeadBytes is the number of bytes that Head stands for.
	HeadBytes = headBlocks * blockSize

	// DefaultLimit is the number of prompt bytes hashed if Scanner.Limit is zero.
	DefaultLimit = 8 << 20

	headBlocks = 16
)

// Key is the routing key of a prompt.
type Key struct {
	// Blocks has one hash for every 64 bytes; a rest is not in it. Equal values
	// at one index mean that everything up to there is equal, namespace included.
	// It is the Scanner's memory, valid until the Scanner is used again.
	Blocks []uint64

	// Head stands for the first HeadBytes of the prompt and its namespace. A
	// shorter prompt is in it whole.
	Head uint64

	// Bytes is the size of the prompt's parts in the body, those beyond the
	// limit included. It is 0 if the body holds no prompt.
	Bytes int
}

// fill makes the key of the prompt in v, of which at most limit bytes are
// hashed. It reports false, and leaves the key alone, if there is no prompt.
func (k *Key) fill(namespace uint64, v *values, limit int) bool {
	size, stream := 0, 0
	for m := v.seen >> firstSegment; m != 0; m &= m - 1 {
		f := firstSegment + field(bits.TrailingZeros32(m))
		if n := len(content(v.raw[f])); n > 0 {
			size += n
			stream += n + 1 // and a tag
		}
	}
	if size == 0 {
		return false
	}
	stream = min(stream, limit)
	n := stream / blockSize
	k.Blocks = slices.Grow(k.Blocks[:0], n)[:n]
	k.Bytes = size
	c := chain{h: namespace, blocks: k.Blocks, left: stream}
	for m := v.seen >> firstSegment; m != 0; m &= m - 1 {
		f := firstSegment + field(bits.TrailingZeros32(m))
		if p := content(v.raw[f]); len(p) > 0 {
			c.write(firstTag+byte(f-firstSegment), p)
		}
	}
	if n >= headBlocks {
		k.Head = k.Blocks[headBlocks-1]
	} else {
		k.Head = absorb(c.h, c.buf[:c.fill])
	}
	return true
}

// rawHead is the Head of a body in which no prompt is known.
func rawHead(body []byte) uint64 {
	return absorb(seedRaw, body[:min(len(body), HeadBytes)])
}

// firstTag begins the tags that stand before each segment. They are control
// characters, which JSON text has none of, and no space: so no prompt can look
// like the end of one segment and the start of another.
const firstTag = 0x10

// content is the part of a raw value that takes part in the key: of an array
// what is between its brackets, of a string what is between its quotes, of null
// and of empty values nothing. Without the closing bracket a longer conversation
// begins with the bytes of the shorter one.
func content(v []byte) []byte {
	if isEmpty(v) {
		return nil
	}
	switch v[0] {
	case '"':
		return v[1 : len(v)-1]
	case '[':
		return rawjson.TrimSpace(v[1 : len(v)-1])
	}
	return v
}

// isEmpty reports whether a raw value is missing, null, or a string, array or
// object with nothing in it.
func isEmpty(v []byte) bool {
	if len(v) == 0 || string(v) == "null" {
		return true
	}
	switch v[0] {
	case '"':
		return len(v) == 2
	case '[', '{':
		return len(rawjson.TrimSpace(v[1:len(v)-1])) == 0
	}
	return false
}

// chain cuts what is written to it into blocks and chains their hashes.
type chain struct {
	h      uint64
	blocks []uint64 // those still to be filled in
	left   int      // bytes still to be hashed
	buf    block
	fill   int // bytes waiting in buf, always less than a block
}

// write adds a segment.
func (c *chain) write(tag byte, p []byte) {
	if c.left == 0 {
		return
	}
	p = p[:min(len(p), c.left-1)]
	c.left -= 1 + len(p)
	c.buf[c.fill] = tag
	n := copy(c.buf[c.fill+1:], p)
	c.fill += 1 + n
	if c.fill < blockSize {
		return
	}
	c.hash(c.buf[:])
	p = p[n:]
	whole := len(p) &^ (blockSize - 1)
	c.hash(p[:whole])
	c.fill = copy(c.buf[:], p[whole:])
}

func (c *chain) hash(p []byte) {
	n := len(p) / blockSize
	c.h = chainBlocks(c.h, p, c.blocks[:n])
	c.blocks = c.blocks[n:]
}
