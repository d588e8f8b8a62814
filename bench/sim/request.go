package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"loadstar/bench/workload"
)

// maxRequests bounds what is kept of a workload, and with it memory.
const maxRequests = 1 << 20

// headBlocks is how many blocks of a prompt the router breaks ties with.
const headBlocks = 16

// request is one of a workload's, with all that doesn't depend on where it goes.
type request struct {
	at      time.Duration
	chain   []uint64 // see workload.Chain
	size    float64  // of the prompt in blocks, of which the last may be a part
	output  int      // tokens
	endless int      // leading blocks that an endless cache would have
	counted bool     // came after the warm-up
}

// head stands for the first blocks of the prompt.
func (q *request) head() uint64 { return q.chain[min(len(q.chain), headBlocks)-1] }

// requests are the workload of a seed, which is the same for all rules.
func (s *Settings) requests(seed uint64) ([]request, error) {
	next, file, err := workload.Open(s.Workload, workload.Options{
		Rate: s.Rate, Seed: seed, Rest: seconds(s.Rest), BlockTokens: s.BlockTokens,
	})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	endless := workload.NewEndless()
	var all []request
	for {
		r, err := next()
		if errors.Is(err, io.EOF) || s.Seconds > 0 && r.At.Seconds() >= s.Seconds {
			if !slices.ContainsFunc(all, func(q request) bool { return q.counted }) {
				return nil, fmt.Errorf("no request comes after the warm-up of %g s: give a shorter --warm-up, or more of the workload", s.WarmUp)
			}
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(all) == maxRequests {
			return nil, fmt.Errorf("the workload has more than %d requests: ask for fewer seconds of it", maxRequests)
		}
		hits, err := endless.Take(r.Blocks)
		if err != nil {
			return nil, err
		}
		if r.Output == workload.Unknown {
			r.Output = workload.OutputTokens
		}
		size := float64(len(r.Blocks))
		if r.Input > 0 {
			size = float64(r.Input) / float64(s.BlockTokens)
		}
		all = append(all, request{
			at:      time.Duration(float64(r.At) / s.Speed),
			chain:   workload.Chain(nil, r.Blocks),
			size:    size,
			output:  min(max(r.Output, 1), s.MaxOutput),
			endless: hits,
			counted: r.At.Seconds() >= s.WarmUp,
		})
	}
}
