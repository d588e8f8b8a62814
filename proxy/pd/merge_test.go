package pd

import (
	"strings"
	"testing"
)

// logs are logprobs of a completion's choice, each argument one of its lists.
func logs(offsets, tokens, logprobs, top string) string {
	return `{"text_offset":[` + offsets + `],"token_logprobs":[` + logprobs + `],"tokens":[` + tokens + `],"top_logprobs":[` + top + `]}`
}

func TestAppendMerged(t *testing.T) {
	const promptLogs = `[null,{"501":{"logprob":-0.3750,"rank":1}}]`
	echo, prompt := Request{Merge: true, Echo: true}, Request{Merge: true}
	prefill := logs(`0,3,9`, `"red"," green"," blue"`, `null,-0.375,-0.5`, `null,{" green":-0.375},{" blue":-0.5}`)
	decode := logs(`0,5`, `" blue"," cyan"`, `-0.25,-0.375`, `{" blue":-0.25},{" cyan":-0.375}`)
	merged := logs(`0,3,9,14`, `"red"," green"," blue"," cyan"`, `null,-0.375,-0.25,-0.375`, `null,{" green":-0.375},{" blue":-0.25},{" cyan":-0.375}`)
	echoed := logs(`0,3,9,14`, `"red"," green"," blue"," cyan"`, `null,null,-0.25,-0.375`, `null,null,{" blue":-0.25},{" cyan":-0.375}`)
	choice := func(logprobs, rest string) string {
		return `{"choices":[{"index":0,"logprobs":` + logprobs + `}]` + rest + `}`
	}
	const usage = `,"usage":{"completion_tokens":2}`
	for _, tt := range []struct {
		name        string
		q           Request
		reply       string
		answer, out string
	}{
		{"echo", echo, choice(prefill, ""), choice(decode, usage), choice(merged, usage)},
		{"no echo", prompt, choice(prefill, ""), choice(decode, usage), choice(decode, usage)},
		{"length by prompt logprobs", echo, `{"choices":[{"logprobs":` + prefill + `,"prompt_logprobs":` + promptLogs + `}]}`, choice(decode, ""), `{"choices":[{"index":0,"logprobs":` + merged + `,"prompt_logprobs":` + promptLogs + `}]}`},
		{"more prompt logprobs than tokens", echo, `{"choices":[{"logprobs":` + prefill + `,"prompt_logprobs":[1,2,3,4]}]}`, choice(decode, ""), `{"choices":[{"index":0,"logprobs":` + decode + `,"prompt_logprobs":[1,2,3,4]}]}`},
		{"every choice", echo, choice(prefill, ""), `{"choices":[{"logprobs":` + decode + `} , {"logprobs":` + decode + `}]}`, `{"choices":[{"logprobs":` + merged + `} , {"logprobs":` + merged + `}]}`},
		{"prompt is there already", echo, choice(prefill, ""), choice(echoed, usage), choice(merged, usage)},
		{"prompt is there already, says no usage", echo, choice(prefill, ""), choice(echoed, ""), choice(merged, "")},
		{"text that begins like the prompt", echo, choice(logs(`0,2`, `"ha","ha"`, `null,-1`, `null,null`), ""), choice(logs(`0,2`, `"ha","ha"`, `-2,-3`, `null,null`), usage), choice(logs(`0,2,4`, `"ha","ha","ha"`, `null,-2,-3`, `null,null,null`), usage)},
		{"offsets in code points", echo, choice(logs(`0,2`, `"é\u00e9\ud83d\ude00","x"`, `-1,-2`, `null,null`), ""), choice(logs(`0`, `"y"`, `-3`, `null`), usage), choice(logs(`0,3`, `"é\u00e9\ud83d\ude00","y"`, `-1,-3`, `null,null`), usage)},
		{"offsets that are no counts", echo, choice(prefill, ""), choice(logs(`null,-1`, `"a","b"`, `1,2`, `3,4`), usage), choice(logs(`0,3,null,-1`, `"red"," green","a","b"`, `null,-0.375,1,2`, `null,{" green":-0.375},3,4`), usage)},
		{"prompt's offsets that are no counts", echo, choice(logs(`0,-3,9`, `"a","b","c"`, `1,2,3`, `4,5,6`), ""), choice(decode, usage), choice(logs(`0,5`, `"a","b"," blue"," cyan"`, `1,2,-0.25,-0.375`, `4,5,{" blue":-0.25},{" cyan":-0.375}`), usage)},
		{"numbers keep their text", echo, choice(logs(`0,1`, `"a","b"`, `-1.500e-0,2`, `{"a":1.0},2`), ""), choice(logs(`0`, `"c"`, `-0.0`, `{"c":9007199254740993}`), usage), choice(logs(`0,1`, `"a","c"`, `-1.500e-0,-0.0`, `{"a":1.0},{"c":9007199254740993}`), usage)},
		{"nothing generated", echo, choice(prefill, ""), choice(logs("", "", "", ""), ""), choice(logs(`0,3`, `"red"," green"`, `null,-0.375`, `null,{" green":-0.375}`), "")},
		{"lists missing on one side", echo, choice(`{"tokens":["a","b"],"token_logprobs":[1,2],"text_offset":null}`, ""), choice(`{"tokens":["c"],"top_logprobs":[3],"token_logprobs":null,"text_offset":[0]}`, ""), choice(`{"tokens":["a","c"],"top_logprobs":[3],"token_logprobs":null,"text_offset":[0]}`, "")},
		{"no logprobs in the reply", echo, choice("null", ""), choice(decode, ""), choice(decode, "")},
		{"no logprobs in the answer", echo, choice(prefill, ""), choice("null", ""), choice("null", "")},
		{"logprobs of a chat", echo, choice(`{"content":[{"token":"a"}]}`, ""), choice(`{"content":[{"token":"b"}]}`, ""), choice(`{"content":[{"token":"b"}]}`, "")},
		{"one token only", echo, choice(logs(`0`, `"a"`, `1`, `2`), ""), choice(decode, ""), choice(decode, "")},
		{"no choices in the reply", echo, `{}`, choice(decode, ""), choice(decode, "")},
		{"choices of another type in the reply", echo, `{"choices":{"logprobs":1}}`, choice(decode, ""), choice(decode, "")},
		{"choices of another type", echo, choice(prefill, ""), `{"choices":{"logprobs":1}}`, `{"choices":{"logprobs":1}}`},
		{"choice of another type", echo, choice(prefill, ""), `{"choices":[1,null,"x"]}`, `{"choices":[1,null,"x"]}`},

		{"prompt logprobs of a chat", prompt, `{"prompt_logprobs":` + promptLogs + `}`, `{"a":1,"prompt_logprobs":null,"b":2}`, `{"a":1,"prompt_logprobs":` + promptLogs + `,"b":2}`},
		{"prompt logprobs of a chat, new", prompt, `{"prompt_logprobs":` + promptLogs + `}`, `{"a":1}`, `{"a":1,"prompt_logprobs":` + promptLogs + `}`},
		{"null prompt logprobs erase none", prompt, `{"prompt_logprobs":null,"choices":[{"prompt_logprobs":null}]}`, `{"prompt_logprobs":[1],"choices":[{"prompt_logprobs":[2]}]}`, `{"prompt_logprobs":[1],"choices":[{"prompt_logprobs":[2]}]}`},
		{"prompt logprobs of choices", prompt, `{"choices":[{"prompt_logprobs":[1]}]}`, `{"choices":[{"prompt_logprobs":null},{}]}`, `{"choices":[{"prompt_logprobs":[1]},{"prompt_logprobs":[1]}]}`},

		{"not JSON", echo, choice(prefill, ""), `<html>`, `<html>`},
		{"cut", echo, choice(prefill, ""), `{"choices":[`, `{"choices":[`},
		{"not an object", echo, choice(prefill, ""), `[{"choices":[]}]`, `[{"choices":[]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadReply([]byte(tt.reply))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.AppendMerged([]byte("before"), []byte(tt.answer), tt.q)); got != "before"+tt.out {
				t.Errorf("got  %s\nwant before%s", got, tt.out)
			}
		})
	}
}

// TestAppendMergedBound is an answer of many choices that would each get a long
// prompt's logprobs.
func TestAppendMergedBound(t *testing.T) {
	tokens := `"x"` + strings.Repeat(`,"x"`, 1<<18)
	r, err := ReadReply([]byte(`{"choices":[{"logprobs":{"tokens":[` + tokens + `]},"prompt_logprobs":[` + strings.Repeat("0,", 1<<18) + `0]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{
		`{"choices":[{"logprobs":{"tokens":[]}}` + strings.Repeat(`,{"logprobs":{"tokens":[]}}`, 200) + `]}`,
		`{"a":1` + strings.Repeat(`,"choices":[{"logprobs":{"tokens":[]}}]`, 200) + `}`,
	} {
		got := r.AppendMerged(nil, []byte(answer), Request{Merge: true, Echo: true})
		if most := len(answer) + maxMerged; len(got) > most || len(got) < maxMerged/2 {
			t.Errorf("an answer of %d bytes grows to %d, want at most %d", len(answer), len(got), most)
		}
	}
}
