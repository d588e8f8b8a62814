package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/replay"
	"loadstar/bench/sim"
)

// Command is the name of the command that measures.
const Command = "routing"

// Kind is what a Result's field of that name says.
const Kind = "routing"

// Settings say what is measured.
type Settings struct {
	Routers []string `json:"routers"` // the first is the one that is judged
	Rounds  int      `json:"rounds"`
	Seed    uint64   `json:"seed"` // of the first round; the next ones' follow

	Programs compare.Programs `json:"-"`
	Core     int              `json:"-"` // the routers'; this process must not run there
}

// Result is everything that was measured.
type Result struct {
	Kind        string          `json:"kind"`
	Time        string          `json:"time"` // when it began, RFC 3339
	Command     string          `json:"command"`
	Machine     compare.Machine `json:"machine"`
	Settings    Settings        `json:"settings"`
	Interrupted bool            `json:"interrupted,omitempty"` // so that runs are missing
	Rows        []Row           `json:"rows"`
}

// Row is what routers came to in one scenario.
type Row struct {
	Scenario
	Runs      []replay.Measured `json:"runs"`
	Simulated []sim.Run         `json:"simulated"` // of Loadstar's policies among the routers, with the same requests
}

const (
	connections = 2048
	tries       = 3 // of a replay whose requests were sent late
)

// Run measures, and returns what it has, also when ctx ended it before time. It says
// on log what it does.
func Run(ctx context.Context, scenarios []Scenario, s Settings, log io.Writer) (*Result, error) {
	if len(scenarios) == 0 {
		return nil, errors.New("no scenario: name one of those there are, or none for all")
	}
	r := &Result{Kind: Kind, Time: time.Now().UTC().Format(time.RFC3339), Machine: compare.ThisMachine(), Settings: s}
	for _, c := range scenarios {
		r.Rows = append(r.Rows, Row{Scenario: c})
	}
	for round := range s.Rounds {
		for i := range r.Rows {
			row := &r.Rows[i]
			fmt.Fprintf(log, "round %d of %d: %s\n", round+1, s.Rounds, row.Name)
			err := s.measure(ctx, row, round, log)
			if err != nil {
				r.Interrupted = true
				r.finish()
				return r, err
			}
		}
	}
	r.finish()
	return r, nil
}

// finish takes directories out of what others will read.
func (r *Result) finish() {
	r.Machine.Load[1] = compare.LoadAverage()
	for i := range r.Rows {
		r.Rows[i].Setup.Workload = r.Rows[i].Setup.Name()
	}
}

// measure has all routers, and the simulator, serve a scenario once.
func (s Settings) measure(ctx context.Context, row *Row, round int, log io.Writer) error {
	seed := s.Seed + uint64(round)
	for _, router := range s.Routers {
		m, err := s.replay(ctx, row, router, seed, log)
		if err != nil {
			return err
		}
		m.Round = round + 1
		row.Runs = append(row.Runs, *m)
	}
	rules := s.rules()
	if len(rules) == 0 {
		return nil
	}
	settings := sim.Settings{Setup: row.Setup, Rest: replay.Rest.Seconds()}.WithDefaults()
	simulated, err := sim.Simulate(ctx, []sim.Scenario{{Name: row.Name, Settings: settings}}, rules, seed, 1, io.Discard)
	if err != nil {
		return err
	}
	row.Simulated = append(row.Simulated, simulated.Rows[0].Runs...)
	return nil
}

// replay has one router serve a scenario, again if the machine was too busy for its
// times to mean something.
func (s Settings) replay(ctx context.Context, row *Row, router string, seed uint64, log io.Writer) (*replay.Measured, error) {
	var m *replay.Measured
	for range tries {
		r, err := replay.Run(ctx, replay.Settings{
			Setup: row.Setup, Routers: []string{router}, Model: compare.Model, Rounds: 1, Seed: seed, TimeScale: row.Scale,
			Connections: connections, Programs: s.Programs, Core: s.Core,
		}, io.Discard)
		if err != nil {
			return nil, err
		}
		m = &r.Runs[0]
		fmt.Fprintf(log, "  %s: mean %.1f ms, p99 %.1f, cached %.3f of %.3f %s\n", router, m.TTFT.Mean, m.TTFT.P99, m.Hit, m.Endless, m.Trouble(row.Scale))
		if !m.TooLate(row.Scale) {
			break
		}
	}
	return m, nil
}

// rules are the policies of Loadstar that are measured.
func (s Settings) rules() []sim.Rule {
	var all []sim.Rule
	for _, name := range s.Routers {
		if policy, is := strings.CutPrefix(name, "loadstar:"); is && sim.Rule(policy).Check() == nil {
			all = append(all, sim.Rule(policy))
		}
	}
	return all
}

// Versions are the routers' versions by their names, where they are known.
func (r *Result) Versions() map[string]string {
	all := make(map[string]string)
	for i := range r.Rows {
		for _, m := range r.Rows[i].Runs {
			all[m.Router] = m.Version
		}
	}
	return all
}

// Stat is a figure of a router's rounds.
func (r *Row) Stat(router string, figure func(*replay.Measured) float64) sim.Stat {
	var all []float64
	for i := range r.Runs {
		if r.Runs[i].Router == router {
			all = append(all, figure(&r.Runs[i]))
		}
	}
	return sim.StatOf(all)
}

// Mean is the mean time to the first token in ms.
func Mean(m *replay.Measured) float64 { return m.TTFT.Mean }

// P99 is the 99th percentile of it.
func P99(m *replay.Measured) float64 { return m.TTFT.P99 }

// Hit is the share of the prompts that was cached.
func Hit(m *replay.Measured) float64 { return m.Hit }

// Endless is the share that an endless cache of all workers would have had.
func Endless(m *replay.Measured) float64 { return m.Endless }

// Uneven is the number of workers times the largest share of the requests.
func Uneven(m *replay.Measured) float64 { return m.Requests.Unevenness }

// Best is the least median of a figure among the routers other than the first.
func (r *Result) Best(row *Row, figure func(*replay.Measured) float64) (router string, median float64) {
	for _, name := range r.Settings.Routers[1:] {
		if strings.HasPrefix(name, "loadstar") || !slices.ContainsFunc(row.Runs, func(m replay.Measured) bool { return m.Router == name }) {
			continue
		}
		if m := row.Stat(name, figure).Median; router == "" || m < median {
			router, median = name, m
		}
	}
	return router, median
}

// Trouble is what went wrong, a line each.
func (r *Result) Trouble() []string {
	var all []string
	for i := range r.Rows {
		row := &r.Rows[i]
		for j := range row.Runs {
			m := &row.Runs[j]
			if text := m.Trouble(row.Scale); text != "" {
				all = append(all, fmt.Sprintf("%s, %s, round %d: %s", row.Name, m.Router, m.Round, text))
			}
		}
	}
	return all
}
