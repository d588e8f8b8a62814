package routing

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"loadstar/bench/replay"
	"loadstar/bench/sim"
)

func TestScenarios(t *testing.T) {
	const length, scale = 2, .5
	synthetic, all := Scenarios("", length, scale), Scenarios("some/trace.csv.gz", length, scale)
	if len(synthetic) != 8 || len(all) != 11 {
		t.Fatalf("%d scenarios without a trace and %d with one, want 8 and 11", len(synthetic), len(all))
	}
	names := make(map[string]bool)
	for _, s := range all {
		if names[s.Name] {
			t.Errorf("%s comes twice", s.Name)
		}
		names[s.Name] = true
		if err := s.Setup.Check(4, 8); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		// None takes more than half a minute for each of its length.
		if took := s.Setup.Seconds / s.Setup.Speed / s.Scale; took <= 0 || took > 30*length/scale || s.Setup.WarmUp*3 > s.Setup.Seconds {
			t.Errorf("%s takes %v s, and %v of %v s are not counted", s.Name, took, s.Setup.WarmUp, s.Setup.Seconds)
		}
		if at := s.Setup.Restart; at.Worker > 0 && (at.Seconds <= s.Setup.WarmUp || at.Seconds >= s.Setup.Seconds) {
			t.Errorf("%s: a worker restarts after %v s of %v", s.Name, at.Seconds, s.Setup.Seconds)
		}
	}
}

// made is a result of three routers in one scenario, with two rounds.
func made() *Result {
	run := func(router string, round int, mean, p99 float64) replay.Measured {
		return replay.Measured{Router: router, Version: "v1", Round: round, Counted: 9, TTFT: replay.Quantity{Mean: mean, P50: mean / 2, P99: p99}}
	}
	return &Result{
		Settings: Settings{Routers: []string{"loadstar:least_work", "loadstar:cache_aware", "smg", "sglang-router"}, Rounds: 2},
		Rows: []Row{{
			Scenario: Scenario{Name: "some", Load: Full, Scale: 2},
			Runs: []replay.Measured{
				run("loadstar:least_work", 1, 10, 50), run("loadstar:cache_aware", 1, 12, 60), run("smg", 1, 20, 90), run("sglang-router", 1, 18, 100),
				run("loadstar:least_work", 2, 14, 70), run("loadstar:cache_aware", 2, 16, 80), run("smg", 2, 22, 94), run("sglang-router", 2, 28, 104),
			},
		}},
	}
}

// The best of the others is the best by the figure, and is no Loadstar.
func TestBest(t *testing.T) {
	r := made()
	for _, tt := range []struct {
		name   string
		figure func(*replay.Measured) float64
		router string
		want   float64
	}{
		{"mean", Mean, "smg", 21},
		{"p99", P99, "smg", 92},
		{"the other way round", func(m *replay.Measured) float64 { return -m.TTFT.P99 }, "sglang-router", -102},
	} {
		if router, got := r.Best(&r.Rows[0], tt.figure); router != tt.router || got != tt.want {
			t.Errorf("%s: the best is %s with %v, want %s with %v", tt.name, router, got, tt.router, tt.want)
		}
	}
	r.Settings.Routers = r.Settings.Routers[:2]
	if router, _ := r.Best(&r.Rows[0], Mean); router != "" {
		t.Errorf("without others the best is %s, want none", router)
	}
	if got, want := r.Rows[0].Stat("smg", Mean), (sim.Stat{Median: 21, Least: 20, Most: 22}); got != want {
		t.Errorf("smg has %+v, want %+v", got, want)
	}
}

// What is said of a run that went wrong has the scenario, router and round.
func TestTrouble(t *testing.T) {
	r := made()
	if all := r.Trouble(); len(all) != 0 {
		t.Errorf("the trouble is %v, want none", all)
	}
	r.Rows[0].Runs[2].Late.P99 = 6 // which the scale makes 12, with a median of 10
	r.Rows[0].Runs[3].Unsent = 4
	got := strings.Join(r.Trouble(), "\n")
	want := "some, smg, round 1: times mean nothing, as 1 % of the requests were sent 12 ms late or more\nsome, sglang-router, round 1: 4 unsent"
	if got != want {
		t.Errorf("the trouble is\n%s\nwant\n%s", got, want)
	}
}

// What can't be measured is said, and what there is comes with it.
func TestRunEnds(t *testing.T) {
	if _, err := Run(t.Context(), nil, Settings{Rounds: 1}, io.Discard); err == nil {
		t.Error("no error without a scenario, want one")
	}
	r, err := Run(t.Context(), Scenarios("", 1, 1), Settings{Routers: []string{"none"}, Rounds: 1}, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), `router "none": give one of `) || !r.Interrupted {
		t.Errorf("the error is %v with the result %+v, want one that names the router", err, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err = Run(ctx, Scenarios("dir/some.csv", 1, 1), Settings{Routers: []string{"bare"}, Rounds: 1}, io.Discard)
	if !errors.Is(err, context.Canceled) || !r.Interrupted || r.Rows[3].Setup.Workload != "some.csv" {
		t.Errorf("the error is %v with the result %+v, want one of the context and no directory", err, r)
	}
}

func TestTargets(t *testing.T) {
	for _, l := range []Load{Idle, Busy, Full, Any} {
		if x := l.Target(); math.Min(x.Mean, x.P99) < .65 || math.Max(x.Mean, x.P99) > 1.03 {
			t.Errorf("%q asks for %+v", l, x)
		}
	}
}

// The simulator has the same policies, and settings as the replay has them.
func TestRules(t *testing.T) {
	got := made().Settings.rules()
	if len(got) != 2 || got[0] != "least_work" || got[1] != "cache_aware" {
		t.Errorf("the rules are %v, want least_work and cache_aware", got)
	}
}
