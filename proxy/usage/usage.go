// Package usage reads from an answer, as it passes, how many tokens the worker says
// that the request took. It keeps none of the answer's bytes and holds none back.
//
// # What is read
//
// Members called "usage" at any depth whose value is an object, in one JSON text or
// in the data lines of a stream of events. Of them count
//
//   - prompt_tokens, completion_tokens and prompt_tokens_details.cached_tokens, as
//     in chats and completions;
//   - input_tokens, output_tokens and input_tokens_details.cached_tokens, as in
//     responses;
//   - input_tokens, output_tokens, cache_read_input_tokens and
//     cache_creation_input_tokens, as in messages, where the tokens that were read
//     from the cache are no part of the input's.
//
// The last one that an answer has counts, each on its own, so that the parts of a
// usage may come in several events. A name that is written with escapes, a number
// with more than 15 digits, a fraction or an exponent, and an object that is spread
// over several data lines are not understood: then there is no such number.
//
// Text within a string can't be taken for a member, since its quotes are escaped.
package usage

// Usage is what an answer has told of its tokens.
type Usage struct {
	Prompt, Completion uint64
	Cached             uint64 // of the prompt's, those found in the worker's cache
	HasPrompt          bool   // Prompt was told
	HasCached          bool   // Cached was told
}

// Usage returns what has been read so far.
func (s *Scanner) Usage() Usage {
	u := Usage{
		Prompt: s.tokens[prompt], HasPrompt: s.told&(1<<prompt) != 0,
		Completion: s.tokens[completion],
		Cached:     s.tokens[cached], HasCached: s.told&(1<<cached) != 0,
	}
	if s.told&(1<<cacheRead) != 0 {
		u.Cached, u.HasCached = s.tokens[cacheRead], true
		u.Prompt += s.tokens[cacheRead] + s.tokens[cacheWritten]
	}
	return u
}

// count names a number of a usage.
type count uint8

const (
	other count = iota
	prompt
	completion
	cached
	cacheRead
	cacheWritten
	numCounts
)

// countNamed is the number that a member of a usage is, or of its details.
func countNamed(name string, inDetails bool) count {
	if inDetails {
		if name == "cached_tokens" {
			return cached
		}
		return other
	}
	switch name {
	case "prompt_tokens", "input_tokens":
		return prompt
	case "completion_tokens", "output_tokens":
		return completion
	case "cache_read_input_tokens":
		return cacheRead
	case "cache_creation_input_tokens":
		return cacheWritten
	}
	return other
}

// isDetails reports whether a member of a usage is the details of its prompt.
func isDetails(name string) bool {
	return name == "prompt_tokens_details" || name == "input_tokens_details"
}
