package continuation

import (
	"encoding/json"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  Kind
		body  string
		want  Refusal
		limit uint64
	}{
		{"completion", Completions, `{"prompt":"a","max_tokens":5}`, None, 5},
		{"completion without a limit", Completions, `{"prompt":"a"}`, Limit, 0},
		{"completion whose limit is null", Completions, `{"prompt":"a","max_tokens":null}`, None, 0},
		{"no prompt", Completions, `{"max_tokens":5}`, Prompt, 0},
		{"several prompts", Completions, `{"prompt":["a","b"],"max_tokens":5}`, Prompt, 0},
		{"token ids", Completions, `{"prompt":[1,2],"max_tokens":5}`, Prompt, 0},
		{"a prompt and another", Completions, `{"prompt":"a","prompt":[1],"max_tokens":5}`, Prompt, 0},
		{"escaped name", Completions, `{"pr\u006fmpt":"a","max_tokens":5,"ech\u006f":true}`, Echo, 0},
		{"echo", Completions, `{"prompt":"a","max_tokens":5,"echo":true}`, Echo, 0},
		{"no echo", Completions, `{"prompt":"a","max_tokens":5,"echo":false}`, None, 5},
		{"suffix", Completions, `{"prompt":"a","max_tokens":5,"suffix":"b"}`, Echo, 0},
		{"best_of", Completions, `{"prompt":"a","max_tokens":5,"best_of":2}`, Choices, 0},
		{"logprobs 0", Completions, `{"prompt":"a","max_tokens":5,"logprobs":0}`, Logprobs, 0},
		{"prompt_logprobs", Completions, `{"prompt":"a","max_tokens":5,"prompt_logprobs":1}`, Logprobs, 0},
		{"a limit that is no count", Completions, `{"prompt":"a","max_tokens":-1}`, Limit, 0},
		{"a limit in another form", Completions, `{"prompt":"a","max_tokens":1e2}`, Limit, 0},
		{"min_tokens that is no count", Completions, `{"prompt":"a","max_tokens":5,"min_tokens":"x"}`, Limit, 0},
		{"embeddings", Completions, `{"prompt":"","prompt_embeds":"x","max_tokens":5}`, Tokens, 0},
		{"blocks of another worker", Completions, `{"prompt":"","kv_transfer_params":{"a":1},"max_tokens":5}`, Tokens, 0},
		{"chat", Chat, `{"messages":[{"role":"user","content":"a"}]}`, None, 0},
		{"the lesser of two limits", Chat, `{"messages":[{}],"max_tokens":9,"max_completion_tokens":4}`, None, 4},
		{"no messages", Chat, `{"model":"m"}`, Messages, 0},
		{"empty messages", Chat, `{"messages":[]}`, Messages, 0},
		{"messages that are none", Chat, `{"messages":"a"}`, Messages, 0},
		{"a message that is none", Chat, `{"messages":["a"]}`, Messages, 0},
		{"tools", Chat, `{"messages":[{}],"tools":[{"type":"function"}]}`, Tools, 0},
		{"no tools", Chat, `{"messages":[{}],"tools":[],"tool_choice":null}`, None, 0},
		{"tool_choice", Chat, `{"messages":[{}],"tool_choice":"auto"}`, Tools, 0},
		{"functions", Chat, `{"messages":[{}],"functions":[{}]}`, Tools, 0},
		{"function_call", Chat, `{"messages":[{}],"function_call":"auto"}`, Tools, 0},
		{"JSON", Chat, `{"messages":[{}],"response_format":{"type":"json_object"}}`, Guided, 0},
		{"text", Chat, `{"messages":[{}],"response_format":{"type":"text"}}`, None, 0},
		{"structured outputs", Chat, `{"messages":[{}],"structured_outputs":{"regex":"a"}}`, Guided, 0},
		{"guided", Chat, `{"messages":[{}],"guided_choice":["a"]}`, Guided, 0},
		{"not guided", Chat, `{"messages":[{}],"guided_choice":null}`, None, 0},
		{"grammar", Chat, `{"messages":[{}],"grammar":"a"}`, Guided, 0},
		{"n", Chat, `{"messages":[{}],"n":2}`, Choices, 0},
		{"n of 1", Chat, `{"messages":[{}],"n":1}`, None, 0},
		{"beams", Chat, `{"messages":[{}],"use_beam_search":true}`, Choices, 0},
		{"logprobs", Chat, `{"messages":[{}],"logprobs":true}`, Logprobs, 0},
		{"no logprobs", Chat, `{"messages":[{}],"logprobs":false,"top_logprobs":0}`, None, 0},
		{"top_logprobs", Chat, `{"messages":[{}],"top_logprobs":2}`, Logprobs, 0},
		{"token ids wanted", Chat, `{"messages":[{}],"return_token_ids":true}`, Tokens, 0},
		{"seed, stop and what is not known", Chat, `{"messages":[{}],"seed":1,"stop":["a"],"x":{"tools":[1]}}`, None, 0},
		{"continued by the client", Chat, `{"messages":[{"role":"assistant","content":"a"}],"continue_final_message":true,"add_generation_prompt":false}`, None, 0},
		{"parts continued by the client", Chat, `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]}],"continue_final_message":true}`, Messages, 0},
		{"a user continued", Chat, `{"messages":[{"role":"user","content":"a"}],"continue_final_message":true}`, Messages, 0},
		{"nobody's turn", Chat, `{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}`, Messages, 0},
		{"cut", Chat, `{"messages":[{}],"a":`, Unreadable, 0},
		{"no object", Chat, `[]`, Unreadable, 0},
		{"more behind", Chat, `{"messages":[{}]} x`, Unreadable, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, why := Check(tc.kind, []byte(tc.body))
			if why != tc.want || why == None && r.Limit != tc.limit {
				t.Errorf("Check = limit %d, %q; want %d, %q", r.Limit, why, tc.limit, tc.want)
			}
		})
	}
}

func TestAppendBody(t *testing.T) {
	for _, tc := range []struct {
		name       string
		kind       Kind
		body, text string
		tokens     uint64
		want       string
	}{
		{"nothing generated", Chat, ` { "messages":[{}] } `, "", 0, ` { "messages":[{}] } `},
		{"prompt", Completions, `{"prompt" : "a\n", "max_tokens":10, "x":1.0}`, `b\"`, 3, `{"prompt" : "a\nb\"", "max_tokens":7, "x":1.0}`},
		{"prompts of the same name", Completions, `{"prompt":"a","max_tokens":3,"prompt":"b"}`, "c", 1, `{"prompt":"ac","max_tokens":2,"prompt":"bc"}`},
		{"halves of a pair", Completions, `{"prompt":"\ud83d","max_tokens":3}`, `\ude00`, 1, `{"prompt":"\ud83d\ude00","max_tokens":2}`},
		{"min_tokens", Completions, `{"prompt":"a","max_tokens":10,"min_tokens":2}`, "b", 3, `{"prompt":"ab","max_tokens":7,"min_tokens":0}`},
		{"limit that is null", Completions, `{"prompt":"a","max_tokens":null}`, "b", 3, `{"prompt":"ab","max_tokens":null}`},
		{"more than the limit", Completions, `{"prompt":"a","max_tokens":2}`, "b", 3, `{"prompt":"ab","max_tokens":1}`},
		{
			"messages", Chat, `{"messages":[{"role":"user","content":"a"} ],"max_tokens":9}`, `b\"`, 1,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b\""} ],"max_tokens":8,"continue_final_message":true,"add_generation_prompt":false}`,
		},
		{
			"an assistant's turn before", Chat, `{"messages":[{"role":"assistant","content":"a"}],"continue_final_message":false,"add_generation_prompt":true}`, "b", 1,
			`{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}],"continue_final_message":true,"add_generation_prompt":false}`,
		},
		{
			"an assistant's turn continued", Chat, `{"messages":[{}, { "content":"a","role":"assistant"} ],"continue_final_message":true}`, "b", 1,
			`{"messages":[{}, { "content":"ab","role":"assistant"} ],"continue_final_message":true,"add_generation_prompt":false}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, why := Check(tc.kind, []byte(tc.body))
			if why != None {
				t.Fatalf("refused: %s", why)
			}
			got, ok := r.AppendBody([]byte("x"), []byte(tc.body), []byte(tc.text), tc.tokens)
			if string(got) != "x"+tc.want || !ok {
				t.Errorf("AppendBody = %s, %v; want x%s", got, ok, tc.want)
			}
		})
	}
}

// FuzzAppendBody: what is made of a body that is taken is JSON that says the same,
// but for the text and the limits.
func FuzzAppendBody(f *testing.F) {
	f.Add(`{"prompt":"a","max_tokens":10,"min_tokens":4,"x":[1,{"a":"}"}]}`, "b\"\n", uint8(3), false)
	f.Add(`{"messages":[{"role":"user","content":"a"}],"n":1}`, "πb", uint8(3), true)
	f.Add(`{"messages":[{},{"role":"assistant","content":"a"}],"continue_final_message":true}`, "b", uint8(3), true)
	f.Add(` {"messages":[{}] ,"max_completion_tokens": 7 } `, "", uint8(0), true)
	f.Fuzz(func(t *testing.T, body, text string, tokens uint8, chat bool) {
		kind := Completions
		if chat {
			kind = Chat
		}
		r, why := Check(kind, []byte(body))
		var old map[string]any
		if why != None || json.Unmarshal([]byte(body), &old) != nil {
			return
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := r.AppendBody(nil, []byte(body), quoted[1:len(quoted)-1], uint64(tokens))
		var m map[string]any
		if err := json.Unmarshal(got, &m); err != nil || !ok {
			t.Fatalf("AppendBody of %s = %s, %v: %v", body, got, ok, err)
		}
		if err := json.Unmarshal(quoted, &text); err != nil { // with what is no UTF-8 replaced
			t.Fatal(err)
		}
		if want := slowBody(old, r, text, float64(tokens)); !equalJSON(t, m, want) {
			t.Errorf("AppendBody of %s with %q after %d tokens = %s", body, text, tokens, got)
		}
	})
}

// slowBody is the obvious way to make the body for the rest.
func slowBody(m map[string]any, r Request, text string, tokens float64) map[string]any {
	if text == "" {
		return m
	}
	for name, least := range map[string]float64{"max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 0} {
		if n, ok := m[name].(float64); ok {
			m[name] = max(n-tokens, least)
		}
	}
	if r.Kind == Completions {
		m["prompt"] = m["prompt"].(string) + text
		return m
	}
	messages := m["messages"].([]any)
	if last, _ := messages[len(messages)-1].(map[string]any); m["continue_final_message"] == true {
		last["content"] = last["content"].(string) + text
	} else {
		m["messages"] = append(messages, map[string]any{"role": "assistant", "content": text})
	}
	m["continue_final_message"], m["add_generation_prompt"] = true, false
	return m
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}
