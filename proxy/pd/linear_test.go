//go:build !race

package pd

import (
	"strings"
	"testing"
	"time"
)

// checkLinear checks that twice as much takes about twice the time, not four
// times. The slack and the further tries are for busy machines; what is square takes
// far longer.
// The race detector has nothing to find here and costs ten times as much.
func checkLinear(t *testing.T, run func(n int)) {
	t.Helper()
	cost := func(n int) time.Duration {
		begin := time.Now()
		run(n)
		return time.Since(begin)
	}
	const n = 1 << 20
	for try := 1; ; try++ {
		once, twice := cost(n), cost(2*n)
		if twice <= 3*once+2*time.Second {
			break
		}
		if try == 3 {
			t.Fatalf("%d bytes take %v, twice as many %v", n, once, twice)
		}
	}
}

// TestLinearRequests are bodies of hostile clients.
func TestLinearRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		body func(n int) string
	}{
		{"prompts", func(n int) string { return `{"prompt":[""` + strings.Repeat(`,""`, n/3) + `]}` }},
		{"deep prompt", func(n int) string {
			return `{"prompt":` + strings.Repeat(`[`, n/2) + strings.Repeat(`]`, n/2) + `}`
		}},
		{"transfer parameters", func(n int) string { return `{` + strings.Repeat(`"kv_transfer_params":0,`, n/23) + `"a":0}` }},
		{"arguments", func(n int) string { return `{` + strings.Repeat(`"extra_args":{"n":[{}]},`, n/24) + `"a":0}` }},
		{"names in escapes", func(n int) string { return `{` + strings.Repeat(`"\u006e":0,`, n/11) + `"a":0}` }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kv := []byte(`{"x":"` + strings.Repeat("x", 100_000) + `"}`)
			checkLinear(t, func(n int) {
				body := []byte(tt.body(n))
				for kind := range TokensIn + 1 {
					prefill, _ := AppendPrefill(nil, body, kind, kv)
					decode, _ := AppendDecode(nil, body, kind, kv)
					ReadRequest(body, kind)
					if most := len(body) + len(kv) + 100; len(prefill) > most || len(decode) > most {
						t.Fatalf("%d bytes become %d and %d, want at most %d", len(body), len(prefill), len(decode), most)
					}
				}
			})
		})
	}
}

// TestLinearStreams are the streams and answers of workers gone mad, in small
// pieces.
func TestLinearStreams(t *testing.T) {
	for _, tt := range []struct {
		name string
		text func(n int) string
	}{
		{"line feeds", func(n int) string { return strings.Repeat("\n", n) }},
		{"carriage returns", func(n int) string { return strings.Repeat("\r", n) }},
		{"one line", func(n int) string { return "data: " + strings.Repeat("usage\"", n/6) }},
		{"lines of one event", func(n int) string { return strings.Repeat("data: {\"usage\":{}}\n", n/19) }},
		{"short lines of one event", func(n int) string { return strings.Repeat("x\r", n/2) }},
		{"events", func(n int) string { return strings.Repeat("data:{\"usage\":{\"prompt_tokens\":1}}\n\n", n/36) }},
		{"usages", func(n int) string {
			return "data:{" + strings.Repeat(`"usage":{"prompt_tokens":1},`, n/28) + "\"a\":1}\n\n"
		}},
		{"details", func(n int) string {
			return `{"usage":{` + strings.Repeat(`"prompt_tokens_details":{},`, n/27) + `"a":1}}`
		}},
		{"deep usage", func(n int) string { return `{"usage":` + strings.Repeat(`{"":`, n/4) }},
		{"deep transfer parameters", func(n int) string { return `{"kv_transfer_params":` + strings.Repeat(`[`, n) }},
		{"long name", func(n int) string { return `{"` + strings.Repeat(`\u0075`, n/6) }},
		{"backslashes", func(n int) string { return `{"a":"` + strings.Repeat(`\`, n) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := usageOf(t)
			checkLinear(t, func(n int) {
				text := []byte(tt.text(n))
				e, late, a := NewEvents(Chat, r), NewEvents(Chat, nil), NewAnswer(Chat, r)
				for i := 0; i < len(text); i += 10 {
					piece := text[i:min(i+10, len(text))]
					e.Rewrite(piece)
					late.Rewrite(piece)
					a.Rewrite(piece)
				}
				e.Close()
				late.Close()
				a.Close()
				AppendAnswer(nil, text, Chat, r)
			})
		})
	}
}

// TestLinearReplies are replies and answers that are read as a whole.
func TestLinearReplies(t *testing.T) {
	list := func(n int) string { return `[0` + strings.Repeat(",0", n/2) + `]` }
	for _, tt := range []struct {
		name          string
		reply, answer func(n int) string
	}{
		{"long lists", func(n int) string {
			return `{"choices":[{"logprobs":{"tokens":` + list(n) + `,"token_logprobs":` + list(n) + `}}]}`
		}, func(n int) string {
			return `{"choices":[{"logprobs":{"tokens":` + list(n) + `,"token_logprobs":` + list(n) + `}}]}`
		}},
		{"choices", func(n int) string {
			return `{"choices":[{"logprobs":{"tokens":["a","b"]}}` + strings.Repeat(",{}", n/3) + `]}`
		}, func(n int) string {
			return `{"choices":[0` + strings.Repeat(`,{"logprobs":{"tokens":[]}}`, n/26) + `]}`
		}},
		{"long lists for many choices", func(n int) string { return `{"choices":[{"logprobs":{"tokens":` + list(n) + `}}]}` }, func(n int) string {
			return `{"choices":[0` + strings.Repeat(`,{"logprobs":{"tokens":[]}}`, min(n/26, 200)) + `]}`
		}},
		{"deep", func(n int) string { return `{"kv_transfer_params":` + strings.Repeat("[", n) }, func(n int) string { return strings.Repeat("[", n) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkLinear(t, func(n int) {
				r, _ := ReadReply([]byte(tt.reply(n)))
				r.Identity()
				r.AppendMerged(nil, []byte(tt.answer(n)), Request{Merge: true, Echo: true})
			})
		})
	}
}
