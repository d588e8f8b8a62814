package load

import (
	"slices"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 101 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for _, tt := range []struct {
		name  string
		times []time.Duration
		q     float64
		want  float64
	}{
		{"of nothing", nil, .5, 0},
		{"of one", []time.Duration{7 * time.Millisecond}, .99, 7},
		{"median", slices.Clone(hundred), .5, 50},
		{"p99", slices.Clone(hundred), .99, 99},
		{"longest", slices.Clone(hundred), 1, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Quantile(tt.times, tt.q); got != tt.want {
				t.Errorf("Quantile(%v) = %v, want %v", tt.q, got, tt.want)
			}
		})
	}
}
