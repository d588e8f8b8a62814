package replay

import (
	"strings"
	"testing"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/workload"
)

// good are settings without fault, as the command's flags give them.
func good() Settings {
	return Settings{
		Setup: workload.Setup{Workload: "conversations"}, Routers: []string{"loadstar:least_work", "bare"}, Model: compare.Model, Rounds: 1,
		Connections: 10,
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
		{"setup", func(s *Settings) { s.Rate = -5 }, "rate -5: give"},
		{"time scale", func(s *Settings) { s.TimeScale = -1 }, "time scale -1: give"},
		{"rounds", func(s *Settings) { s.Rounds = 0 }, "rounds 0: give"},
		{"connections", func(s *Settings) { s.Connections = 0 }, "connections 0: give"},
		{"model", func(s *Settings) { running(s); s.Model = `a"b` }, `model "a\"b": give letters`},
		{"model of a started router", func(s *Settings) { s.Model = "other" }, `model "other": routers that are started serve null`},
		{"no router", func(s *Settings) { s.Routers = nil }, "no router: name one of loadstar, "},
		{"unknown router", func(s *Settings) { s.Routers = []string{"none:x"} }, `router "none": give one of loadstar, `},
		{"a policy too many", func(s *Settings) { s.Routers = []string{"bare:x"} }, `router "bare:x": it has no choice of policies`},
		{"workers", func(s *Settings) { s.Workers = -1 }, "workers -1: give 1 to 64"},
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

func TestDefaultTimeScale(t *testing.T) {
	for name, want := range map[string]float64{"conversations": 1, "mixed": 1, "a.jsonl": 20} {
		s := Settings{Setup: workload.Setup{Workload: name}}.withDefaults()
		if s.TimeScale != want || s.Speed != 1 {
			t.Errorf("%s has time scale %v and speed %v, want %v and 1", name, s.TimeScale, s.Speed, want)
		}
	}
}

func TestTimes(t *testing.T) {
	s := Settings{Setup: workload.Setup{Speed: 2}, TimeScale: 10}
	if got, want := s.real(time.Minute), 3*time.Second; got != want {
		t.Errorf("a minute of the workload takes %v, want %v", got, want)
	}
	if got, want := s.unscaled(3*time.Second), 30*time.Second; got != want {
		t.Errorf("3 s that were measured are %v, want %v", got, want)
	}
}
