package report

import (
	"io"
	"strings"

	"loadstar/bench/replay"
	"loadstar/bench/routing"
	"loadstar/bench/sim"
)

// Routing writes what routers did to times to the first token as a page of Markdown:
// what was asked and whether it was reached, a table for each scenario, and what the
// simulator says. Of chart see Compare.
func Routing(out io.Writer, r *routing.Result, chart func(name, svg string) (link string, err error)) error {
	p := &page{}
	day, _, _ := strings.Cut(r.Time, "T")
	p.printf("# Routing compared, %s\n\n", day)
	p.machine(r.Machine)
	p.printf("Times are to the first token in ms, through real sockets to simulated workers. Routers take turns; %d rounds,\nmedians, with the least and the most in brackets. All have the same requests.\n\n", r.Settings.Rounds)
	if r.Interrupted {
		p.printf("The run was interrupted, so rounds are missing.\n\n")
	}
	p.printf("```sh\n%s\n```\n", strings.TrimSpace(r.Command))
	p.judge(r)
	t := table{routers: r.Settings.Routers, mine: r.Settings.Routers[0], stats: make(map[[2]string]stat)}
	g := group{file: "ttft", title: "Mean time to the first token, ms"}
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.Runs) == 0 {
			continue
		}
		g.metrics = append(g.metrics, metric{id: row.Name, title: row.Name})
		p.scenario(r, row, t)
	}
	p.simulated(r)
	p.versions(r)
	if trouble := r.Trouble(); len(trouble) > 0 {
		p.printf("\n## Notes\n\n")
		for _, line := range trouble {
			p.printf("- %s\n", line)
		}
	}
	if chart != nil {
		link, err := chart(g.file, bars(t, g))
		if err != nil {
			return err
		}
		p.printf("\n![%s](%s)\n", g.title, link)
	}
	_, err := io.WriteString(out, p.text.String())
	return err
}

// judge tells what is asked of the first router and whether it is so.
func (p *page) judge(r *routing.Result) {
	mine := r.Settings.Routers[0]
	p.printf("\n## %s beside the best other router\n\n| | best mean | ratio | asked | best p99 | ratio | asked | |\n|---|---|---|---|---|---|---|---|\n", mine)
	for i := range r.Rows {
		row := &r.Rows[i]
		best, mean := r.Best(row, routing.Mean)
		_, p99 := r.Best(row, routing.P99)
		if best == "" || mean == 0 || p99 == 0 {
			continue
		}
		asked := row.Load.Target()
		ofMean, ofP99 := row.Stat(mine, routing.Mean).Median/mean, row.Stat(mine, routing.P99).Median/p99
		verdict := "met"
		if ofMean > asked.Mean || ofP99 > asked.P99 {
			verdict = "**missed**"
		}
		name := row.Name
		if row.Load != routing.Any {
			name += " (" + string(row.Load) + ")"
		}
		p.printf("| %s | %s, %s | %.2f | ≤ %v | %s | %.2f | ≤ %v | %s |\n", name, best, number(mean), ofMean, asked.Mean, number(p99), ofP99, asked.P99, verdict)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if endless := row.Stat(mine, routing.Endless).Median; row.Load == routing.Idle && endless > 0 {
			share, verdict := row.Stat(mine, routing.Hit).Median/endless, "met"
			if share < routing.IdleHit {
				verdict = "**missed**"
			}
			p.printf("\nCached on an idle fleet (%s), by what an endless cache of all workers would have had: %.3f, asked ≥ %v: %s.\n", row.Name, share, routing.IdleHit, verdict)
		}
	}
}

// scenario writes the table of one, and has t know its mean times.
func (p *page) scenario(r *routing.Result, row *routing.Row, t table) {
	s := row.Setup
	p.printf("\n## %s\n\n%d workers with %.6g blocks a second and a cache of %d; %v s of it, the first %v not counted, at a time scale of %v.\n\n",
		row.Name, s.Workers, s.Prefill, s.CacheBlocks, s.Seconds, s.WarmUp, row.Scale)
	p.printf("| router | mean | p99 | hit | of endless | uneven |\n|---|---|---|---|---|---|\n")
	for _, router := range r.Settings.Routers {
		m, high := row.Stat(router, routing.Mean), row.Stat(router, routing.P99)
		if m == (sim.Stat{}) {
			continue
		}
		t.stats[[2]string{row.Name, router}] = stat{m.Median, m.Least, m.Most, r.Settings.Rounds}
		rest := func(figure func(*replay.Measured) float64) float64 { return row.Stat(router, figure).Median }
		p.printf("| %s | %s | %s | %.3f | %.3f | %.2f |\n", router, spread(m), spread(high), rest(routing.Hit), rest(routing.Endless), rest(routing.Uneven))
	}
}

func spread(s sim.Stat) string {
	if s.Least == s.Most {
		return number(s.Median)
	}
	return number(s.Median) + between(s.Least, s.Most)
}

// simulated sets what was measured beside what the simulator says.
func (p *page) simulated(r *routing.Result) {
	begun := false
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, router := range r.Settings.Routers {
			rule := sim.Rule(strings.TrimPrefix(router, "loadstar:"))
			simulated := (&sim.Row{Runs: row.Simulated}).Mean(rule).Median
			live := row.Stat(router, routing.Mean).Median
			if simulated == 0 || live == 0 {
				continue
			}
			if !begun {
				p.printf("\n## Measured beside simulated\n\nThe same requests, the same policies; means.\n\n| | policy | measured | simulated | ratio | hit | simulated |\n|---|---|---|---|---|---|---|\n")
				begun = true
			}
			hit := (&sim.Row{Runs: row.Simulated}).Stat(rule, func(r *sim.Run) float64 { return r.Hit }).Median
			p.printf("| %s | %s | %s | %s | %.2f | %.3f | %.3f |\n", row.Name, rule, number(live), number(simulated), live/simulated, row.Stat(router, routing.Hit).Median, hit)
		}
	}
}

func (p *page) versions(r *routing.Result) {
	p.printf("\n## Versions\n\n| router | version |\n|---|---|\n")
	versions := r.Versions()
	for _, router := range r.Settings.Routers {
		p.printf("| %s | %s |\n", router, versions[router])
	}
}
