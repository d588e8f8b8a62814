package load

import (
	"context"
	"slices"
	"time"
)

// Pause waits for d, or fails when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Quantile is the q-quantile in milliseconds, or 0 of nothing. It sorts times.
func Quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1)+0.5)]) / float64(time.Millisecond)
}
