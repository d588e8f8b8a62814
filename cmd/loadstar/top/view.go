package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"loadstar/proxy/statuspage"
)

// line is one line of the screen.
type line struct {
	text string
	look look
}

type look uint8

const (
	plain look = iota
	title
	well
	warning
	wrong
)

// clean is text of a worker or a client without what a terminal would obey.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
}

// view lays a frame out. stale says why no newer one comes; empty if it does.
func view(f *statuspage.Frame, h *history, stale string) []line {
	at := time.UnixMilli(f.Time)
	head := fmt.Sprintf("Loadstar %s, %s, %s, up %s", f.Version, f.Policy, f.State, at.Sub(time.UnixMilli(f.Started)).Round(time.Second))
	lines := []line{{head, title}, {"live, as of " + at.Format(time.TimeOnly), well}}
	if f.State != "ready" {
		lines[0].look = wrong
	}
	if stale != "" {
		lines[1] = line{"STALE, as of " + at.Format(time.TimeOnly) + ": " + stale, wrong}
	}
	for _, s := range f.Sections {
		text, look := fmt.Sprintf("%-9s", s.Name), plain
		for _, fact := range s.Facts {
			text += fmt.Sprintf(" %s %s,", fact.Name, fact.Value)
			if fact.Bad {
				look = wrong
			}
		}
		lines = append(lines, line{strings.TrimRight(text, " ,"), look})
	}
	return append(append(lines, line{}), fleet(f, h)...)
}

// fleet is the table of workers.
func fleet(f *statuspage.Frame, h *history) []line {
	width := len("WORKER")
	for i := range f.Workers {
		width = max(width, min(len([]rune(f.Workers[i].URL)), 44))
	}
	row := func(url, state, load, hits, ttft, spark string) string {
		return strings.TrimRight(fmt.Sprintf("%-*s  %-16s %6s %5s %9s  %s", width, url, state, load, hits, ttft, spark), " ")
	}
	lines := []line{{row("WORKER", "STATE", "LOAD", "HITS", "1ST BYTE", fmt.Sprintf("%d OF %d USABLE", f.Usable, f.Members)), title}}
	for i := range f.Workers {
		w := &f.Workers[i]
		t, past := textOf(w), h.workers[w.URL]
		state, look := stateOf(w, &t)
		hits, ttft, all := "-", "-", sums(past)
		if all.Blocks > 0 {
			hits = fmt.Sprintf("%d%%", 100*all.Matched/all.Blocks)
		}
		if all.Answers > 0 {
			ttft = seconds(all.Mean)
		}
		lines = append(lines, line{row(shorten(w.URL, width), state, fmt.Sprint(t.Load), hits, ttft, sparkline(past)), look})
		if note := noteOf(&t); note != "" {
			lines = append(lines, line{"  " + note, look})
		}
	}
	if f.Hidden > 0 {
		lines = append(lines, line{fmt.Sprintf("%d more in /workers", f.Hidden), plain})
	}
	return lines
}

func stateOf(w *statuspage.Worker, t *workerText) (string, look) {
	switch {
	case t.Removed:
		return "removed", warning
	case w.Wedged:
		return "wedged", wrong
	case !t.Healthy:
		return "unhealthy", wrong
	case t.Breaker == "open":
		return "breaker open", wrong
	case t.Draining:
		return "draining", warning
	case t.Breaker != "closed":
		return "breaker " + t.Breaker, warning
	case w.Slow:
		return "slow start", warning
	default:
		return "healthy", plain
	}
}

// noteOf is what a row has no column for.
func noteOf(t *workerText) string {
	var notes []string
	if t.Type != "regular" {
		notes = append(notes, t.Type)
	}
	for _, phase := range slices.Sorted(maps.Keys(t.Phases)) {
		if phase != "plain" {
			notes = append(notes, fmt.Sprintf("%d %s", t.Phases[phase], phase))
		}
	}
	if !t.Healthy && t.Reason != "" {
		notes = append(notes, t.Reason)
	}
	return strings.Join(notes, ", ")
}

// shorten leaves out the middle of a text that is longer than width columns.
func shorten(text string, width int) string {
	r := []rune(text)
	if len(r) <= width {
		return text
	}
	half := (width - 1) / 2
	return string(r[:half]) + "…" + string(r[len(r)-(width-1-half):])
}

func seconds(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}

// sparkline draws how long answers took to begin in each of the last seconds, those
// without an answer blank.
func sparkline(past []statuspage.Seen) string {
	const shown = 24
	bars := []rune("▁▂▃▄▅▆▇█")
	past = past[max(len(past)-shown, 0):]
	top := 0.0
	for _, s := range past {
		top = max(top, s.Mean)
	}
	var b strings.Builder
	for _, s := range past {
		if s.Answers == 0 || top == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(bars[min(int(s.Mean/top*float64(len(bars))), len(bars)-1)])
	}
	return strings.TrimRight(b.String(), " ")
}
