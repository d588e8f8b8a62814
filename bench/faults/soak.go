package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
)

// soak is ordinary use for long: streams and plain answers, new prompts all the
// time, clients that leave.
type soak struct {
	workers int
	rate    float64 // requests a second
	lasts   time.Duration
	every   time.Duration // between samples
	settle  time.Duration // for what is left when the load has ended
	prompt  int           // bytes
	tree    int           // bytes for the prefix tree, few enough to be full before the second half
}

var fullSoak = soak{workers: 4, rate: 80, every: 5 * time.Second, settle: 5 * time.Second, prompt: 4096, tree: 4 << 20}

const (
	leaveShare    = .1                     // of the requests, whose clients leave
	longestStay   = 200 * time.Millisecond // of such a client; about as long as an answer takes
	mostRise      = 5                      // percent of the mean that a curve may rise in the second half
	fewestSamples = 4                      // in the second half, to speak of a rise
)

// sample is what the router says of itself.
type sample struct {
	Seconds     float64 `json:"seconds"`
	RSS         float64 `json:"rss_bytes"`
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	Tree        float64 `json:"tree_bytes"`
	Leases      float64 `json:"leases"`
}

func (k soak) run(ctx context.Context, b *bed) (report, error) {
	r := report{Scenario: "soak", Setting: []string{
		fmt.Sprintf("%d workers, %v requests a second for %v, half of them streams, new prompts of %d bytes", k.workers, k.rate, k.lasts, k.prompt),
		fmt.Sprintf("of %.0f %% the client leaves within %v; the prefix tree has %.1f MB", 100*leaveShare, longestStay, float64(k.tree)/1e6),
	}}
	workers, err := b.startWorkers(k.workers, worker.Config{OutputTokens: 16, PrefillBlocksPerSecond: 20_000})
	if err != nil {
		return r, err
	}
	router, err := b.startRouter(ctx, workers, "--max-tree-size", strconv.Itoa(k.tree))
	if err != nil {
		return r, err
	}
	if _, err := router.sample(ctx); err != nil {
		return r, err
	}
	c := newClient(router.url)
	defer c.close()

	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan []sample)
	go func() { sampled <- k.watch(sampling, router) }()
	tally := make(map[string]int)
	var unsent int
	for start := time.Now(); time.Since(start) < k.lasts && ctx.Err() == nil; {
		// In pieces, for the results of hours need not be kept.
		results, n := c.poisson(ctx, traffic{
			rate: k.rate, lasts: min(time.Minute, k.lasts-time.Since(start)), begin: start,
			next: func() ask {
				a := ask{prompt: k.prompt, stream: rand.IntN(2) == 0}
				if rand.Float64() < leaveShare {
					a.leaves = 1 + rand.N(longestStay)
				}
				return a
			},
		})
		unsent += n
		for i := range results {
			tally[results[i].fate()]++
		}
	}
	stop()
	samples := <-sampled
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Samples = samples
	k.curves(&r, samples)
	for _, name := range []string{"ok", "left"} {
		r.add("requests", "ended: "+name, float64(tally[name]), "requests")
	}
	others := 0
	for name, n := range tally {
		if name != "ok" && name != "left" {
			others += n
			r.add("requests", "ended: "+name, float64(n), "requests")
		}
	}
	r.atMost("requests", "failed", float64(others), "requests", 0)
	r.add("requests", "not sent by the generator", float64(unsent), "requests")
	return r, k.books(ctx, &r, workers, router)
}

// watch samples until ctx ends.
func (k soak) watch(ctx context.Context, router *router) []sample {
	var samples []sample
	for start := time.Now(); load.Pause(ctx, k.every) == nil; {
		if s, err := router.sample(ctx); err == nil {
			s.Seconds = time.Since(start).Seconds()
			samples = append(samples, s)
		}
	}
	return samples
}

// sample asks for all but the time. A figure that the router doesn't tell is an
// error: it would look flat.
func (r *router) sample(ctx context.Context) (s sample, err error) {
	page, err := scrape(ctx, r.metrics)
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*float64{
		"process_resident_memory_bytes": &s.RSS, "go_goroutines": &s.Goroutines,
		"loadstar_tree_bytes": &s.Tree, "loadstar_leases_live": &s.Leases,
	} {
		v, ok := page[name]
		if !ok {
			return s, fmt.Errorf("%s has no %s", r.metrics, name)
		}
		*to = v
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid))
	s.Descriptors = float64(len(open))
	return s, err
}

// curves adds how the router's needs rose in the second half.
func (k soak) curves(r *report, samples []sample) {
	half := samples[len(samples)/2:]
	for _, curve := range []struct {
		name, unit string
		scale      float64
		of         func(sample) float64
		flat       bool
	}{
		{"resident memory", "MB", 1e-6, func(s sample) float64 { return s.RSS }, true},
		{"goroutines", "goroutines", 1, func(s sample) float64 { return s.Goroutines }, true},
		{"descriptors", "descriptors", 1, func(s sample) float64 { return s.Descriptors }, true},
		{"prefix tree", "MB", 1e-6, func(s sample) float64 { return s.Tree }, false},
		{"leases", "leases", 1, func(s sample) float64 { return s.Leases }, false},
	} {
		var values []float64
		for _, s := range half {
			values = append(values, curve.scale*curve.of(s))
		}
		level := mean(values)
		r.add(curve.name, "mean of the second half", level, curve.unit)
		rise := 100 * slope(values) / max(level, 1e-9)
		if curve.flat && len(half) >= fewestSamples {
			r.atMost(curve.name, "rise of the line through it", rise, "%", mostRise)
		} else {
			r.add(curve.name, "rise of the line through it", rise, "%")
		}
	}
}

// books adds what is left when nobody waits for anything.
func (k soak) books(ctx context.Context, r *report, workers []*simulated, router *router) error {
	var s series
	var open int
	var all workerStats
	for deadline := time.Now().Add(k.settle); ; {
		open, all = 0, workerStats{}
		for _, w := range workers {
			stats, err := w.stats(ctx)
			if err != nil {
				return err
			}
			open += stats.Open
			all.Entered += stats.Entered
			all.Completed += stats.Completed
			all.Aborted += stats.Aborted
			all.Failed += stats.Failed + stats.Refused
		}
		var err error
		if s, err = scrape(ctx, router.metrics); err != nil {
			return err
		}
		if open == 0 && s.sum("vllm_router_worker_load") == 0 || time.Now().After(deadline) {
			break
		}
		if err := load.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	r.add("workers", "requests that came", float64(all.Entered), "requests")
	r.add("workers", "completed", float64(all.Completed), "requests")
	r.add("workers", "aborted", float64(all.Aborted), "requests")
	r.atMost("workers", "failed", float64(all.Failed), "requests", 0)
	r.atMost("at the end", "requests that workers have", float64(open), "requests", 0)
	r.atMost("at the end", "vllm_router_worker_load, all workers", s.sum("vllm_router_worker_load"), "requests", 0)
	r.atMost("at the end", "leases acquired and not released", s.sum("loadstar_leases_acquired_total")-s.sum("loadstar_leases_released_total"), "leases", 0)
	r.atMost("at the end", "second releases", s.sum("loadstar_lease_releases_refused_total"), "releases", 0)
	r.atMost("at the end", "panics", s.sum("loadstar_panics_total"), "panics", 0)
	return nil
}
