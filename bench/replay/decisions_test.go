package replay

import (
	"strings"
	"testing"
)

func TestSumUp(t *testing.T) {
	for _, tt := range []struct {
		name, in, want, err string
	}{
		{name: "nothing", want: "policy  reason  decisions  known  best known  answers  predicted tokens  reported  \nall             0          0.000  0.000       0        0.000             0.000     \n"},
		{
			name: "two kinds",
			in: `{"policy":"least_work","reason":"prefix_hit","outcome":"completed","blocks":10,"match":8,"best_match":10,"prompt_tokens":100,"predicted_cached_tokens":80,"cached_tokens":60}
{"policy":"least_work","reason":"prefix_miss","outcome":"completed","blocks":10,"match":0,"best_match":0,"prompt_tokens":100,"predicted_cached_tokens":0}

{"policy":"least_work","reason":"prefix_hit","outcome":"busy","blocks":10,"match":2,"best_match":2}
`,
			want: `policy      reason       decisions  known  best known  answers  predicted tokens  reported  
least_work  prefix_hit   2          0.500  0.600       1        0.800             0.600     
least_work  prefix_miss  1          0.000  0.000       0        0.000             0.000     
all                      3          0.333  0.400       1        0.800             0.600     
busy: 1
completed: 2
`,
		},
		{name: "no JSON", in: "{}\nx\n", err: "line 2 is no decision"},
		{name: "a long line", in: strings.Repeat("x", 2*longestDecision), err: "a line of decisions can't be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := SumUp(strings.NewReader(tt.in), &out)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || out.String() != tt.want {
				t.Errorf("%v:\n%s\nwant\n%s", err, out.String(), tt.want)
			}
		})
	}
}
