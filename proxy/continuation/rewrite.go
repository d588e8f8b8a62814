package continuation

import (
	"strconv"

	"loadstar/proxy/rawjson"
	"loadstar/proxy/sse"
)

var usageNames = []string{"prompt_tokens", "completion_tokens", "prompt_tokens_details"}

// appendEvent appends an event after what was decided about it.
func (f *Follower) appendEvent(dst, event []byte, act action) []byte {
	switch act {
	case drop:
		return dst
	case change, shift:
	default:
		return append(dst, event...)
	}
	start, end, _ := sse.DataLine(event)
	edits := []rawjson.Edit{{Op: rawjson.Replace, Name: "usage", With: f.appendUsage}}
	for _, known := range []struct {
		name  string
		value []byte
	}{{"id", f.id}, {"created", f.created}, {"model", f.model}} {
		if len(known.value) > 0 {
			edits = append(edits, rawjson.Edit{Op: rawjson.Replace, Name: known.name, Value: known.value})
		}
	}
	if act == shift {
		edits = append(edits, rawjson.Edit{Op: rawjson.Replace, Name: "choices", With: appendWithoutRole})
	}
	dst = append(dst, event[:start]...)
	dst = rawjson.AppendOr(dst, event[start:end], edits)
	return append(dst, event[end:]...)
}

// appendWithoutRole appends choices of which the only one announces no role.
func appendWithoutRole(dst, choices []byte) []byte {
	a, _ := rawjson.OpenArray(choices)
	choice, ok := a.Next()
	if !ok {
		return append(dst, choices...)
	}
	end := a.End()
	dst = append(dst, choices[:end-len(choice)]...)
	dst = rawjson.AppendOr(dst, choice, []rawjson.Edit{{Op: rawjson.Replace, Name: "delta", With: func(dst, old []byte) []byte {
		return rawjson.AppendOr(dst, old, []rawjson.Edit{{Op: rawjson.Delete, Name: "role"}})
	}}})
	return append(dst, choices[end:]...)
}

// appendUsage appends a later part's usage as that of the whole answer: the first
// part's prompt, and all that was generated. Where the first part has not told of
// its prompt, that is what this part's has without the text of the parts before.
func (f *Follower) appendUsage(dst, usage []byte) []byte {
	var m [3][]byte
	if !rawjson.IsObject(usage) || !rawjson.Members(usage, usageNames, m[:]) {
		return append(dst, usage...)
	}
	prompt, ok := rawjson.Count(m[0])
	generated, also := rawjson.Count(m[1])
	if !ok || !also {
		return append(dst, usage...)
	}
	if n, ok := rawjson.Count(f.prompt); ok {
		prompt = n
	} else {
		prompt = max(prompt, f.before) - f.before
	}
	generated += f.before
	number := func(name string, n uint64) rawjson.Edit {
		return rawjson.Edit{Op: rawjson.Replace, Name: name, Value: strconv.AppendUint(nil, n, 10)}
	}
	edits := []rawjson.Edit{
		number("prompt_tokens", prompt), number("completion_tokens", generated), number("total_tokens", prompt+generated),
	}
	if rawjson.IsObject(m[2]) {
		details := f.details
		if len(details) == 0 {
			details = []byte("null") // what was cached of the first part's prompt is not known
		}
		edits = append(edits, rawjson.Edit{Op: rawjson.Replace, Name: "prompt_tokens_details", Value: details})
	}
	return rawjson.AppendOr(dst, usage, edits)
}
