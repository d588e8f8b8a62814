package load

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Source makes the body of the n-th request, counted from 0. It is called by
// several goroutines at once. What it returns is not changed and must not be by
// anyone else.
type Source func(n uint64) []byte

// Chat describes a chat completion with one message.
type Chat struct {
	Model     string
	Bytes     int    // of the whole body, as far as the rest leaves room
	Stream    bool   // asks for events
	MaxTokens int    // 0 to leave it out
	Start     string // of every prompt
}

const prose = "The quick brown fox jumps over the lazy dog. "

// Same sends the same body every time.
func (c Chat) Same() Source {
	body := c.body("")
	return func(uint64) []byte { return body }
}

// Unique sends prompts that differ from their first byte on, so that no two
// share a prefix.
func (c Chat) Unique() Source {
	return func(n uint64) []byte { return c.body(strconv.FormatUint(n, 36) + " ") }
}

// Grouped sends prompts of which those of one group share their first half; of
// gives the n-th request's group.
func (c Chat) Grouped(of func(n uint64) int) Source {
	return func(n uint64) []byte {
		group := "Group " + strconv.Itoa(of(n)) + ". "
		shared := group + strings.Repeat(prose, c.Bytes/2/len(prose)+1)
		return c.body(shared + strconv.FormatUint(n, 36) + " ")
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// body pads the prompt that begins with start to c's size.
func (c Chat) body(start string) []byte {
	with := func(prompt string) []byte {
		text, _ := json.Marshal(struct { // strings, numbers and booleans only
			Model     string    `json:"model"`
			Messages  []message `json:"messages"`
			Stream    bool      `json:"stream"`
			MaxTokens int       `json:"max_tokens,omitempty"`
		}{c.Model, []message{{"user", c.Start + prompt}}, c.Stream, c.MaxTokens})
		return text
	}
	room := max(0, c.Bytes-len(with(start)))
	return with(start + strings.Repeat(prose, room/len(prose)+1)[:room])
}
