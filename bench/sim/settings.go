package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"loadstar/actors/policy"
	"loadstar/bench/workload"
)

// Settings say what is simulated. A zero number takes the workload's default where
// there is one.
type Settings struct {
	workload.Setup
	Rest       float64 `json:"rest_seconds"`       // between the requests of a conversation, at least
	TokenTime  float64 `json:"token_ms"`           // between the tokens of an answer
	ViewBytes  int     `json:"view_bytes"`         // of the router's prefix tree
	ViewBlocks int     `json:"view_blocks"`        // that the router remembers of each worker, instead of a tree; 0 for the tree
	NoUsage    bool    `json:"no_usage,omitempty"` // answers don't tell what was cached, so the tree learns nothing of it
	GiveBack   string  `json:"give_back"`          // when a lease's share of the pending work ends; see GiveBacks
	Backlog    int     `json:"backlog_tokens"`     // of prompt at a worker, from which on policies that know of it keep requests back; 0 for none
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

	// RouterBacklog is the router's default for Settings.Backlog.
	RouterBacklog = policy.BacklogTokens
)

// WithDefaults are the settings with the workload's defaults.
func (s Settings) WithDefaults() Settings {
	s.Setup = s.Setup.WithDefaults()
	s.TokenTime = cmp.Or(s.TokenTime, 10)
	s.ViewBytes = cmp.Or(s.ViewBytes, routerTree)
	s.GiveBack = cmp.Or(s.GiveBack, AtFirst)
	return s
}

// Check reports all faults at once.
func (s *Settings) Check() error {
	faults := []error{s.Setup.Check(1, maxWorkers), workload.OutOfRange(
		workload.Range{Name: "rest", Value: s.Rest, From: 0, To: 1e6},
		workload.Range{Name: "time of a token", Value: s.TokenTime, From: 0, To: 1e6},
		workload.Range{Name: "cache blocks", Value: float64(s.CacheBlocks), From: 1, To: 1 << 24},
		workload.Range{Name: "view bytes", Value: float64(s.ViewBytes), From: 1, To: 1 << 36},
		workload.Range{Name: "backlog tokens", Value: float64(s.Backlog), From: 0, To: 1 << 30},
		workload.Range{Name: "view blocks", Value: float64(s.ViewBlocks), From: 0, To: 1 << 24},
	)}
	if s.GiveBack != AtFirst && s.GiveBack != AtHead && s.GiveBack != AtEnd {
		faults = append(faults, fmt.Errorf("pending work given back at %q: give %s, %s or %s", s.GiveBack, AtFirst, AtHead, AtEnd))
	}
	return errors.Join(faults...)
}

// backlog is Backlog in blocks.
func (s *Settings) backlog() int {
	tokens := cmp.Or(s.BlockTokens, policy.BlockTokens) // a synthetic one has the router's
	return (s.Backlog + tokens - 1) / tokens
}

// paces are how many times as long as the median worker each takes for a block. The
// router knows them at once here.
func (s *Settings) paces() []float64 {
	all := make([]float64, s.Workers)
	for i := range all {
		all[i] = s.PrefillOf(i)
	}
	median := slices.Sorted(slices.Values(all))[len(all)/2]
	for i, rate := range all {
		all[i] = median / rate
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
