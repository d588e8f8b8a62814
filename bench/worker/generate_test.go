package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestChat(t *testing.T) {
	_, url := start(t, Config{Model: "m", OutputTokens: 5})
	text := "<|user|>hello there\n<|assistant|>" // 34 bytes, 9 tokens
	if got, want := tokenCount(len(text)), 9; got != want {
		t.Fatalf("the prompt has %d tokens, want %d", got, want)
	}
	tests := []struct {
		name, fields string
		tokens       int
		reason       string
	}{
		{"by itself", ``, 5, "stop"},
		{"max_tokens above", `"max_tokens":9,`, 5, "stop"},
		{"max_tokens at its end", `"max_tokens":5,`, 5, "length"},
		{"max_tokens below", `"max_tokens":2,`, 2, "length"},
		{"max_completion_tokens wins", `"max_tokens":9,"max_completion_tokens":3,`, 3, "length"},
		{"ignore_eos", `"max_tokens":9,"ignore_eos":true,`, 9, "length"},
		{"min_tokens", `"min_tokens":7,"max_tokens":9,`, 7, "stop"},
		{"nulls", `"max_tokens":null,"stream":null,"tools":null,"n":null,`, 5, "stop"},
		{"unknown fields", `"temperature":0.5,"logit_bias":{"1":2},"x":[1e400],`, 5, "stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := ask(t, "POST", url+"/v1/chat/completions", `{"model":"m",`+tt.fields+hello+`}`)
			expect(t, whole.body,
				"object", "chat.completion", "model", "m", "choices.0.message.role", "assistant", "choices.0.index", 0,
				"choices.0.finish_reason", tt.reason, "choices.1", nil, "usage.prompt_tokens", 9,
				"usage.completion_tokens", tt.tokens, "usage.total_tokens", 9+tt.tokens)
			content := fmt.Sprint(at(t, whole.body, "choices.0.message.content"))
			if got := len(strings.Fields(content)); got != tt.tokens {
				t.Errorf("%q has %d words, want %d", content, got, tt.tokens)
			}

			fields := strings.ReplaceAll(tt.fields, `"stream":null,`, "")
			stream := ask(t, "POST", url+"/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},`+fields+hello+`}`)
			checkChatStream(t, stream, content, tt.tokens, tt.reason)
		})
	}
}

func checkChatStream(t *testing.T, stream answer, content string, tokens int, reason string) {
	t.Helper()
	if got, want := stream.header.Get("Content-Type"), "text/event-stream; charset=utf-8"; got != want {
		t.Errorf("content type %q, want %q", got, want)
	}
	events := parseEvents(t, stream.body)
	if got, want := len(events), 1+tokens+3; got != want { // role, tokens, reason, usage, [DONE]
		t.Fatalf("%d events, want %d, in\n%s", got, want, stream.body)
	}
	expect(t, events[0].data, "object", "chat.completion.chunk", "choices.0.delta.role", "assistant", "choices.0.delta.content", "", "choices.0.finish_reason", nil)
	id, text := at(t, events[0].data, "id"), ""
	for _, e := range events[1 : 1+tokens] {
		expect(t, e.data, "id", id, "choices.0.finish_reason", nil, "choices.0.delta.role", nil, "usage", nil)
		text += fmt.Sprint(at(t, e.data, "choices.0.delta.content"))
	}
	if text != content {
		t.Errorf("the stream says %q, want %q", text, content)
	}
	expect(t, events[1+tokens].data, "choices.0.finish_reason", reason, "choices.0.delta.content", nil)
	expect(t, events[2+tokens].data, "choices", "[]", "usage.prompt_tokens", 9, "usage.completion_tokens", tokens)
	if got, want := string(events[3+tokens].data), "[DONE]"; got != want {
		t.Errorf("the last event is %q, want %q", got, want)
	}
}

// TestContinuedChat: an answer that is to be completed goes on as it would have.
func TestContinuedChat(t *testing.T) {
	_, url := start(t, Config{OutputTokens: 9})
	content := func(body string) string {
		return fmt.Sprint(at(t, ask(t, "POST", url+"/v1/chat/completions", body).body, "choices.0.message.content"))
	}
	const user = `{"role":"user","content":"hello"}`
	want := content(`{"messages":[` + user + `]}`)
	for words := 1; words < 9; words++ {
		begin := strings.Join(strings.SplitAfterN(want, " ", words+1)[:words], "")
		begin = strings.TrimRight(begin, " ")
		quoted, err := json.Marshal(begin)
		if err != nil {
			t.Fatal(err)
		}
		messages := fmt.Sprintf(`"messages":[%s,{"role":"assistant","content":%s}]`, user, quoted)
		if got := begin + content(`{"continue_final_message":true,"add_generation_prompt":false,`+messages+`}`); got != want {
			t.Errorf("behind %q: %q, want %q", begin, got, want)
		}
		if got := begin + content(`{`+messages+`}`); got == want {
			t.Errorf("%q goes on without being asked to", begin)
		}
	}
}

func TestUsageChunkOnlyOnRequest(t *testing.T) {
	_, url := start(t, Config{OutputTokens: 2})
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		stream := ask(t, "POST", url+path, `{"prompt":"x","stream":true,`+hello+`}`)
		if strings.Contains(string(stream.body), "usage") {
			t.Errorf("%s sends usage unasked:\n%s", path, stream.body)
		}
	}
}

// The cached tokens are exact: full blocks, never the whole prompt.
func TestCachedTokens(t *testing.T) {
	_, url := start(t, Config{})
	block := strings.Repeat("x", BlockBytes)
	steps := []struct {
		name, prompt, salt string
		cached             int
	}{
		{"new", block + block + block, "", 0},
		{"again: all but the last block", block + block + block, "", 32},
		{"one byte more: all three", block + block + block + "y", "", 48},
		{"shorter", block + block + "y", "", 32},
		{"another first byte", "y" + block + block, "", 0},
		{"salted", block + block + block + "y", "s", 0},
		{"salted again", block + block + block + "y", "s", 48},
		{"less than a block", "x", "", 0},
	}
	for _, step := range steps {
		got := ask(t, "POST", url+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"cache_salt":%q,"max_tokens":1}`, step.prompt, step.salt))
		expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", step.cached, "usage.prompt_tokens", tokenCount(len(step.prompt)))
	}
	ask(t, "POST", url+"/flush_cache", "")
	got := ask(t, "POST", url+"/v1/completions", fmt.Sprintf(`{"prompt":%q}`, block+block+block))
	expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", 0)
}

// Every turn of a chat hits the whole of the turn before, through every API that
// has turns, streaming or not.
func TestGrowingChatHitsTheCache(t *testing.T) {
	question := strings.Repeat("why ", 40) // 160 bytes
	turns := []string{
		fmt.Sprintf(`{"role":"user","content":%q}`, question),
		`{"role":"assistant","content":"because"}`,
		fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}]}`, question),
	}
	tests := []struct {
		name, path, field, cached, input string
		tokens                           int
	}{
		{"chat", "/v1/chat/completions", "messages", "usage.prompt_tokens_details.cached_tokens", "usage.prompt_tokens", 93},
		{"responses", "/v1/responses", "input", "usage.input_tokens_details.cached_tokens", "usage.input_tokens", 93},
		{"messages", "/v1/messages", "messages", "usage.cache_read_input_tokens", "usage.input_tokens", 13}, // without the cached ones
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := start(t, Config{})
			one := fmt.Sprintf(`{%q:[%s]}`, tt.field, turns[0])
			three := fmt.Sprintf(`{%q:[%s]}`, tt.field, strings.Join(turns, ","))
			expect(t, ask(t, "POST", url+tt.path, one).body, tt.cached, 0)
			// 8 + 160 + 1 + 13 bytes are two full blocks and a part of a third.
			expect(t, ask(t, "POST", url+tt.path, three).body, tt.cached, 32)
			// 182 + 8 + 8 + 160 + 1 + 13 = 372 bytes: five full blocks, 93 tokens.
			expect(t, ask(t, "POST", url+tt.path, three).body, tt.cached, 80, tt.input, tt.tokens)
		})
	}
}

func TestConversation(t *testing.T) {
	tests := []struct{ name, tools, messages, want string }{
		{"text", ``, `[{"role":"user","content":"a <b>"}]`, "<|user|>a <b>\n<|assistant|>"},
		{"turns", `null`, `[{"role":"system","content":"s"},{"role":"user","content":"u"}]`, "<|system|>s\n<|user|>u\n<|assistant|>"},
		{"tools", `[{"type":"function"}]`, `[{"role":"user","content":"u"}]`, `[{"type":"function"}]` + "<|user|>u\n<|assistant|>"},
		{"text parts", ``, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_text","text":"b"}]}]`, "<|user|>ab\n<|assistant|>"},
		{"other parts", ``, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},1]}]`, "<|user|>a" + `{"type":"image_url"}1` + "\n<|assistant|>"},
		{"null with a call", ``, `[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}]`, "<|assistant|>" + `[{"id":"1"}]` + "\n<|assistant|>"},
		{"neither", ``, `[{"role":"assistant","tool_calls":null}]`, "<|assistant|>\n<|assistant|>"},
		{"odd content", ``, `[{"role":"user","content":{"x":1}}]`, "<|user|>" + `{"x":1}` + "\n<|assistant|>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var turns []turn
			if err := json.Unmarshal([]byte(tt.messages), &turns); err != nil {
				t.Fatal(err)
			}
			if got := string(conversation(json.RawMessage(tt.tools), turns)); got != tt.want {
				t.Errorf("the text is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCompletions(t *testing.T) {
	_, url := start(t, Config{OutputTokens: 3})
	tests := []struct {
		name, fields string
		choices      int
		prompt       int // tokens
	}{
		{"text", `"prompt":"four four"`, 1, 3},
		{"empty text", `"prompt":""`, 1, 0},
		{"list", `"prompt":["a","b"]`, 2, 2},
		{"ids", `"prompt":[1,2,3]`, 1, 3},
		{"lists of ids", `"prompt":[[1,2],[3]]`, 2, 3},
		{"n", `"prompt":"a","n":3`, 3, 1},
		{"n of a list", `"prompt":["a","b"],"n":2`, 4, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := ask(t, "POST", url+"/v1/completions", `{`+tt.fields+`}`)
			expect(t, whole.body, "object", "text_completion", "usage.prompt_tokens", tt.prompt, "usage.completion_tokens", 3*tt.choices)
			want := make([]string, tt.choices)
			for i := range want {
				expect(t, whole.body, fmt.Sprintf("choices.%d.index", i), i, fmt.Sprintf("choices.%d.finish_reason", i), "stop")
				want[i] = fmt.Sprint(at(t, whole.body, fmt.Sprintf("choices.%d.text", i)))
			}
			if sorted := slices.Sorted(slices.Values(want)); len(slices.Compact(sorted)) != tt.choices {
				t.Errorf("answers %q repeat themselves", want)
			}

			stream := ask(t, "POST", url+"/v1/completions", `{"stream":true,`+tt.fields+`}`)
			events := parseEvents(t, stream.body)
			if got, want := string(events[len(events)-1].data), "[DONE]"; got != want {
				t.Errorf("the last event is %q, want %q", got, want)
			}
			got := make([]string, tt.choices)
			reasons := 0
			for _, e := range events[:len(events)-1] {
				got[int(at(t, e.data, "choices.0.index").(float64))] += at(t, e.data, "choices.0.text").(string)
				if at(t, e.data, "choices.0.finish_reason") == "stop" {
					reasons++
				}
			}
			if !slices.Equal(got, want) || reasons != tt.choices {
				t.Errorf("the stream says %q with %d reasons, want %q with %d", got, reasons, want, tt.choices)
			}
		})
	}
}

func TestAnswersDependOnPromptAndSeed(t *testing.T) {
	say := func(seed uint64, prompt string) string {
		_, url := start(t, Config{Seed: seed})
		return fmt.Sprint(at(t, ask(t, "POST", url+"/v1/completions", fmt.Sprintf(`{"prompt":%q}`, prompt)).body, "choices.0.text"))
	}
	first := say(1, "a")
	if got := say(1, "a"); got != first {
		t.Errorf("the same prompt and seed say %q, want %q", got, first)
	}
	if got := say(2, "a"); got == first {
		t.Errorf("another seed says the same")
	}
	if got := say(1, "b"); got == first {
		t.Errorf("another prompt says the same")
	}
	for s := range strings.SplitSeq(first, ". ") {
		if n := len(strings.Fields(s)); (n != 12 && n != 4) || s[:1] != strings.ToUpper(s[:1]) {
			t.Errorf("%q is not a sentence of 12 words, or the 4 that remain of 64", s)
		}
	}
}

func TestResponses(t *testing.T) {
	_, url := start(t, Config{OutputTokens: 3})
	tests := []struct{ name, fields, status string }{
		{"by itself", ``, "completed"},
		{"cut", `"max_output_tokens":2,`, "incomplete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := ask(t, "POST", url+"/v1/responses", `{"instructions":"be kind",`+tt.fields+`"input":"hello"}`)
			text := at(t, whole.body, "output.0.content.0.text").(string)
			n := len(strings.Fields(text))
			expect(t, whole.body, "object", "response", "status", tt.status, "output.0.role", "assistant", "usage.output_tokens", n)

			events := parseEvents(t, ask(t, "POST", url+"/v1/responses", `{"stream":true,"instructions":"be kind",`+tt.fields+`"input":"hello"}`).body)
			want := []string{"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"}
			want = append(want, slices.Repeat([]string{"response.output_text.delta"}, n)...)
			want = append(want, "response.output_text.done", "response.content_part.done", "response.output_item.done", "response."+tt.status)
			var names []string
			said := ""
			for i, e := range events {
				names = append(names, e.name)
				expect(t, e.data, "type", e.name, "sequence_number", i)
				if delta, ok := at(t, e.data, "delta").(string); ok {
					said += delta
				}
			}
			if !slices.Equal(names, want) || said != text {
				t.Errorf("events %q say %q, want %q and %q", names, said, want, text)
			}
			expect(t, events[len(events)-1].data, "response.output.0.content.0.text", text, "response.status", tt.status)
		})
	}
}

func TestMessages(t *testing.T) {
	_, url := start(t, Config{OutputTokens: 3})
	tests := []struct{ name, fields, reason string }{
		{"by itself", `"max_tokens":100,`, "end_turn"},
		{"cut", `"max_tokens":2,`, "max_tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := ask(t, "POST", url+"/v1/messages", `{"system":"be kind",`+tt.fields+hello+`}`)
			text := at(t, whole.body, "content.0.text").(string)
			n := len(strings.Fields(text))
			expect(t, whole.body, "type", "message", "role", "assistant", "stop_reason", tt.reason, "usage.output_tokens", n)

			events := parseEvents(t, ask(t, "POST", url+"/v1/messages", `{"stream":true,"system":"be kind",`+tt.fields+hello+`}`).body)
			want := append([]string{"message_start", "content_block_start"}, slices.Repeat([]string{"content_block_delta"}, n)...)
			want = append(want, "content_block_stop", "message_delta", "message_stop")
			var names []string
			said := ""
			for _, e := range events {
				names = append(names, e.name)
				expect(t, e.data, "type", e.name)
				if delta, ok := at(t, e.data, "delta.text").(string); ok {
					said += delta
				}
			}
			if !slices.Equal(names, want) || said != text {
				t.Errorf("events %q say %q, want %q and %q", names, said, want, text)
			}
			expect(t, events[0].data, "message.usage.output_tokens", 0, "message.stop_reason", nil)
			expect(t, events[len(events)-2].data, "delta.stop_reason", tt.reason, "usage.output_tokens", n)
		})
	}
}

func TestEmbeddings(t *testing.T) {
	_, url := start(t, Config{})
	list := ask(t, "POST", url+"/v1/embeddings", `{"input":["a","b","a"]}`)
	expect(t, list.body, "object", "list", "data.2.index", 2, "usage.prompt_tokens", 3)
	vector := at(t, list.body, "data.0.embedding").([]any)
	if len(vector) != dimensions || fmt.Sprint(vector) != fmt.Sprint(at(t, list.body, "data.2.embedding")) || fmt.Sprint(vector) == fmt.Sprint(at(t, list.body, "data.1.embedding")) {
		t.Errorf("%d dimensions, want %d, the first and last equal, the second not: %s", len(vector), dimensions, list.body)
	}
	square := 0.0
	for _, x := range vector {
		square += x.(float64) * x.(float64)
	}
	if square < 0.999 || square > 1.001 {
		t.Errorf("the vector's length is the root of %v, want 1", square)
	}
	coded := ask(t, "POST", url+"/v1/embeddings", `{"input":"a","encoding_format":"base64"}`)
	var floats []float32
	raw, _ := json.Marshal(vector)
	if err := json.Unmarshal(raw, &floats); err != nil {
		t.Fatal(err)
	}
	expect(t, coded.body, "data.0.embedding", packed(floats))
}

func TestRerank(t *testing.T) {
	_, url := start(t, Config{})
	body := `{"query":"red fox","documents":["a cow","a red fox","a red cow"],"top_n":2}`
	for _, path := range []string{"/v1/rerank", "/rerank"} {
		got := ask(t, "POST", url+path, body)
		if all := ask(t, "POST", url+path, strings.Replace(body, "2}", "9}", 1)); all.status != 200 {
			t.Errorf("top_n above the number of documents: status %d, want 200", all.status)
		}
		expect(t, got.body, "results.0.index", 1, "results.0.relevance_score", 1, "results.0.document.text", "a red fox",
			"results.1.index", 2, "results.1.relevance_score", 0.5, "results.2", nil)
	}
}

func TestTokenizer(t *testing.T) {
	_, url := start(t, Config{})
	got := ask(t, "POST", url+"/tokenize", `{"prompt":"hello there"}`)
	expect(t, got.body, "count", 3, "token_strs", nil, "max_model_len", float64(maxModelLen))
	ids, _ := json.Marshal(at(t, got.body, "tokens"))
	expect(t, ask(t, "POST", url+"/detokenize", fmt.Sprintf(`{"tokens":%s}`, ids)).body, "prompt", "hello there")

	chat := ask(t, "POST", url+"/tokenize", `{`+hello+`}`)
	expect(t, chat.body, "count", at(t, ask(t, "POST", url+"/v1/chat/completions", `{`+hello+`}`).body, "usage.prompt_tokens"))
}
