package replay

import (
	"errors"
	"io"
	"sync"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
	"loadstar/bench/workload"
)

// plan hands out a workload's requests as they fall due and books what became of
// them.
type plan struct {
	settings Settings
	next     workload.Source
	salt     uint64

	// Everything following is of the goroutine that asks for arrivals, until all have
	// been asked for.
	sent    uint64
	endless *workload.Endless
	err     error // of the workload

	mu       sync.Mutex // guards the rest
	underWay map[uint64]planned
	booked   book
}

// planned is a request that has an arrival but no end.
type planned struct {
	workload.Request
	hits    int // blocks that the endless cache had
	counted bool
}

func newPlan(s Settings, next workload.Source, round int) *plan {
	return &plan{
		settings: s, next: next, salt: workload.Mix(s.Seed + uint64(round)), endless: workload.NewEndless(),
		underWay: make(map[uint64]planned), booked: newBook(),
	}
}

// arrivals is when requests are due.
func (p *plan) arrivals() (time.Duration, bool) {
	s := p.settings
	if s.Requests > 0 && p.sent == s.Requests {
		return 0, false
	}
	r, err := p.next()
	if err == nil {
		at := r.At.Seconds()
		if s.Seconds > 0 && at >= s.Seconds {
			return 0, false
		}
		var hits int
		if hits, err = p.endless.Take(r.Blocks); err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.underWay[p.sent] = planned{Request: r, hits: hits, counted: at >= s.WarmUp}
			p.sent++
			return s.real(r.At), true
		}
	}
	if !errors.Is(err, io.EOF) {
		p.err = err
	}
	return 0, false
}

// source is the body of the n-th request.
func (p *plan) source(n uint64) []byte {
	p.mu.Lock()
	r := p.underWay[n].Request
	p.mu.Unlock()
	if r.Output == workload.Unknown {
		r.Output = workload.OutputTokens
	}
	r.Output = min(max(r.Output, 1), p.settings.MaxOutput)
	return body(p.settings.Model, r, p.salt, p.settings.BlockTokens)
}

// ended books a request.
func (p *plan) ended(e load.Ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.underWay[e.N]
	delete(p.underWay, e.N)
	if !r.counted || !e.OK {
		return
	}
	blockTokens := worker.BlockTokens
	if p.settings.Workers == 0 { // the workers are not ours
		blockTokens = 0
	}
	p.booked.add(len(r.Blocks), r.hits, blockTokens, p.settings.unscaled(e.TTFT), e.Tail)
}
