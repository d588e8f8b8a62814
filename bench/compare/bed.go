package compare

import (
	"context"
	"time"

	"loadstar/bench/load"
)

// running is a router that runs.
type running struct {
	peer    peer
	address string
	metrics string
	process *process
	pids    []int // its process and descendants, once it is ready
}

// found is a peer whose program is there.
type found struct {
	peer
	file    string
	version string
	policy  string   // in place of its usual one, if it isn't empty
	more    []string // arguments behind the others
}

// bed starts and ends routers.
type bed struct {
	dir         string
	routerCores []int
	maxConns    int
}

// start starts a router before workers and waits until it answers.
func (b *bed) start(ctx context.Context, f found, workers []string) (*running, error) {
	s := setup{dir: b.dir, program: f.file, workers: workers, policy: f.policy, maxConns: b.maxConns}
	var err error
	if s.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if s.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	args, err := f.args(s)
	if err != nil {
		return nil, err
	}
	args = append(args, f.more...)
	p, err := start(b.dir, "router", b.routerCores, args)
	if err != nil {
		return nil, err
	}
	if err := p.untilReady(ctx, s.address); err != nil {
		p.end()
		return nil, err
	}
	return &running{peer: f.peer, address: s.address, metrics: s.metrics, process: p, pids: family(p.pid())}, nil
}

func (r *running) end() { r.process.end() }

func (r *running) url() string { return "http://" + r.address + path }

func (r *running) memory() (float64, error) {
	bytes, err := memoryOf(r.pids)
	return float64(bytes), err
}

// spent runs a load and tells the CPU time that the router used meanwhile.
func (r *running) spent(ctx context.Context, cfg load.Config) (*load.Report, time.Duration, error) {
	cfg.URL = r.url()
	var report *load.Report
	cpu, err := r.during(func() (err error) {
		report, err = load.Run(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return report, cpu, ctx.Err()
}

// during tells the CPU time that the router uses while f runs.
func (r *running) during(f func() error) (time.Duration, error) {
	before, err := cpuOf(r.pids)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpuOf(r.pids)
	return after - before, err
}
