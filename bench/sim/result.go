package sim

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"loadstar/bench/load"
)

// Kind is what a Result's field of that name says.
const Kind = "sim"

// Result is everything that simulations came to.
type Result struct {
	Kind    string `json:"kind"`
	Time    string `json:"time"` // when they began, RFC 3339
	Command string `json:"command"`
	Rules   []Rule `json:"rules"`
	Rows    []Row  `json:"rows"`
}

// Row is what rules came to in one scenario.
type Row struct {
	Scenario
	Runs []Run `json:"runs"`
}

// Run is one simulation. Requests of the warm-up count in nothing but the shares.
type Run struct {
	Rule    Rule     `json:"rule"`
	Seed    uint64   `json:"seed"`
	Counted int      `json:"counted"`
	TTFT    Quantity `json:"ttft_ms"`           // from a request's arrival to its first token
	Hit     float64  `json:"hit_ratio"`         // cached of prompt blocks
	Endless float64  `json:"endless_hit_ratio"` // the same, with one endless cache that all share
	Shares  []int64  `json:"shares"`            // requests given to each worker
	Uneven  float64  `json:"unevenness"`        // the number of workers times the largest share
}

// Quantity is a distribution of times in ms.
type Quantity struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// tally sums up the counted jobs of a run.
type tally struct {
	times                 []time.Duration
	sum                   time.Duration
	blocks, hits, endless int
}

func (t *tally) add(j *job) {
	if q := j.request; q.counted {
		t.times = append(t.times, j.first-q.at)
		t.sum += j.first - q.at
		t.blocks += len(q.chain)
		t.hits += j.hits
		t.endless += q.endless
	}
}

func (t *tally) run(rule Rule, seed uint64, workers []*worker) Run {
	r := Run{Rule: rule, Seed: seed, Counted: len(t.times)}
	if n := len(t.times); n > 0 {
		r.TTFT = Quantity{
			Mean: float64(t.sum) / float64(n) / float64(time.Millisecond),
			P50:  load.Quantile(t.times, .5), P99: load.Quantile(t.times, .99), Max: load.Quantile(t.times, 1),
		}
		r.Hit, r.Endless = float64(t.hits)/float64(t.blocks), float64(t.endless)/float64(t.blocks)
	}
	total := int64(0)
	for _, w := range workers {
		r.Shares = append(r.Shares, w.requests)
		total += w.requests
	}
	if total > 0 {
		r.Uneven = float64(len(workers)) * float64(slices.Max(r.Shares)) / float64(total)
	}
	return r
}

// Stat is what the seeds of one rule came to in one figure.
type Stat struct{ Median, Least, Most float64 }

// Stat is a figure of a rule's runs, and zero if it has none.
func (r *Row) Stat(rule Rule, figure func(*Run) float64) Stat {
	var all []float64
	for i := range r.Runs {
		if r.Runs[i].Rule == rule {
			all = append(all, figure(&r.Runs[i]))
		}
	}
	return StatOf(all)
}

// StatOf is that of some values, which it sorts; zero of none.
func StatOf(all []float64) Stat {
	n := len(all)
	if n == 0 {
		return Stat{}
	}
	slices.Sort(all)
	return Stat{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1]}
}

// The figures of a table.
func mean(r *Run) float64    { return r.TTFT.Mean }
func p50(r *Run) float64     { return r.TTFT.P50 }
func p99(r *Run) float64     { return r.TTFT.P99 }
func hit(r *Run) float64     { return r.Hit }
func endless(r *Run) float64 { return r.Endless }
func uneven(r *Run) float64  { return r.Uneven }

// Mean is the median of the mean times to the first token in ms, with its spread.
func (r *Row) Mean(rule Rule) Stat { return r.Stat(rule, mean) }

// Print writes the result as a table of medians for each row.
func (r *Result) Print(out io.Writer) error {
	for i := range r.Rows {
		row := &r.Rows[i]
		s := row.Settings
		if i > 0 {
			fmt.Fprintln(out)
		}
		view := fmt.Sprintf("a tree of %d KiB", s.ViewBytes>>10)
		if s.ViewBlocks > 0 {
			view = fmt.Sprintf("%d blocks a worker", s.ViewBlocks)
		}
		fmt.Fprintf(out, "%s: %d workers with %.6g blocks/s and a cache of %d, the router sees %s\n", row.Name, s.Workers, s.Prefill, s.CacheBlocks, view)
		best := row.best(r.Rules)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "rule\tTTFT mean\tleast\tmost\tof best\tp50\tp99 ms\thit\tof endless\tuneven\t")
		for _, rule := range r.Rules {
			m := row.Mean(rule)
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.3f\t%.3f\t%.2f\t\n", rule, m.Median, m.Least, m.Most, m.Median/best,
				row.Stat(rule, p50).Median, row.Stat(rule, p99).Median, row.Stat(rule, hit).Median, row.Stat(rule, endless).Median, row.Stat(rule, uneven).Median)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// best is the least median of the mean times.
func (r *Row) best(rules []Rule) float64 {
	best := r.Mean(rules[0]).Median
	for _, rule := range rules {
		best = min(best, r.Mean(rule).Median)
	}
	return best
}
