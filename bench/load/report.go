package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what a load measured.
type Report struct {
	URL         string            `json:"url"`
	Loop        string            `json:"loop"` // open or closed
	Connections int               `json:"connections"`
	Seconds     float64           `json:"seconds"`   // from the start to the last end
	Requests    uint64            `json:"requests"`  // ended in any way, the warm-up's included
	OK          uint64            `json:"ok"`        // 2xx and whole
	Truncated   uint64            `json:"truncated"` // shorter than they said, or a stream without [DONE]
	Unsent      uint64            `json:"unsent"`    // due when too many were under way
	Errors      map[string]uint64 `json:"errors"`    // without a whole answer, by kind
	Statuses    map[string]uint64 `json:"statuses"`  // whole answers other than 2xx
	Events      uint64            `json:"events"`    // of streams
	Bytes       uint64            `json:"bytes"`     // of bodies
	PerSecond   float64           `json:"ok_per_second"`
	TTFT        Summary           `json:"ttft_us"` // of good ones, as are the following
	Gap         Summary           `json:"gap_us"`  // between events
	Total       Summary           `json:"total_us"`
	Late        Summary           `json:"late_us"` // from due to sent: the generator's own fault
}

// Summary is a distribution of times in µs.
type Summary struct {
	Count  int64   `json:"count"`
	Mean   float64 `json:"mean"`
	Min    float64 `json:"min"`
	P50    float64 `json:"p50"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	P999   float64 `json:"p99_9"`
	Max    float64 `json:"max"`
	Points []Point `json:"distribution,omitempty"`
}

// Point says that Percent of the times are at most Micros.
type Point struct {
	Percent float64 `json:"percent"`
	Micros  float64 `json:"us"`
}

var percents = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9, 99.99, 100}

func summary(h *hdrhistogram.Histogram) Summary {
	if h.TotalCount() == 0 {
		return Summary{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtPercentile(q)) / 1000 }
	s := Summary{
		Count: h.TotalCount(), Mean: h.Mean() / 1000, Min: float64(h.Min()) / 1000,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000,
	}
	for _, p := range percents {
		s.Points = append(s.Points, Point{p, at(p)})
	}
	return s
}

// Failed is how many requests had no whole answer with 2xx.
func (r *Report) Failed() uint64 { return r.Requests - r.OK }

// Print writes the report as a table.
func (r *Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "%s loop, %d connections, %.1f s: %d requests, %d ok (%.1f/s), %d truncated, %d unsent, %d events\n",
		r.Loop, r.Connections, r.Seconds, r.Requests, r.OK, r.PerSecond, r.Truncated, r.Unsent, r.Events)
	for _, k := range slices.Sorted(maps.Keys(r.Statuses)) {
		fmt.Fprintf(out, "status %s: %d\n", k, r.Statuses[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "%s: %d\n", k, r.Errors[k])
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "ms\tcount\tmean\tmin\tp50\tp90\tp99\tp99.9\tmax\t\n")
	for _, row := range []struct {
		name string
		Summary
	}{{"first token", r.TTFT}, {"between tokens", r.Gap}, {"total", r.Total}, {"sent late", r.Late}} {
		if row.Count == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t", row.name, row.Count)
		for _, v := range []float64{row.Mean, row.Min, row.P50, row.P90, row.P99, row.P999, row.Max} {
			fmt.Fprintf(w, "%.3f\t", v/1000)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
