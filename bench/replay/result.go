package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstar/bench/load"
)

// Kind is what a Result's field of that name says.
const Kind = "replay"

// Result is everything that a replay measured.
type Result struct {
	Kind        string     `json:"kind"`
	Time        string     `json:"time"` // when it began, RFC 3339
	Command     string     `json:"command"`
	Settings    Settings   `json:"settings"`              // the workload without its directory
	Interrupted bool       `json:"interrupted,omitempty"` // so that runs are missing
	Runs        []Measured `json:"runs"`
}

// Measured is one replay through one router. Requests that fell due in the warm-up
// count in Sent and the errors only.
type Measured struct {
	Router  string `json:"router"`
	Version string `json:"version,omitempty"`
	Round   int    `json:"round"`

	Counted      uint64   `json:"counted"` // good answers, of which the following is
	PromptTokens uint64   `json:"prompt_tokens"`
	CachedTokens uint64   `json:"cached_tokens"`
	Hit          float64  `json:"hit_ratio"`          // cached of prompt tokens
	Endless      float64  `json:"endless_hit_ratio"`  // the same, with one endless cache that all share
	Unpriced     uint64   `json:"unpriced,omitempty"` // answers without usage, not in the ratios
	TTFT         Quantity `json:"ttft_ms"`            // without the time scale

	Sent      uint64            `json:"sent"`
	OK        uint64            `json:"ok"`
	Truncated uint64            `json:"truncated"`
	Unsent    uint64            `json:"unsent"`   // due when too many were under way
	Errors    map[string]uint64 `json:"errors"`   // without a whole answer, by kind
	Statuses  map[string]uint64 `json:"statuses"` // whole answers other than 2xx
	Late      Quantity          `json:"late_ms"`  // from due to sent, in real time: the generator's own fault
	Seconds   float64           `json:"seconds"`  // in real time

	Requests    Balance   `json:"requests"` // of the whole replay, retries included
	Prompts     Balance   `json:"prompts"`  // tokens
	LoadAverage [2]string `json:"load_average"`
}

// Quantity is a distribution of times in ms.
type Quantity struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Balance is how something was spread over the workers that are simulated here.
type Balance struct {
	ByWorker   []int64 `json:"by_worker,omitempty"`
	Unevenness float64 `json:"unevenness,omitempty"` // workers times the largest share
}

func quantity(h *hdrhistogram.Histogram) Quantity {
	if h.TotalCount() == 0 {
		return Quantity{}
	}
	ms := func(ns float64) float64 { return ns / float64(time.Millisecond) }
	at := func(percent float64) float64 { return ms(float64(h.ValueAtPercentile(percent))) }
	return Quantity{Mean: ms(h.Mean()), P50: at(50), P90: at(90), P99: at(99), Max: ms(float64(h.Max()))}
}

func (m *Measured) fill(b book, r *load.Report) {
	m.Counted, m.PromptTokens, m.CachedTokens, m.Unpriced = b.requests, b.prompt, b.cached, b.unpriced
	if b.prompt > 0 {
		m.Hit = float64(b.cached) / float64(b.prompt)
		m.Endless = float64(b.endless) / float64(b.prompt)
	}
	m.TTFT = quantity(b.ttft)
	m.Sent, m.OK, m.Truncated, m.Unsent, m.Errors, m.Statuses = r.Requests, r.OK, r.Truncated, r.Unsent, r.Errors, r.Statuses
	m.Late = Quantity{Mean: r.Late.Mean / 1000, P50: r.Late.P50 / 1000, P90: r.Late.P90 / 1000, P99: r.Late.P99 / 1000, Max: r.Late.Max / 1000}
	m.Seconds = r.Seconds
}

// Failed is how many requests of all runs had no good answer or were not sent.
func (r *Result) Failed() uint64 {
	n := uint64(0)
	for _, m := range r.Runs {
		n += m.Sent - m.OK + m.Unsent
	}
	return n
}

// Print writes the result as a table.
func (r *Result) Print(out io.Writer) error {
	s := r.Settings
	fmt.Fprintf(out, "%s, seed %d, speed %v, time scale %v, %d workers with %.6g blocks/s and a cache of %d\n",
		s.Workload, s.Seed, s.Speed, s.TimeScale, s.Workers, s.Prefill, s.CacheBlocks)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "router\tround\tTTFT mean\tp50\tp90\tp99 ms\thit\tof endless\tuneven req\tuneven tok\tcounted\tlate p99 ms\tload\t")
	for _, m := range r.Runs {
		load, _, _ := strings.Cut(m.LoadAverage[1], " ")
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.2f\t%.2f\t%d\t%.2f\t%s\t\n", m.Router, m.Round,
			m.TTFT.Mean, m.TTFT.P50, m.TTFT.P90, m.TTFT.P99, m.Hit, m.Endless, m.Requests.Unevenness, m.Prompts.Unevenness,
			m.Counted, m.Late.P99, load)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range r.Runs {
		if trouble := m.Trouble(s.TimeScale); trouble != "" {
			fmt.Fprintf(out, "%s, round %d: %s\n", m.Router, m.Round, trouble)
		}
	}
	return nil
}

// Trouble is what went wrong in a run, if anything.
func (m *Measured) Trouble(timeScale float64) string {
	var all []string
	add := func(n uint64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(m.Truncated, "truncated")
	for _, k := range slices.Sorted(maps.Keys(m.Statuses)) {
		add(m.Statuses[k], "with status "+k)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Errors)) {
		add(m.Errors[k], "with error "+k)
	}
	add(m.Unsent, "unsent")
	add(m.Unpriced, "without usage")
	if m.TooLate(timeScale) {
		all = append(all, fmt.Sprintf("times mean nothing, as 1 %% of the requests were sent %.3g ms late or more", m.Late.P99*timeScale))
	}
	return strings.Join(all, ", ")
}

// TooLate reports whether the generator has measured itself: 1 % of the requests were
// late by more than the median first token took.
func (m *Measured) TooLate(timeScale float64) bool {
	return m.Counted > 0 && m.Late.P99*timeScale > m.TTFT.P50
}
