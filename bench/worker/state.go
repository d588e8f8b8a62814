package worker

import (
	"slices"
	"time"

	"loadstar/bench/lru"
)

// state is the engine's books: who waits, who is prefilled, who decodes. It
// reads no clock: what changes it or looks at it is told the time, and first lets
// everything happen that was due by then. Between two such calls next and advance
// carry the simulation on. Events happen at their exact time however late they
// are looked at, so a busy machine shifts no result.
type state struct {
	cfg   Config
	width int // prompts prefilled at once
	cache *lru.Cache
	stats Stats // the counters; what can be derived is filled in by snapshot

	queue   []*job
	fetch   []*job // have a place, but their blocks are elsewhere
	prefill []*job
	worked  time.Time // up to where prefill work is booked

	decode   []*job
	inStep   int       // decode[:inStep] get a token when the step ends
	stepEnds time.Time // means nothing while inStep is 0

	pins pins
}

func newState(cfg Config) *state {
	s := &state{cfg: cfg, width: 1, cache: lru.New(cfg.CacheBlocks), pins: newPins()}
	s.stats.Ranks = make(map[int]int64)
	if cfg.ChunkedPrefill {
		s.width = cfg.MaxRunning
	}
	return s
}

// enter books a request's arrival; its rank is negative if it named none.
func (s *state) enter(rank int) {
	s.stats.Entered++
	s.stats.Open++
	s.stats.PeakOpen = max(s.stats.PeakOpen, s.stats.Open)
	if rank >= 0 && rank < maxRanks {
		s.stats.Ranks[rank]++
	}
}

// submit takes j in, or says that the queue is full.
func (s *state) submit(j *job, now time.Time) bool {
	s.advance(now)
	s.queue = append(s.queue, j)
	j.phase = queued
	s.admit(now)
	if len(s.queue) <= s.cfg.MaxQueue {
		return true
	}
	s.queue = s.queue[:len(s.queue)-1]
	j.phase = idle
	return false
}

// leave books a request's end and drops what is left of its job, which is nil if
// it never had one. Its place is taken at once.
func (s *state) leave(j *job, o outcome, now time.Time) {
	s.advance(now)
	s.stats.Open--
	s.stats.count(o)
	if j == nil {
		return
	}
	switch j.phase {
	case queued:
		s.queue = without(s.queue, j)
	case fetching:
		s.fetch = without(s.fetch, j)
	case prefilling:
		s.book(now)
		s.prefill = without(s.prefill, j)
	case decoding:
		if slices.Index(s.decode, j) < s.inStep {
			s.inStep--
		}
		s.decode = without(s.decode, j)
	}
	j.phase = idle
	s.admit(now)
	s.beginStep(now)
}

// flush empties the cache.
func (s *state) flush(now time.Time) {
	s.advance(now)
	s.cache.Clear()
}

// next is when something happens by itself, if anything will.
func (s *state) next() (time.Time, bool) {
	var at time.Time
	if len(s.prefill) > 0 {
		left := s.prefill[0].work
		for _, j := range s.prefill[1:] {
			left = min(left, j.work)
		}
		at = s.worked.Add(left * time.Duration(len(s.prefill)))
	}
	if s.inStep > 0 && (at.IsZero() || s.stepEnds.Before(at)) {
		at = s.stepEnds
	}
	for _, j := range s.fetch {
		if !j.ready.IsZero() && (at.IsZero() || j.ready.Before(at)) {
			at = j.ready
		}
	}
	if len(s.pins.order) > 0 && (at.IsZero() || s.pins.order[0].until.Before(at)) {
		at = s.pins.order[0].until
	}
	return at, !at.IsZero()
}

// advance lets everything happen that is due by now.
func (s *state) advance(now time.Time) {
	for {
		at, ok := s.next()
		if !ok || at.After(now) {
			return
		}
		if s.inStep > 0 && !s.stepEnds.After(at) {
			s.endStep(at)
		}
		s.book(at)
		s.endPrefills(at)
		s.endFetches(at)
		s.endPins(at)
		s.admit(at)
		s.beginStep(at)
	}
}

// admit starts waiting jobs, oldest first, while there is room.
func (s *state) admit(now time.Time) {
	for len(s.queue) > 0 && len(s.fetch)+s.running() < s.cfg.MaxRunning && s.fits(s.queue[0]) {
		j := s.queue[0]
		if !j.fetches && len(s.prefill) >= s.width {
			return
		}
		s.queue = slices.Delete(s.queue, 0, 1)
		s.lookUp(j)
		if j.fetches {
			s.fetch = append(s.fetch, j)
			j.phase = fetching
			j.offer()
			continue
		}
		s.book(now)
		s.prefill = append(s.prefill, j)
		j.phase = prefilling
		if j.lost {
			s.stats.KVRecomputed++
		}
		s.stats.PeakRunning = max(s.stats.PeakRunning, s.running())
		j.work = s.cfg.prefillTime(j.size() - j.hits*BlockBytes)
	}
}

// lookUp finds out how much of j's prompts is cached, once.
func (s *state) lookUp(j *job) {
	if j.looked {
		return
	}
	j.looked = true
	for _, p := range j.prompts {
		j.hits += min(s.cache.Match(p.chain), p.usable())
		s.stats.PromptBlocks += int64(len(p.chain))
		s.stats.PromptTokens += int64(tokenCount(p.size))
	}
	s.stats.HitBlocks += int64(j.hits)
}

// book writes the prefill work done up to now, shared evenly.
func (s *state) book(now time.Time) {
	if n := len(s.prefill); n > 0 {
		share := now.Sub(s.worked) / time.Duration(n)
		for _, j := range s.prefill {
			j.work -= share
		}
	}
	s.worked = now
}

// endPrefills moves the jobs whose prompts are done into the batch. A prompt's
// end is also its first token.
func (s *state) endPrefills(now time.Time) {
	s.prefill = slices.DeleteFunc(s.prefill, func(j *job) bool {
		if j.work > 0 {
			return false
		}
		for _, p := range j.prompts {
			s.cache.Add(p.chain)
		}
		j.phase = decoding
		if j.limit > 0 {
			s.give(j, now)
		} else {
			s.retire(j, now)
		}
		if j.phase == decoding {
			s.decode = append(s.decode, j)
		}
		return true
	})
}

// beginStep starts a decode step for all in the batch if none is under way.
func (s *state) beginStep(now time.Time) {
	if s.inStep > 0 || len(s.decode) == 0 {
		return
	}
	streams := 0
	for _, j := range s.decode {
		streams += j.streams
	}
	s.inStep = len(s.decode)
	s.stepEnds = now.Add(s.cfg.stepTime(streams))
}

// endStep gives each stream of the step its token.
func (s *state) endStep(now time.Time) {
	for _, j := range s.decode[:s.inStep] {
		s.give(j, now)
	}
	s.decode = slices.DeleteFunc(s.decode, isIdle)
	s.inStep = 0
}

// give hands a token to each stream of j, and retires j at its last one.
func (s *state) give(j *job, now time.Time) {
	j.tokens++
	s.stats.GeneratedTokens += int64(j.streams)
	if j.tokens == j.limit {
		s.retire(j, now)
		return
	}
	j.offer()
}

// retire ends a job that has all its tokens. The caller takes it off its list.
func (s *state) retire(j *job, now time.Time) {
	j.phase = idle
	if j.keep != "" {
		s.pin(j, now)
	}
	j.offer()
}

func (s *state) running() int { return len(s.prefill) + len(s.decode) }

// snapshot is a copy that the caller may keep.
func (s *state) snapshot(now time.Time) Stats {
	s.advance(now)
	c := s.stats
	c.Ranks = make(map[int]int64, len(s.stats.Ranks))
	for rank, n := range s.stats.Ranks {
		c.Ranks[rank] = n
	}
	c.Waiting, c.Running, c.CachedBlocks = len(s.queue), s.running(), s.cache.Len()
	c.Loading, c.PinnedRequests, c.PinnedBlocks = len(s.fetch), len(s.pins.order), s.pins.blocks
	c.HeldBlocks = s.pins.blocks
	for _, jobs := range [][]*job{s.fetch, s.prefill, s.decode} {
		for _, j := range jobs {
			c.HeldBlocks += j.held()
		}
	}
	return c
}

func isIdle(j *job) bool { return j.phase == idle }

// without takes j off jobs, keeping the order.
func without(jobs []*job, j *job) []*job {
	i := slices.Index(jobs, j)
	return slices.Delete(jobs, i, i+1)
}
