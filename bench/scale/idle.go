package scale

import (
	"context"
	"fmt"

	"loadstar/bench/load"
)

// idleFleet is how many workers an idle router has, of which a promise was made.
const idleFleet = 100

// idle measures routers without requests, which check their workers' health as often
// as they do by default.
func (r *run) idle(ctx context.Context) error {
	fleets := []int{min(idleFleet, r.Fleet), r.Fleet}
	var all []*router
	defer func() {
		for _, t := range all {
			t.End()
		}
	}()
	for _, n := range fleets {
		r.say("starting loadstar before %d workers", n)
		started, err := r.start(ctx, "loadstar", r.workers.null[:n])
		if err != nil {
			return err
		}
		all = append(all, started)
	}
	for round := 1; round <= r.Rounds; round++ {
		r.say("round %d of %d: idle", round, r.Rounds)
		for i, t := range all {
			used, err := t.during(func() error { return load.Pause(ctx, seconds(r.Idle)) })
			if err != nil {
				return err
			}
			var promise *float64
			if i == 0 {
				promise = bound(1)
			}
			r.result.add("Idle, health checks each 10 s", fmt.Sprintf("%d workers", t.workers), "% of a core", promise, 100*used.Seconds()/r.Idle)
		}
	}
	return nil
}
