package workload

import (
	"strings"
	"testing"
	"time"
)

func TestSetup(t *testing.T) {
	trace := func(s *Setup) { *s = Setup{Workload: "some.csv"}.WithDefaults() }
	tests := []struct {
		name  string
		spoil func(*Setup)
		want  string // how the error begins
	}{
		{"good", func(*Setup) {}, ""},
		{"a trace", trace, ""},
		{"workload", func(s *Setup) { *s = Setup{}.WithDefaults() }, "no workload: give one of conversations, hot, unique, mixed, or the file of a trace"},
		{"rate", func(s *Setup) { s.Rate = -1 }, "rate -1: give"},
		{"rate of a trace", func(s *Setup) { trace(s); s.Rate = 5 }, "rate 5: the requests of a trace have times"},
		{"block size", func(s *Setup) { trace(s); s.BlockTokens = -1 }, "-1 tokens of a block: give"},
		{"speed", func(s *Setup) { s.Speed = -1 }, "speed -1: give"},
		{"prefill", func(s *Setup) { s.Prefill = -1 }, "prefill rate -1: give"},
		{"seconds", func(s *Setup) { s.Seconds = -1 }, "seconds -1: give"},
		{"warm-up", func(s *Setup) { s.WarmUp = -1 }, "warm-up -1: give"},
		{"output", func(s *Setup) { s.MaxOutput = -1 }, "max output -1: give"},
		{"too many workers", func(s *Setup) { s.Workers = 9 }, "workers 9: give 2 to 8"},
		{"too few workers", func(s *Setup) { s.Workers = 1 }, "workers 1: give 2 to 8"},
		{"restart", func(s *Setup) { s.Restart.Worker = 5 }, "worker that restarts 5: give 0 to 4"},
		{"time of the restart", func(s *Setup) { s.Restart.Seconds = -1 }, "time of the restart -1: give"},
		{"worker's speed", func(s *Setup) { s.Speeds = []float64{1, 0} }, "a worker's speed 0: give"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Setup{Workload: "conversations"}.WithDefaults()
			tt.spoil(&s)
			got := ""
			if err := s.Check(2, 8); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("the error is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	tests := []struct {
		workload                string
		blockTokens             int
		rate, prefill, seconds  float64
		workers, wantBlockToken int
	}{
		{"conversations", 0, 80, 1250, 120, 4, 0},
		{"unique", 0, 60, 1250, 120, 4, 0},
		{"a.jsonl", 0, 0, 15.625, 0, 8, 512},
		{"a.jsonl", 16, 0, 500, 0, 8, 16},
	}
	for _, tt := range tests {
		s := Setup{Workload: tt.workload, BlockTokens: tt.blockTokens}.WithDefaults()
		if s.Rate != tt.rate || s.Prefill != tt.prefill || s.Seconds != tt.seconds || s.Workers != tt.workers || s.BlockTokens != tt.wantBlockToken {
			t.Errorf("%+v has the defaults %+v", tt, s)
		}
	}
}

// Workers take the speeds in turn.
func TestWorkerSpeeds(t *testing.T) {
	s := Setup{Workload: "unique", Prefill: 1000, Speeds: []float64{1, .5}}
	for worker, want := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Millisecond} {
		if got := s.PerBlock(worker); got != want {
			t.Errorf("worker %d takes %v for a block, want %v", worker, got, want)
		}
	}
}
