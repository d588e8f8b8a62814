package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/load"
	"loadstar/bench/worker"
)

const (
	requestTimeout = time.Minute
	startTimeout   = 30 * time.Second
	// settle is how long a router that answers is left alone, so that it has found
	// all its workers.
	settle = 2 * time.Second
)

// Run replays and returns what it has, also when ctx ended it before time. It says
// on log what it does.
func Run(ctx context.Context, s Settings, log io.Writer) (*Result, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &Result{Kind: Kind, Time: time.Now().UTC().Format(time.RFC3339), Settings: s}
	r.Settings.Workload = s.Name()
	names := s.Routers
	if s.URL != "" {
		names = []string{s.URL}
	}
	for round := 1; round <= s.Rounds; round++ {
		for _, name := range names {
			fmt.Fprintf(log, "round %d of %d: %s\n", round, s.Rounds, name)
			m, err := s.measure(ctx, dir, name, round)
			if ctx.Err() != nil { // what was measured is of a part only
				r.Interrupted = true
				return r, ctx.Err()
			}
			if err != nil {
				return r, fmt.Errorf("round %d, %s: %w", round, name, err)
			}
			r.Runs = append(r.Runs, *m)
		}
	}
	return r, nil
}

// measure replays the workload through one router, before workers that have not
// seen anything.
func (s Settings) measure(ctx context.Context, dir, name string, round int) (*Measured, error) {
	next, file, err := s.open(round)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	addresses := s.Listen
	if s.URL == "" {
		addresses = slices.Repeat([]string{"127.0.0.1:0"}, s.Workers)
	}
	workers, err := startWorkers(addresses, func(i int) worker.Config {
		return worker.Config{Model: s.Model, PrefillBlocksPerSecond: s.PrefillOf(i), CacheBlocks: s.CacheBlocks, TimeScale: s.TimeScale}
	})
	if err != nil {
		return nil, err
	}
	defer endWorkers(workers)
	m := &Measured{Router: name, Round: round}
	to := []string{s.URL}
	if s.URL == "" {
		routers, end, err := s.startRouters(ctx, dir, name, workers)
		if err != nil {
			return nil, err
		}
		defer end()
		m.Version, to = routers[0].Version, nil
		for _, r := range routers {
			to = append(to, r.URL)
		}
	} else if err := s.untilReady(ctx); err != nil {
		return nil, err
	}
	if err := load.Pause(ctx, settle); err != nil {
		return nil, err
	}
	return m, s.replay(ctx, newPlan(s, next, round), to, workers, m)
}

// replay sends a plan's requests to URLs in turn.
func (s Settings) replay(ctx context.Context, p *plan, to []string, workers []*simulated, m *Measured) error {
	before := givenTo(workers)
	m.LoadAverage[0] = compare.LoadAverage()
	if n := s.Restart.Worker; n > 0 {
		restart := time.AfterFunc(s.real(time.Duration(s.Restart.Seconds*float64(time.Second))), workers[n-1].worker.Forget)
		defer restart.Stop()
	}
	report, err := load.Run(ctx, load.Config{
		URL: to[0], Also: to[1:], Source: p.source, Timeout: requestTimeout, Connections: s.Connections,
		Arrivals: p.arrivals, Ended: p.ended, Tail: tailBytes,
	})
	if err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	m.LoadAverage[1] = compare.LoadAverage()
	m.fill(p.booked, report)
	for i, g := range givenTo(workers) {
		m.Requests.ByWorker = append(m.Requests.ByWorker, g.requests-before[i].requests)
		m.Prompts.ByWorker = append(m.Prompts.ByWorker, g.tokens-before[i].tokens)
	}
	m.Requests.Unevenness = compare.Unevenness(m.Requests.ByWorker)
	m.Prompts.Unevenness = compare.Unevenness(m.Prompts.ByWorker)
	return nil
}

// untilReady waits until the router at the URL answers.
func (s Settings) untilReady(ctx context.Context) error {
	hello := load.Chat{Model: s.Model, Stream: true, MaxTokens: 1}.Same()
	for deadline := time.Now().Add(startTimeout); ; {
		report, err := load.Run(ctx, load.Config{URL: s.URL, Source: hello, Timeout: 5 * time.Second, Connections: 1, Requests: 1})
		if err != nil {
			return err
		}
		if report.OK == 1 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s doesn't answer a generation of model %s within %v: errors %v, statuses %v", s.URL, s.Model, startTimeout, report.Errors, report.Statuses), ctx.Err())
		}
		if err := load.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
