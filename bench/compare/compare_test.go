package compare

import (
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"loadstar/bench/load"
)

// A whole comparison, as short as it can be, measures everything of a router and
// names what is missing.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs routers for seconds")
	}
	cores := twoCores(t)
	t.Setenv("PATH", t.TempDir())
	s := Settings{
		Rounds: 1, Seconds: .1, Streams: 5, Leavings: 2, Prompts: 50, Only: []string{bareName, "sglang-router"},
		Core: cores[0], Programs: Programs{Bench: self(t)},
	}
	r, err := Run(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []Router{{Name: bareName, Version: "of this module"}, {Name: "sglang-router", Missing: "pip install sglang-router"}}
	if !slices.Equal(r.Routers, want) {
		t.Errorf("the routers are %+v, want %+v", r.Routers, want)
	}
	metrics := []string{LatencyMean, LatencyP50, LatencyP99, ChunkCPU, StreamKB, StreamCPU, UniqueMB, LeaveBefore, LeaveMid, HotSpot, StartMemory}
	for _, c := range cells {
		metrics = append(metrics, CPUPrefix+c.name, RatePrefix+c.name)
	}
	for _, m := range metrics {
		i := slices.IndexFunc(r.Samples, func(s Sample) bool { return s.Metric == m && s.Router == bareName })
		if i < 0 {
			t.Errorf("there is no sample of %s", m)
			continue
		}
		switch s := r.Samples[i]; {
		case strings.HasPrefix(m, "leave/"): // the forwarder doesn't see clients leave
			if s.Note == "" {
				t.Errorf("%s: %+v, want a note", m, s)
			}
		case s.Note != "" || s.Failed > 0:
			t.Errorf("%s: %+v, want a value without failures", m, s)
		case strings.HasPrefix(m, RatePrefix) && s.Value <= 0:
			t.Errorf("%s is %v, want it above 0", m, s.Value)
		}
	}
}

func TestSettingsErrors(t *testing.T) {
	good := Settings{Rounds: 1, Seconds: 1, Streams: 1, Leavings: 1, Prompts: 1}
	tests := []struct {
		name  string
		spoil func(*Settings)
		want  string
	}{
		{"good", func(*Settings) {}, ""},
		{"rounds", func(s *Settings) { s.Rounds = 0 }, "0 rounds: give at least 1"},
		{"seconds", func(s *Settings) { s.Seconds = .01 }, "0.01 seconds: give at least 0.1, CPU time is counted in steps of 10ms"},
		{"streams", func(s *Settings) { s.Streams = 0 }, "streams, leavings and prompts: give at least 1 of each"},
		{"router", func(s *Settings) { s.Only = []string{"x"} }, `router "x": give one of ` + strings.Join(Names(), ", ")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			tt.spoil(&s)
			got := ""
			if err := s.check(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("the error is %q, want %q", got, tt.want)
			}
		})
	}
}

// maxRatio is how much more CPU than the bare forwarder a request may cost. It is
// 1.5 to 1.7 on a quiet machine; the bound is for regressions that nobody would
// call noise.
const maxRatio = 2.5

// What routing, accounting, watcher and metrics cost is bounded by the price of a
// forwarder that has none of them, in the same run. CPU time doesn't grow when
// others use the machine, but for colder caches, and so both take turns and the
// best of three medians counts.
func TestCostRatio(t *testing.T) {
	if testing.Short() {
		t.Skip("runs routers for seconds")
	}
	cores := twoCores(t)
	dir := t.TempDir()
	var files [2]string
	for i, pkg := range []string{"loadstar/cmd/loadstar", "loadstar/bench"} { // without the race detector
		file, err := build(t.Context(), dir, pkg)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = file
	}
	nulls, addresses, err := startNull(t.Context(), dir, files[1], cores[1:], nullWorkers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nulls.end)
	b := bed{dir: dir, routerCores: cores[:1]}
	var routers [2]*running
	for i, name := range []string{loadstarName, bareName} {
		if routers[i], err = b.start(t.Context(), found{peer: byName(t, name), file: files[i]}, addresses); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(routers[i].end)
	}
	const tries, rounds, requests = 3, 5, 8000
	var medians []float64
	for range tries {
		var ratios []float64
		for range rounds {
			var cpu [2]float64
			for i, r := range routers {
				report, spent, err := r.spent(t.Context(), load.Config{Source: cells[0].chat.Same(), Connections: 32, Requests: requests})
				if err != nil || report.Failed() > 0 {
					t.Fatalf("%s: %d requests failed, %v", r.peer.name, report.Failed(), err)
				}
				cpu[i] = max(spent, tick).Seconds()
			}
			ratios = append(ratios, cpu[0]/cpu[1])
		}
		slices.Sort(ratios)
		medians = append(medians, ratios[rounds/2])
		if ratios[rounds/2] <= maxRatio {
			t.Logf("%.2f × the bare forwarder (%s)", ratios[rounds/2], runtime.Version())
			return
		}
	}
	t.Errorf("a request costs %.2f × the bare forwarder's, want at most %v", medians, maxRatio)
}
