package actors

import (
	"math/rand/v2"
	"testing"
)

// A window counts what a look at every single outcome counts, however the times
// come: in bursts, after long pauses, a little out of order.
func TestWindowCounts(t *testing.T) {
	const width, length = int64(7), 7 * windowParts
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w window
		var all []struct {
			part int64
			v    verdict
		}
		begin := rng.Int64N(1000) - 500
		now, current := begin, int64(0)
		for step := range 3000 {
			draw := rng.IntN(20)
			switch {
			case step == 0: // the first part begins with the first outcome
			case draw == 0:
				now += rng.Int64N(3 * length)
			case draw == 1:
				now -= min(rng.Int64N(4), now-begin)
			default:
				now += rng.Int64N(4)
			}
			v := []verdict{good, bad}[rng.IntN(2)]
			w.add(v, now, length)
			current = max(current, (now-begin)/width) // an outcome that comes late counts as of now
			all = append(all, struct {
				part int64
				v    verdict
			}{current, v})
			var want tally
			for _, x := range all {
				if x.part <= current-windowParts {
					continue
				}
				if x.v == good {
					want.good++
				} else {
					want.bad++
				}
			}
			if w.sum != want {
				t.Fatalf("seed %d, step %d: sum = %+v, want %+v", seed, step, w.sum, want)
			}
		}
	}
}
