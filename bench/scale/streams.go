package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/load"
)

// spareFiles is how many of a router's open files are neither clients nor
// connections to workers; as many as Loadstar itself keeps.
const spareFiles = 256

// openable is how many streams can be open of those that are wanted: each is two open
// files of the router.
func openable(wanted, files int) int { return max(1, min(wanted, (files-spareFiles)/2)) }

// streams measures what it takes to have so many streams open, with an event a second
// each, and whether all of them are answered right and counted.
func (r *run) streams(ctx context.Context) error {
	n := openable(r.Streams, r.files)
	if n < r.Streams {
		r.note("%d streams, not %d: a process may have %d files open here, and a router needs two for each. Raise the hard limit (ulimit -Hn) to have them all.",
			n, r.Streams, r.files)
	}
	for round := 1; round <= r.Rounds; round++ {
		r.say("round %d of %d: %d streams", round, r.Rounds, n)
		t, err := r.start(ctx, "loadstar", r.workers.paced)
		if err != nil {
			return err
		}
		err = r.stream(ctx, t, n)
		t.End()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stream(ctx context.Context, t *router, n int) error {
	// What it allocates for its first requests is not charged to the streams.
	cfg := load.Config{
		URL: t.URL, Source: load.Chat{Model: compare.Model, Bytes: 200}.Same(), Connections: connections, Requests: 2000, Timeout: timeout,
	}
	if _, err := answered(ctx, cfg); err != nil {
		return err
	}
	before, err := t.memory()
	if err != nil {
		return err
	}
	began := time.Now()
	c, err := open(ctx, t.URL, n)
	if err != nil {
		return err
	}
	defer c.close()
	opening := time.Since(began).Seconds()
	if err := load.Pause(ctx, min(pace, seconds(r.Idle))); err != nil {
		return err
	}
	events := c.events.Load()
	used, err := t.during(func() error { return load.Pause(ctx, seconds(r.Idle)) })
	if err != nil {
		return err
	}
	events = c.events.Load() - events
	after, err := t.memory()
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: timeout}
	defer client.CloseIdleConnections()
	counted, err := t.metric(ctx, client, "loadstar_leases_live")
	if err != nil {
		return err
	}
	began = time.Now()
	_, err = get(ctx, client, t.Metrics)
	scrape := time.Since(began)
	if err != nil {
		return err
	}
	if _, err := get(ctx, client, "http://"+r.workers.paced[0]+finishPath); err != nil {
		return err
	}
	right, err := c.await(ctx)
	if err != nil {
		r.note("of %d streams %d ended as they should; one that didn't: %v", n, right, err)
	}
	left, err := t.leases(ctx, client)
	if err != nil {
		return err
	}
	part := fmt.Sprintf("%d streams open at once, an event a second each", n)
	r.result.add(part, "memory of each", "kB", nil, (after-before)/float64(n))
	r.result.add(part, "CPU", "% of a core", nil, 100*used.Seconds()/r.Idle)
	r.result.add(part, "CPU per event", "µs", nil, micros(used)/float64(max(1, events)))
	r.result.add(part, "opened in", "s", nil, opening)
	r.result.add(part, "/metrics meanwhile", "ms", nil, micros(scrape)/1000)
	r.result.add(part, "events that came, of those due", "%", nil, 100*float64(events)/(float64(n)*r.Idle/pace.Seconds()))
	r.result.add(part, "streams not counted in a load meanwhile", "", bound(0), float64(n)-counted)
	r.result.add(part, "streams not answered right to their end", "", bound(0), float64(n-right))
	r.result.add(part, "load that is left", "", bound(0), left)
	return nil
}

// await waits until all streams have ended and tells how many were answered right,
// and of one that wasn't what was wrong with it.
func (c *crowd) await(ctx context.Context) (right int, wrong error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range c.opened {
		select {
		case err := <-c.ended:
			if err == nil {
				right++
			} else {
				wrong = err
			}
		case <-ctx.Done():
			return right, errors.Join(wrong, errors.New("it didn't end"))
		}
	}
	return right, wrong
}

// leases is how many leases are live, once there is none or a few seconds are over.
func (r *router) leases(ctx context.Context, client *http.Client) (float64, error) {
	for end := time.Now().Add(10 * time.Second); ; {
		n, err := r.metric(ctx, client, "loadstar_leases_live")
		if err != nil || n == 0 || time.Now().After(end) {
			return n, err
		}
		if err := load.Pause(ctx, 20*time.Millisecond); err != nil {
			return n, err
		}
	}
}
