package report

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Measures of a chart in pixels.
const (
	width      = 720
	nameWidth  = 200
	valueWidth = 90
	rowHeight  = 20
	barHeight  = 14
	titleSpace = 30
	margin     = 12
)

// style suits a light and a dark page, as the reader's system says.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}
.title{font-weight:600;font-size:13px}
.bar{fill:#8c959f}.ours{fill:#0969da}.spread{stroke:#1f2328;stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4493f8}.spread{stroke:#e6edf3}}
</style>`

// bars draws a bar for each router under each metric of a group, with a line from
// the least to the most of the rounds.
func bars(t table, g group) string {
	var b strings.Builder
	y := margin
	for _, m := range g.metrics {
		if !t.has(m.id) {
			continue
		}
		fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y+14, escaped(m.title))
		y += titleSpace - 8
		most := 0.0
		for _, r := range t.routers {
			if s, found := t.get(m.id, r); found {
				most = max(most, s.most)
			}
		}
		for _, r := range t.routers {
			if s, found := t.get(m.id, r); found {
				bar(&b, r, s, most, y, r == t.mine)
				y += rowHeight
			}
		}
		y += 8
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" role=\"img\" aria-label=\"%s\">\n%s\n%s</svg>\n",
		width, y+margin, escaped(g.title), style, b.String())
}

func bar(b *strings.Builder, router string, s stat, most float64, y int, mine bool) {
	const room = width - nameWidth - valueWidth - margin
	at := func(v float64) float64 {
		if most <= 0 {
			return nameWidth
		}
		return nameWidth + room*max(0, v)/most
	}
	class := "bar"
	if mine {
		class = "ours"
	}
	middle := y + barHeight/2
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", nameWidth-8, y+11, escaped(router))
	fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", class, nameWidth, y, max(1, at(s.median)-nameWidth), barHeight)
	if s.rounds > 1 {
		fmt.Fprintf(b, "<line class=\"spread\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%[3]d\"/>\n", at(s.least), at(s.most), middle)
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", at(s.most)+6, y+11, number(s.median))
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder's Write doesn't err
	return b.String()
}
