package replay

import (
	"strings"
	"testing"
	"time"

	"loadstar/bench/compare"
)

// good are settings without fault, as the command's flags give them.
func good() Settings {
	return Settings{
		Workload: "conversations", Routers: []string{"loadstar:least_work", "bare"}, Model: compare.Model, Rounds: 1,
		Speed: 1, MaxOutput: 20, Connections: 10,
	}
}

func TestSettings(t *testing.T) {
	const url = "http://127.0.0.1:30000/v1/chat/completions"
	running := func(s *Settings) { s.Routers, s.URL = nil, url }
	tests := []struct {
		name  string
		spoil func(*Settings)
		want  string // how the error begins
	}{
		{"good", func(*Settings) {}, ""},
		{"a trace", func(s *Settings) { s.Workload = "some.csv" }, ""},
		{"a router that runs", running, ""},
		{"a router that runs on a name", func(s *Settings) { running(s); s.URL = "http://localhost:1/x"; s.Listen = []string{"[::1]:2"} }, ""},
		{"workload", func(s *Settings) { s.Workload = "" }, "no workload: give one of conversations, hot, unique, or the file of a trace"},
		{"rate of a trace", func(s *Settings) { s.Workload, s.Rate = "some.csv", 5 }, "rate 5: the requests of a trace have times"},
		{"rate", func(s *Settings) { s.Rate = -5 }, "rate -5: give"},
		{"speed", func(s *Settings) { s.Speed = 0 }, "speed 0: give"},
		{"time scale", func(s *Settings) { s.TimeScale = -1 }, "time scale -1: give"},
		{"prefill", func(s *Settings) { s.Prefill = -1 }, "prefill rate -1: give"},
		{"seconds", func(s *Settings) { s.Seconds = -1 }, "seconds -1: give"},
		{"warm-up", func(s *Settings) { s.WarmUp = -1 }, "warm-up -1: give"},
		{"rounds", func(s *Settings) { s.Rounds = 0 }, "rounds 0: give"},
		{"output", func(s *Settings) { s.MaxOutput = 0 }, "max output 0: give"},
		{"connections", func(s *Settings) { s.Connections = 0 }, "connections 0: give"},
		{"block tokens", func(s *Settings) { s.Workload, s.BlockTokens = "some.csv", -1 }, "prefill rate -8000: give"},
		{"model", func(s *Settings) { running(s); s.Model = `a"b` }, `model "a\"b": give letters`},
		{"model of a started router", func(s *Settings) { s.Model = "other" }, `model "other": routers that are started serve null`},
		{"no router", func(s *Settings) { s.Routers = nil }, "no router: name one of loadstar, "},
		{"unknown router", func(s *Settings) { s.Routers = []string{"none:x"} }, `router "none": give one of loadstar, `},
		{"a policy too many", func(s *Settings) { s.Routers = []string{"bare:x"} }, `router "bare:x": it has no choice of policies`},
		{"workers", func(s *Settings) { s.Workers = -1 }, "-1 workers: give 1 to 64"},
		{"addresses without URL", func(s *Settings) { s.Listen = []string{"127.0.0.1:1"} }, "workers' addresses are for a router that runs"},
		{"URL and routers", func(s *Settings) { s.URL = url }, "a URL, and routers to be started"},
		{"URL elsewhere", func(s *Settings) { running(s); s.URL = "http://192.0.2.1:80/x" }, `URL "http://192.0.2.1:80/x": give one on loopback`},
		{"address elsewhere", func(s *Settings) { running(s); s.Listen = []string{"0.0.0.0:80"} }, `address "0.0.0.0:80": give one on loopback`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good()
			tt.spoil(&s)
			got := ""
			if err := s.withDefaults().check(); err != nil {
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
		workload           string
		blockTokens        int
		rate, prefill      float64
		scale, seconds     float64
		workers, wantBlock int
	}{
		{"conversations", 0, 80, 1250, 1, 120, 4, 0},
		{"unique", 0, 60, 1250, 1, 120, 4, 0},
		{"a.jsonl", 0, 0, 15.625, 20, 0, 8, 512},
		{"a.jsonl", 16, 0, 500, 20, 0, 8, 16},
	}
	for _, tt := range tests {
		s := Settings{Workload: tt.workload, BlockTokens: tt.blockTokens}.withDefaults()
		if s.Rate != tt.rate || s.Prefill != tt.prefill || s.TimeScale != tt.scale || s.Seconds != tt.seconds || s.Workers != tt.workers || s.BlockTokens != tt.wantBlock {
			t.Errorf("%+v has the defaults %+v", tt, s)
		}
	}
}

func TestTimes(t *testing.T) {
	s := Settings{Speed: 2, TimeScale: 10}
	if got, want := s.real(time.Minute), 3*time.Second; got != want {
		t.Errorf("a minute of the workload takes %v, want %v", got, want)
	}
	if got, want := s.unscaled(3*time.Second), 30*time.Second; got != want {
		t.Errorf("3 s that were measured are %v, want %v", got, want)
	}
}
