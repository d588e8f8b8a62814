package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// stringEnd is the index after the string whose opening quote is b[i], or -1 if
// it is cut.
func stringEnd(b []byte, i int) int {
	i++
	// Names and most scalar values are short: three words without setting up for
	// a long one.
	for range 3 {
		if len(b)-i < 8 {
			break
		}
		w := binary.LittleEndian.Uint64(b[i:])
		hit := ^(differs(w, quote) & differs(w, backslash)) & highBits
		if hit == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(hit) / 8
		if b[i] == '"' {
			return i + 1
		}
		break
	}
	var pad block
	var esc uint64 // 1 if the next byte is escaped
	for i < len(b) {
		blk := blockAt(b, i, &pad)
		q, slash := find(blk, quote, backslash)
		var escaped uint64
		escaped, esc = escapedBy(slash, esc)
		if end := q &^ escaped; end != 0 {
			return i + bits.TrailingZeros64(end) + 1
		}
		if q != 0 {
			i += blockSize
			continue
		}
		if i = nextQuote(b, i+blockSize+int(esc)); i < 0 {
			return -1
		}
		esc = 0
	}
	return -1
}

// containerEnd is the index after the bracket that closes the object or array
// opening at b[i], or -1 if it is cut. Only brackets of the same kind as that one
// are counted: in JSON the other kind is balanced in between, and most blocks
// then have none to count.
func containerEnd(b []byte, i int) int {
	i++
	depth := 1
	dense := false // the last block had brackets, so the next one may well have
	open, shut := uint64('['*everyByte), uint64(']'*everyByte)
	if b[i-1] == '{' {
		open, shut = uint64('{'*everyByte), uint64('}'*everyByte)
	}
	var pad block
	var esc uint64    // 1 if the next byte is escaped
	var within uint64 // all ones if the next byte is in a string
	for i < len(b) {
		blk := blockAt(b, i, &pad)
		q, slash := find(blk, quote, backslash)
		var escaped uint64
		escaped, esc = escapedBy(slash, esc)
		if q == 0 && within != 0 {
			// In the midst of a long string.
			if i = nextQuote(b, i+blockSize+int(esc)); i < 0 {
				return -1
			}
			esc = 0
			continue
		}
		inString := parity(q&^escaped) ^ within
		within = uint64(int64(inString) >> 63)
		var opens, closes uint64
		if dense || hasEither(blk, open, shut) {
			opens, closes = find(blk, open, shut)
			dense = opens|closes != 0
			opens &^= inString | escaped
			closes &^= inString | escaped
		}
		if n := bits.OnesCount64(closes); n < depth {
			depth += bits.OnesCount64(opens) - n
			i += blockSize
			continue
		}
		// The container may end in this block.
		for ; closes != 0; closes &= closes - 1 {
			before := closes&-closes - 1
			depth--
			if depth+bits.OnesCount64(opens&before) == 0 {
				return i + bits.TrailingZeros64(closes) + 1
			}
		}
		depth += bits.OnesCount64(opens)
		i += blockSize
	}
	return -1
}

// nextQuote is where reading goes on in a string of which b[i] is neither
// escaped nor known to be followed by a quote soon: at the next quote, or at the
// backslash that escapes it. It is -1 if there is no quote left.
func nextQuote(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	n := bytes.IndexByte(b[i:], '"')
	if n < 0 {
		return -1
	}
	at := i + n
	run := at
	for run > i && b[run-1] == '\\' {
		run--
	}
	return at - (at-run)&1
}
