package routekey

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestScanFindsTokens(t *testing.T) {
	for _, tt := range []struct {
		name, body, tokens string
		apart              bool
	}{
		{"completions", `{"model":"m","prompt":[1, 2,3]}`, `[1, 2,3]`, false},
		{"generate", `{"input_ids":[4]}`, `[4]`, false},
		{"tokens in, tokens out", `{"token_ids":[5,6],"sampling_params":{}}`, `[5,6]`, false},
		{"text", `{"prompt":"[1]"}`, ``, false},
		{"text beside ids", `{"prompt":"a","input_ids":[7]}`, `[7]`, false},
		{"salt", `{"prompt":[1],"cache_salt":"s"}`, `[1]`, true},
		{"empty salt", `{"prompt":[1],"cache_salt":""}`, `[1]`, false},
		{"adapter by name", `{"prompt":[1],"lora_name":"a"}`, `[1]`, true},
		{"adapter by path", `{"input_ids":[1],"lora_path":"a"}`, `[1]`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			if !s.Scan([]byte(tt.body)) {
				t.Fatal("the body was not read")
			}
			if got := string(s.Body.Tokens); got != tt.tokens || s.Body.Apart != tt.apart {
				t.Errorf("tokens %q, apart %v, want %q, %v", got, s.Body.Apart, tt.tokens, tt.apart)
			}
		})
	}
}

// FuzzAppendTokens compares it with encoding/json on what both may read.
func FuzzAppendTokens(f *testing.F) {
	for _, s := range []string{
		`[1,2,3]`, `[]`, `[ 0 , 4294967295 ]`, `[4294967296]`, `[01]`, `[-1]`, `[1.0]`, `[1e3]`, `[1,]`, `[,1]`, `["1"]`, `[[1]]`, `[1 2]`, `[`, ``, "[1]\x00",
		`[99999999999999999999999999]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, array []byte) {
		got, ok := AppendTokens(nil, array)
		var numbers []json.Number
		err := json.Unmarshal(array, &numbers)
		var want []uint32
		for _, n := range numbers {
			var v uint32
			if json.Unmarshal([]byte(n), &v) != nil {
				err = json.Unmarshal([]byte(n), &v)
				break
			}
			want = append(want, v)
		}
		// A string that holds a number is one to json.Number, and outer space is none of ours.
		valid := err == nil && len(want) > 0 && len(array) > 0 && array[0] == '[' && array[len(array)-1] == ']' && !slices.Contains(array, '"')
		if ok != valid || ok && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v, %v", array, got, ok, want, valid)
		}
	})
}
