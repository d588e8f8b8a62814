package replay

import (
	"bytes"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	tailBytes = 2048 // of an answer, in which its usage is looked for
	longest   = 10 * time.Hour
)

// book sums up what counted requests came to.
type book struct {
	requests uint64
	unpriced uint64 // answers that don't tell their usage; not in the following
	prompt   uint64 // tokens
	cached   uint64 // of these
	endless  uint64 // of these, with an endless cache
	ttft     *hdrhistogram.Histogram
}

func newBook() book {
	return book{ttft: hdrhistogram.New(int64(time.Microsecond), int64(longest), 3)}
}

// add takes in a request of so many blocks, of which an endless cache would have had
// hits. A block has so many tokens; 0 if only the worker knows.
func (b *book) add(blocks, hits, blockTokens int, ttft time.Duration, tail []byte) {
	b.requests++
	_ = b.ttft.RecordValue(min(max(int64(ttft), int64(time.Microsecond)), int64(longest)))
	prompt, found := number(tail, `"prompt_tokens"`)
	if !found {
		b.unpriced++
		return
	}
	cached, _ := number(tail, `"cached_tokens"`) // absent if there is none
	b.prompt += prompt
	b.cached += cached
	if blockTokens == 0 {
		b.endless += prompt * uint64(hits) / uint64(max(blocks, 1))
		return
	}
	b.endless += uint64(hits * blockTokens)
}

// number is the value of the last field of a name in text.
func number(text []byte, name string) (n uint64, found bool) {
	i := bytes.LastIndex(text, []byte(name))
	if i < 0 {
		return 0, false
	}
	text = bytes.TrimLeft(text[i+len(name):], " ")
	text, found = bytes.CutPrefix(text, []byte(":"))
	if !found {
		return 0, false
	}
	digits := 0
	for _, c := range bytes.TrimLeft(text, " ") {
		if c < '0' || c > '9' || digits == 18 {
			break
		}
		n = 10*n + uint64(c-'0')
		digits++
	}
	return n, digits > 0
}
