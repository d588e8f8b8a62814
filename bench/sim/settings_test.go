package sim

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors/policy"
	"loadstar/bench/workload"
)

func TestRules(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
		want string // how the error begins
	}{
		{"policy", "least_work", ""},
		{"formula", "miss+pending", ""},
		{"settings", "least_work:c=0.5:cap=4:decay=.9:gamma=2", ""},
		{"settings of another policy", "cache_aware:threshold=0.5:abs=3:rel=2", ""},
		{"unknown", "best", `rule best: unknown policy "best": use one of random, `},
		{"unknown setting", "least_work:x=1", "x=1 of rule least_work:x=1: give NAME=NUMBER with one of c, cap, decay, gamma, threshold, abs, rel"},
		{"no number", "least_work:c", "c of rule least_work:c: give NAME=NUMBER"},
		{"a number that makes no sense", "least_work:c=-1", "rule least_work:c=-1: least_work's backlog per prompt is -1: give a number above 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkError(t, tt.rule.Check(), tt.want)
		})
	}
	for _, name := range Rules() {
		if err := Rule(name).Check(); err != nil {
			t.Errorf("%s is named and not known: %v", name, err)
		}
	}
}

// checkError checks how an error begins; empty is for none.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		t.Errorf("the error is %q, want %q", got, want)
	}
}

// A setting reaches the policy: without a price of load, of two workers with the
// same miss the busier one is an equal.
func TestSettingsOfARule(t *testing.T) {
	run := func(rule Rule) Run {
		s := Settings{Setup: workload.Setup{Workload: "conversations", Rate: 80, Seconds: 10}}.WithDefaults()
		runs, err := s.runs(t.Context(), []Rule{rule}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return runs[0]
	}
	if slices.Equal(run("least_work").Shares, run("least_work:gamma=40").Shares) {
		t.Error("gamma changes nothing")
	}
	if !slices.Equal(run("least_work").Shares, run("least_work:gamma=4").Shares) {
		t.Error("the default gamma isn't 4")
	}
}

func TestSettings(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Settings)
		want  string // how the error begins
	}{
		{"good", func(*Settings) {}, ""},
		{"a trace", func(s *Settings) { *s = Settings{Setup: workload.Setup{Workload: "some.csv"}}.WithDefaults() }, ""},
		{"rest", func(s *Settings) { s.Rest = -1 }, "rest -1: give"},
		{"setup", func(s *Settings) { s.Rate = -1 }, "rate -1: give"},
		{"workers", func(s *Settings) { s.Workers = 2000 }, "workers 2000: give 1 to 1024"},
		{"token time", func(s *Settings) { s.TokenTime = -1 }, "time of a token -1: give"},
		{"cache", func(s *Settings) { s.CacheBlocks = -1 }, "cache blocks -1: give"},
		{"view", func(s *Settings) { s.ViewBytes = -1 }, "view bytes -1: give"},
		{"view in blocks", func(s *Settings) { s.ViewBlocks = -1 }, "view blocks -1: give"},
		{"give back", func(s *Settings) { s.GiveBack = "never" }, `pending work given back at "never": give first, head or end`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Settings{Setup: workload.Setup{Workload: "conversations"}}.WithDefaults()
			tt.spoil(&s)
			checkError(t, s.Check(), tt.want)
		})
	}
}

func TestSimulateFaults(t *testing.T) {
	good := Scenario{"some", Settings{Setup: workload.Setup{Workload: "unique", Seconds: 1}}.WithDefaults()}
	tests := []struct {
		name     string
		scenario Scenario
		rules    []Rule
		seeds    int
		want     string
	}{
		{"no rule", good, nil, 1, "no rule: name one"},
		{"no seed", good, []Rule{"random"}, 0, "0 seeds: give 1 to 1000"},
		{"rule", good, []Rule{"x"}, 1, `rule x: unknown policy "x"`},
		{"settings", Scenario{"some", Settings{}}, []Rule{"random"}, 1, "some: no workload: "},
		{"no such file", Scenario{"some", Settings{Setup: workload.Setup{Workload: "no such file"}}.WithDefaults()}, []Rule{"random"}, 1, "some: open no such file: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Simulate(t.Context(), []Scenario{tt.scenario}, tt.rules, 1, tt.seeds, io.Discard)
			checkError(t, err, tt.want)
		})
	}
}

// When the context ends, what is complete is there.
func TestSimulateEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	one := Scenario{"one", Settings{Setup: workload.Setup{Workload: "unique", Seconds: 1}}.WithDefaults()}
	r, err := Simulate(ctx, []Scenario{one, one}, []Rule{"random"}, 1, 1, stopAtSecond{stop, new(int)})
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Rows) != 1 || len(r.Rows[0].Runs) != 1 {
		t.Errorf("it returned %+v and %v, want one row and that it was canceled", r, err)
	}
}

// stopAtSecond is a log that ends the context when it is written to again.
type stopAtSecond struct {
	stop  func()
	lines *int
}

func (s stopAtSecond) Write(text []byte) (int, error) {
	if *s.lines++; *s.lines == 2 {
		s.stop()
	}
	return len(text), nil
}

// The figures of a row are those of its counted requests.
func TestTally(t *testing.T) {
	var sum tally
	for i, ms := range []int{30, 10, 20, 1000} {
		q := &request{at: time.Second, chain: []uint64{1, 2, 3, 4}, endless: 3, counted: ms < 1000}
		sum.add(&job{request: q, number: i, hits: 1, first: time.Second + time.Duration(ms)*time.Millisecond})
	}
	got := sum.run("random", 7, []*worker{{requests: 3}, {requests: 1}})
	if got.Counted != 3 || got.TTFT != (Quantity{20, 20, 30, 30}) || got.Hit != .25 || got.Endless != .75 || got.Uneven != 1.5 {
		t.Errorf("the run is %+v, want 3 counted, 20, 20, 30, 30 ms, hit .25 of .75, uneven 1.5", got)
	}
	row := Row{Runs: []Run{{Rule: "a", Hit: 3}, {Rule: "b", Hit: 9}, {Rule: "a", Hit: 1}, {Rule: "a", Hit: 2}, {Rule: "a", Hit: 7}}}
	for _, tt := range []struct {
		rule Rule
		want Stat
	}{{"a", Stat{2.5, 1, 7}}, {"b", Stat{9, 9, 9}}, {"c", Stat{}}} {
		if got := row.Stat(tt.rule, hit); got != tt.want {
			t.Errorf("rule %s has %v, want %v", tt.rule, got, tt.want)
		}
	}
}

// Requests of the warm-up are there and don't count.
func TestWarmUp(t *testing.T) {
	s := Settings{Setup: workload.Setup{Workload: "unique", Rate: 100, Seconds: 10, WarmUp: 4, Speed: 2}}.WithDefaults()
	requests, err := s.requests(1)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range requests {
		if want := q.at >= 2*time.Second; q.counted != want {
			t.Fatalf("request %d at %v counts: %v, want %v", i, q.at, q.counted, want)
		}
	}
	if last := requests[len(requests)-1].at; len(requests) < 800 || last < 4*time.Second || last >= 5*time.Second {
		t.Errorf("%d requests come until %v, want about 1000 in 5 s", len(requests), last)
	}
}

func TestFormulas(t *testing.T) {
	c := []policy.Candidate{
		{ID: 0, Match: 10, Pending: 33, Load: 0},
		{ID: 1, Match: 55, Pending: 40, Load: 9},
		{ID: 2, Match: 90, Pending: 60, Load: 9},
		{ID: 3, Match: 62, Pending: 0, Load: 8},
		{ID: 4, Match: 60, Pending: 90, Load: 1},
		{ID: 5, Match: 85, Pending: 25, Load: 9},
	}
	tests := []struct {
		name string
		want int
	}{
		{"load", 0},
		{"miss+pending", 3},
		{"2*miss+pending", 5},
		{"(miss+pending)*(load+1)", 0},
		{"miss*(load+1)", 4},
	}
	for _, tt := range tests {
		q := policy.Request{Blocks: 100}
		if got := formulaNamed(tt.name).Choose(&q, c).Index; got != tt.want {
			t.Errorf("%s takes worker %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Ties go to different workers for different prompts, in whatever order they stand.
func TestTiesOfFormulas(t *testing.T) {
	c := []policy.Candidate{{ID: 0, Hash: policy.Hash("a")}, {ID: 1, Hash: policy.Hash("b")}}
	turned := []policy.Candidate{c[1], c[0]}
	var taken [2]int
	for key := range uint64(100) {
		q := policy.Request{Key: key, Blocks: 1}
		i := formulas[0].Choose(&q, c).Index
		taken[i]++
		if turned[formulas[0].Choose(&q, turned).Index].ID != uint32(i) {
			t.Fatalf("prompt %d goes elsewhere when the workers stand in another order", key)
		}
	}
	if min(taken[0], taken[1]) < 30 {
		t.Errorf("of 100 prompts %d and %d go to each worker, want about half", taken[0], taken[1])
	}
}
