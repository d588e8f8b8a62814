package replay

import (
	"encoding/json"
	"strings"
	"testing"

	"loadstar/bench/worker"
	"loadstar/bench/workload"
)

// content is the prompt in a body, which must be a chat completion.
func content(t *testing.T, body []byte) string {
	t.Helper()
	var v struct {
		Model    string
		Messages []struct{ Role, Content string }
		Stream   bool
		Max      int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if v.Model != "m" || len(v.Messages) != 1 || v.Messages[0].Role != "user" || !v.Stream || v.Max != 7 {
		t.Fatalf("the body is %+v", v)
	}
	return v.Messages[0].Content
}

func TestPromptsShareTheirFirstBlocks(t *testing.T) {
	tests := []struct {
		name         string
		a, b         []uint64
		saltA, saltB uint64
		want         int // blocks
	}{
		{"nothing", []uint64{1, 2}, []uint64{3, 2}, 0, 0, 0},
		{"the start", []uint64{1, 2, 3}, []uint64{1, 2, 4}, 0, 0, 2},
		{"one begins the other", []uint64{1, 2}, []uint64{1, 2, 3}, 9, 9, 2},
		{"all", []uint64{5, 6, 7}, []uint64{5, 6, 7}, 0, 0, 3},
		{"behind a difference", []uint64{1, 2, 3}, []uint64{1, 9, 3}, 0, 0, 1},
		{"not in another round", []uint64{1, 2}, []uint64{1, 2}, 1, 2, 0},
		{"large ids", []uint64{1<<64 - 1, 1}, []uint64{1<<64 - 1, 1 << 63}, 0, 0, 1},
		{"repeated ids", []uint64{4, 4, 4}, []uint64{4, 4}, 0, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := content(t, body("m", workload.Request{Blocks: tt.a, Input: workload.Unknown, Output: 7}, tt.saltA, 0))
			b := content(t, body("m", workload.Request{Blocks: tt.b, Input: workload.Unknown, Output: 7}, tt.saltB, 0))
			if len(a) != len(tt.a)*worker.BlockBytes || len(b) != len(tt.b)*worker.BlockBytes {
				t.Errorf("prompts of %d and %d blocks have %d and %d bytes", len(tt.a), len(tt.b), len(a), len(b))
			}
			if got := common(a, b) / worker.BlockBytes; got != tt.want {
				t.Errorf("%d blocks are shared, want %d", got, tt.want)
			}
		})
	}
}

// The last block is as long as the tokens that are left for it.
func TestLastBlock(t *testing.T) {
	for _, tt := range []struct {
		name        string
		input, want int // bytes
	}{
		{"full", 1024, 128},
		{"a half", 768, 96},
		{"a token", 513, 65},
		{"all but one", 1023, 127},
		{"unknown", workload.Unknown, 128},
		{"more than the blocks have", 5000, 128},
		{"less than they have", 100, 128},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := workload.Request{Blocks: []uint64{1, 2}, Input: tt.input, Output: 7}
			whole := content(t, body("m", workload.Request{Blocks: r.Blocks, Input: workload.Unknown, Output: 7}, 3, 512))
			got := content(t, body("m", r, 3, 512))
			if len(got) != tt.want || !strings.HasPrefix(whole, got) {
				t.Errorf("%d bytes, want %d of the same text", len(got), tt.want)
			}
		})
	}
}

func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// FuzzBlocksDiffer holds that different ids have different texts, of letters that
// need no escapes.
func FuzzBlocksDiffer(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(0))
	f.Add(uint64(1)<<63, uint64(1), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, a, b, salt uint64) {
		textA, textB := string(appendBlock(nil, a, salt)), string(appendBlock(nil, b, salt))
		if (textA == textB) != (a == b) {
			t.Errorf("ids %d and %d have the texts %q and %q", a, b, textA, textB)
		}
		if len(textA) != worker.BlockBytes || strings.Trim(textA, letters) != "" {
			t.Errorf("the text of %d is %q, want %d letters", a, textA, worker.BlockBytes)
		}
	})
}
