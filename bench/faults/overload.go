package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
)

// overload sends twice of what the workers can do. What they can do is measured
// first, without a router.
type overload struct {
	workers   int
	slots     int           // requests that a worker runs at a time
	spare     int           // requests that the router may have wait at a worker
	calibrate time.Duration // the measurement of the capacity, after warmUp
	warmUp    time.Duration // at each load's start; not counted
	lasts     time.Duration // of each load, warmUp included
	prompt    int           // bytes
	queues    []queue
	rivalries []rivalry
}

var fullOverload = overload{
	workers: 2, slots: 16, spare: 2,
	calibrate: 10 * time.Second, warmUp: 2 * time.Second, lasts: 22 * time.Second,
	prompt: 256,
	queues: []queue{queueOfFew, longQueue},
	rivalries: []rivalry{
		{name: "tenants", header: headerTenant, modest: "modest", flooding: "flooding", queue: queueOfFew, asks: .4, target: leastFairServed},
		{name: "tenants", header: headerTenant, modest: "modest", flooding: "flooding", queue: longQueue, asks: .4, target: leastFairServed},
		{name: "urgent few", header: headerPriority, modest: "7", flooding: "0", queue: queueOfFew, asks: .4, target: leastFairServed},
		{name: "urgent few", header: headerPriority, modest: "7", flooding: "0", queue: longQueue, asks: .4, target: leastFairServed},
		{name: "low class", header: headerPriority, modest: "0", flooding: "7", queue: patientQueue, asks: .1},
	},
}

// queue is how requests wait in one part of the scenario.
type queue struct {
	name    string
	size    int
	timeout time.Duration
}

// Of the queue of few the size decides who is turned away, of the long one the
// time.
var (
	queueOfFew = queue{"queue of 64", 64, 2 * time.Second}
	longQueue  = queue{"queue of 0.5 s", 4096, 500 * time.Millisecond}
	// patientQueue lets a request of the lowest class age to the highest.
	patientQueue = queue{"queue of 3 s", 4096, 3 * time.Second}
)

// Targets of the overload.
const (
	leastGoodput    = 95  // percent of the capacity
	mostRefusal     = 5   // ms
	mostWaitOver    = 100 // ms that a wait may be longer than the timeout says
	leastFairServed = 95  // percent of what those ask who ask less than their share, or are urgent
)

const (
	headerTenant   = "X-Tenant"
	headerPriority = "X-Priority"
	ageing         = 200 * time.Millisecond
	classes        = 8
)

func (o overload) run(ctx context.Context, b *bed) (report, error) {
	r := report{Scenario: "overload"}
	workers, err := b.startWorkers(o.workers, worker.Config{MaxRunning: o.slots, OutputTokens: 16})
	if err != nil {
		return r, err
	}
	next := func() ask { return ask{prompt: o.prompt} }
	var direct []*client
	for _, w := range workers {
		c := newClient(w.url)
		defer c.close()
		direct = append(direct, c)
	}
	capacity := closed(ctx, direct, o.slots*3/2, o.warmUp, o.calibrate, next)
	if capacity == 0 {
		return r, fmt.Errorf("the workers answered nothing within %v", o.warmUp+o.calibrate)
	}
	r.Setting = append(r.Setting,
		fmt.Sprintf("%d workers with %d slots, at most %d requests at each, %d in all", o.workers, o.slots, o.slots+o.spare, o.workers*(o.slots+o.spare)),
		fmt.Sprintf("each load lasts %v, of which the first %v do not count", o.lasts, o.warmUp))
	r.add("capacity", "answers, closed loop at the workers", capacity, "/s")

	for _, q := range o.queues {
		if err := o.flood(ctx, b, &r, workers, q, capacity); err != nil {
			return r, err
		}
	}
	for _, v := range o.rivalries {
		if err := o.compete(ctx, b, &r, workers, v, capacity); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (o overload) startRouter(ctx context.Context, b *bed, workers []*simulated, q queue) (*router, error) {
	each := o.slots + o.spare
	return b.startRouter(ctx, workers,
		"--max-concurrent-requests", strconv.Itoa(each*o.workers),
		"--max-worker-inflight", strconv.Itoa(each),
		"--queue-size", strconv.Itoa(q.size),
		"--queue-timeout-secs", fmt.Sprint(q.timeout.Seconds()),
		"--queue-ageing-secs", fmt.Sprint(ageing.Seconds()),
		"--tenant-header", headerTenant, "--priority-header", headerPriority)
}

// flood measures what one load of twice the capacity gets.
func (o overload) flood(ctx context.Context, b *bed, r *report, workers []*simulated, q queue, capacity float64) error {
	router, err := o.startRouter(ctx, b, workers, q)
	if err != nil {
		return err
	}
	defer router.end()
	c := newClient(router.url)
	defer c.close()
	probes := make(chan []time.Duration)
	probing, stop := context.WithCancel(ctx)
	go func() { probes <- c.probe(probing, 50*time.Millisecond) }()
	results, unsent := c.poisson(ctx, traffic{
		rate: 2 * capacity, lasts: o.lasts, begin: time.Now(),
		next: func() ask { return ask{prompt: o.prompt} },
	})
	stop()
	alive := <-probes
	if err := ctx.Err(); err != nil {
		return err
	}

	part := "2×, " + q.name
	r.add(part, "requests sent", float64(len(results))/o.lasts.Seconds()/capacity, "× capacity")
	r.atLeast(part, "goodput", 100*o.goodput(results, "")/capacity, "% of capacity", leastGoodput)
	good := func(x *result) bool { return x.good() }
	waits := pick(results, good, func(x *result) time.Duration { return x.waited })
	r.add(part, "wait for a worker, p50", load.Quantile(waits, .5), "ms")
	r.add(part, "wait for a worker, p99", load.Quantile(waits, .99), "ms")
	r.atMost(part, "wait for a worker, longest", load.Quantile(waits, 1), "ms", ms(q.timeout)+mostWaitOver)
	r.add(part, "answer of those served, p50", load.Quantile(pick(results, good, (*result).took), .5), "ms")
	r.add(part, "answer of those served, p99", load.Quantile(pick(results, good, (*result).took), .99), "ms")

	// What is turned away for the queue's length is answered at once with 429, what
	// has waited in it for too long then with 503.
	atOnce := func(x *result) bool { return x.status == http.StatusTooManyRequests }
	later := func(x *result) bool { return x.status == http.StatusServiceUnavailable }
	if took := pick(results, atOnce, (*result).took); len(took) > 0 {
		r.add(part, "refused at once, p50", load.Quantile(took, .5), "ms")
		r.atMost(part, "refused at once, p99", load.Quantile(took, .99), "ms", mostRefusal)
	}
	if took := pick(results, later, (*result).took); len(took) > 0 {
		r.add(part, "refused after a wait, p50", load.Quantile(took, .5), "ms")
		r.add(part, "refused after a wait, p99", load.Quantile(took, .99), "ms")
		r.atMost(part, "refused after a wait, longest", load.Quantile(took, 1), "ms", ms(q.timeout)+mostWaitOver)
	}
	silent := pick(results, func(x *result) bool { return (atOnce(x) || later(x)) && x.later == 0 }, (*result).took)
	r.atMost(part, "refusals without Retry-After", float64(len(silent)), "requests", 0)
	r.add(part, "GET /liveness meanwhile, p50", load.Quantile(alive, .5), "ms")
	r.add(part, "GET /liveness meanwhile, p99", load.Quantile(alive, .99), "ms")
	all := func(*result) bool { return true }
	r.add(part, "generator late, p99", load.Quantile(pick(results, all, func(x *result) time.Duration { return x.late }), .99), "ms")
	r.add(part, "requests not sent by the generator", float64(unsent), "requests")
	r.fates(part, results)
	return nil
}

// rivalry is a load of two kinds of requests: some, and many.
type rivalry struct {
	name             string
	header           string // that tells the two apart
	modest, flooding string // its values
	queue            queue
	asks             float64 // what the modest ask, as a share of the capacity; the others ask twice of it all
	target           float64 // percent of that which they should get; 0 for none
}

// compete measures what is left for few when others ask twice of the capacity.
func (o overload) compete(ctx context.Context, b *bed, r *report, workers []*simulated, v rivalry, capacity float64) error {
	router, err := o.startRouter(ctx, b, workers, v.queue)
	if err != nil {
		return err
	}
	defer router.end()
	c := newClient(router.url)
	defer c.close()
	const flood = 2.
	results, _ := c.poisson(ctx, traffic{
		rate: (v.asks + flood) * capacity, lasts: o.lasts, begin: time.Now(),
		next: func() ask {
			group, value := "flooding", v.flooding
			if rand.Float64()*(v.asks+flood) < v.asks {
				group, value = "modest", v.modest
			}
			return ask{group: group, prompt: o.prompt, headers: map[string]string{v.header: value}}
		},
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	part := v.name + ", " + v.queue.name
	asked := 0
	var served []time.Duration // when the modest reached a worker
	for i := range results {
		if x := &results[i]; x.ask.group == "modest" && x.at >= o.warmUp {
			asked++
			if x.good() {
				served = append(served, x.at+x.waited)
			}
		}
	}
	got, lasts := o.goodput(results, "modest"), (o.lasts - o.warmUp).Seconds()
	r.add(part, "goodput together", 100*o.goodput(results, "")/capacity, "% of capacity")
	r.add(part, "flooding: served", 100*o.goodput(results, "flooding")/capacity, "% of capacity")
	r.add(part, "modest: asked", 100*float64(asked)/lasts/capacity, "% of capacity")
	r.add(part, "modest: served", 100*got/capacity, "% of capacity")
	if share := 100 * float64(len(served)) / max(1, float64(asked)); v.target > 0 {
		r.atLeast(part, "modest: served of what they asked", share, "%", v.target)
	} else {
		r.add(part, "modest: served of what they asked", share, "%")
		r.atMost(part, "modest: longest time without service", ms(longestGap(served)), "ms", ms(classes*ageing)+mostWaitOver)
	}
	for _, group := range []string{"modest", "flooding"} {
		waits := pick(results, func(x *result) bool { return x.good() && x.ask.group == group }, func(x *result) time.Duration { return x.waited })
		r.add(part, group+": wait, p50", load.Quantile(waits, .5), "ms")
		r.add(part, group+": wait, p99", load.Quantile(waits, .99), "ms")
	}
	r.fates(part, results)
	return nil
}

// longestGap is the longest time between two of times. It sorts them.
func longestGap(times []time.Duration) time.Duration {
	slices.Sort(times)
	longest := time.Duration(0)
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i]-times[i-1])
	}
	return longest
}

// goodput is how many good answers a second came after the warm-up and before the
// load's end; group limits it to one group unless it is empty.
func (o overload) goodput(results []result, group string) float64 {
	n := 0
	for i := range results {
		x := &results[i]
		if end := x.at + x.total; x.good() && end >= o.warmUp && end < o.lasts && (group == "" || x.ask.group == group) {
			n++
		}
	}
	return float64(n) / (o.lasts - o.warmUp).Seconds()
}

func (r *result) took() time.Duration { return r.total }

// probe asks every interval whether the router lives, until ctx ends: the price of
// an answer that needs no worker, on this machine under this load.
func (c *client) probe(ctx context.Context, interval time.Duration) []time.Duration {
	var took []time.Duration
	for load.Pause(ctx, interval) == nil {
		if d, err := c.live(ctx); err == nil {
			took = append(took, d)
		}
	}
	return took
}
