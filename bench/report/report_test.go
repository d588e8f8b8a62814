package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstar/bench/compare"
	"loadstar/bench/replay"
	"loadstar/bench/routing"
	"loadstar/bench/scale"
	"loadstar/bench/sim"
	"loadstar/bench/workload"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result is a comparison of few numbers that has one of everything a report
// tells: bounds met and missed, a metric lost, a missing router, notes.
func result() *compare.Result {
	r := &compare.Result{
		Kind: compare.Kind, Time: "2026-01-02T03:04:05Z", Command: "go run ./bench compare --rounds 3 ",
		Machine:  compare.Machine{CPU: "A <fast> one", Cores: 2, Kernel: "6.0", Go: "go1.26", Load: [2]string{"0.1 0.1 0.1", "1.0 0.5 0.1"}},
		Settings: compare.Settings{Rounds: 3, Seconds: 2},
		Routers: []compare.Router{
			{Name: ours, Version: "1"},
			{Name: bare, Version: "of this module"},
			{Name: nginx, Version: "1.22"},
			{Name: "smg", Version: "1.13"},
			{Name: "haproxy", Missing: "apt install haproxy"},
		},
	}
	add := func(metric, router string, values ...float64) {
		for i, v := range values {
			r.Samples = append(r.Samples, compare.Sample{Metric: metric, Router: router, Round: i + 1, Value: v, Requests: 1000})
		}
	}
	add(compare.CPUPrefix+"200 B", ours, 20, 18, 22)
	add(compare.CPUPrefix+"200 B", bare, 14, 15, 16)
	add(compare.CPUPrefix+"200 B", nginx, 14.5, 12.5, 13.5)
	add(compare.CPUPrefix+"200 B", "smg", 90, 99, 95)
	add(compare.RatePrefix+"200 B", ours, 41000, 40000, 42000)
	add(compare.RatePrefix+"200 B", "smg", 9000, 10000, 9500)
	add(compare.LatencyMean, direct, 20)
	add(compare.LatencyP50, direct, 19)
	add(compare.LatencyP50, ours, 30, 34)
	add(compare.LatencyP50, nginx, -1, 25)
	add(compare.LeaveBefore, ours, .1)
	r.Samples = append(
		r.Samples,
		compare.Sample{Metric: compare.LeaveBefore, Router: bare, Round: 1, Note: "3 of 3 not seen within 1s"},
		compare.Sample{Metric: compare.CPUPrefix + "20 kB", Router: "smg", Round: 2, Value: 130, Requests: 100, Failed: 7},
	)
	return r
}

// simulation is two rules in two scenarios.
func simulation() *sim.Result {
	settings := sim.Settings{Setup: workload.Setup{Workload: "conversations", Workers: 4, Prefill: 1250, CacheBlocks: 4000}, ViewBytes: 32 << 20}
	r := &sim.Result{
		Kind: sim.Kind, Time: "2026-01-02T03:04:05Z", Command: "go run ./bench sim", Rules: []sim.Rule{"miss+pending", "least_work"},
		Rows: []sim.Row{{Scenario: sim.Scenario{Name: "80 req/s", Settings: settings}}, {Scenario: sim.Scenario{Name: "<120> req/s", Settings: settings}}},
	}
	r.Rows[1].Settings.ViewBlocks = 8000
	for i := range r.Rows {
		for seed := range 3 {
			for k, rule := range r.Rules {
				x := float64(10*(i+1) + seed + k*(1-2*i))
				r.Rows[i].Runs = append(r.Rows[i].Runs, sim.Run{
					Rule: rule, Seed: uint64(seed), TTFT: sim.Quantity{Mean: x, P50: x / 2, P99: 9 * x}, Hit: x / 100, Endless: .87, Uneven: 1 + x/100,
				})
			}
		}
	}
	return r
}

// routed is three routers in an idle scenario and in one near saturation.
func routed() *routing.Result {
	r := &routing.Result{
		Kind: routing.Kind, Time: "2026-01-02T03:04:05Z", Command: "go run ./bench routing", Machine: result().Machine,
		Settings: routing.Settings{Routers: []string{"loadstar:least_work", "smg", "sglang-router"}, Rounds: 3},
	}
	for i, load := range []routing.Load{routing.Idle, routing.Full} {
		row := routing.Row{Scenario: routing.Scenario{
			Name: string(load) + " <1>", Load: load, Scale: 2,
			Setup: workload.Setup{Workload: "conversations", Workers: 4, Prefill: 1250, CacheBlocks: 4000, Seconds: 48, WarmUp: 12},
		}}
		for round := range 3 {
			for k, router := range r.Settings.Routers {
				x := float64(10*(i+1)+round) * float64(2+k) / 2
				m := replay.Measured{
					Router: router, Version: "1." + router[:1], Round: round + 1, Counted: 100, Hit: .8, Endless: .81, TTFT: replay.Quantity{Mean: x, P50: x / 2, P99: 9 * x},
					Requests: replay.Balance{Unevenness: 1.1},
				}
				if i == 1 && round == 2 && k == 2 {
					m.Unsent = 5
				}
				row.Runs = append(row.Runs, m)
			}
			row.Simulated = append(row.Simulated, sim.Run{Rule: "least_work", TTFT: sim.Quantity{Mean: float64(9*(i+1) + round)}, Hit: .79})
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func TestGolden(t *testing.T) {
	dir := t.TempDir()
	routes, err := json.Marshal(routed())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result())
	if err != nil {
		t.Fatal(err)
	}
	simulated, err := json.Marshal(simulation())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"some.json": text, "simulated.json": simulated, "routed.json": routes, "other.json": []byte(`[{"scenario":"soak"}]`)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := Files(dir)
	if err != nil || len(pages) != 3 || filepath.Base(pages[0]) != "routed.md" || filepath.Base(pages[1]) != "simulated.md" || filepath.Base(pages[2]) != "some.md" {
		t.Fatalf("the pages are %v, %v, want routed.md, simulated.md and some.md", pages, err)
	}
	for _, name := range []string{"routed.md", "routed-ttft.svg", "simulated.md", "simulated-ttft.svg", "some.md", "some-cpu.svg", "some-latency.svg"} {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join(dir, name))
		})
	}
}

// Charts are XML, and have a style for dark pages.
func TestBarsAreXML(t *testing.T) {
	table := tabulate(result())
	for _, g := range groups {
		svg := bars(table, g)
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v in\n%s", g.file, err, svg)
			}
		}
		if !strings.Contains(svg, "prefers-color-scheme:dark") {
			t.Errorf("%s has no style for dark pages", g.file)
		}
	}
}

func TestBounds(t *testing.T) {
	tests := []struct {
		name string
		bound
		mine, other float64
		want        bool
	}{
		{"at most, below", bound{factor: 1.5}, 14, 10, true},
		{"at most, above", bound{factor: 1.5}, 16, 10, false},
		{"at most and some", bound{factor: 1, plus: 15}, 24, 10, true},
		{"at least, above", bound{factor: 4, more: true}, 41, 10, true},
		{"at least, below", bound{factor: 4, more: true}, 39, 10, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.met(tt.mine, tt.other); got != tt.want {
				t.Errorf("%v beside %v: met is %v, want %v", tt.mine, tt.other, got, tt.want)
			}
		})
	}
}

// A chart that can't be kept ends the report.
func TestChartFails(t *testing.T) {
	full := errors.New("the disk is full")
	chart := func(string, string) (string, error) { return "", full }
	if err := Compare(io.Discard, result(), chart); !errors.Is(err, full) {
		t.Errorf("of a comparison, the error is %v, want %v", err, full)
	}
	if err := Sim(io.Discard, simulation(), chart); !errors.Is(err, full) {
		t.Errorf("of a simulation, the error is %v, want %v", err, full)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", .12345: "0.123", 12.345: "12.3", 123.6: "124", 41234.4: "41234", -0.758: "-0.758"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}

// scaled is a run of few numbers: targets met, missed and none, figures of one round
// and of several, a note.
func scaled() *scale.Result {
	most := func(v float64) *float64 { return &v }
	return &scale.Result{
		Kind: scale.Kind, Time: "2026-01-02T03:04:05Z", Command: "go run ./bench scale ", Version: "loadstar version 1",
		Machine:     compare.Machine{CPU: "A fast one", Cores: 2, Kernel: "6.0", Go: "go1.26", Load: [2]string{"0.1 0.1 0.1", "1.0 0.5 0.1"}},
		Settings:    scale.Settings{Rounds: 3, Seconds: 1, Idle: 10},
		Interrupted: true,
		Figures: []*scale.Figure{
			{Part: "CPU per request", Name: "4 workers", Unit: "µs", Values: []float64{22, 20, 21}},
			{Part: "CPU per request", Name: "growth", Unit: "µs", Most: most(2), Values: []float64{1, 3, 2}},
			{Part: "Streams", Name: "memory of each", Unit: "kB", Most: most(20), Values: []float64{30.25}},
			{Part: "Streams", Name: "not counted", Most: most(0), Values: []float64{0}},
			{Part: "Streams", Name: "without a value"},
		},
		Notes: []string{"Something is to be known."},
	}
}

func TestScaleGolden(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(scaled())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "growth.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	pages, err := Files(dir)
	if err != nil || len(pages) != 1 {
		t.Fatalf("the pages are %v, %v, want one", pages, err)
	}
	golden(t, pages[0])
}

// golden compares a file with the one of its name in testdata.
func golden(t *testing.T, file string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join("testdata", filepath.Base(file))
	if *update {
		if err := os.WriteFile(kept, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("it differs from %s; if it should, run go test ./bench/report -update. It is\n%s", kept, got)
	}
}
