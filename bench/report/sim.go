package report

import (
	"fmt"
	"io"
	"strings"

	"loadstar/bench/sim"
)

// ourRule is the rule that charts show apart.
const ourRule = "least_work"

// Sim writes simulations as a page of Markdown: a table for each scenario, and one
// chart. Of chart see Compare.
func Sim(out io.Writer, r *sim.Result, chart func(name, svg string) (link string, err error)) error {
	t := table{mine: ourRule, stats: make(map[[2]string]stat)}
	g := group{file: "ttft", title: "Mean time to the first token, ms"}
	var text strings.Builder
	day, _, _ := strings.Cut(r.Time, "T")
	fmt.Fprintf(&text, "# Policies simulated, %s\n\nTimes are to the first token, in ms. Medians of the seeds; of the mean times also the least and the most.\n\n```sh\n%s\n```\n",
		day, strings.TrimSpace(r.Command))
	for _, rule := range r.Rules {
		t.routers = append(t.routers, string(rule))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		g.metrics = append(g.metrics, metric{id: row.Name, title: row.Name})
		simRow(&text, row, r.Rules, t)
	}
	link, err := chart(g.file, bars(t, g))
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n![%s](%s)\n", g.title, link)
	_, err = io.WriteString(out, text.String())
	return err
}

// simRow writes the table of a scenario, and has t know its mean times.
func simRow(text *strings.Builder, row *sim.Row, rules []sim.Rule, t table) {
	s := row.Settings
	view := fmt.Sprintf("a tree of %d KiB", s.ViewBytes>>10)
	if s.ViewBlocks > 0 {
		view = fmt.Sprintf("%d blocks of each", s.ViewBlocks)
	}
	fmt.Fprintf(text, "\n## %s\n\n%d workers with %.6g blocks a second and a cache of %d; the router sees %s.\n\n", row.Name, s.Workers, s.Prefill, s.CacheBlocks, view)
	text.WriteString("| rule | mean | p50 | p99 | hit | of endless | uneven |\n|---|---|---|---|---|---|---|\n")
	best := ""
	for _, rule := range rules {
		m := row.Mean(rule)
		key := [2]string{row.Name, string(rule)}
		t.stats[key] = stat{m.Median, m.Least, m.Most, len(row.Runs) / max(len(rules), 1)}
		if best == "" || m.Median < t.stats[[2]string{row.Name, best}].median {
			best = string(rule)
		}
	}
	for _, rule := range rules {
		m := t.stats[[2]string{row.Name, string(rule)}]
		mean := number(m.median)
		if string(rule) == best {
			mean = "**" + mean + "**"
		}
		if m.rounds > 1 {
			mean += between(m.least, m.most)
		}
		median := func(figure func(*sim.Run) float64) float64 { return row.Stat(rule, figure).Median }
		fmt.Fprintf(text, "| `%s` | %s | %s | %s | %.3f | %.3f | %.2f |\n", rule, mean,
			number(median(func(r *sim.Run) float64 { return r.TTFT.P50 })), number(median(func(r *sim.Run) float64 { return r.TTFT.P99 })),
			median(func(r *sim.Run) float64 { return r.Hit }), median(func(r *sim.Run) float64 { return r.Endless }), median(func(r *sim.Run) float64 { return r.Uneven }))
	}
}
