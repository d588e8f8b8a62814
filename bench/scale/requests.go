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
	distinct    = 1024 // prompts, so that there are some for every worker
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

// growth is how many times as much a request may cost as with the first fleet,
// cold connections to that many workers included.
const growth = 1.25

// taking is a router that takes turns with others.
type taking struct {
	*router
	policy string
	base   float64 // what a request costs in this round with the first fleet
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
	for _, policy := range []string{"cache_aware", "least_work", "round_robin", forwarder} {
		name := "loadstar:" + policy
		if policy == forwarder {
			name = forwarder
		}
		for _, n := range r.Fleets {
			r.say("starting %s before %d workers", name, n)
			started, err := r.start(ctx, name, r.workers.null[:n])
			if err != nil {
				return err
			}
			all = append(all, &taking{router: started, policy: policy})
		}
	}
	for _, k := range kinds {
		source := repeated(k.chat, distinct)
		for round := 1; round <= r.Rounds; round++ {
			r.say("round %d of %d: %s", round, r.Rounds, k.name)
			for i, t := range all {
				cost, err := t.cost(ctx, source, seconds(r.Seconds))
				if err != nil {
					return fmt.Errorf("%s before %d workers: %w", t.policy, t.workers, err)
				}
				part := fmt.Sprintf("CPU per request, %s, %s", k.name, t.policy)
				r.result.add(part, fmt.Sprintf("%d workers", t.workers), "µs", nil, cost)
				if first := i % len(r.Fleets); first > 0 {
					t.base = all[i-first].base
					r.result.add(part, fmt.Sprintf("%d workers, as a multiple of %d", t.workers, r.Fleets[0]), "×", most(t.policy), cost/t.base)
				} else {
					t.base = cost
				}
			}
		}
	}
	return nil
}

// most is what is promised of a policy's growth. The forwarder is there to compare.
func most(policy string) *float64 {
	if policy == forwarder {
		return nil
	}
	return bound(growth)
}

// cost is the CPU time per request in µs, once every prompt was seen.
func (t *taking) cost(ctx context.Context, source load.Source, lasts time.Duration) (float64, error) {
	cfg := load.Config{URL: t.URL, Source: source, Connections: connections, Requests: 2 * distinct, Timeout: timeout}
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
