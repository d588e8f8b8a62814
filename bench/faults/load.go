package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"loadstar/bench/load"
)

// maxOpen bounds the requests of one load that have not ended. What is due beyond
// it is not sent.
const maxOpen = 8192

// traffic is requests that come as a Poisson process.
type traffic struct {
	rate  float64 // requests a second
	lasts time.Duration
	next  func() ask
	begin time.Time // results tell times since then
}

// poisson sends a load, waits for the last answer and returns all results, in
// order of their ends, and how many requests were due and not sent.
func (c *client) poisson(ctx context.Context, l traffic) (results []result, unsent int) {
	ended := make(chan result, maxOpen)
	open, start := 0, time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	arrivals := load.Poisson(l.rate, rand.Uint64())
	for due, _ := arrivals(); due < l.lasts && ctx.Err() == nil; due, _ = arrivals() {
		timer.Reset(time.Until(start.Add(due)))
		for waiting := true; waiting; {
			select {
			case r := <-ended:
				results = append(results, r)
				open--
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
		}
		if open >= maxOpen {
			unsent++
			continue
		}
		open++
		a := l.next()
		go func() {
			now := time.Now()
			r := c.send(ctx, a)
			r.at, r.late = now.Sub(l.begin), now.Sub(start.Add(due))
			ended <- r
		}()
	}
	for range open {
		results = append(results, <-ended)
	}
	return results, unsent
}

// closed keeps that many requests under way at each client for the warm-up and
// then for lasts, and returns how many good answers a second ended within lasts.
func closed(ctx context.Context, clients []*client, each int, warmUp, lasts time.Duration, next func() ask) float64 {
	ctx, cancel := context.WithTimeout(ctx, warmUp+lasts)
	defer cancel()
	start, counts := time.Now(), make(chan int)
	for _, c := range clients {
		for range each {
			go func() {
				n := 0
				for ctx.Err() == nil {
					if r := c.send(ctx, next()); r.good() && time.Since(start) >= warmUp {
						n++
					}
				}
				counts <- n
			}()
		}
	}
	total := 0
	for range len(clients) * each {
		total += <-counts
	}
	return float64(total) / lasts.Seconds()
}
