package pd

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"loadstar/proxy/rawjson"
)

var (
	choiceFields = [...]string{"prompt_logprobs", "logprobs"}
	logFields    = [...]string{"tokens", "token_logprobs", "top_logprobs", "text_offset"}
)

// textOffset is the one of logFields that is counted anew.
const textOffset = 3

// merge is what an answer lacks: what the prefill worker knows of the prompt.
type merge struct {
	prompt []byte // prompt_logprobs of a choice, raw, or nil

	// If logprobs are to begin with the prompt:
	n      int                    // its tokens; 0 if logprobs stay as they are
	logs   [len(logFields)][]byte // the first n elements of each, or nil
	base   uint64                 // the prompt's length in code points
	echoed bool                   // the decode worker's logprobs are enough for the prompt as well

	room int // bytes that may still be added
}

// maxMerged is the number of bytes by which an answer may grow. Each choice gets
// the prompt's logprobs; choices past the bound stay as they are.
const maxMerged = 64 << 20

// AppendMerged appends the decode worker's whole answer to the request q, with
// the prompt's logprobs as the prefill worker has them. The prefill worker was
// asked for one choice, so its first one is that of every choice. Values are
// copied as they are written; offsets of text are counted in code points.
//
// What is missing, null or of another type in the prefill worker's reply changes
// nothing, and an answer that is not JSON is appended as it is.
func (r *Reply) AppendMerged(dst, answer []byte, q Request) []byte {
	if !json.Valid(answer) {
		return append(dst, answer...)
	}
	m := r.readMerge(q)
	if m.n > 0 {
		m.echoed = holdsPrompt(answer, m.n)
	}
	edits := []rawjson.Edit{{Op: rawjson.Replace, Name: "choices", With: m.appendChoices}}
	if given(r.promptLogprobs) {
		edits = append(edits, rawjson.Edit{Name: choiceFields[0], Value: r.promptLogprobs})
	}
	return rawjson.AppendOr(dst, answer, edits)
}

// readMerge reads the first choice of the reply.
func (r *Reply) readMerge(q Request) *merge {
	m := &merge{room: maxMerged}
	choices, _ := rawjson.OpenArray(r.choices)
	choice, _ := choices.Next()
	var c [len(choiceFields)][]byte
	rawjson.Members(choice, choiceFields[:], c[:])
	if given(c[0]) {
		m.prompt = c[0]
	}
	var v [len(logFields)][]byte
	if !q.Echo || !rawjson.Members(c[1], logFields[:], v[:]) {
		return m
	}
	n := elements(c[0])
	if n == 0 {
		n = elements(v[0]) - 1 // all tokens but the one it was asked for
	}
	if n <= 0 || !isArray(v[0]) {
		return m
	}
	var last [len(logFields)][]byte
	for i, value := range v {
		if !isArray(value) {
			continue
		}
		var ok bool
		if m.logs[i], last[i], ok = head(value, n); !ok {
			return m
		}
	}
	if offset, ok := rawjson.Count(last[textOffset]); ok && last[0][0] == '"' {
		m.base = offset + codePoints(last[0])
	} else {
		m.logs[textOffset] = nil
	}
	m.n = n
	return m
}

func (m *merge) appendChoices(dst, choices []byte) []byte {
	a, ok := rawjson.OpenArray(choices)
	if !ok {
		return append(dst, choices...)
	}
	copied := 0
	for {
		choice, ok := a.Next()
		if !ok {
			return append(dst, choices[copied:]...)
		}
		dst = append(dst, choices[copied:a.End()-len(choice)]...)
		copied = a.End()
		if m.room -= m.size(); m.room < 0 {
			dst = append(dst, choice...)
			continue
		}
		edits := []rawjson.Edit{{Op: rawjson.Replace, Name: choiceFields[1], With: m.appendLogs}}
		if m.prompt != nil {
			edits = append(edits, rawjson.Edit{Name: choiceFields[0], Value: m.prompt})
		}
		dst = rawjson.AppendOr(dst, choice, edits)
	}
}

// size is the number of bytes that one choice grows by, at most.
func (m *merge) size() int {
	size := len(m.prompt)
	for _, log := range m.logs {
		size += len(log)
	}
	return size
}

// appendLogs appends the logprobs of a choice with the prompt's before them.
func (m *merge) appendLogs(dst, logs []byte) []byte {
	var v [len(logFields)][]byte
	if m.n == 0 || !rawjson.IsObject(logs) || !rawjson.Members(logs, logFields[:], v[:]) {
		return append(dst, logs...)
	}
	skip := 0 // tokens of the prompt that are there
	if m.echoed && beginsWith(v[0], m.logs[0], m.n) {
		skip = m.n
	}
	edits := make([]rawjson.Edit, 0, len(logFields))
	for i, name := range logFields {
		if m.logs[i] == nil || !isArray(v[i]) || i == textOffset && skip > 0 {
			continue
		}
		first, _, ok := head(v[i], skip)
		if !ok {
			return append(dst, logs...)
		}
		rest := rawjson.TrimSpace(v[i][1+len(first) : len(v[i])-1])
		value := append(append([]byte{'['}, m.logs[i]...), ',')
		switch {
		case len(rest) == 0:
			value = value[:len(value)-1]
		case i == textOffset:
			value = m.appendOffsets(value, v[i])
		case skip > 0:
			value = append(value[:len(value)-1], rest...)
		default:
			value = append(value, rest...)
		}
		edits = append(edits, rawjson.Edit{Op: rawjson.Replace, Name: name, Value: append(value, ']')})
	}
	return rawjson.AppendOr(dst, logs, edits)
}

// appendOffsets appends the elements of offsets, moved behind the prompt.
func (m *merge) appendOffsets(dst, offsets []byte) []byte {
	a, _ := rawjson.OpenArray(offsets)
	for some := false; ; some = true {
		value, ok := a.Next()
		if !ok {
			return dst
		}
		if some {
			dst = append(dst, ',')
		}
		if n, ok := rawjson.Count(value); ok {
			dst = strconv.AppendUint(dst, n+m.base, 10)
		} else {
			dst = append(dst, value...)
		}
	}
}

// holdsPrompt reports whether the answer has logprobs for more tokens than were
// generated: about n more in each choice, the prompt's. Without usage there is
// no telling, and the tokens themselves decide.
func holdsPrompt(answer []byte, n int) bool {
	generated, ok := rawjson.Count(rawjson.Member(rawjson.Member(answer, "usage"), "completion_tokens"))
	if !ok {
		return true
	}
	tokens, prompts := 0, 0
	a, _ := rawjson.OpenArray(rawjson.Member(answer, "choices"))
	for {
		choice, ok := a.Next()
		if !ok {
			return 2*(tokens-int(generated)) > prompts
		}
		tokens += elements(rawjson.Member(rawjson.Member(choice, "logprobs"), "tokens"))
		prompts += n
	}
}

// beginsWith reports whether the first n elements of array are those of prefix.
func beginsWith(array, prefix []byte, n int) bool {
	a, _ := rawjson.OpenArray(array)
	b, _ := rawjson.OpenArray(append(append([]byte{'['}, prefix...), ']'))
	for range n {
		x, ok := a.Next()
		y, _ := b.Next()
		if !ok || string(x) != string(y) {
			return false
		}
	}
	return true
}

// head is the text of the first n elements of array and the last of them. It
// reports false if there are fewer.
func head(array []byte, n int) (text, last []byte, ok bool) {
	a, ok := rawjson.OpenArray(array)
	if !ok {
		return nil, nil, false
	}
	end := a.End()
	for range n {
		if last, ok = a.Next(); !ok {
			return nil, nil, false
		}
		end = a.End()
	}
	return array[1:end], last, true
}

// elements is the number of elements of array, 0 if it is none.
func elements(array []byte) int {
	a, _ := rawjson.OpenArray(array)
	for n := 0; ; n++ {
		if _, ok := a.Next(); !ok {
			return n
		}
	}
}

// codePoints is the length of the text in a raw string.
func codePoints(raw []byte) uint64 {
	return uint64(utf8.RuneCount(rawjson.Unescape(nil, raw[1:len(raw)-1])))
}

func given(value []byte) bool { return len(value) > 0 && string(value) != "null" }
