package faults

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
)

// freeze stops one worker's process under load, as a hung driver would, and lets
// it go on later.
type freeze struct {
	workers   int
	rate      float64       // requests a second, all of them streams
	before    time.Duration // load before the freeze
	frozen    time.Duration
	after     time.Duration
	wedged    time.Duration // --wedged-after-secs
	firstByte time.Duration // --first-byte-timeout-secs
	idle      time.Duration // --idle-timeout-secs
	trial     time.Duration // --cb-timeout-duration-secs: until a wedged worker is tried again
	slowStart time.Duration
}

var fullFreeze = freeze{
	workers: 4, rate: 120,
	before: 5 * time.Second, frozen: 20 * time.Second, after: 25 * time.Second,
	wedged: 500 * time.Millisecond, firstByte: 2 * time.Second, idle: 5 * time.Second, trial: 10 * time.Second, slowStart: 5 * time.Second,
}

const mostSlow = 1 // percent of the requests that may be slower than the first-byte timeout

func (f freeze) run(ctx context.Context, b *bed) (report, error) {
	r := report{Scenario: "freeze"}
	workers, err := b.startWorkers(f.workers, worker.Config{OutputTokens: 16})
	if err != nil {
		return r, err
	}
	router, err := b.startRouter(ctx, workers,
		"--wedged-after-secs", fmt.Sprint(f.wedged.Seconds()),
		"--first-byte-timeout-secs", fmt.Sprint(f.firstByte.Seconds()),
		"--idle-timeout-secs", fmt.Sprint(f.idle.Seconds()),
		"--cb-timeout-duration-secs", fmt.Sprint(f.trial.Seconds()),
		"--slow-start-secs", fmt.Sprint(f.slowStart.Seconds()))
	if err != nil {
		return r, err
	}
	r.Setting = []string{
		fmt.Sprintf("%d workers, %v streams a second; one is stopped at %v and continued at %v; the load ends at %v",
			f.workers, f.rate, f.before, f.before+f.frozen, f.before+f.frozen+f.after),
		fmt.Sprintf("wedged after %v, first byte within %v, idle %v, tried again after %v, slow start %v",
			f.wedged, f.firstByte, f.idle, f.trial, f.slowStart),
	}
	c := newClient(router.url)
	defer c.close()
	start := time.Now()
	switched := make(chan freezing)
	go func() { switched <- f.stopAndGo(ctx, workers[0], router, start) }()
	results, unsent := c.poisson(ctx, traffic{
		rate: f.rate, lasts: f.before + f.frozen + f.after, begin: start,
		next: func() ask { return ask{stream: true, prompt: 256} },
	})
	happened := <-switched
	if happened.err != nil {
		return r, happened.err
	}
	f.judge(&r, results, happened)
	r.add("run", "requests not sent by the generator", float64(unsent), "requests")
	return r, nil
}

// freezing is what was done to the worker, and when since the start.
type freezing struct {
	stopped, continued time.Duration
	found              time.Duration // when /metrics first called it wedged; 0 for never
	err                error
}

func (f freeze) stopAndGo(ctx context.Context, w *simulated, router *router, start time.Time) (h freezing) {
	if h.err = load.Pause(ctx, f.before); h.err != nil {
		return h
	}
	if h.err = w.signal(syscall.SIGSTOP); h.err != nil {
		return h
	}
	stopped := time.Now()
	h.stopped = stopped.Sub(start)
	for time.Since(stopped) < f.frozen {
		if h.found == 0 {
			if s, err := scrape(ctx, router.metrics); err == nil && s.sum("loadstar_worker_wedged") > 0 {
				h.found = time.Since(start)
			}
		}
		if h.err = load.Pause(ctx, 20*time.Millisecond); h.err != nil {
			break
		}
	}
	if err := w.signal(syscall.SIGCONT); h.err == nil {
		h.err = err
	}
	h.continued = time.Since(start)
	return h
}

// judge adds what the clients saw. Worker 0 is the one that was frozen.
func (f freeze) judge(r *report, results []result, h freezing) {
	end := f.before + f.frozen + f.after
	slow := func(x *result) bool { return x.first >= f.firstByte || x.status == 0 || x.status >= 500 }
	share := func(part string, from, to time.Duration, most float64) {
		asked, late, broken := 0, 0, 0
		for i := range results {
			x := &results[i]
			if x.at < from || x.at >= to {
				continue
			}
			asked++
			switch {
			case slow(x):
				late++
			case !x.good():
				broken++
			}
		}
		r.add(part, "requests", float64(asked), "requests")
		r.add(part, "first byte later than the timeout, or failed before", float64(late), "requests")
		r.add(part, "begun and then cut", float64(broken), "requests")
		percent := 100 * float64(late) / max(1, float64(asked))
		if most > 0 {
			r.atMost(part, "share of late ones", percent, "%", most)
		} else {
			r.add(part, "share of late ones", percent, "%")
		}
	}
	share("whole run", 0, end, mostSlow)
	share("sent while frozen", h.stopped, h.continued, mostSlow)
	const first = 3 * time.Second
	share("sent in its first 3 s", h.stopped, h.stopped+first, 0)
	share("sent later in it", h.stopped+first, h.continued, 0)
	share("sent afterwards", h.continued, end, 0)

	if h.found > 0 {
		r.add("finding", "found wedged after", ms(h.found-h.stopped), "ms")
	}
	back := time.Duration(0)
	for i := range results {
		if x := &results[i]; x.worker == 0 && x.good() && x.at >= h.continued && (back == 0 || x.at < back) {
			back = x.at
		}
	}
	if back > 0 {
		r.add("coming back", "first new request served after the continuation", ms(back-h.continued), "ms")
	}
	at0, all := 0, 0
	for i := range results {
		if x := &results[i]; x.good() && x.at >= end-f.after/3 {
			all++
			if x.worker == 0 {
				at0++
			}
		}
	}
	fair := 100 / float64(f.workers)
	r.atLeast("coming back", "its share of the requests in the last third", 100*float64(at0)/max(1, float64(all)), "%", fair/2)
	r.fates("run", results)
}
