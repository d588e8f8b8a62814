package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"loadstar/bench/workload"
)

// Settings say what is simulated. A zero number takes the workload's default where
// there is one.
type Settings struct {
	Workload    string    `json:"workload"` // the name of a synthetic one, or a trace's file
	Rate        float64   `json:"rate,omitempty"`
	Speed       float64   `json:"speed"`             // how much faster requests come
	Seconds     float64   `json:"seconds,omitempty"` // of the workload; 0 for all of a trace
	WarmUp      float64   `json:"warm_up"`           // seconds of it whose requests are not counted
	Rest        float64   `json:"rest_seconds"`      // between the requests of a conversation, at least
	BlockTokens int       `json:"block_tokens,omitempty"`
	MaxOutput   int       `json:"max_output"`
	Workers     int       `json:"workers"`
	Prefill     float64   `json:"prefill_blocks_per_second"`
	Speeds      []float64 `json:"speeds,omitempty"` // of the workers in turn, as shares of the prefill rate; none for equal ones
	TokenTime   float64   `json:"token_ms"`         // between the tokens of an answer
	CacheBlocks int       `json:"cache_blocks"`     // of a worker
	ViewBytes   int       `json:"view_bytes"`       // of the router's prefix tree
	ViewBlocks  int       `json:"view_blocks"`      // that the router remembers of each worker, instead of a tree; 0 for the tree
	GiveBack    string    `json:"give_back"`        // when a lease's share of the pending work ends; see GiveBacks
	Restart     Restart   `json:"restart"`
}

// Restart is the loss of a worker's cache, of which the router isn't told.
type Restart struct {
	Worker  int     `json:"worker"`  // from 1 on; 0 for no restart
	Seconds float64 `json:"seconds"` // of the workload, until then
}

// GiveBacks are when the router may learn that a prompt is prefilled.
const (
	AtFirst = "first" // with the first token: streams of workers that say nothing before
	AtHead  = "head"  // at once: workers that send the head of a stream before they prefill
	AtEnd   = "end"   // with the answer's end: answers that aren't streamed
)

const (
	routerTree = 32 << 20 // the router's default for its tree
	maxWorkers = 1024
)

// WithDefaults are the settings with the workload's defaults, which are those of
// the simulations that routing was designed with.
func (s Settings) WithDefaults() Settings {
	if workload.IsSynthetic(s.Workload) {
		s.Rate = cmp.Or(s.Rate, workload.DefaultRate(s.Workload))
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
	s.MaxOutput = cmp.Or(s.MaxOutput, workload.OutputTokens)
	s.TokenTime = cmp.Or(s.TokenTime, 10)
	s.CacheBlocks = cmp.Or(s.CacheBlocks, 4000)
	s.ViewBytes = cmp.Or(s.ViewBytes, routerTree)
	s.GiveBack = cmp.Or(s.GiveBack, AtFirst)
	return s
}

// Check reports all faults at once.
func (s *Settings) Check() error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	isSynthetic := workload.IsSynthetic(s.Workload)
	wrong(s.Workload == "", "no workload: give one of %s, or the file of a trace", strings.Join(workload.Synthetics(), ", "))
	wrong(s.Rate != 0 && !isSynthetic, "rate %v: the requests of a trace have times, give a speed", s.Rate)
	wrong(isSynthetic && !within(s.Rate, 1e-3, 1e5), "rate %v: give 0.001 to 100000", s.Rate)
	wrong(!isSynthetic && s.BlockTokens < 1, "%d tokens of a block: give at least 1", s.BlockTokens)
	for _, n := range []struct {
		name            string
		value, from, to float64
	}{
		{"speed", s.Speed, 1e-3, 1e3},
		{"prefill rate", s.Prefill, 1e-3, 1e9},
		{"seconds", s.Seconds, 0, 1e6},
		{"warm-up", s.WarmUp, 0, 1e6},
		{"rest", s.Rest, 0, 1e6},
		{"max output", float64(s.MaxOutput), 1, 1 << 20},
		{"workers", float64(s.Workers), 1, maxWorkers},
		{"time of a token", s.TokenTime, 0, 1e6},
		{"cache blocks", float64(s.CacheBlocks), 1, 1 << 24},
		{"view bytes", float64(s.ViewBytes), 1, 1 << 36},
		{"view blocks", float64(s.ViewBlocks), 0, 1 << 24},
		{"worker that restarts", float64(s.Restart.Worker), 0, float64(s.Workers)},
		{"time of the restart", s.Restart.Seconds, 0, 1e6},
	} {
		wrong(!within(n.value, n.from, n.to), "%s %v: give %v to %v", n.name, n.value, n.from, n.to)
	}
	for _, v := range s.Speeds {
		wrong(!within(v, 1e-3, 1e3), "a worker's speed %v: give 0.001 to 1000", v)
	}
	wrong(s.GiveBack != AtFirst && s.GiveBack != AtHead && s.GiveBack != AtEnd,
		"pending work given back at %q: give %s, %s or %s", s.GiveBack, AtFirst, AtHead, AtEnd)
	return errors.Join(faults...)
}

func within(v, from, to float64) bool { return v >= from && v <= to } // not for a NaN

// perBlock is how long a worker takes to prefill a block.
func (s *Settings) perBlock(worker int) time.Duration {
	rate := s.Prefill
	if n := len(s.Speeds); n > 0 {
		rate *= s.Speeds[worker%n]
	}
	return time.Duration(math.Round(float64(time.Second) / rate))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
