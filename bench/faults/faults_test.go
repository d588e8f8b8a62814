package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"loadstar/bench/compare"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Command && os.Args[2] == SimulateCommand {
		if err := Simulate(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	os.Exit(m.Run())
}

// Each scenario runs to its end, and its figures are of requests that were served.
// The targets are for a whole run on a quiet machine.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a router and its workers for seconds")
	}
	dir := t.TempDir()
	binary, err := compare.BuildLoadstar(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	tests := []struct {
		name string
		scenario
		part, figure string // one that is above 0 if the scenario does what it says
	}{
		{
			"overload",
			overload{
				workers: 2, slots: 2, spare: 1, calibrate: 2500 * ms, warmUp: 100 * ms, lasts: 600 * ms, prompt: 64,
				queues: []queue{longQueue}, rivalries: fullOverload.rivalries[:1],
			},
			"2×, queue of 0.5 s", "ended: ok",
		},
		{
			"freeze",
			freeze{
				workers: 2, rate: 60, before: 200 * ms, frozen: 3500 * ms, after: 600 * ms, wedged: 200 * ms,
				firstByte: 500 * ms, idle: 500 * ms, trial: 200 * ms, slowStart: 200 * ms,
			},
			"finding", "found wedged after",
		},
		{
			"poison",
			poison{workers: 2, rate: 40, number: 4, before: 50 * ms, spread: 200 * ms, after: 200 * ms, faults: []string{"status=503"}},
			"status=503, spread", "worker calls for one, the most",
		},
		{
			"soak",
			soak{workers: 2, rate: 60, lasts: 1200 * ms, every: 100 * ms, settle: 20 * time.Second, prompt: 256, tree: 1 << 20},
			"workers", "completed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			r, err := runOne(ctx, tt.scenario, binary, dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, routerLogs(dir))
			}
			if f := find(r, tt.part, tt.figure); !(f.Value > 0) {
				t.Errorf("%s, %s: %v, want a number above 0", tt.part, tt.figure, f.Value)
			}
			for _, f := range r.Figures {
				if f.Part == "at the end" && f.Missed {
					t.Errorf("%s: %v, want %s", f.Name, f.Value, f.Target)
				}
			}
			if t.Failed() {
				r.print(t.Output())
			}
		})
	}
}

func find(r report, part, name string) figure {
	for _, f := range r.Figures {
		if f.Part == part && f.Name == name {
			return f
		}
	}
	return figure{}
}

func routerLogs(dir string) string {
	text := ""
	names, _ := filepath.Glob(filepath.Join(dir, "router-*.log"))
	for _, name := range names {
		b, _ := os.ReadFile(name)
		text += string(b)
	}
	return text
}

// The bed leaves nobody behind, a stopped worker included.
func TestBedEndsItsProcesses(t *testing.T) {
	b := &bed{logs: t.TempDir()}
	t.Cleanup(b.end)
	workers, err := b.startWorkers(2, simulation{}.Worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := workers[1].signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.end()
	for i, w := range workers {
		if w.cmd.ProcessState == nil {
			t.Errorf("worker %d runs on", i)
		}
	}
}

func TestParseScenarios(t *testing.T) {
	ten, two := fullSoak, fullSoak
	ten.lasts, two.lasts = 10*time.Minute, 2*time.Minute
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"one", []string{"poison"}, fmt.Sprint([]scenario{fullPoison})},
		{"soak has a default", []string{"soak"}, fmt.Sprint([]scenario{ten})},
		{"several, in order", []string{"soak", "-minutes", "2", "freeze", "overload"}, fmt.Sprint([]scenario{two, fullFreeze, fullOverload})},
		{"none", nil, "no scenario is given: name overload, freeze, poison or soak"},
		{"unknown", []string{"fire"}, `scenario "fire" is none of overload, freeze, poison and soak`},
		{"minutes are the soak's", []string{"freeze", "-minutes", "2"}, "flag provided but not defined: -minutes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := parseScenarios(tt.args)
			got := fmt.Sprint(all)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("parseScenarios(%q) gave %s, want %s", tt.args, got, tt.want)
			}
		})
	}
}

// Help is no error: it would be taken for something that couldn't be measured.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"overload", "-h"}} {
		if err := Run(t.Context(), args); err != nil {
			t.Errorf("%v: %v, want no error", args, err)
		}
	}
}

func TestSlope(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"one", []float64{5}, 0},
		{"flat", []float64{5, 5, 5}, 0},
		{"rising", []float64{1, 2, 3, 4}, 3},
		{"falling", []float64{9, 7, 5}, -4},
		{"a peak in the middle is no rise", []float64{1, 9, 1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := slope(tt.values); got != tt.want {
				t.Errorf("slope(%v) = %v, want %v", tt.values, got, tt.want)
			}
		})
	}
}

func TestSeriesSum(t *testing.T) {
	s := series{`load{worker="a"}`: 2, `load{worker="b"}`: 3, "load_total": 7, "up": 1}
	for name, want := range map[string]float64{"load": 5, "load_total": 7, "up": 1, "none": 0} {
		if got := s.sum(name); got != want {
			t.Errorf("sum(%q) = %v, want %v", name, got, want)
		}
	}
}
