package scale

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/load"
)

// pages measures what it costs to look at a router before many workers, all of
// which have served requests, and what memory a worker takes.
func (r *run) pages(ctx context.Context) error {
	few, err := r.start(ctx, "loadstar:round_robin", r.workers.null[:r.Fleets[0]])
	if err != nil {
		return err
	}
	defer few.End()
	many, err := r.start(ctx, "loadstar:round_robin", r.workers.null[:r.Fleet])
	if err != nil {
		return err
	}
	defer many.End()
	chat := load.Chat{Model: compare.Model, Bytes: 200}
	for _, t := range []*router{few, many} {
		cfg := load.Config{URL: t.URL, Source: chat.Same(), Connections: connections, Requests: uint64(3 * r.Fleet), Timeout: timeout}
		if _, err := answered(ctx, cfg); err != nil {
			return err
		}
	}
	if err := r.memoryPerWorker(few, many); err != nil {
		return err
	}
	for round := 1; round <= r.Rounds; round++ {
		r.say("round %d of %d: pages", round, r.Rounds)
		for _, page := range []struct{ name, url string }{{"/metrics", many.Metrics}, {"/workers", many.own("/workers")}} {
			if err := r.page(ctx, many, page.name, page.url); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) memoryPerWorker(few, many *router) error {
	a, err := few.memory()
	if err != nil {
		return err
	}
	b, err := many.memory()
	if err != nil {
		return err
	}
	part := "Memory"
	r.result.add(part, fmt.Sprintf("%d workers", few.workers), "kB", nil, a)
	r.result.add(part, fmt.Sprintf("%d workers", many.workers), "kB", nil, b)
	if many.workers > few.workers {
		r.result.add(part, "each further worker", "kB", nil, (b-a)/float64(many.workers-few.workers))
	}
	return nil
}

// page asks for a page again and again.
func (r *run) page(ctx context.Context, t *router, name, url string) error {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	size := 0
	var times []time.Duration
	used, err := t.during(func() error {
		for range r.Scrapes {
			start := time.Now()
			text, err := get(ctx, client, url)
			if err != nil {
				return err
			}
			times, size = append(times, time.Since(start)), len(text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var promise *float64
	if name == "/metrics" {
		promise = bound(2)
	}
	part := fmt.Sprintf("%s at %d workers that have served requests", name, t.workers)
	r.result.add(part, "CPU", "ms", promise, micros(used)/1000/float64(r.Scrapes))
	r.result.add(part, "time, p50", "ms", promise, load.Quantile(times, .5))
	r.result.add(part, "time, p99", "ms", nil, load.Quantile(times, .99))
	r.result.add(part, "size", "kB", nil, float64(size)/1000)
	return nil
}

// own is the URL of a page of the router itself.
func (r *router) own(path string) string {
	base, _, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), "/")
	return "http://" + base + path
}

// untilHealthy waits until each worker is healthy.
func (r *router) untilHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{Timeout: timeout}
	defer client.CloseIdleConnections()
	for {
		text, err := get(ctx, client, r.own("/health"))
		if err == nil && strings.HasPrefix(string(text), "All servers healthy") {
			return nil
		}
		if errPause := load.Pause(ctx, 50*time.Millisecond); errPause != nil {
			return fmt.Errorf("not all of %d workers are healthy: %s, %w", r.workers, text, errPause)
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d", url, resp.StatusCode)
	}
	return text, err
}
