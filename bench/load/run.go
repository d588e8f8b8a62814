package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Run sends a load and returns when its last request has ended. If ctx ends, what
// is under way is dropped and the report is of what ended before.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	t, err := cfg.target()
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

func closedLoop(ctx context.Context, cfg Config, t *target, rec *recorder) {
	var all sync.WaitGroup
	var next atomic.Uint64
	for range cfg.Connections {
		all.Go(func() {
			c := &conn{target: t}
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

// openLoop owns the connections that are idle; each has a goroutine that gets
// jobs by a channel of its own and then says that it is idle again.
func openLoop(ctx context.Context, cfg Config, t *target, rec *recorder) {
	var all sync.WaitGroup
	idle := make(chan chan job, cfg.Connections) // has room for all
	var rest []chan job                          // idle ones, the last used last
	made := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for n := uint64(0); ; n++ {
		at, found := cfg.Arrivals()
		if !found || !cfg.more(n, at) {
			break
		}
		due := rec.start.Add(at)
		timer.Reset(time.Until(due))
		for waiting := true; waiting; {
			select {
			case jobs := <-idle:
				rest = append(rest, jobs)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
		}
		if ctx.Err() != nil {
			break
		}
		for len(idle) > 0 {
			rest = append(rest, <-idle)
		}
		if len(rest) == 0 {
			if made == cfg.Connections {
				cfg.unsent(rec, n)
				continue
			}
			made++
			jobs := make(chan job, 1)
			all.Go(func() { serve(ctx, cfg, t, rec, jobs, idle) })
			rest = append(rest, jobs)
		}
		rec.begin()
		rest[len(rest)-1] <- job{n, due} // has room: it is idle
		rest = rest[:len(rest)-1]
	}
	for range made {
		if len(rest) == 0 {
			rest = append(rest, <-idle)
		}
		close(rest[len(rest)-1])
		rest = rest[:len(rest)-1]
	}
	all.Wait()
}

func serve(ctx context.Context, cfg Config, t *target, rec *recorder, jobs chan job, idle chan<- chan job) {
	c := &conn{target: t}
	defer c.close()
	for j := range jobs {
		cfg.end(ctx, rec, j.n, c.do(ctx, cfg.Source(j.n), j.due))
		idle <- jobs
	}
}
