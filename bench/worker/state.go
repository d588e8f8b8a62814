package worker

import (
	"slices"
	"time"
)

// state is the engine's books: who waits, who is prefilled, who decodes. It
// reads no clock: what changes it or looks at it is told the time, and first lets
// everything happen that was due by then. Between two such calls next and advance
// carry the simulation on. Events happen at their exact time however late they
// are looked at, so a busy machine shifts no result.
type state struct {
	cfg   Config
	width int // prompts prefilled at once
	cache *cache
	stats Stats // the counters; what can be derived is filled in by snapshot

	queue   []*job
	prefill []*job
	worked  time.Time // up to where prefill work is booked

	decode   []*job
	inStep   int       // decode[:inStep] get a token when the step ends
	stepEnds time.Time // means nothing while inStep is 0
}

func newState(cfg Config) *state {
	s := &state{cfg: cfg, width: 1, cache: newCache(cfg.CacheBlocks)}
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
	s.cache.clear()
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
			s.endStep()
		}
		s.book(at)
		s.endPrefills()
		s.admit(at)
		s.beginStep(at)
	}
}

// admit starts waiting jobs, oldest first, while there is room.
func (s *state) admit(now time.Time) {
	for len(s.queue) > 0 && len(s.prefill) < s.width && s.running() < s.cfg.MaxRunning {
		s.book(now)
		j := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		s.prefill = append(s.prefill, j)
		j.phase = prefilling
		for _, p := range j.prompts {
			j.hits += min(s.cache.match(p.chain), p.usable())
			s.stats.PromptBlocks += int64(len(p.chain))
			s.stats.PromptTokens += int64(tokenCount(p.size))
		}
		s.stats.HitBlocks += int64(j.hits)
		s.stats.PeakRunning = max(s.stats.PeakRunning, s.running())
		j.work = s.cfg.prefillTime(j.size() - j.hits*BlockBytes)
	}
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
func (s *state) endPrefills() {
	s.prefill = slices.DeleteFunc(s.prefill, func(j *job) bool {
		if j.work > 0 {
			return false
		}
		for _, p := range j.prompts {
			s.cache.add(p.chain)
		}
		j.phase = decoding
		if j.limit > 0 {
			s.give(j)
		} else {
			s.retire(j)
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
func (s *state) endStep() {
	for _, j := range s.decode[:s.inStep] {
		s.give(j)
	}
	s.decode = slices.DeleteFunc(s.decode, isIdle)
	s.inStep = 0
}

// give hands a token to each stream of j, and retires j at its last one.
func (s *state) give(j *job) {
	j.tokens++
	s.stats.GeneratedTokens += int64(j.streams)
	if j.tokens == j.limit {
		s.retire(j)
		return
	}
	j.offer()
}

// retire ends a job that has all its tokens. The caller takes it off its list.
func (s *state) retire(j *job) {
	j.phase = idle
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
	c.Waiting, c.Running, c.CachedBlocks = len(s.queue), s.running(), s.cache.len()
	for _, jobs := range [][]*job{s.prefill, s.decode} {
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
