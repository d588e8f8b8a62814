package pd

import (
	"strings"
	"testing"
)

const testKV = `{"k":[1]}`

func TestAppendPrefill(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind Kind
		body string
		want string
	}{
		{"bare", Chat, `{"model":"m"}`, `{"model":"m","max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"empty", Completions, `{}`, `{"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"members keep their place", Chat, `{"stream":true,"min_tokens":4,"model":"m","max_tokens":9}`, `{"stream":false,"min_tokens":1,"model":"m","max_tokens":1,"kv_transfer_params":KV}`},
		{"max_completion_tokens", Chat, `{"model":"m","messages":[],"max_completion_tokens":32,"min_tokens":4}`, `{"model":"m","messages":[],"max_completion_tokens":1,"min_tokens":1,"max_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"stream options", Chat, `{"stream":true, "stream_options":{"include_usage":true}, "max_tokens":null}`, `{"stream":false, "max_tokens":1,"min_tokens":1,"kv_transfer_params":KV}`},
		{"choices", Completions, `{"n":3,"best_of":4,"x":{"n":3,"best_of":4}}`, `{"n":1,"x":{"n":3,"best_of":4},"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"what samples stays", Chat, `{"seed":9007199254740993,"temperature":1.50,"stop":["x"],"echo":true,"logprobs":1,"top_logprobs":2,"prompt_logprobs":3,"tools":[],"tool_choice":"auto","response_format":{"type":"json_object"}}`, `{"seed":9007199254740993,"temperature":1.50,"stop":["x"],"echo":true,"logprobs":1,"top_logprobs":2,"prompt_logprobs":3,"tools":[],"tool_choice":"auto","response_format":{"type":"json_object"},"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"the client's transfer parameters", Chat, `{"kv_transfer_params":{"remote_engine_id":"theirs"},"m":1,"kv_\u0074ransfer_params":2}`, `{"kv_transfer_params":KV,"m":1,"max_tokens":1,"min_tokens":1,"stream":false}`},
		{"the client's transfer parameters among arguments", Chat, `{"vllm_xargs":{"kv_transfer_params":{},"a":1},"extra_args":{"kv_transfer_params":1}}`, `{"vllm_xargs":{"a":1},"extra_args":{},"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"generate", Generate, `{"prompt":"x","n":2}`, `{"prompt":"x","n":1,"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"messages", Messages, `{"max_tokens":9}`, `{"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"responses", Responses, `{"input":"x","n":2}`, `{"input":"x","n":2,"max_output_tokens":1,"stream":false,"kv_transfer_params":KV}`},
		{"responses with a limit", Responses, `{"max_output_tokens":40,"max_tokens":7,"stream":true,"stream_options":{},"vllm_xargs":{"kv_transfer_params":1}}`, `{"max_output_tokens":1,"max_tokens":7,"stream":false,"vllm_xargs":{},"kv_transfer_params":KV}`},
		{"token ids", TokensIn, `{"token_ids":[7],"sampling_params":{"min_tokens":3,"max_tokens":24,"n":2,"best_of":2,"temperature":0.50},"max_tokens":5}`, `{"token_ids":[7],"sampling_params":{"min_tokens":1,"max_tokens":1,"n":1,"temperature":0.50},"max_tokens":5,"stream":false,"kv_transfer_params":KV}`},
		{"token ids without parameters", TokensIn, `{"token_ids":[7]}`, `{"token_ids":[7],"sampling_params":{"max_tokens":1,"min_tokens":1},"stream":false,"kv_transfer_params":KV}`},
		{"token ids with null parameters", TokensIn, `{"sampling_params":null}`, `{"sampling_params":{"max_tokens":1,"min_tokens":1},"stream":false,"kv_transfer_params":KV}`},
		{"token ids with parameters of another type", TokensIn, `{"sampling_params":[1]}`, `{"sampling_params":[1],"stream":false,"kv_transfer_params":KV}`},
		{"token ids with transfer parameters inside", TokensIn, `{"sampling_params":{"extra_args":{"a":1,"kv_transfer_params":{}}}}`, `{"sampling_params":{"extra_args":{"a":1},"max_tokens":1,"min_tokens":1},"stream":false,"kv_transfer_params":KV}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := AppendPrefill([]byte("before"), []byte(tt.body), tt.kind, []byte(testKV))
			if want := "before" + strings.ReplaceAll(tt.want, "KV", testKV); string(got) != want || !ok {
				t.Errorf("got  %s, %v\nwant %s", got, ok, want)
			}
			rescue, ok := AppendRescue([]byte("before"), []byte(tt.body), tt.kind, []byte(testKV))
			if string(rescue) != string(got) || !ok {
				t.Errorf("a rescue is %s, %v, want %s", rescue, ok, got)
			}
		})
	}
}

func TestAppendDecode(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind Kind
		body string
		kv   string
		want string
	}{
		{"the client's own", Chat, ` {"stream":true,"max_tokens":9, "n":2,"stream_options":{"include_usage":true} }`, testKV, ` {"stream":true,"max_tokens":9, "n":2,"stream_options":{"include_usage":true},"kv_transfer_params":{"k":[1]} }`},
		{"without transfer parameters", Chat, `{"max_tokens":9}`, "", `{"max_tokens":9}`},
		{"the client's transfer parameters replaced", Chat, `{"kv_transfer_params":1,"a":2,"kv_transfer_params":3}`, testKV, `{"kv_transfer_params":{"k":[1]},"a":2}`},
		{"the client's transfer parameters removed", Chat, `{"kv_transfer_params":1,"a":2,"kv_transfer_params":3}`, "", `{"a":2}`},
		{"among arguments", Completions, `{"extra_args":{"kv_transfer_params":1},"vllm_xargs":{"a":1,"kv_transfer_params":2}}`, "", `{"extra_args":{},"vllm_xargs":{"a":1}}`},
		{"responses", Responses, `{"vllm_xargs":{"kv_transfer_params":2},"max_output_tokens":4}`, testKV, `{"vllm_xargs":{},"max_output_tokens":4,"kv_transfer_params":{"k":[1]}}`},
		{"token ids", TokensIn, `{"sampling_params":{"max_tokens":9,"extra_args":{"kv_transfer_params":2}}}`, testKV, `{"sampling_params":{"max_tokens":9,"extra_args":{}},"kv_transfer_params":{"k":[1]}}`},
		{"arguments of another type", Chat, `{"vllm_xargs":null,"extra_args":["kv_transfer_params"]}`, "", `{"vllm_xargs":null,"extra_args":["kv_transfer_params"]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := AppendDecode([]byte("before"), []byte(tt.body), tt.kind, []byte(tt.kv))
			if want := "before" + tt.want; string(got) != want || !ok {
				t.Errorf("got  %s, %v\nwant %s", got, ok, want)
			}
		})
	}
}

func TestBodiesThatAreNoObjects(t *testing.T) {
	for _, body := range []string{"", "null", "[]", `"{}"`, `{"a":1`, `{"a":1}}`, `{"a":}`} {
		for kind := range TokensIn + 1 {
			if got, ok := AppendPrefill(nil, []byte(body), kind, []byte(testKV)); ok || len(got) > 0 {
				t.Errorf("%q of kind %d makes the prefill request %q", body, kind, got)
			}
			if got, ok := AppendDecode(nil, []byte(body), kind, nil); ok || len(got) > 0 {
				t.Errorf("%q of kind %d makes the decode request %q", body, kind, got)
			}
			if q, ok := ReadRequest([]byte(body), kind); ok || q != (Request{}) {
				t.Errorf("%q of kind %d is read as %+v", body, kind, q)
			}
		}
	}
}

func TestKindOf(t *testing.T) {
	for path, want := range map[string]Kind{
		"/v1/chat/completions":   Chat,
		"/v1/completions":        Completions,
		"/v1/responses":          Responses,
		"/v1/messages":           Messages,
		"/generate":              Generate,
		"/inference/v1/generate": TokensIn,
		"/v1/embeddings":         Unsplit,
		"/tokenize":              Unsplit,
		"/v1/responses/resp_1":   Unsplit,
		"/v1/completions/":       Unsplit,
		"":                       Unsplit,
	} {
		if got := KindOf([]byte(path)); got != want {
			t.Errorf("%q is of kind %d, want %d", path, got, want)
		}
	}
}
