package pd

import (
	"bytes"
	"strings"
	"testing"
)

// TestB40UsageOfThePrefillWorker: the decode worker has every token of the prompt
// in its cache, since all were just transferred, so what it says was cached is
// the whole prompt. See vllm-project/router#193.
func TestB40UsageOfThePrefillWorker(t *testing.T) {
	const stream = "data: {\"usage\":{\"prompt_tokens\":14,\"total_tokens\":17,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":14}}}\n\n"
	for _, tt := range []struct{ name, reply, want string }{
		{"nothing cached", `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":0}}}`, strings.Replace(stream, `:14}}`, `:0}}`, 1)},
		{"not said", `{"usage":{"prompt_tokens":14}}`, strings.Replace(stream, `"cached_tokens":14`, ``, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadReply([]byte(tt.reply))
			if err != nil {
				t.Fatal(err)
			}
			checkEventsCuts(t, Chat, &r, stream, tt.want)
		})
	}
}

// TestB42LegsAreApart: what one request needs must not reach the other. See
// sgl-project/sglang#10766 and vllm-project/router#46.
func TestB42LegsAreApart(t *testing.T) {
	body := []byte(`{"model":"m","messages":[],"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":64,"max_tokens":32,"min_tokens":8,"kv_transfer_params":{"remote_host":"evil"}}`)
	own := bytes.Clone(body)
	prefill, _ := AppendPrefill(nil, body, Chat, testPair(NIXL).AppendPrefillKV(nil))
	decode, _ := AppendDecode(nil, body, Chat, []byte(testKV))
	if want := `{"model":"m","messages":[],"logprobs":true,"top_logprobs":2,"stream":false,"max_completion_tokens":1,"max_tokens":1,"min_tokens":1,"kv_transfer_params":` + string(testPair(NIXL).AppendPrefillKV(nil)) + `}`; string(prefill) != want {
		t.Errorf("prefill request %s, want %s", prefill, want)
	}
	if want := strings.Replace(string(own), `{"remote_host":"evil"}`, testKV, 1); string(decode) != want {
		t.Errorf("decode request %s, want %s", decode, want)
	}
	if !bytes.Equal(body, own) {
		t.Errorf("the client's body has become %s", body)
	}
}

// TestB47NothingIsResumed: neither the prefill worker's token nor text that was
// sent reaches a decode request, so a grammar begins at its root once; a stream
// that breaks off stays broken off. See ai-dynamo/dynamo#7930.
func TestB47NothingIsResumed(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"x"}],"n":2,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},"stream":true}`)
	r, err := ReadReply([]byte(`{"choices":[{"message":{"content":"{"},"token_ids":[90]}],"kv_transfer_params":{"k":[1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for range 2 { // another attempt, with another id
		p := testPair(NIXL)
		p.ID = NewID()
		kv, _ := p.AppendDecodeKV(nil, &r)
		decode, _ := AppendDecode(nil, body, Chat, kv)
		if want := string(body[:len(body)-1]) + `,"kv_transfer_params":{"k":[1]}}`; string(decode) != want {
			t.Errorf("decode request %s, want %s", decode, want)
		}
		if first != nil && !bytes.Equal(decode, first) {
			t.Errorf("another attempt's decode request is %s, want %s", decode, first)
		}
		first = decode
	}
	const broken = "data: {\"choices\":[{\"delta\":{\"content\":\"{\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"con"
	checkEventsCuts(t, Chat, &r, broken, broken)
}
