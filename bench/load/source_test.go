package load

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestChat(t *testing.T) {
	tests := []struct {
		name   string
		source Source
		equal  int // bytes at least that two bodies begin with alike
		below  int // and fewer than this many
	}{
		{"same", Chat{Bytes: 4000}.Same(), 4000, 4001},
		{"unique", Chat{Bytes: 4000}.Unique(), 30, 60},
		{"grouped, one group", Chat{Bytes: 4000}.Grouped(func(uint64) int { return 7 }), 2000, 2200},
		{"grouped, two groups", Chat{Bytes: 4000}.Grouped(func(n uint64) int { return int(n) }), 30, 70},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := tt.source(1), tt.source(2)
			if len(a) != 4000 || !json.Valid(a) {
				t.Errorf("%d bytes, valid: %v; want 4000 bytes of JSON", len(a), json.Valid(a))
			}
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			if n < tt.equal || n >= tt.below {
				t.Errorf("%d bytes are alike, want %d to %d", n, tt.equal, tt.below)
			}
		})
	}
}

func TestChatFields(t *testing.T) {
	got := string(Chat{Model: "m", Stream: true, MaxTokens: 5, Start: "s"}.Same()(0))
	const want = `{"model":"m","messages":[{"role":"user","content":"s"}],"stream":true,"max_tokens":5}`
	if got != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

// A Poisson process has its rate, and gaps as scattered as they are long.
func TestPoisson(t *testing.T) {
	const rate, n = 50, 20000
	next, last := Poisson(rate, 1), time.Duration(0)
	sum, squares := 0.0, 0.0
	for range n {
		due, more := next()
		if !more || due < last {
			t.Fatalf("due at %v after %v, more: %v", due, last, more)
		}
		gap := (due - last).Seconds()
		sum, squares, last = sum+gap, squares+gap*gap, due
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*rate-1) > .03 || math.Abs(deviation*rate-1) > .05 {
		t.Errorf("gaps of %.4f ± %.4f s, want 0.02 ± 0.02", mean, deviation)
	}
}

func TestTimesArrivals(t *testing.T) {
	next := Times([]time.Duration{time.Second, 3 * time.Second}, 2)
	for _, want := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		if got, more := next(); got != want || !more {
			t.Errorf("due at %v (%v), want %v", got, more, want)
		}
	}
	if _, more := next(); more {
		t.Error("there are more than two arrivals")
	}
}
