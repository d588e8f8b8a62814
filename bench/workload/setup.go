package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"
)

// Setup is a workload and the workers that it goes to, live or simulated. A zero
// number takes the workload's default where there is one.
type Setup struct {
	Workload    string    `json:"workload"` // the name of a synthetic one, or a trace's file
	Rate        float64   `json:"rate,omitempty"`
	Speed       float64   `json:"speed"`             // how much faster requests come
	Seconds     float64   `json:"seconds,omitempty"` // of the workload; 0 for all of a trace
	WarmUp      float64   `json:"warm_up"`           // seconds of it whose requests are not counted
	BlockTokens int       `json:"block_tokens,omitempty"`
	MaxOutput   int       `json:"max_output"`
	Workers     int       `json:"workers"`
	Prefill     float64   `json:"prefill_blocks_per_second"`
	Speeds      []float64 `json:"speeds,omitempty"` // of the workers in turn, as shares of the prefill rate; none for equal ones
	CacheBlocks int       `json:"cache_blocks"`     // of a worker
	Restart     Restart   `json:"restart,omitzero"`
}

// Restart is the loss of a worker's cache, of which the router isn't told.
type Restart struct {
	Worker  int     `json:"worker"`  // from 1 on; 0 for no restart
	Seconds float64 `json:"seconds"` // of the workload, until then
}

// WithDefaults is the setup with the workload's defaults, which are those of the
// simulations that routing was designed with.
func (s Setup) WithDefaults() Setup {
	if IsSynthetic(s.Workload) {
		s.Rate = cmp.Or(s.Rate, DefaultRate(s.Workload))
		s.Seconds = cmp.Or(s.Seconds, 120)
		s.Workers = cmp.Or(s.Workers, 4)
		s.Prefill = cmp.Or(s.Prefill, 1250)
		s.BlockTokens = 0
	} else {
		s.BlockTokens = cmp.Or(s.BlockTokens, 512)
		s.Workers = cmp.Or(s.Workers, 8)
		s.Prefill = cmp.Or(s.Prefill, 8000/float64(s.BlockTokens))
	}
	s.Speed = cmp.Or(s.Speed, 1)
	s.MaxOutput = cmp.Or(s.MaxOutput, OutputTokens)
	s.CacheBlocks = cmp.Or(s.CacheBlocks, 4000)
	return s
}

// Check reports all faults at once, with how many workers there may be.
func (s *Setup) Check(leastWorkers, mostWorkers int) error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	isSynthetic := IsSynthetic(s.Workload)
	wrong(s.Workload == "", "no workload: give one of %s, or the file of a trace", strings.Join(Synthetics(), ", "))
	wrong(s.Rate != 0 && !isSynthetic, "rate %v: the requests of a trace have times, give a speed", s.Rate)
	wrong(isSynthetic && !within(s.Rate, 1e-3, 1e5), "rate %v: give 0.001 to 100000", s.Rate)
	wrong(!isSynthetic && s.BlockTokens < 1, "%d tokens of a block: give at least 1", s.BlockTokens)
	faults = append(faults, OutOfRange(
		Range{"speed", s.Speed, 1e-3, 1e3},
		Range{"prefill rate", s.Prefill, 1e-3, 1e9},
		Range{"seconds", s.Seconds, 0, 1e6},
		Range{"warm-up", s.WarmUp, 0, 1e6},
		Range{"max output", float64(s.MaxOutput), 1, 1 << 20},
		Range{"workers", float64(s.Workers), float64(leastWorkers), float64(mostWorkers)},
		Range{"worker that restarts", float64(s.Restart.Worker), 0, float64(s.Workers)},
		Range{"time of the restart", s.Restart.Seconds, 0, 1e6},
	))
	for _, v := range s.Speeds {
		wrong(!within(v, 1e-3, 1e3), "a worker's speed %v: give 0.001 to 1000", v)
	}
	return errors.Join(faults...)
}

// Range is the number of a setting, and what it may be.
type Range struct {
	Name            string
	Value, From, To float64
}

// OutOfRange reports all numbers that are not what they may be, which no NaN is.
func OutOfRange(all ...Range) error {
	var faults []error
	for _, r := range all {
		if !within(r.Value, r.From, r.To) {
			faults = append(faults, fmt.Errorf("%s %v: give %v to %v", r.Name, r.Value, r.From, r.To))
		}
	}
	return errors.Join(faults...)
}

func within(v, from, to float64) bool { return v >= from && v <= to }

// PrefillOf is how many blocks a worker prefills in a second.
func (s *Setup) PrefillOf(worker int) float64 {
	if n := len(s.Speeds); n > 0 {
		return s.Prefill * s.Speeds[worker%n]
	}
	return s.Prefill
}

// PerBlock is how long a worker takes to prefill a block.
func (s *Setup) PerBlock(worker int) time.Duration {
	return time.Duration(math.Round(float64(time.Second) / s.PrefillOf(worker)))
}

// Name is the workload's name, of a trace that of its file.
func (s *Setup) Name() string { return filepath.Base(s.Workload) }
