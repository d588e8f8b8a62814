package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"loadstar/bench/load"
)

// Settings say what is measured and for how long.
type Settings struct {
	Rounds   int      `json:"rounds"`
	Seconds  float64  `json:"seconds"`           // of each measurement
	Streams  int      `json:"streams"`           // open at once, for memory
	Leavings int      `json:"leavings"`          // clients that leave, each way
	Prompts  uint64   `json:"unique_prompts"`    // for growth
	Only     []string `json:"routers,omitempty"` // names; all if empty
	Core     int      `json:"-"`                 // the routers'; this process must not run there
	Programs `json:"-"`
}

const nullWorkers, holders = 2, 4

func (s *Settings) lasts() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

func (s *Settings) check() error {
	var faults []error
	if s.Rounds < 1 {
		faults = append(faults, fmt.Errorf("%d rounds: give at least 1", s.Rounds))
	}
	if !(s.Seconds >= .1) {
		faults = append(faults, fmt.Errorf("%v seconds: give at least 0.1, CPU time is counted in steps of %v", s.Seconds, tick))
	}
	if s.Streams < 1 || s.Leavings < 1 || s.Prompts < 1 {
		faults = append(faults, errors.New("streams, leavings and prompts: give at least 1 of each"))
	}
	for _, name := range s.Only {
		if !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			faults = append(faults, fmt.Errorf("router %q: give one of %s", name, strings.Join(Names(), ", ")))
		}
	}
	return errors.Join(faults...)
}

// Names are the routers that can be measured.
func Names() []string {
	var all []string
	for _, p := range peers {
		all = append(all, p.name)
	}
	return all
}

// split divides the cores of the machine: the first is for routers, the rest for
// workers and load.
func split() (routers, others []int, err error) {
	all, err := cpus()
	if err != nil {
		return nil, nil, err
	}
	if len(all) < 2 {
		return nil, nil, errors.New("one core only: routers need one and the load needs another")
	}
	return all[:1], all[1:], nil
}

// comparison is a run.
type comparison struct {
	Settings
	bed     bed
	null    []string // addresses of the workers that answer at once
	routers []found
	result  *Result
	log     io.Writer
}

// Run measures and returns what it has, also when ctx ended it before time. It
// says on log what it does.
func Run(ctx context.Context, s Settings, log io.Writer) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	others, err := cpus()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files, err := RaiseFiles()
	if err != nil {
		return nil, err
	}
	if need := 2*s.Streams + 1000; files < need {
		return nil, fmt.Errorf("%d open files are allowed and %d needed: raise the hard limit (ulimit -Hn) or ask for fewer streams", files, need)
	}
	c := &comparison{
		Settings: s, log: log,
		bed:    bed{dir: dir, routerCores: []int{s.Core}, maxConns: files / 3},
		result: &Result{Kind: Kind, Time: now(), Machine: ThisMachine(), Settings: s},
	}
	c.look(ctx)
	null, addresses, err := startNull(ctx, dir, s.Bench, others, nullWorkers)
	if err != nil {
		return nil, err
	}
	defer null.end()
	c.null = addresses
	err = errors.Join(c.costs(ctx), c.holds(ctx))
	c.result.Interrupted = ctx.Err() != nil
	c.result.Machine.Load[1] = LoadAverage()
	return c.result, err
}

// look finds the routers.
func (c *comparison) look(ctx context.Context) {
	for _, p := range peers {
		if len(c.Only) > 0 && !slices.Contains(c.Only, p.name) {
			continue
		}
		f, err := p.locate(ctx, c.Programs)
		if err != nil {
			fmt.Fprintf(c.log, "%s is missing; to have it measured: %s\n", p.name, p.install)
			c.result.Routers = append(c.result.Routers, Router{Name: p.name, Missing: p.install})
			continue
		}
		fmt.Fprintf(c.log, "%s: %s\n", p.name, f.version)
		c.result.Routers = append(c.result.Routers, Router{Name: p.name, Version: f.version})
		c.routers = append(c.routers, f)
	}
}

// add adds the samples of a measurement. One that could not be had is named, and
// the others go on; one that an interrupt ended is left out.
func (c *comparison) add(router, what string, round int, samples []Sample, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		fmt.Fprintf(c.log, "round %d, %s, %s: %v\n", round, router, what, err)
		samples = []Sample{{Metric: what, Router: router, Round: round, Note: firstLineOf(err)}}
	}
	c.result.Samples = append(c.result.Samples, samples...)
}

func firstLineOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// costs runs all routers at once and measures each of them in turn.
func (c *comparison) costs(ctx context.Context) error {
	var all []*running
	defer func() {
		for _, r := range all {
			r.end()
		}
	}()
	for _, f := range c.routers {
		r, err := c.bed.start(ctx, f, c.null)
		if err != nil {
			c.add(f.name, "start", 0, nil, err)
			continue
		}
		all = append(all, r)
	}
	for round := 1; round <= c.Rounds; round++ {
		for _, cell := range cells {
			fmt.Fprintf(c.log, "round %d of %d: %s\n", round, c.Rounds, cell.name)
			for _, r := range all {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				samples, err := cost(ctx, r, cell, c.lasts(), round)
				c.add(r.peer.name, CPUPrefix+cell.name, round, samples, err)
			}
		}
		fmt.Fprintf(c.log, "round %d of %d: latency\n", round, c.Rounds)
		if err := c.latency(ctx, all, round); err != nil {
			return err
		}
	}
	return nil
}

// latency measures no router, then each.
func (c *comparison) latency(ctx context.Context, all []*running, round int) error {
	direct, err := alone(ctx, "http://"+c.null[0]+path, c.lasts())
	if err != nil {
		return err
	}
	c.add(directName, LatencyMean, round, latencies(directName, round, direct, nil), nil)
	for _, r := range all {
		var report *load.Report
		if report, err = alone(ctx, r.url(), c.lasts()); err != nil {
			c.add(r.peer.name, LatencyMean, round, nil, err)
			continue
		}
		c.add(r.peer.name, LatencyMean, round, latencies(r.peer.name, round, report, direct), nil)
	}
	return ctx.Err()
}

// holds starts each router afresh in each round, before workers that can hold a
// request.
func (c *comparison) holds(ctx context.Context) error {
	seen := make(chan sighting, 1024)
	var workers []*holder
	var addresses []string
	for range holders {
		h, err := newHolder(seen)
		if err != nil {
			return err
		}
		defer h.ln.Close()
		workers, addresses = append(workers, h), append(addresses, h.address())
	}
	for round := 1; round <= c.Rounds; round++ {
		fmt.Fprintf(c.log, "round %d of %d: leavings, streams, chunks, prompts\n", round, c.Rounds)
		for _, f := range c.routers {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := c.bed.start(ctx, f, addresses)
			if err != nil {
				c.add(f.name, "start", round, nil, err)
				continue
			}
			c.hold(ctx, r, workers, seen, round)
			r.end()
		}
	}
	return nil
}

// hold makes all measurements of a router that was just started.
func (c *comparison) hold(ctx context.Context, r *running, workers []*holder, seen <-chan sighting, round int) {
	name := r.peer.name
	// What it allocates for its first requests is not charged to the streams.
	_, _, err := r.spent(ctx, load.Config{Source: cells[0].chat.Same(), Connections: 32, Requests: 2000, Timeout: 10 * time.Second})
	if err != nil {
		c.add(name, "warm-up", round, nil, err)
		return
	}
	if memory, err := r.memory(); err == nil {
		c.add(name, StartMemory, round, []Sample{{Metric: StartMemory, Router: name, Round: round, Value: memory / 1e6}}, nil)
	}
	for _, m := range []struct {
		metric  string
		measure func() ([]Sample, error)
	}{
		{StreamKB, func() ([]Sample, error) { return memoryPerStream(ctx, r, c.Streams, c.lasts(), round) }},
		{ChunkCPU, func() ([]Sample, error) { return cpuPerChunk(ctx, r, c.lasts(), round) }},
		{LeaveBefore, func() ([]Sample, error) { return leave(ctx, r, seen, askMute, LeaveBefore, c.Leavings, round) }},
		{LeaveMid, func() ([]Sample, error) { return leave(ctx, r, seen, askStall, LeaveMid, c.Leavings, round) }},
		{HotSpot, func() ([]Sample, error) { return hotSpot(ctx, r, workers, round) }},
		{UniqueMB, func() ([]Sample, error) { return growth(ctx, r, c.Prompts, round) }},
	} {
		samples, err := m.measure()
		c.add(name, m.metric, round, samples, err)
	}
}
