package compare

import "testing"

func TestUnevenness(t *testing.T) {
	tests := []struct {
		name   string
		shares []int64
		want   float64
	}{
		{"even", []int64{5, 5}, 1},
		{"all on one", []int64{0, 9, 0}, 3},
		{"nothing", []int64{0, 0}, 0},
		{"no workers", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Unevenness(tt.shares); got != tt.want {
				t.Errorf("it is %v, want %v", got, tt.want)
			}
		})
	}
}
