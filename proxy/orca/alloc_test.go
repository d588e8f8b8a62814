//go:build !race

package orca

import "testing"

// Reading a report allocates nothing.
func TestAllocations(t *testing.T) {
	for _, header := range []string{
		"TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0",
		`JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}}`,
	} {
		b := []byte(header)
		if got := testing.AllocsPerRun(100, func() { Requests(b) }); got != 0 {
			t.Errorf("%v allocations for %q, want 0", got, header)
		}
	}
}
