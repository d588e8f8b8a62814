package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
)

// poison sends requests that every worker fails, beside others that none does.
type poison struct {
	workers int
	rate    float64 // good requests a second
	number  int     // poisoned requests
	before  time.Duration
	spread  time.Duration // over which the poisoned ones come, one after another
	after   time.Duration
	faults  []string
}

var fullPoison = poison{
	workers: 2, rate: 60, number: 24,
	before: 2 * time.Second, spread: 4 * time.Second, after: 8 * time.Second,
	// A reset at once on a kept connection looks like one that the worker had closed
	// before; a later one doesn't.
	faults: []string{"status=503", "status=500", atOnce, "slow=400, reset"},
}

const (
	mostOthersFailed = 0 // requests
	mostCalls        = 2 // worker calls for a poisoned request
	mostCallsKept    = 3 // where the first of them may have met a dead connection
)

// atOnce is the fault that looks like a dead connection.
const atOnce = "reset"

func (p poison) run(ctx context.Context, b *bed) (report, error) {
	r := report{Scenario: "poison", Setting: []string{fmt.Sprintf(
		"%d workers, %v good requests a second for %v; %d poisoned ones from %v on, evenly over %v or all at once",
		p.workers, p.rate, p.before+p.spread+p.after, p.number, p.before, p.spread)}}
	for _, fault := range p.faults {
		for _, spread := range []time.Duration{p.spread, 0} {
			if err := p.serve(ctx, b, &r, fault, spread); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// serve runs one fault against a new router and new workers.
func (p poison) serve(ctx context.Context, b *bed, r *report, fault string, spread time.Duration) error {
	defer b.end()
	workers, err := b.startWorkers(p.workers, worker.Config{OutputTokens: 8, AllowFaults: true})
	if err != nil {
		return err
	}
	router, err := b.startRouter(ctx, workers)
	if err != nil {
		return err
	}
	c := newClient(router.url)
	defer c.close()
	poisoned := make(chan []result)
	go func() { poisoned <- p.poisonAll(ctx, c, fault, spread) }()
	good, _ := c.poisson(ctx, traffic{
		rate: p.rate, lasts: p.before + p.spread + p.after, begin: time.Now(),
		next: func() ask { return ask{group: "good", prompt: 256} },
	})
	bad := <-poisoned
	if err := ctx.Err(); err != nil {
		return err
	}

	part := fault + ", at once"
	if spread > 0 {
		part = fault + ", spread"
	}
	failed := 0
	for i := range good {
		if !good[i].good() {
			failed++
		}
	}
	calls := make(map[string]int)
	for _, w := range workers {
		s, err := w.stats(ctx)
		if err != nil {
			return err
		}
		for name, n := range s.Poisoned {
			calls[name] += n
		}
	}
	total, most := 0, 0
	for _, n := range calls {
		total, most = total+n, max(most, n)
	}
	s, err := scrape(ctx, router.metrics)
	if err != nil {
		return err
	}
	r.add(part, "good requests", float64(len(good)), "requests")
	r.atMost(part, "good requests that failed", float64(failed), "requests", mostOthersFailed)
	all := func(*result) bool { return true }
	r.add(part, "good requests, p99", load.Quantile(pick(good, all, (*result).took), .99), "ms")
	r.add(part, "worker calls for all poisoned ones", float64(total), "calls")
	allowed := mostCalls
	if fault == atOnce {
		allowed = mostCallsKept
	}
	r.atMost(part, "worker calls for one, the most", float64(most), "calls", float64(allowed))
	r.add(part, "poisoned ones, p50", load.Quantile(pick(bad, all, (*result).took), .5), "ms")
	r.add(part, "changes of breakers", s.sum("vllm_router_cb_state_transitions_total"), "changes")
	r.add(part, "retries not made for the budget", s.sum("loadstar_retry_budget_refused_total"), "retries")
	r.fates(part, bad)
	return nil
}

// poisonAll sends the poisoned requests.
func (p poison) poisonAll(ctx context.Context, c *client, fault string, spread time.Duration) []result {
	ended := make(chan result, p.number)
	sent := 0
	for err := load.Pause(ctx, p.before); err == nil && sent < p.number; err = load.Pause(ctx, spread/time.Duration(p.number)) {
		a := ask{
			group: "poisoned", prompt: 256,
			headers: map[string]string{headerFault: fault, headerPoison: strconv.Itoa(sent)},
		}
		go func() { ended <- c.send(ctx, a) }()
		sent++
	}
	var results []result
	for range sent {
		results = append(results, <-ended)
	}
	return results
}
