package pd

import (
	"strings"
	"testing"
)

// TestAnswerBound passes a usage that is too large as it is.
func TestAnswerBound(t *testing.T) {
	usage := func(pad, cached string) string {
		return `{"usage":{"x":"` + pad + `","prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":` + cached + `}},"y":1}`
	}
	fits := maxUsage - len(`{"x":"","prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":13}}`)
	for _, tt := range []struct {
		name string
		pad  int
		want string
	}{
		{"as large as may be", fits, "8"},
		{"one byte more", fits + 1, "13"},
		{"much more", 1 << 20, "13"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pad := strings.Repeat("u", tt.pad)
			for _, size := range []int{100, 4096, 1 << 21} {
				a := NewAnswer(Chat, usageOf(t))
				var got []byte
				most := 0
				for answer := []byte(usage(pad, "13")); len(answer) > 0; {
					n := min(size, len(answer))
					got = append(got, a.Rewrite(answer[:n])...)
					answer = answer[n:]
					most = max(most, len(a.held))
				}
				got = append(got, a.Close()...)
				if want := usage(pad, tt.want); string(got) != want {
					t.Errorf("in pieces of %d: got %.200q…, want %.200q…", size, got[len(got)-200:], want[len(want)-200:])
				}
				if most > maxUsage {
					t.Errorf("in pieces of %d: %d bytes held, want at most %d", size, most, maxUsage)
				}
			}
		})
	}
}

// TestAnswerCut gives the client what came of an answer that breaks off, but for
// transfer parameters.
func TestAnswerCut(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{`{"a":1,"usage":{"prompt_tokens":1`, `{"a":1,"usage":{"prompt_tokens":1`},
		{`{"a":1,"kv_transfer_params":{"remote_host":"h`, `{"a":1,"kv_transfer_params":`},
		{`{"a":"x`, `{"a":"x`},
	} {
		checkAnswerCuts(t, Chat, usageOf(t), tt.answer, tt.want)
	}
}

// TestAnswerPassesUnchanged checks that pieces without a change are passed on
// themselves.
func TestAnswerPassesUnchanged(t *testing.T) {
	a := NewAnswer(Chat, usageOf(t))
	a.Rewrite([]byte(`{"usage":null,"text":"`))
	piece := []byte(strings.Repeat("Danube ", 100))
	got := a.Rewrite(piece)
	if len(got) != len(piece) || &got[0] != &piece[0] {
		t.Errorf("got a copy, %q", got)
	}
	if got, want := testing.AllocsPerRun(100, func() { a.Rewrite(piece) }), 0.0; got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}
