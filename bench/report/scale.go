package report

import (
	"io"
	"slices"
	"strings"

	"loadstar/bench/scale"
)

// Scale writes what was measured of a growing fleet as a page of Markdown.
func Scale(out io.Writer, r *scale.Result) error {
	p := &page{}
	day, _, _ := strings.Cut(r.Time, "T")
	p.printf("# Cost as the fleet grows, %s\n\n", day)
	p.machine(r.Machine)
	p.printf("%s on one core; workers, in one process, and generator have the others. %d rounds of %v s for requests and %v s of watching;\n",
		r.Version, r.Settings.Rounds, r.Settings.Seconds, r.Settings.Idle)
	p.printf("medians, with the least and the most. CPU and memory are the kernel's account of the router's process; times are also what others did to the machine.\n\n")
	if r.Interrupted {
		p.printf("The run was interrupted, so figures are missing or of fewer rounds.\n\n")
	}
	p.printf("```sh\n%s\n```\n", strings.TrimSpace(r.Command))
	part := ""
	for _, f := range r.Figures {
		if f.Part != part {
			part = f.Part
			p.printf("\n## %s\n\n| | median | least–most | must be | |\n|---|---|---|---|---|\n", part)
		}
		p.figure(f)
	}
	if len(r.Notes) > 0 {
		p.printf("\n## Notes\n\n")
	}
	for _, n := range r.Notes {
		p.printf("- %s\n", n)
	}
	_, err := io.WriteString(out, p.text.String())
	return err
}

// figure is a line of a table.
func (p *page) figure(f *scale.Figure) {
	values := slices.Sorted(slices.Values(f.Values))
	if len(values) == 0 {
		return
	}
	middle, target, verdict := median(values), "", ""
	if f.Most != nil {
		target, verdict = "≤ "+number(*f.Most), "met"
		if middle > *f.Most {
			verdict = "**missed**"
		}
	}
	p.printf("| %s | %s | %s–%s | %s | %s |\n", f.Name, strings.TrimSpace(number(middle)+" "+f.Unit), number(values[0]), number(values[len(values)-1]), target, verdict)
}
