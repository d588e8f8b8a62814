package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"loadstar/bench/alarm"
)

// Run sends a load and returns when its last request has ended. If ctx ends, what
// is under way is dropped and the report is of what ended before.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	t, err := cfg.targets()
	if err != nil {
		return nil, err
	}
	rec := newRecorder(cfg)
	stopped := rec.showProgress(cfg)
	if cfg.Arrivals == nil {
		closedLoop(ctx, cfg, t, rec)
	} else {
		openLoop(ctx, cfg, t, rec)
	}
	stopped()
	return rec.report(cfg), nil
}

// more reports whether the n-th request is to be sent, at a time since the start.
func (c *Config) more(n uint64, at time.Duration) bool {
	return (c.Requests == 0 || n < c.Requests) && (c.Duration <= 0 || at < c.Duration)
}

func closedLoop(ctx context.Context, cfg Config, t []*target, rec *recorder) {
	var all sync.WaitGroup
	var next atomic.Uint64
	for i := range cfg.Connections {
		all.Go(func() {
			c := &conn{target: t[i%len(t)]}
			defer c.close()
			for first := true; ctx.Err() == nil; first = false {
				n := next.Add(1) - 1
				now := time.Now()
				at := now.Sub(rec.start)
				if first { // a connection that begins late has its turn
					at = 0
				}
				if !cfg.more(n, at) {
					return
				}
				rec.begin()
				cfg.end(ctx, rec, n, c.do(ctx, cfg.Source(n), now))
			}
		})
	}
	all.Wait()
}

// job is a request for a connection.
type job struct {
	n   uint64
	due time.Time
}

// idler is a connection that is idle, to one of the targets.
type idler struct {
	jobs chan job
	to   int
}

// openLoop owns the connections that are idle; each has a goroutine that gets
// jobs by a channel of its own and then says that it is idle again.
func openLoop(ctx context.Context, cfg Config, t []*target, rec *recorder) {
	var all sync.WaitGroup
	idle := make(chan idler, cfg.Connections) // has room for all
	rest := make([][]idler, len(t))           // idle ones, the last used last, by target
	made := 0
	keep := func(c idler) { rest[c.to] = append(rest[c.to], c) }
	wake := alarm.New()
	defer wake.Close()
	for n := uint64(0); ; n++ {
		at, found := cfg.Arrivals()
		if !found || !cfg.more(n, at) {
			break
		}
		due := rec.start.Add(at)
		wake.Set(time.Until(due))
		for waiting := true; waiting; {
			select {
			case c := <-idle:
				keep(c)
			case <-wake.C:
				waiting = time.Now().Before(due)
			case <-ctx.Done():
				waiting = false
			}
		}
		if ctx.Err() != nil {
			break
		}
		for len(idle) > 0 {
			keep(<-idle)
		}
		to := int(n % uint64(len(t)))
		if len(rest[to]) == 0 {
			if made == cfg.Connections {
				cfg.unsent(rec, n)
				continue
			}
			made++
			c := idler{make(chan job, 1), to}
			all.Go(func() { serve(ctx, cfg, t[to], rec, c, idle) })
			keep(c)
		}
		rec.begin()
		last := len(rest[to]) - 1
		rest[to][last].jobs <- job{n, due} // has room: it is idle
		rest[to] = rest[to][:last]
	}
	for _, some := range rest {
		for _, c := range some {
			close(c.jobs)
			made--
		}
	}
	for range made {
		close((<-idle).jobs)
	}
	all.Wait()
}

func serve(ctx context.Context, cfg Config, t *target, rec *recorder, own idler, idle chan<- idler) {
	c := &conn{target: t}
	defer c.close()
	for j := range own.jobs {
		cfg.end(ctx, rec, j.n, c.do(ctx, cfg.Source(j.n), j.due))
		idle <- own
	}
}
