package routekey

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBlocksSpread hashes blocks that are alike in the ways prompts are and
// counts equal 32-bit halves, which is what a tree may keep of a hash. Random
// numbers would have 1 or 2 equal pairs.
func TestBlocksSpread(t *testing.T) {
	const blocks = 100_000
	for _, tt := range []struct {
		name   string
		change func(b []byte, i int)
	}{
		{"number", func(b []byte, i int) { copy(b[20:], fmt.Sprintf("%07d", i)) }},
		{"number at the end", func(b []byte, i int) { copy(b[57:], fmt.Sprintf("%07d", i)) }},
		{"letters far apart", func(b []byte, i int) {
			for at := 3; at < 64; at += 12 {
				b[at] = 'a' + byte(i%26)
				i /= 26
			}
		}},
		{"low bits of a word", func(b []byte, i int) { binary.LittleEndian.PutUint64(b[8:], uint64(i)) }},
		{"high bits of a word", func(b []byte, i int) { binary.LittleEndian.PutUint64(b[48:], uint64(i)<<44) }},
		{"mostly zeroes", func(b []byte, i int) { clear(b); binary.LittleEndian.PutUint32(b[i%16*4:], uint32(1+i)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var low, high []uint32
			var dst [1]uint64
			for i := range blocks {
				b := []byte(`ge of things","required":true},{"role":"user","content":"Tell me`)
				tt.change(b, i)
				h := chainBlocks(seedKey, b, dst[:])
				low = append(low, uint32(h))
				high = append(high, uint32(h>>32))
			}
			if got, want := repeats(low), 8; got > want {
				t.Errorf("%d equal low halves, want at most %d", got, want)
			}
			if got, want := repeats(high), 8; got > want {
				t.Errorf("%d equal high halves, want at most %d", got, want)
			}
		})
	}
}

// repeats is the number of values that occurred before.
func repeats(v []uint32) int {
	slices.Sort(v)
	return len(v) - len(slices.Compact(v))
}

// TestEveryBitCounts flips each bit of a block, and of the chain before it.
func TestEveryBitCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	const rounds = 200
	var b block
	var dst [1]uint64
	for bit := range 8 * len(b) {
		flipped := 0
		for range rounds {
			for i := range b {
				b[i] = ' ' + byte(r.IntN(95))
			}
			before := chainBlocks(seedKey, b[:], dst[:])
			b[bit/8] ^= 1 << (bit % 8)
			flipped += bits.OnesCount64(before ^ chainBlocks(seedKey, b[:], dst[:]))
		}
		if got := float64(flipped) / rounds; got < 24 || got > 40 {
			t.Errorf("bit %d of a block flips %.1f bits, want about 32", bit, got)
		}
	}
	for bit := range 64 {
		h, x := r.Uint64(), r.Uint64()
		if step(h, x) == step(h^1<<bit, x) {
			t.Errorf("bit %d of the chain is lost", bit)
		}
	}
}

// TestBlocksOrder guards against a hash that forgets where a word or a block
// stands.
func TestBlocksOrder(t *testing.T) {
	words := []byte("aaaaaaaabbbbbbbbccccccccddddddddeeeeeeeeffffffffgggggggghhhhhhhh")
	var dst [2]uint64
	want := chainBlocks(seedKey, words, dst[:])
	for i := range 8 {
		for j := range i {
			b := bytes.Clone(words)
			copy(b[8*i:], words[8*j:8*j+8])
			copy(b[8*j:], words[8*i:8*i+8])
			if chainBlocks(seedKey, b, dst[:]) == want {
				t.Errorf("words %d and %d can be exchanged", j, i)
			}
		}
	}
	other := bytes.ToUpper(words)
	if chainBlocks(seedKey, append(bytes.Clone(words), other...), dst[:]) ==
		chainBlocks(seedKey, append(bytes.Clone(other), words...), dst[:]) {
		t.Error("blocks can be exchanged")
	}
}
