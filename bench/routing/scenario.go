package routing

import (
	"cmp"

	"loadstar/bench/workload"
)

// Load is how busy the workers of a scenario are, which decides what is asked of a
// router.
type Load string

// Loads.
const (
	Idle Load = "idle"
	Busy Load = "busy"
	Full Load = "near saturation"
	Any  Load = "" // nothing more is asked than not to be worse than others
)

// Scenario is a row of the table.
type Scenario struct {
	Name  string         `json:"name"`
	Load  Load           `json:"load,omitempty"`
	Setup workload.Setup `json:"setup"`
	Scale float64        `json:"time_scale"`
}

const (
	synthScale = 2
	traceScale = 40

	synthSeconds = 48 // of a synthetic workload
	synthWarmUp  = 12
	traceSeconds = 1000 // of a trace at its own speed
	traceWarmUp  = 200
)

// Scenarios are all of them, those of a trace only if its file is given. Lengths and
// time scales are multiplied by a factor each.
func Scenarios(trace string, length, scale float64) []Scenario {
	rows := []Scenario{
		{"40 req/s", Idle, workload.Setup{Workload: "conversations", Rate: 40}, synthScale},
		{"80 req/s", Busy, workload.Setup{Workload: "conversations", Rate: 80}, synthScale},
		{"110 req/s", Full, workload.Setup{Workload: "conversations", Rate: 110}, synthScale},
		{"trace", Any, workload.Setup{Workload: trace}, traceScale},
		{"trace × 1.6", Busy, workload.Setup{Workload: trace, Speed: 1.6}, traceScale},
		{"trace × 2.2", Full, workload.Setup{Workload: trace, Speed: 2.2}, traceScale},
		{"2 hot groups at 80 req/s", Any, workload.Setup{Workload: "hot", Rate: 80}, synthScale},
		{"nothing shared at 90 req/s", Any, workload.Setup{Workload: "unique", Rate: 90}, synthScale},
		{"one worker half as fast at 60 req/s", Any, workload.Setup{Workload: "conversations", Rate: 60, Speeds: []float64{.5, 1, 1, 1}}, synthScale},
		{"a worker loses its cache at 80 req/s", Any, workload.Setup{Workload: "conversations", Rate: 80, Restart: workload.Restart{Worker: 1, Seconds: length * synthSeconds / 2}}, synthScale},
		{"long and short prompts at 60 req/s", Any, workload.Setup{Workload: "mixed", Rate: 60}, synthScale},
	}
	var all []Scenario
	for _, s := range rows {
		if s.Setup.Workload == "" {
			continue
		}
		s.Setup = s.Setup.WithDefaults()
		s.Scale *= scale
		s.Setup.Seconds, s.Setup.WarmUp = length*synthSeconds, length*synthWarmUp
		if !workload.IsSynthetic(s.Setup.Workload) {
			speed := cmp.Or(s.Setup.Speed, 1)
			s.Setup.Seconds, s.Setup.WarmUp = length*traceSeconds*speed, length*traceWarmUp*speed
		}
		all = append(all, s)
	}
	return all
}

// Target is what a mean and a 99th percentile of Loadstar may be at most, by those
// of the best other router.
type Target struct{ Mean, P99 float64 }

// Target is that of a load. Without a bound for the 99th percentile it has that of
// the mean.
func (l Load) Target() Target {
	switch l {
	case Full:
		return Target{.75, .65}
	case Busy:
		return Target{.85, .7}
	default:
		return Target{1.03, 1.03}
	}
}

// IdleHit is the least share of the best possible hit ratio on an idle fleet.
const IdleHit = .97
