package compare

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"loadstar/bench/load"
)

const (
	uniqueBytes  = 4096
	spotGroups   = 24
	spotSkew     = 1.2 // of the Zipf distribution of groups
	spotBytes    = 6000
	spotThink    = 5 // ms
	spotRequests = 1500
	per          = 10_000 // prompts that growth is told for
)

// growth measures how a router's memory grows with prompts that nobody has sent
// before.
func growth(ctx context.Context, r *running, prompts uint64, round int) ([]Sample, error) {
	before, err := r.memory()
	if err != nil {
		return nil, err
	}
	report, _, err := r.spent(ctx, load.Config{
		Source: load.Chat{Model: "null", Bytes: uniqueBytes}.Unique(), Connections: 16, Requests: prompts, Timeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	if err := load.Pause(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	after, err := r.memory()
	return []Sample{{
		Metric: UniqueMB, Router: r.peer.name, Round: round, Requests: report.Requests, Failed: report.Failed(),
		Value: (after - before) / 1e6 / float64(max(1, report.Requests)) * per,
	}}, err
}

// hotSpot measures how unevenly requests are spread whose groups share prefixes:
// the number of workers times the largest share.
func hotSpot(ctx context.Context, r *running, workers []*holder, round int) ([]Sample, error) {
	random := rand.New(rand.NewPCG(1, 0))
	zipf := rand.NewZipf(random, spotSkew, 1, spotGroups-1)
	groups := make([]int, spotRequests)
	for i := range groups {
		groups[i] = int(zipf.Uint64())
	}
	before := make([]int64, len(workers))
	for i, w := range workers {
		before[i] = w.count.Load()
	}
	chat := load.Chat{Model: "null", Bytes: spotBytes, Start: askThink + strconv.Itoa(spotThink) + "] "}
	report, _, err := r.spent(ctx, load.Config{
		Source:      chat.Grouped(func(n uint64) int { return groups[n%spotRequests] }),
		Connections: 32, Requests: spotRequests, Timeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	shares := make([]int64, len(workers))
	for i, w := range workers {
		shares[i] = w.count.Load() - before[i]
	}
	return []Sample{{
		Metric: HotSpot, Router: r.peer.name, Round: round, Requests: report.Requests, Failed: report.Failed(),
		Value: Unevenness(shares),
	}}, nil
}

// Unevenness is the number of workers times the largest share: 1 if all had the
// same. It is 0 without workers or if none had any.
func Unevenness(shares []int64) float64 {
	total, most := int64(0), int64(0)
	for _, n := range shares {
		total += n
		most = max(most, n)
	}
	if total == 0 {
		return 0
	}
	return float64(len(shares)) * float64(most) / float64(total)
}
