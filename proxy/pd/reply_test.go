package pd

import (
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Handoff
		kv         string
	}{
		{"given", `{"kv_transfer_params": { "a" : 1.0 , "b":null} }`, HandoffGiven, `{ "a" : 1.0 , "b":null}`},
		{"empty", `{"kv_transfer_params":{}}`, HandoffGiven, `{}`},
		{"missing", `{"id":"x","choices":[{"kv_transfer_params":{}}]}`, HandoffMissing, ""},
		{"null", `{"kv_transfer_params":null}`, HandoffNull, ""},
		{"string", `{"kv_transfer_params":"{}"}`, HandoffIllTyped, ""},
		{"list", `{"kv_transfer_params":[{}]}`, HandoffIllTyped, ""},
		{"number", `{"kv_transfer_params":1}`, HandoffIllTyped, ""},
		{"true", `{"kv_transfer_params":true}`, HandoffIllTyped, ""},
		{"the last of two", `{"kv_transfer_params":{},"kv_transfer_params":null}`, HandoffNull, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadReply([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if r.Handoff != tt.want || string(r.KV) != tt.kv {
				t.Errorf("got %d with %q, want %d with %q", r.Handoff, r.KV, tt.want, tt.kv)
			}
		})
	}
}

func TestReadReplyRefuses(t *testing.T) {
	for _, body := range []string{"", "<html>", "[]", "null", `{"a":1`, `{"kv_transfer_params":{"a" 1}}`, `{"a":1}x`, `{"usage":{]}`} {
		if r, err := ReadReply([]byte(body)); err == nil {
			t.Errorf("%q is read as %+v", body, r)
		}
	}
}

func TestIdentity(t *testing.T) {
	const full = `"remote_engine_id":"e","remote_host":"h","remote_port":5,"tp_size":4`
	for _, tt := range []struct {
		name, kv string
		want     Identity
		ok       bool
	}{
		{"push", `{"transfer_mode":"push",` + full + `}`, Identity{`"e"`, `"h"`, "5", "4"}, true},
		{"one rank if it doesn't say", `{"transfer_mode":"push","remote_engine_id":"e","remote_host":"h","remote_port":5}`, Identity{`"e"`, `"h"`, "5", "1"}, true},
		{"one rank if it is null", `{"transfer_mode":"push","remote_engine_id":"e","remote_host":"h","remote_port":5,"tp_size":null}`, Identity{`"e"`, `"h"`, "5", "1"}, true},
		{"mode in escapes", `{"transfer_mode":"\u0070ush",` + full + `}`, Identity{`"e"`, `"h"`, "5", "4"}, true},
		{"pull", `{"transfer_mode":"pull",` + full + `}`, Identity{}, false},
		{"no mode", `{` + full + `}`, Identity{}, false},
		{"mode of another type", `{"transfer_mode":1,` + full + `}`, Identity{}, false},
		{"no host", `{"transfer_mode":"push","remote_engine_id":"e","remote_port":5}`, Identity{}, false},
		{"null port", `{"transfer_mode":"push","remote_engine_id":"e","remote_host":"h","remote_port":null}`, Identity{}, false},
		{"endless id", `{"transfer_mode":"push","remote_host":"h","remote_port":5,"remote_engine_id":"` + strings.Repeat("e", 257) + `"}`, Identity{}, false},
		{"none", `null`, Identity{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadReply([]byte(`{"kv_transfer_params":` + tt.kv + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := r.Identity(); got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %v, want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}
