package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a scenario measured.
type report struct {
	Scenario string   `json:"scenario"`
	Setting  []string `json:"setting"`
	Figures  []figure `json:"figures"`
	Samples  any      `json:"samples,omitempty"`
}

// figure is one number of a report.
type figure struct {
	Part   string  `json:"part"`
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target string  `json:"target,omitempty"`
	Missed bool    `json:"missed,omitempty"`
}

func (r *report) add(part, name string, value float64, unit string) {
	r.Figures = append(r.Figures, figure{Part: part, Name: name, Value: value, Unit: unit})
}

func (r *report) atMost(part, name string, value float64, unit string, most float64) {
	r.Figures = append(r.Figures, figure{part, name, value, unit, "≤ " + number(most), !(value <= most)})
}

func (r *report) atLeast(part, name string, value float64, unit string, least float64) {
	r.Figures = append(r.Figures, figure{part, name, value, unit, "≥ " + number(least), !(value >= least)})
}

// fates adds how many requests ended in which way.
func (r *report) fates(part string, results []result) {
	counts := make(map[string]int)
	for i := range results {
		name := results[i].fate()
		if results[i].ask.group != "" {
			name = results[i].ask.group + " " + name
		}
		counts[name]++
	}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.add(part, "ended: "+name, float64(counts[name]), "requests")
	}
}

func (r *report) missed() bool {
	return slices.ContainsFunc(r.Figures, func(f figure) bool { return f.Missed })
}

// print writes the report as a table.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", r.Scenario)
	for _, s := range r.Setting {
		fmt.Fprintf(out, "  %s\n", s)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, f := range r.Figures {
		verdict := ""
		switch {
		case f.Missed:
			verdict = "MISSED"
		case f.Target != "":
			verdict = "met"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s %s\t%s\t%s\n", f.Part, f.Name, number(f.Value), f.Unit, f.Target, verdict)
	}
	_ = w.Flush()
}

// number writes v with four digits, or all of them where there are more before the point.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pick collects a time of the results for which keep holds.
func pick(results []result, keep func(*result) bool, of func(*result) time.Duration) []time.Duration {
	var times []time.Duration
	for i := range results {
		if keep(&results[i]) {
			times = append(times, of(&results[i]))
		}
	}
	return times
}

// slope is the rise of the line through points of equal distance that is nearest
// to them, from the first point to the last.
func slope(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return 0
	}
	var sumY, sumXY, sumXX float64
	for i, y := range values {
		x := float64(i) - (n-1)/2
		sumY += y
		sumXY += x * y
		sumXX += x * x
	}
	return sumXY / sumXX * (n - 1)
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total / max(1, float64(len(values)))
}

// series is the values of a /metrics page by name and labels.
type series map[string]float64

// sum adds up the series of one name.
func (s series) sum(name string) float64 {
	total := 0.0
	for full, v := range s {
		if before, _, _ := strings.Cut(full, "{"); before == name {
			total += v
		}
	}
	return total
}

func scrape(ctx context.Context, url string) (series, error) {
	text, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	s := make(series)
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if v, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil {
			s[strings.Join(fields[:len(fields)-1], " ")] = v
		}
	}
	return s, nil
}

// stats is what a worker has seen.
func (w *simulated) stats(ctx context.Context) (s workerStats, err error) {
	text, err := get(ctx, w.url+statsPath)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d", url, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}
