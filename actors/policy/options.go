package policy

import (
	"errors"
	"fmt"
	"math"
)

// maxSessionCap keeps the session table's memory, about 60 bytes a session,
// around 1 GB.
const maxSessionCap = 1 << 24

// BlockTokens is how many tokens a block of 64 bytes of the routing key is taken for.
const BlockTokens = 16

// Options are the settings of all policies; each policy reads its own.
type Options struct {
	// CacheThreshold is the share of a prompt, from 0 to 1, that a worker must
	// have cached before cache_aware prefers it. A share equal to it is not
	// enough.
	CacheThreshold float64
	// BalanceAbs and BalanceRel say when loads are imbalanced: when the highest
	// exceeds the lowest by more than BalanceAbs requests and is also more than
	// BalanceRel times as high. An owner by hash is never full below BalanceAbs.
	BalanceAbs int
	BalanceRel float64
	// SessionTTL is how long an idle session is remembered, in nanoseconds.
	SessionTTL int64
	// SessionCap is how many sessions are remembered. When there are more, the
	// longest idle one is forgotten.
	SessionCap int
	// Temperature is how much kv_aware leaves to chance, in tokens of prompt: a worker
	// that costs so many more than the cheapest is drawn once for 2.7 times that is. 0
	// leaves nothing.
	Temperature float64
	// AffinityTTL is how long kv_aware remembers an idle session, in nanoseconds; 0
	// remembers none. SessionCap counts here too.
	AffinityTTL int64
	// Seed fixes the draws of random and power_of_two, and those of kv_aware with a
	// temperature. Nothing else depends on it.
	Seed uint64
	// MissBacklog is the c of least_work: a mean backlog of MissBacklog times the
	// prompt's size adds 1 to the price of a miss.
	MissBacklog float64
	// MissCap is the most that backlog can add to the price of a miss.
	MissCap float64
	// BacklogDecay is the weight of the past in the moving average of the
	// backlog, per request.
	BacklogDecay float64
	// LoadBlocks is the price of one running request in blocks of prompt.
	LoadBlocks float64
}

// DefaultOptions are vllm-router's thresholds, its session lifetime of two
// hours, and constants of least_work that do well in the simulations of bench/sim.
func DefaultOptions() Options {
	return Options{
		CacheThreshold: 0.3,
		BalanceAbs:     64,
		BalanceRel:     1.5,
		SessionTTL:     7200 * 1_000_000_000,
		SessionCap:     262_144,
		MissBacklog:    0.25,
		MissCap:        12,
		BacklogDecay:   0.98,
		LoadBlocks:     4,
	}
}

// Validate reports every setting that makes no sense, each as an error of its
// own, joined.
func (o Options) Validate() error {
	var faults []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s is %v: give %s", name, value, want))
		}
	}
	check(o.CacheThreshold >= 0 && o.CacheThreshold <= 1,
		"--cache-threshold", o.CacheThreshold, "a number from 0 to 1")
	check(o.BalanceAbs >= 0,
		"--balance-abs-threshold", o.BalanceAbs, "a whole number of requests, 0 or more")
	check(o.BalanceRel >= 1 && finite(o.BalanceRel),
		"--balance-rel-threshold", o.BalanceRel, "a number of at least 1")
	check(o.SessionTTL > 0,
		"the session lifetime in nanoseconds", o.SessionTTL, "a time above 0")
	check(o.SessionCap >= 1 && o.SessionCap <= maxSessionCap,
		"the number of sessions remembered", o.SessionCap, fmt.Sprintf("a number from 1 to %d", maxSessionCap))
	check(o.Temperature >= 0 && finite(o.Temperature),
		"--router-temperature", o.Temperature, "a number of at least 0")
	check(o.AffinityTTL >= 0,
		"the lifetime of kv_aware's sessions in nanoseconds", o.AffinityTTL, "a time, or 0 for none")
	check(o.MissBacklog > 0 && finite(o.MissBacklog),
		"least_work's backlog per prompt", o.MissBacklog, "a number above 0")
	check(o.MissCap >= 0 && finite(o.MissCap),
		"least_work's limit on the price of a miss", o.MissCap, "a number of at least 0")
	check(o.BacklogDecay >= 0 && o.BacklogDecay < 1,
		"least_work's decay of the backlog", o.BacklogDecay, "a number from 0 to below 1")
	check(o.LoadBlocks >= 0 && finite(o.LoadBlocks),
		"least_work's price of a running request", o.LoadBlocks, "a number of blocks of at least 0")
	return errors.Join(faults...)
}

func finite(x float64) bool {
	return !math.IsInf(x, 0) && !math.IsNaN(x)
}
