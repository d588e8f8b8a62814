package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Scenario is one row of a table.
type Scenario struct {
	Name     string   `json:"name"`
	Settings Settings `json:"settings"`
}

// maxSeeds bounds the runs of a rule.
const maxSeeds = 1000

// Simulate has all rules place the requests of all scenarios, for as many seeds as
// are asked for, from the first one on. It says on log what it does. When ctx ends
// it returns the rows that are complete.
func Simulate(ctx context.Context, scenarios []Scenario, rules []Rule, first uint64, seeds int, log io.Writer) (*Result, error) {
	var faults []error
	for _, rule := range rules {
		faults = append(faults, rule.Check())
	}
	for i := range scenarios {
		if err := scenarios[i].Settings.Check(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", scenarios[i].Name, err))
		}
	}
	if len(rules) == 0 {
		faults = append(faults, errors.New("no rule: name one"))
	}
	if seeds < 1 || seeds > maxSeeds {
		faults = append(faults, fmt.Errorf("%d seeds: give 1 to %d", seeds, maxSeeds))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	r := &Result{Kind: Kind, Time: time.Now().UTC().Format(time.RFC3339), Rules: rules}
	for _, s := range scenarios {
		row := Row{Scenario: s}
		for seed := first; seed < first+uint64(seeds); seed++ {
			fmt.Fprintf(log, "%s: seed %d\n", s.Name, seed)
			runs, err := s.Settings.runs(ctx, rules, seed)
			if err != nil {
				return r, fmt.Errorf("%s: %w", s.Name, err)
			}
			row.Runs = append(row.Runs, runs...)
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// runs is one run of each rule, with the same requests.
func (s *Settings) runs(ctx context.Context, rules []Rule, seed uint64) ([]Run, error) {
	requests, err := s.requests(seed)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, rule := range rules {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var t tally
		m, err := s.simulate(rule, seed, requests, t.add)
		if err != nil {
			return nil, err
		}
		runs = append(runs, t.run(rule, seed, m.workers))
	}
	return runs, nil
}
