package pd

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"loadstar/proxy/rawjson"
)

// inPieces feeds b to rewrite in pieces as long as seed says.
func inPieces(b []byte, seed uint64, rewrite func([]byte) []byte) (out []byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	most := 1 + r.IntN(40)
	for len(b) > 0 {
		n := min(r.IntN(most+1), len(b))
		out = append(out, rewrite(bytes.Clone(b[:n]))...)
		b = b[n:]
	}
	return out
}

func kindOf(seed uint64) Kind { return Chat + Kind(seed%uint64(TokensIn)) }

// slowEvents puts a stream right that is there as a whole: it splits it into
// lines and those into events.
func slowEvents(kind Kind, r *Reply, stream []byte) (out []byte) {
	var event [][]byte
	flush := func() {
		data := -1
		for i, line := range event {
			text := bytes.TrimRight(line, "\r\n")
			if bytes.HasPrefix(text, []byte("data:")) || string(text) == "data" {
				if data >= 0 {
					data = len(event) // several
					break
				}
				data = i
			}
		}
		for i, line := range event {
			text := bytes.TrimRight(line, "\r\n")
			if i != data || len(text) < len("data:") {
				out = append(out, line...)
				continue
			}
			out = append(out, "data:"...)
			out = rule{kind, r.usage}.appendAnswer(out, text[len("data:"):], true)
			out = append(out, line[len(text):]...)
		}
		event = nil
	}
	for len(stream) > 0 {
		n := bytes.IndexAny(stream, "\r\n")
		switch {
		case n < 0:
			n = len(stream)
		case bytes.HasPrefix(stream[n:], []byte("\r\n")):
			n += 2
		default:
			n++
		}
		event = append(event, stream[:n])
		if blank := len(bytes.TrimRight(stream[:n], "\r\n")) == 0; blank {
			flush()
		}
		stream = stream[n:]
	}
	flush()
	return out
}

// FuzzEvents cuts streams anywhere and compares with the stream as a whole. The
// prefill worker's reply may come late.
func FuzzEvents(f *testing.F) {
	for i, stream := range []string{
		"data: " + wrongUsage + "\n\ndata: [DONE]\n\n", "\r\r\n\ndata: " + wrongUsage + "\r\r\ndata\n\n:x\n", "data:{\ndata:}\n\n",
		"event: x\r\ndata: {\"response\":{\"usage\":{\"input_tokens\":1},\"kv_transfer_params\":{}}}\r\n\r\n", "data: {\"\\u0075sage\":{}}\n",
	} {
		f.Add([]byte(stream), uint64(i))
	}
	f.Fuzz(checkEvents)
}

func checkEvents(t *testing.T, stream []byte, seed uint64) {
	t.Helper()
	kind, r := kindOf(seed), usageOf(t)
	want := slowEvents(kind, r, stream)
	e := NewEvents(kind, r)
	got := inPieces(stream, seed, e.Rewrite)
	if got = append(got, e.Close()...); !bytes.Equal(got, want) {
		t.Fatalf("%q of kind %d, seed %d\nbecomes %q\nwant    %q", stream, kind, seed, got, want)
	}
	late := NewEvents(kind, nil)
	pieces := seed >> 8 % 8
	got = inPieces(stream, seed, func(piece []byte) []byte {
		if pieces == 0 {
			late.Know(r)
		}
		pieces--
		return late.Rewrite(piece)
	})
	late.Know(r)
	if got = append(got, late.Close()...); !bytes.Equal(got, want) {
		t.Fatalf("%q of kind %d, seed %d, known late\nbecomes %q\nwant    %q", stream, kind, seed, got, want)
	}
}

// TestEventsAgainstSlow puts together what matters at random, more densely than
// a fuzzer finds it.
func TestEventsAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	parts := []string{
		"\n", "\n", "\r", "\r\n", "data", ":", "data:", "data: ", ": x", "event: y", "data: " + wrongUsage, wrongUsage,
		`data: {"kv_transfer_params":{"a":1}}`, `data:{"response":{"usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":1}}}}`, "[DONE]", `{"\u0075sage":{}}`,
	}
	for range 5_000 {
		var b []byte
		for range r.IntN(14) {
			b = append(b, parts[r.IntN(len(parts))]...)
		}
		checkEvents(t, b, r.Uint64())
	}
}

// FuzzAnswer cuts answers anywhere and compares with the answer as a whole.
func FuzzAnswer(f *testing.F) {
	for i, tt := range usageCases {
		f.Add([]byte(tt.decode), uint64(i))
	}
	f.Fuzz(checkAnswer)
}

func checkAnswer(t *testing.T, answer []byte, seed uint64) {
	t.Helper()
	kind, r := kindOf(seed), usageOf(t)
	a := NewAnswer(kind, r)
	got := inPieces(answer, seed, a.Rewrite)
	got = append(got, a.Close()...)
	if _, whole := rawjson.AppendEdited(nil, answer, nil); !whole || bytes.HasPrefix(answer, []byte("\xef")) {
		return // what stands before a fault may have been put right
	}
	want := AppendAnswer(nil, answer, kind, r)
	if !bytes.Equal(got, want) {
		t.Fatalf("%q of kind %d, seed %d\nbecomes %q\nwant    %q", answer, kind, seed, got, want)
	}
	if !json.Valid(answer) {
		return
	}
	if !json.Valid(got) {
		t.Fatalf("%q becomes %q, which is not JSON", answer, got)
	}
	checkUntouched(t, got, answer, "usage")
}

// TestAnswerAgainstSlow is TestEventsAgainstSlow for answers.
func TestAnswerAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	parts := []string{
		`"a":1`, `"usage":` + `{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":3},"total_tokens":4,"completion_tokens":1}`, `"usage":null`,
		` "us\u0061ge" : { "prompt_tokens" : 1 } `, `"kv_transfer_params":{"}":["]\"\\"]}`, `"kv_transfer_params":[{}]`, `"kv_transfer_params":null`,
		`"choices":[{"usage":{"prompt_tokens":1}}]`, `"x":"\"usage\":{"`, `"kv\u005ftransfer_params":"x"`, `"n":-1.5e9`, `"":{}`,
	}
	for range 5_000 {
		var members []string
		for range r.IntN(6) {
			members = append(members, parts[r.IntN(len(parts))])
		}
		checkAnswer(t, []byte("{"+strings.Join(members, ",")+"}"), r.Uint64())
	}
}

// FuzzAppendMerged checks that an answer stays JSON, whatever is merged into it.
func FuzzAppendMerged(f *testing.F) {
	prefill := logs(`0,3,9`, `"red"," gr\u00e9en"," blue"`, `null,-0.375,-0.5`, `null,{" green":-0.375},{" blue":-0.5}`)
	for _, answer := range []string{
		`{"choices":[{"logprobs":` + logs(`0,5`, `" blue"," cyan"`, `-0.25,-0.375`, `{" blue":-0.25},{" cyan":-0.375}`) + `,"prompt_logprobs":null}],"usage":{"completion_tokens":2}}`,
		`{"choices":[{"logprobs":{"tokens":[ "red" , " gr\u00e9en" , "x" ],"text_offset":[ ]}} , null]}`,
		`{"choices":[ ]}`, `{}`, `[`, `{"choices":[{"logprobs":{"tokens":[[]],"token_logprobs":"x","top_logprobs":[{},[]]}}]}`,
	} {
		f.Add([]byte(`{"choices":[{"logprobs":`+prefill+`,"prompt_logprobs":[null,{}]}],"prompt_logprobs":[null]}`), []byte(answer), true)
		f.Add([]byte(`{"choices":[{"logprobs":`+prefill+`}]}`), []byte(answer), true)
	}
	f.Fuzz(func(t *testing.T, reply, answer []byte, echo bool) {
		r, err := ReadReply(reply)
		if err != nil {
			return
		}
		got := r.AppendMerged(nil, answer, Request{Merge: true, Echo: echo})
		if !json.Valid(answer) {
			if !bytes.Equal(got, answer) {
				t.Fatalf("%q becomes %q", answer, got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q with %q becomes %q, which is not JSON", answer, reply, got)
		}
		if _, ok := rawjson.OpenObject(answer); ok {
			checkUntouched(t, got, answer, "choices", "prompt_logprobs")
		}
		r.AppendMerged(nil, got, Request{Merge: true, Echo: echo})
	})
}

// FuzzBodies checks that the two requests are the client's but for what has to
// be changed, and that no transfer parameters of the client's are left.
func FuzzBodies(f *testing.F) {
	for i, body := range []string{
		`{"model":"m","max_tokens":9,"stream":true,"stream_options":{},"n":2,"best_of":3}`, `{"kv_transfer_params":{},"kv_transfer_params":1}`,
		`{"sampling_params":{"extra_args":{"kv_transfer_params":{}}},"vllm_xargs":{"kv_transfer_params":1}}`, ` { } `, `{"a":[}`, `[]`,
	} {
		for kind := range uint64(TokensIn) {
			f.Add([]byte(body), kind+uint64(i)<<8)
		}
	}
	names := []string{
		"max_tokens", "min_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "stream", "stream_options",
		"sampling_params", vllmArgs, extraArgs,
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		kind := kindOf(seed)
		prefill, ok := AppendPrefill(nil, body, kind, []byte(testKV))
		decode, okDecode := AppendDecode(nil, body, kind, nil)
		if _, okRead := ReadRequest(body, kind); ok != okDecode || ok != okRead {
			t.Fatalf("%q: %v, %v and %v", body, ok, okDecode, okRead)
		}
		if body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")); !ok || !json.Valid(body) {
			return
		}
		prefill = bytes.TrimPrefix(prefill, []byte("\xef\xbb\xbf"))
		decode = bytes.TrimPrefix(decode, []byte("\xef\xbb\xbf"))
		checkUntouched(t, prefill, body, names...)
		checkUntouched(t, decode, body, "sampling_params", vllmArgs, extraArgs)
		p, d := jsonValue(t, prefill).(map[string]any), jsonValue(t, decode).(map[string]any)
		if kv, ok := p[kvField].(map[string]any); !ok || kv["k"] == nil || p["stream"] != false || p["stream_options"] != nil {
			t.Fatalf("%q makes the prefill request %q", body, prefill)
		}
		if _, ok := d[kvField]; ok {
			t.Fatalf("%q makes the decode request %q", body, decode)
		}
		if kind == TokensIn {
			p, _ = p["sampling_params"].(map[string]any)
			d, _ = d["sampling_params"].(map[string]any)
		}
		args := []any{p[extraArgs], d[extraArgs]}
		if kind != TokensIn {
			args = append(args, p[vllmArgs], d[vllmArgs])
		}
		for _, a := range args {
			if a, _ := a.(map[string]any); a[kvField] != nil {
				t.Fatalf("%q makes the requests %q and %q", body, prefill, decode)
			}
		}
	})
}
