package pd

import "testing"

func TestReadRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind Kind
		body string
		want Request
	}{
		{"bare", Chat, `{"messages":[]}`, Request{}},
		{"stream", Chat, `{"stream":true}`, Request{Stream: true}},
		{"stream is not a literal", Chat, `{"stream":"true"}`, Request{}},
		{"the last stream counts", Chat, `{"stream":true,"stream":false}`, Request{}},

		{"one prompt", Completions, `{"prompt":"x"}`, Request{}},
		{"no prompt", Completions, `{"prompt":null}`, Request{}},
		{"prompts in an empty list", Completions, `{"prompt":[]}`, Request{}},
		{"one prompt in a list", Completions, `{"prompt":["x"]}`, Request{}},
		{"two prompts", Completions, `{"prompt":[ "x" , "y"]}`, Request{Whole: true}},
		{"one prompt of tokens", Completions, `{"prompt":[1,2,3]}`, Request{}},
		{"one prompt of tokens in a list", Completions, `{"prompt":[[1,2,3]]}`, Request{}},
		{"two prompts of tokens", Completions, `{"prompt":[[1],[2]]}`, Request{Whole: true}},
		{"two prompts of embeddings", Completions, `{"prompt_embeds":["x","y"]}`, Request{Whole: true}},
		{"a prompt and embeddings", Completions, `{"prompt":"x","prompt_embeds":"y"}`, Request{Whole: true}},
		{"a stream of prompts", Completions, `{"prompt":["x","y"],"stream":true}`, Request{Whole: true, Stream: true}},
		{"texts", Generate, `{"text":["x","y"]}`, Request{Whole: true}},
		{"one list of input ids", Generate, `{"input_ids":[1,2]}`, Request{}},
		{"lists of input ids", Generate, `{"input_ids":[[1],[2]]}`, Request{Whole: true}},
		{"a chat has no prompts", Chat, `{"prompt":["x","y"]}`, Request{}},

		{"in the background", Responses, `{"background":true}`, Request{Whole: true}},
		{"not in the background", Responses, `{"background":false,"logprobs":1,"echo":true}`, Request{}},

		{"logprobs", Completions, `{"logprobs":1}`, Request{}},
		{"echo", Completions, `{"echo":true}`, Request{}},
		{"echo with logprobs", Completions, `{"echo":true,"logprobs":1}`, Request{Merge: true, Echo: true}},
		{"echo with logprobs of nothing else", Completions, `{"echo":true,"logprobs":0}`, Request{Merge: true, Echo: true}},
		{"echo with logprobs as a stream", Completions, `{"echo":true,"logprobs":1,"stream":true}`, Request{Stream: true, Echo: true}},
		{"echo without logprobs", Completions, `{"echo":true,"logprobs":null}`, Request{}},
		{"no echo", Completions, `{"echo":false,"logprobs":1}`, Request{}},
		{"prompt logprobs", Completions, `{"prompt_logprobs":1}`, Request{Merge: true}},
		{"prompt logprobs of nothing else", Chat, `{"prompt_logprobs":0}`, Request{Merge: true}},
		{"prompt logprobs as a stream", Chat, `{"prompt_logprobs":1,"stream":true}`, Request{Stream: true}},
		{"no prompt logprobs", Chat, `{"prompt_logprobs":null,"logprobs":true}`, Request{}},
		{"prompt logprobs of token ids", TokensIn, `{"sampling_params":{"prompt_logprobs":1}}`, Request{Merge: true}},
		{"prompt logprobs beside token ids", TokensIn, `{"prompt_logprobs":1}`, Request{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := ReadRequest([]byte(tt.body), tt.kind); got != tt.want || !ok {
				t.Errorf("got %+v, %v, want %+v", got, ok, tt.want)
			}
		})
	}
}
