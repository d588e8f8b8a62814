package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"loadstar/bench/compare"
)

// run is a run.
type run struct {
	Settings
	dir     string
	files   int // how many a process may have open
	workers *workers
	result  *Result
	log     io.Writer
}

// Run measures and returns what it has, also when ctx ended it before time. It
// says on log what it does.
func Run(ctx context.Context, s Settings, log io.Writer) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	files, err := compare.RaiseFiles()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "scale")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &run{Settings: s, dir: dir, files: files, log: log, result: &Result{
		Kind: Kind, Time: time.Now().UTC().Format(time.RFC3339), Machine: compare.ThisMachine(), Settings: s,
	}}
	need := s.Fleet
	for _, n := range s.Fleets {
		need = max(need, n)
	}
	if r.workers, err = startWorkers(s.Bench, need, pacedWorkers); err != nil {
		return nil, err
	}
	defer r.workers.end()
	for _, p := range []struct {
		name    string
		measure func(context.Context) error
	}{{"requests", r.requests}, {"idle", r.idle}, {"pages", r.pages}, {"streams", r.streams}} {
		if !s.wants(p.name) {
			continue
		}
		if err = p.measure(ctx); err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
			break
		}
	}
	if r.result.Interrupted = ctx.Err() != nil; r.result.Interrupted && errors.Is(err, context.Canceled) {
		err = nil
	}
	r.result.Machine.Load[1] = compare.LoadAverage()
	return r.result, err
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// note says what a reader has to know of a figure.
func (r *run) note(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
	r.say(format, args...)
}

// router is a Loadstar, or another router, before a number of workers.
type router struct {
	*compare.Started
	workers int
}

// start starts a router before workers, and waits until each of those is healthy.
func (r *run) start(ctx context.Context, name string, workers []string) (*router, error) {
	started, err := compare.Start(ctx, compare.Launch{Programs: r.Programs, Name: name, Workers: workers, Dir: r.dir, Core: r.Core})
	if err != nil {
		return nil, err
	}
	all := &router{started, len(workers)}
	if name == forwarder {
		return all, nil
	}
	r.result.Version = started.Version
	if err := all.untilHealthy(ctx); err != nil {
		started.End()
		return nil, err
	}
	return all, nil
}

// during tells the CPU time that a router uses while f runs.
func (r *router) during(f func() error) (time.Duration, error) {
	before, err := r.CPU()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := r.CPU()
	return after - before, err
}

// memory is how many kB a router takes.
func (r *router) memory() (float64, error) {
	bytes, err := r.Memory()
	return float64(bytes) / 1000, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
