package top

import (
	"fmt"
	"strings"

	"loadstar/proxy/statuspage"
)

// screen writes frames: over each other on a terminal, else one below the other.
type screen struct {
	o       Options
	history history
	last    *statuspage.Frame
	err     error // of Out, which took no frame
}

// What a terminal is told.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // without a cursor
	firstScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

var colours = map[look]string{title: "\x1b[1m", well: "\x1b[32m", warning: "\x1b[33m", wrong: "\x1b[31m"}

func (s *screen) begin() {
	if _, _, ok := s.o.Size(); ok {
		fmt.Fprint(s.o.Out, otherScreen)
	}
}

func (s *screen) end() {
	if _, _, ok := s.o.Size(); ok {
		fmt.Fprint(s.o.Out, firstScreen)
	}
}

func (s *screen) show(f *statuspage.Frame) {
	s.history.add(f)
	s.last = f
	s.draw("")
}

// stale says that what is shown is no longer so. A reader of lines has seen it.
func (s *screen) stale(why string) {
	if _, _, ok := s.o.Size(); ok {
		s.draw(clean(why) + "; trying again")
	}
}

func (s *screen) draw(stale string) {
	lines := view(s.last, &s.history, stale)
	width, height, over := s.o.Size()
	over = over && !s.o.Once
	if over && len(lines) >= height {
		left := len(lines) - max(height-2, 0)
		lines = append(lines[:max(height-2, 0)], line{fmt.Sprintf("… %d more lines", left), plain})
	}
	var b strings.Builder
	if over {
		b.WriteString(toTop)
	}
	for _, l := range lines {
		text := clean(l.text)
		if r := []rune(text); over && len(r) > width {
			text = string(r[:width])
		}
		if c := colours[l.look]; c != "" && s.o.Colour {
			text = c + text + "\x1b[0m"
		}
		b.WriteString(text)
		if over {
			b.WriteString(clearLine + "\r")
		}
		b.WriteByte('\n')
	}
	switch {
	case over:
		b.WriteString(clearBelow)
	case !s.o.Once:
		b.WriteByte('\n')
	}
	_, s.err = fmt.Fprint(s.o.Out, b.String())
}
