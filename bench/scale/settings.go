package scale

import (
	"errors"
	"fmt"
	"slices"

	"loadstar/bench/compare"
)

// Settings say what is measured and for how long.
type Settings struct {
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds"` // of each measurement of requests
	Idle    float64  `json:"idle"`    // seconds in which idle routers and open streams are watched
	Prompts uint64   `json:"prompts"` // that are sent again and again; some for each worker
	Fleets  []int    `json:"fleets"`  // numbers of workers; the first is what the others are compared with
	Fleet   int      `json:"fleet"`   // workers where nothing but the router's own pages is asked for
	Streams int      `json:"streams"` // open at once
	Scrapes int      `json:"scrapes"` // of each page, in each round
	Parts   []string `json:"parts"`   // all if empty
	Core    int      `json:"-"`       // the routers'; this process must not run there

	compare.Programs `json:"-"`
}

// Parts are what can be measured.
var Parts = []string{"requests", "idle", "pages", "streams"}

const mostWorkers = 4096

func (s *Settings) check() error {
	var faults []error
	if s.Rounds < 1 || s.Scrapes < 1 || s.Streams < 1 || s.Prompts < 1 {
		faults = append(faults, errors.New("rounds, scrapes, streams and prompts: give at least 1 of each"))
	}
	if !(s.Seconds >= .1) || !(s.Idle >= .1) {
		faults = append(faults, fmt.Errorf("%v and %v seconds: give at least 0.1, CPU time is counted in steps of 10 ms", s.Seconds, s.Idle))
	}
	if len(s.Fleets) == 0 {
		faults = append(faults, errors.New("no fleet is given: name numbers of workers"))
	}
	for _, n := range append(slices.Clone(s.Fleets), s.Fleet) {
		if n < 1 || n > mostWorkers {
			faults = append(faults, fmt.Errorf("%d workers: give 1 to %d", n, mostWorkers))
		}
	}
	for _, p := range s.Parts {
		if !slices.Contains(Parts, p) {
			faults = append(faults, fmt.Errorf("part %q: give one of %v", p, Parts))
		}
	}
	return errors.Join(faults...)
}

func (s *Settings) wants(part string) bool {
	return len(s.Parts) == 0 || slices.Contains(s.Parts, part)
}
