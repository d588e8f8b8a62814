package pd

import (
	"strings"
	"testing"
)

// usageCases are answers with their usage put right, the same whether they come
// whole, in pieces or as an event.
var usageCases = []struct {
	name          string
	kind          Kind
	reply         string // the prefill worker's
	decode, right string // the decode worker's answer and what it becomes
}{
	{"cached tokens", Chat, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":8}}}`, `{"id":"x","usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":13}}}`, `{"id":"x","usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`},
	{"no cached tokens is a number too", Completions, `{"usage":{"prompt_tokens_details":{"cached_tokens":0}}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":0}}}`},
	{"cached tokens unknown", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":13,"audio_tokens":2}}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"audio_tokens":2}}}`},
	{"cached tokens unknown leave an empty object", Chat, `{}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"cached tokens below zero", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":-1}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"cached tokens null", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"cached tokens a fraction", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":8.0}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"cached tokens a string", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":"8"}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"details null", Chat, `{"usage":{"prompt_tokens_details":null}}`, `{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens":3,"prompt_tokens_details":{}}}`},
	{"details created", Chat, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":8}}}`, `{"usage":{"prompt_tokens":14,"completion_tokens":3}}`, `{"usage":{"prompt_tokens":14,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`},
	{"details created for null", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":8}}}`, `{"usage":{"prompt_tokens_details":null,"prompt_tokens":14}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":8},"prompt_tokens":14}}`},
	{"details not created for nothing", Chat, `{"usage":{"prompt_tokens_details":{"audio_tokens":null}}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":null}}`, `{"usage":{"prompt_tokens":14,"prompt_tokens_details":null}}`},
	{"details of another type", Chat, `{"usage":{"prompt_tokens_details":{"cached_tokens":8}}}`, `{"usage":{"prompt_tokens_details":7}}`, `{"usage":{"prompt_tokens_details":7}}`},
	{"details of both", Chat, `{"usage":{"prompt_tokens_details":{"image_tokens":5,"cached_tokens":8,"audio_tokens":1}}}`, `{"usage":{"prompt_tokens_details":{"audio_tokens":2,"cached_tokens":13,"own":4}}}`, `{"usage":{"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":8,"own":4,"image_tokens":5}}}`},
	{"details too long", Chat, `{"usage":{"prompt_tokens_details":{"x":"` + strings.Repeat("y", maxDetail) + `","z":1}}}`, `{"usage":{"prompt_tokens_details":{}}}`, `{"usage":{"prompt_tokens_details":{"z":1}}}`},
	{"details under names that are not plain", Chat, `{"usage":{"prompt_tokens_details":{"cached\u005ftokens":7,"` + strings.Repeat("n", 65) + `":1}}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens_details":{}}}`},
	{"prompt tokens", Chat, `{"usage":{"prompt_tokens":20}}`, `{"usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3}}`, `{"usage":{"prompt_tokens":20,"total_tokens":23,"completion_tokens":3}}`},
	{"total is put right", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens":14,"total_tokens":99,"completion_tokens":3}}`, `{"usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3}}`},
	{"total isn't invented", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens":13,"completion_tokens":3}}`, `{"usage":{"prompt_tokens":14,"completion_tokens":3}}`},
	{"total without output stays", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens":13,"total_tokens":16}}`, `{"usage":{"prompt_tokens":14,"total_tokens":16}}`},
	{"other names in the reply", Chat, `{"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":8}}}`, `{"usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"prompt_tokens":14,"total_tokens":17,"completion_tokens":3,"prompt_tokens_details":{}}}`},
	{"responses", Responses, `{"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":4},"output_tokens":1,"total_tokens":13}}`, `{"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":11},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}}`, `{"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":26}}`},
	{"space stays", Chat, `{"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":8}}}`, "{ \"usage\" :\t{ \"prompt_tokens\": 14 , \"completion_tokens\" :3, \"prompt_tokens_details\" : { \"cached_tokens\" : 13 } } } ", "{ \"usage\" :\t{ \"prompt_tokens\": 20 , \"completion_tokens\" :3, \"prompt_tokens_details\" : { \"cached_tokens\" : 8 } } } "},
	{"right counts keep their bytes", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens" : 14,"total_tokens":1.7e1,"completion_tokens":3.0}}`, `{"usage":{"prompt_tokens" : 14,"total_tokens":1.7e1,"completion_tokens":3.0}}`},
	{"null usage", Chat, `{"usage":{"prompt_tokens":14}}`, `{"usage":null}`, `{"usage":null}`},
	{"no usage", Chat, `{"usage":{"prompt_tokens":14}}`, `{"id":"x"}`, `{"id":"x"}`},
	{"usage inside", Chat, `{"usage":{"prompt_tokens":20}}`, `{"x":{"usage":{"prompt_tokens":14}},"y":[{"usage":{"prompt_tokens":14}}]}`, `{"x":{"usage":{"prompt_tokens":14}},"y":[{"usage":{"prompt_tokens":14}}]}`},
	{"usage in text", Chat, `{"usage":{"prompt_tokens":20}}`, `{"x":"{\"usage\":{\"prompt_tokens\":14}}"}`, `{"x":"{\"usage\":{\"prompt_tokens\":14}}"}`},
	{"usage twice", Chat, `{"usage":{"prompt_tokens":20}}`, `{"usage":{"prompt_tokens":14},"usage":{"prompt_tokens":13}}`, `{"usage":{"prompt_tokens":20},"usage":{"prompt_tokens":20}}`},
	{"name that ends in a backslash", Chat, `{"usage":{"prompt_tokens":20}}`, `{"x\\":{},"\"":1,"usage":{"prompt_tokens":14}}`, `{"x\\":{},"\"":1,"usage":{"prompt_tokens":20}}`},
	{"names in escapes", Chat, `{"usage":{"prompt_tokens":20}}`, `{"us\u0061ge":{"prompt\u005ftokens":14}}`, `{"us\u0061ge":{"prompt\u005ftokens":20}}`},
	{"other kinds keep their usage", Messages, `{"usage":{"input_tokens":20}}`, `{"usage":{"input_tokens":14,"input_tokens_details":{"cached_tokens":13}}}`, `{"usage":{"input_tokens":14,"input_tokens_details":{"cached_tokens":13}}}`},
	{"generate keeps its usage", Generate, `{"usage":{"prompt_tokens":20}}`, `{"usage":{"prompt_tokens":14}}`, `{"usage":{"prompt_tokens":14}}`},
	{"transfer parameters", TokensIn, `{}`, `{"a":1,"kv_transfer_params":{"remote_host":"secret"},"b":{"kv_transfer_params":{}}}`, `{"a":1,"kv_transfer_params":null,"b":{"kv_transfer_params":{}}}`},
	{"transfer parameters in a list, twice", Messages, `{}`, `{"kv_transfer_params":[{"a":"]"}],"kv\u005ftransfer_params":{"}":"}"}}`, `{"kv_transfer_params":null,"kv\u005ftransfer_params":null}`},
	{"no transfer parameters", Chat, `{}`, `{"kv_transfer_params":null,"x":"kv_transfer_params"}`, `{"kv_transfer_params":null,"x":"kv_transfer_params"}`},
}

func TestUsage(t *testing.T) {
	for _, tt := range usageCases {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadReply([]byte(tt.reply))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(AppendAnswer([]byte("before"), []byte(tt.decode), tt.kind, &r)); got != "before"+tt.right {
				t.Errorf("got  %s\nwant before%s", got, tt.right)
			}
			checkAnswerCuts(t, tt.kind, &r, tt.decode, tt.right)
			checkEventsCuts(t, tt.kind, &r, "id: 1\ndata: "+tt.decode+"\n\ndata: [DONE]\n\n", "id: 1\ndata: "+tt.right+"\n\ndata: [DONE]\n\n")
		})
	}
}

// checkAnswerCuts checks an answer in one piece, in two with every cut, and byte
// for byte.
func checkAnswerCuts(t *testing.T, kind Kind, r *Reply, answer, want string) {
	t.Helper()
	check := func(what string, pieces ...string) {
		t.Helper()
		a := NewAnswer(kind, r)
		var got []byte
		for _, piece := range pieces {
			got = append(got, a.Rewrite([]byte(piece))...)
		}
		if got = append(got, a.Close()...); string(got) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
		}
	}
	check("in one piece", answer)
	for i := range len(answer) {
		check("cut behind "+answer[:i], answer[:i], answer[i:])
	}
	check("byte for byte", strings.Split(answer, "")...)
}

// checkEventsCuts does the same for a stream.
func checkEventsCuts(t *testing.T, kind Kind, r *Reply, stream, want string) {
	t.Helper()
	check := func(what string, pieces ...string) {
		t.Helper()
		e := NewEvents(kind, r)
		var got []byte
		for _, piece := range pieces {
			got = append(got, e.Rewrite([]byte(piece))...)
		}
		if got = append(got, e.Close()...); string(got) != want {
			t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
		}
	}
	check("in one piece", stream)
	for i := range len(stream) {
		check("cut behind "+stream[:i], stream[:i], stream[i:])
	}
	check("byte for byte", strings.Split(stream, "")...)
}

// TestAnswersThatAreNoObjects pass as they are.
func TestAnswersThatAreNoObjects(t *testing.T) {
	r := mustReply(t, `null`)
	for _, answer := range []string{"", "null", "<html>usage", `["usage"]`, `"usage"`, `{"a":1`, `{"usage":`, `{"usage":{"prompt_tokens":1`, `x{"usage":{}}`} {
		if got := string(AppendAnswer(nil, []byte(answer), Chat, r)); got != answer {
			t.Errorf("%q becomes %q", answer, got)
		}
		checkAnswerCuts(t, Chat, r, answer, answer)
	}
}
