package scale

import (
	"context"
	"fmt"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/load"
)

const (
	forwarder   = "bare" // what a fleet costs who only forwards
	connections = 32
	timeout     = 20 * time.Second
)

// kinds are the requests whose cost is measured.
var kinds = []struct {
	name string
	chat load.Chat
}{
	{"200 B", load.Chat{Model: compare.Model, Bytes: 200}},
	{"20 kB", load.Chat{Model: compare.Model, Bytes: 20_000}},
}

// Policies choose among all workers or don't look at them; the forwarder comes first,
// as what others cost is held against it.
var policies = []struct {
	name  string
	looks bool // at each worker, for each request
}{{forwarder, false}, {"cache_aware", true}, {"least_work", true}, {"round_robin", false}}

// What a bigger fleet may add to a request's cost beyond what it adds to the
// forwarder's, whose connections are as many and as cold: more memory of our own
// that is cold too, and the look at each worker.
const (
	coldMicros    = 2.0
	perWorkerLook = .004 // µs
)

// taking is a router that takes turns with others.
type taking struct {
	*router
	policy string
	looks  bool
}

// requests measures the CPU time per request with each fleet under three policies
// and of a forwarder that doesn't choose.
func (r *run) requests(ctx context.Context) error {
	var all []*taking
	defer func() {
		for _, t := range all {
			t.End()
		}
	}()
	for _, p := range policies {
		name := "loadstar:" + p.name
		if p.name == forwarder {
			name = forwarder
		}
		for _, n := range r.Fleets {
			r.say("starting %s before %d workers", name, n)
			started, err := r.start(ctx, name, r.workers.null[:n])
			if err != nil {
				return err
			}
			all = append(all, &taking{started, p.name, p.looks})
		}
	}
	for _, k := range kinds {
		source := repeated(k.chat, r.Prompts)
		for round := 1; round <= r.Rounds; round++ {
			r.say("round %d of %d: %s", round, r.Rounds, k.name)
			costs := make([]float64, len(all))
			for i, t := range all {
				var err error
				if costs[i], err = t.cost(ctx, source, 2*r.Prompts, seconds(r.Seconds)); err != nil {
					return fmt.Errorf("%s before %d workers: %w", t.policy, t.workers, err)
				}
			}
			r.tell(all, costs, k.name)
		}
	}
	return nil
}

// tell adds what a round's requests of one kind cost.
func (r *run) tell(all []*taking, costs []float64, kind string) {
	for i, t := range all {
		part, fleet := fmt.Sprintf("CPU per request, %s, %s", kind, t.policy), fmt.Sprintf("%d workers", t.workers)
		r.result.add(part, fleet, "µs", nil, costs[i])
		nth := i % len(r.Fleets)
		if nth == 0 {
			continue
		}
		r.result.add(part, fmt.Sprintf("%s, as a multiple of %d", fleet, r.Fleets[0]), "×", nil, costs[i]/costs[i-nth])
		if t.policy == forwarder {
			continue
		}
		promise := coldMicros
		if t.looks {
			promise += perWorkerLook * float64(t.workers)
		}
		r.result.add(part, fleet+", growth beyond the forwarder's", "µs", &promise, costs[i]-costs[i-nth]-(costs[nth]-costs[0]))
	}
}

// cost is the CPU time per request in µs, behind a warm-up of so many requests.
func (t *taking) cost(ctx context.Context, source load.Source, warmUp uint64, lasts time.Duration) (float64, error) {
	cfg := load.Config{URL: t.URL, Source: source, Connections: connections, Requests: warmUp, Timeout: timeout}
	if _, err := answered(ctx, cfg); err != nil {
		return 0, err
	}
	cfg.Requests, cfg.Duration = 0, lasts
	var requests uint64
	used, err := t.during(func() (err error) {
		requests, err = answered(ctx, cfg)
		return err
	})
	return micros(used) / float64(max(1, requests)), err
}

// answered runs a load of which every request must be answered.
func answered(ctx context.Context, cfg load.Config) (uint64, error) {
	report, err := load.Run(ctx, cfg)
	switch {
	case err != nil:
		return 0, err
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case report.Failed() > 0:
		return 0, fmt.Errorf("%d of %d requests failed: %v, statuses %v", report.Failed(), report.Requests, report.Errors, report.Statuses)
	}
	return report.OK, nil
}

// repeated sends n prompts that share nothing, again and again.
func repeated(chat load.Chat, n uint64) load.Source {
	unique := chat.Unique()
	bodies := make([][]byte, n)
	for i := range n {
		bodies[i] = unique(i)
	}
	return func(i uint64) []byte { return bodies[i%n] }
}
