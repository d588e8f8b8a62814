//go:build !race

package sim

import (
	"io"
	"testing"

	"loadstar/bench/workload"
)

// Where prompts are shared and where they aren't, near saturation and far from it,
// the order of the policies is that of the figures that routing was designed with.
// Bounds are wide: a policy that misses one has been broken.
func TestOrder(t *testing.T) {
	rules := []Rule{"round_robin", "cache_aware", "miss+pending", "least_work"}
	tests := []struct {
		name     string
		settings Settings
		bounds   map[Rule]float64 // least_work's mean by that of another, at most
	}{
		{"conversations", Settings{Setup: workload.Setup{Workload: "conversations", Rate: 80}}, map[Rule]float64{"round_robin": .4, "cache_aware": 1.15, "miss+pending": 1.25}},
		{"conversations, near saturation", Settings{Setup: workload.Setup{Workload: "conversations", Rate: 120}}, map[Rule]float64{"round_robin": .1, "cache_aware": 1.1, "miss+pending": .6}},
		{"hot", Settings{Setup: workload.Setup{Workload: "hot", Rate: 80}}, map[Rule]float64{"round_robin": .5, "cache_aware": 1.15, "miss+pending": 1.25}},
		{"unique", Settings{Setup: workload.Setup{Workload: "unique", Rate: 60}}, map[Rule]float64{"round_robin": 1.02, "cache_aware": .9, "miss+pending": 1.05}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.settings
			s.Seconds, s.WarmUp, s.Rest, s.ViewBytes = 50, 20, .25, 192<<10
			r, err := Simulate(t.Context(), []Scenario{{tt.name, s.WithDefaults()}}, rules, 1, 2, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			row := &r.Rows[0]
			mine := row.Mean("least_work").Median
			for rule, bound := range tt.bounds {
				other := row.Mean(rule).Median
				t.Logf("least_work takes %.1f ms, %s %.1f: %.2f of it", mine, rule, other, mine/other)
				if mine > bound*other {
					t.Errorf("least_work takes %.1f ms to the first token and %s %.1f, want at most %.2f of it", mine, rule, other, bound)
				}
			}
		})
	}
}
