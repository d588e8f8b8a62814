package worker

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// tokenBytes is how many bytes of prompt make a token.
const tokenBytes = 4

// tokenize cuts text into tokens of four bytes, read as big-endian numbers; the
// last may hold fewer. Texts with a common start have tokens with a common start.
func tokenize(text []byte) []uint32 {
	ids := make([]uint32, 0, tokenCount(len(text)))
	for len(text) >= tokenBytes {
		ids = append(ids, binary.BigEndian.Uint32(text))
		text = text[tokenBytes:]
	}
	if len(text) > 0 {
		var padded [tokenBytes]byte
		copy(padded[tokenBytes-len(text):], text)
		ids = append(ids, binary.BigEndian.Uint32(padded[:]))
	}
	return ids
}

// detokenize undoes tokenize for text without NUL bytes.
func detokenize(ids []uint32) []byte {
	return bytes.ReplaceAll(idBytes(ids), []byte{0}, nil)
}

// idBytes is the prompt that token ids stand for: four bytes each, so that a
// prompt given as ids has as many tokens and blocks as the same text.
func idBytes(ids []uint32) []byte {
	b := make([]byte, 0, tokenBytes*len(ids))
	for _, id := range ids {
		b = binary.BigEndian.AppendUint32(b, id)
	}
	return b
}

// tokenCount is the number of tokens in n bytes.
func tokenCount(n int) int { return (n + tokenBytes - 1) / tokenBytes }

// prompt is what the engine knows of a prompt's text.
type prompt struct {
	size  int      // bytes
	chain []uint64 // one key per full block, for the cache
	print uint64   // hash of it all, which picks the answer's words
}

// newPrompt hashes text. Prompts with different salts share no cache block.
func newPrompt(text []byte, salt string) prompt {
	p := prompt{size: len(text), chain: make([]uint64, 0, len(text)/BlockBytes)}
	var block [8 + BlockBytes]byte
	if salt != "" {
		p.print = xxhash.Sum64String(salt)
	}
	for len(text) >= BlockBytes {
		binary.LittleEndian.PutUint64(block[:], p.print)
		copy(block[8:], text[:BlockBytes])
		p.print = xxhash.Sum64(block[:])
		p.chain = append(p.chain, p.print)
		text = text[BlockBytes:]
	}
	binary.LittleEndian.PutUint64(block[:], p.print)
	p.print = xxhash.Sum64(block[:8+copy(block[8:], text)])
	return p
}

// usable is how many blocks the cache can save at most: the last token of a
// prompt is computed always, since its output is what decoding starts from.
func (p prompt) usable() int { return max(p.size-1, 0) / BlockBytes }
