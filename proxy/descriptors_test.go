package proxy

import (
	"runtime"
	"testing"
)

func TestConnectionsWithin(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limit  uint64
		phases int
		want   int
	}{
		{"a usual limit", 1024, 1, 384},
		{"two phases", 1024, 2, 256},
		{"a large limit", 1 << 20, 1, 524_160},
		{"no limit", ^uint64(0), 1, 536_870_784},
		{"less than is spared", 200, 1, 50},
		{"next to nothing", 2, 1, 1},
		{"nothing", 0, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := connectionsWithin(tc.limit, tc.phases); got != tc.want {
				t.Errorf("connectionsWithin(%d, %d) = %d, want %d", tc.limit, tc.phases, got, tc.want)
			}
		})
	}
	if n, ok := ConnectionsThatFit(1); ok != (runtime.GOOS == "linux") || n < 1 {
		t.Errorf("ConnectionsThatFit(1) = %d, %v", n, ok)
	}
}
