package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"loadstar/bench/compare"
)

// Compare writes a comparison as a page of Markdown. It hands each chart, by the
// end of its name, to chart, which returns the link to put in, or is nil if there
// are to be none.
func Compare(out io.Writer, r *compare.Result, chart func(name, svg string) (link string, err error)) error {
	p := &page{table: tabulate(r)}
	p.head(r)
	for _, g := range groups {
		if err := p.group(g, chart); err != nil {
			return err
		}
	}
	p.bounds()
	p.lost()
	p.notes(r)
	_, err := io.WriteString(out, p.text.String())
	return err
}

type page struct {
	table
	text strings.Builder
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

func (p *page) head(r *compare.Result) {
	day, _, _ := strings.Cut(r.Time, "T")
	p.printf("# Routers compared, %s\n\n", day)
	p.machine(r.Machine)
	p.printf("Routers take turns on one core, workers and generator have the others. %d rounds, %v s for each measurement; medians,\n", r.Settings.Rounds, r.Settings.Seconds)
	p.printf("with the least and the most in brackets. Compare within a row.\n\n")
	if r.Interrupted {
		p.printf("The run was interrupted, so the measurements that come last are of fewer rounds.\n\n")
	}
	p.printf("```sh\n%s\n```\n\n", strings.TrimSpace(r.Command))
	p.printf("| router | version |\n|---|---|\n")
	for _, router := range r.Routers {
		version := router.Version
		if router.Missing != "" {
			version = "not measured; to have it: `" + router.Missing + "`"
		}
		p.printf("| %s | %s |\n", router.Name, version)
	}
}

func (p *page) machine(m compare.Machine) {
	p.printf("%d cores (%s), Linux %s, %s; load average %s before and %s after.\n", m.Cores, m.CPU, m.Kernel, m.Go, m.Load[0], m.Load[1])
}

func (p *page) group(g group, chart func(name, svg string) (string, error)) error {
	if !slices.ContainsFunc(g.metrics, func(m metric) bool { return p.has(m.id) }) {
		return nil
	}
	p.printf("\n## %s\n\n%s\n\n| |", g.title, g.text)
	for _, r := range p.routers {
		p.printf(" %s |", r)
	}
	p.printf("\n|---|%s\n", strings.Repeat("---|", len(p.routers)))
	for _, m := range g.metrics {
		if !p.has(m.id) {
			continue
		}
		p.printf("| %s |", m.title)
		for _, r := range p.routers {
			p.printf(" %s |", p.cell(m, r))
		}
		p.printf("\n")
	}
	if base, found := p.get(compare.LatencyP50, direct); found && g.file == "latency" {
		mean, _ := p.get(compare.LatencyMean, direct)
		p.printf("\nWithout a router: mean %s, p50 %s.\n", number(mean.median), number(base.median))
	}
	if chart == nil {
		return nil
	}
	link, err := chart(g.file, bars(p.table, g))
	if err != nil {
		return err
	}
	p.printf("\n![%s](%s)\n", g.title, link)
	return nil
}

// cell is a median, its spread and, in bold, that it is the best.
func (p *page) cell(m metric, router string) string {
	s, found := p.get(m.id, router)
	if !found {
		return "–"
	}
	text := number(s.median)
	if p.best(m) == router {
		text = "**" + text + "**"
	}
	if s.rounds > 1 {
		text += between(s.least, s.most)
	}
	return text
}

// best is the router with the best median.
func (p *page) best(m metric) string {
	best, value := "", 0.0
	for _, r := range p.routers {
		s, found := p.get(m.id, r)
		if found && (best == "" || better(m, s.median, value)) {
			best, value = r, s.median
		}
	}
	return best
}

func better(m metric, a, b float64) bool { return a != b && (a > b) == m.more }

// bounds tells what was promised about ratios and whether it holds.
func (p *page) bounds() {
	begun := false
	for _, b := range bounds {
		mine, found := p.get(b.metric, ours)
		other, foundOther := p.get(b.metric, b.other)
		if !found || !foundOther {
			continue
		}
		if !begun {
			p.printf("\n## Bounds\n\n| what | Loadstar | allowed | from | |\n|---|---|---|---|---|\n")
			begun = true
		}
		sign, verdict := "≤", "met"
		if b.more {
			sign = "≥"
		}
		if !b.met(mine.median, other.median) {
			verdict = "**missed**"
		}
		plus := ""
		if b.plus > 0 {
			plus = " + " + number(b.plus)
		}
		p.printf("| %s | %s | %s %s | %s × %s (%s)%s | %s |\n", b.metric, number(mine.median), sign, number(b.limit(other.median)),
			number(b.factor), b.other, number(other.median), plus, verdict)
	}
}

// lost tells where others are better.
func (p *page) lost() {
	var lines []string
	for _, g := range groups {
		for _, m := range g.metrics {
			mine, found := p.get(m.id, ours)
			if !found {
				continue
			}
			for _, r := range p.routers {
				s, found := p.get(m.id, r)
				if r == ours || !found || !better(m, s.median, mine.median) {
					continue
				}
				lines = append(lines, fmt.Sprintf("- %s, %s: %s has %s, Loadstar %s.", g.title, m.title, r, number(s.median), number(mine.median)))
			}
		}
	}
	if _, found := p.get(groups[0].metrics[0].id, ours); !found && len(lines) == 0 {
		return
	}
	p.printf("\n## Where another is better\n\n")
	if len(lines) == 0 {
		p.printf("Nowhere.\n")
	}
	for _, l := range lines {
		p.printf("%s\n", l)
	}
}

// notes tells what went wrong.
func (p *page) notes(r *compare.Result) {
	counts := make(map[string]int)
	for _, s := range r.Samples {
		text := s.Note
		if text == "" && s.Failed > 0 {
			text = fmt.Sprintf("%d of %d requests failed", s.Failed, s.Requests)
		}
		if text != "" {
			counts[fmt.Sprintf("- %s, %s, round %d: %s\n", s.Router, s.Metric, s.Round, text)]++
		}
	}
	if len(counts) == 0 {
		return
	}
	p.printf("\n## Notes\n\n")
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		p.printf("%s", line)
	}
}

// between is the least and the most of some values, behind their median.
func between(least, most float64) string {
	return fmt.Sprintf(" (%s–%s)", number(least), number(most))
}

// number writes v with three digits, or all of them where there are more before
// the point.
func number(v float64) string {
	if v >= 100 || v <= -100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
