package pd

import (
	"bytes"
	"slices"
	"strconv"

	"loadstar/proxy/rawjson"
)

// rule is how answers of one kind are put right, given the prefill worker's
// usage.
type rule struct {
	kind    Kind
	prefill []byte // usage, raw, or nil
}

// appendAnswer appends an answer, or the data of one event of a stream, put
// right. What is not a JSON object that could be read to its end is appended as
// it is.
func (r rule) appendAnswer(dst, answer []byte, event bool) []byte {
	edits := []rawjson.Edit{
		{Op: rawjson.Replace, Name: kvField, With: appendHidden},
		{Op: rawjson.Replace, Name: "usage", With: r.appendUsage},
		{Op: rawjson.Replace, Name: "response", With: func(dst, old []byte) []byte {
			return rawjson.AppendOr(dst, old, []rawjson.Edit{
				{Op: rawjson.Replace, Name: kvField, With: appendHidden},
				{Op: rawjson.Replace, Name: "usage", With: r.appendUsage},
			})
		}},
	}
	if !event || r.kind != Responses {
		edits = edits[:2]
	}
	return rawjson.AppendOr(dst, answer, edits)
}

// AppendAnswer appends the decode worker's answer to a request of kind, put
// right by the prefill worker's reply. What is not a JSON object is appended as
// it is.
func AppendAnswer(dst, answer []byte, kind Kind, r *Reply) []byte {
	return rule{kind, r.usage}.appendAnswer(dst, answer, false)
}

// mayChange reports whether a text can hold a member that changes. It is exact
// for names that are written plainly, and any name needs a \u otherwise.
func (r rule) mayChange(b []byte) bool {
	return r.kind.hasUsage() && bytes.Contains(b, []byte(`usage"`)) ||
		bytes.Contains(b, []byte(kvField+`"`)) || bytes.Contains(b, []byte(`\u`))
}

// appendHidden appends null in place of transfer parameters.
func appendHidden(dst, old []byte) []byte {
	if rawjson.IsObject(old) || isArray(old) {
		return append(dst, literal.null...)
	}
	return append(dst, old...)
}

// usageFields are the names of usage members: those of chats and completions,
// those of responses, and one that is common.
var usageFields = [...]string{
	"prompt_tokens", "prompt_tokens_details", "completion_tokens",
	"input_tokens", "input_tokens_details", "output_tokens",
	"total_tokens",
}

const totalTokens = len(usageFields) - 1

// appendUsage appends the decode worker's usage with what is about the prompt
// taken from the prefill worker's. Counts that are right keep their text.
func (r rule) appendUsage(dst, decode []byte) []byte {
	var d, p [len(usageFields)][]byte
	if !r.kind.hasUsage() || !rawjson.IsObject(decode) || !rawjson.Members(decode, usageFields[:], d[:]) {
		return append(dst, decode...)
	}
	rawjson.Members(r.prefill, usageFields[:], p[:])
	input := 0
	if d[0] == nil && d[1] == nil {
		input = 3
	}
	details, output := input+1, input+2
	edits := make([]rawjson.Edit, 0, 3)
	if in, ok := rawjson.Count(p[input]); ok {
		edits = appendCount(edits, usageFields[input], d[input], in)
		if out, ok := rawjson.Count(d[output]); ok {
			edits = appendCount(edits, usageFields[totalTokens], d[totalTokens], in+out)
		}
	}
	edits = appendDetails(edits, usageFields[details], d[details], p[details])
	return rawjson.AppendOr(dst, decode, edits)
}

// appendCount appends an edit that makes a count n, if it is there and another.
func appendCount(edits []rawjson.Edit, name string, old []byte, n uint64) []rawjson.Edit {
	if had, ok := rawjson.Count(old); ok && had == n {
		return edits
	}
	return append(edits, rawjson.Edit{Op: rawjson.Replace, Name: name, Value: strconv.AppendUint(nil, n, 10)})
}

const cachedTokens = "cached_tokens"

// appendDetails appends an edit of the decode worker's details: with the fields
// of the prefill worker's, and without a number of cached tokens that is not
// from there.
func appendDetails(edits []rawjson.Edit, name string, decode, prefill []byte) []rawjson.Edit {
	fields := detailFields(prefill)
	if rawjson.IsObject(decode) {
		fields = append(fields, rawjson.Edit{Op: rawjson.Delete, Name: cachedTokens}) // unless it is set
		return append(edits, rawjson.Edit{Op: rawjson.Replace, Name: name, With: func(dst, old []byte) []byte {
			return rawjson.AppendOr(dst, old, fields)
		}})
	}
	if len(fields) == 0 || decode != nil && string(decode) != "null" {
		return edits
	}
	return append(edits, rawjson.Edit{Name: name, Value: rawjson.AppendOr(nil, []byte("{}"), fields)})
}

// Details of the prefill worker that are taken over: how many, and the bytes of
// one. They are numbers of tokens.
const (
	maxDetails = 16
	maxDetail  = 32
)

// detailFields are edits that set the prefill worker's details. A null is none,
// nor are a long value and a number of cached tokens that can't be one.
func detailFields(prefill []byte) []rawjson.Edit {
	o, ok := rawjson.OpenObject(prefill)
	if !ok {
		return nil
	}
	var fields []rawjson.Edit
	for len(fields) < maxDetails {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		if len(name) > rawjson.MaxName || rawjson.HasEscape(name) {
			continue
		}
		fields = slices.DeleteFunc(fields, func(e rawjson.Edit) bool { return e.Name == string(name) })
		if len(value) > maxDetail || string(value) == "null" {
			continue
		}
		if _, number := rawjson.Count(value); number || string(name) != cachedTokens {
			fields = append(fields, rawjson.Edit{Name: string(name), Value: value})
		}
	}
	return fields
}
