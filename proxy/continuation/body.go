package continuation

import (
	"strconv"

	"loadstar/proxy/rawjson"
)

// AppendBody appends the body of the request for the rest of an answer. body is
// the client's, that Check has read; text is what was generated so far, the inside
// of a JSON string, in so many tokens. Without text it is the client's body. It
// reports false, having appended nothing, if the body can't be read.
func (r *Request) AppendBody(dst, body, text []byte, tokens uint64) ([]byte, bool) {
	if len(text) == 0 {
		return append(dst, body...), true
	}
	less := func(least uint64) func(dst, old []byte) []byte {
		return func(dst, old []byte) []byte {
			n, ok := rawjson.Count(old)
			if !ok {
				return append(dst, old...)
			}
			return strconv.AppendUint(dst, max(n, tokens+least)-tokens, 10)
		}
	}
	edits := []rawjson.Edit{
		{Op: rawjson.Replace, Name: "max_tokens", With: less(1)},
		{Op: rawjson.Replace, Name: "max_completion_tokens", With: less(1)},
		{Op: rawjson.Replace, Name: "min_tokens", With: less(0)},
	}
	if r.Kind == Completions {
		edits = append(edits, rawjson.Edit{Op: rawjson.Replace, Name: "prompt", With: extend(text)})
		return rawjson.AppendEdited(dst, body, edits)
	}
	messages := func(dst, old []byte) []byte { return appendMessage(dst, old, text) }
	if r.extends {
		messages = func(dst, old []byte) []byte { return appendExtended(dst, old, text) }
	}
	edits = append(
		edits,
		rawjson.Edit{Op: rawjson.Replace, Name: "messages", With: messages},
		rawjson.Edit{Name: "continue_final_message", Value: []byte("true")},
		rawjson.Edit{Name: "add_generation_prompt", Value: []byte("false")},
	)
	return rawjson.AppendEdited(dst, body, edits)
}

// extend puts text behind what is in a string.
func extend(text []byte) func(dst, old []byte) []byte {
	return func(dst, old []byte) []byte {
		if !isString(old) {
			return append(dst, old...)
		}
		dst = append(dst, old[:len(old)-1]...)
		dst = append(dst, text...)
		return append(dst, '"')
	}
}

// appendMessage appends messages with one more, of the assistant.
func appendMessage(dst, messages, text []byte) []byte {
	_, _, end := lastOf(messages)
	if end == 0 {
		return append(dst, messages...)
	}
	dst = append(dst, messages[:end]...)
	dst = append(dst, `,{"role":"assistant","content":"`...)
	dst = append(dst, text...)
	dst = append(dst, `"}`...)
	return append(dst, messages[end:]...)
}

// appendExtended appends messages with text behind what is in the last one.
func appendExtended(dst, messages, text []byte) []byte {
	last, start, end := lastOf(messages)
	if end == 0 {
		return append(dst, messages...)
	}
	dst = append(dst, messages[:start]...)
	dst = rawjson.AppendOr(dst, last, []rawjson.Edit{{Op: rawjson.Replace, Name: "content", With: extend(text)}})
	return append(dst, messages[end:]...)
}
