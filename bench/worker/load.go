package worker

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// load brings the KV cache of a decode request from where it was prefilled, once
// the engine has room for it; for any other request it does nothing. The errors
// are errGone and, where the blocks can't be had and Config.FailLostKV says so,
// an *apiError.
func (c *call) load() error {
	if c.source.peer == nil {
		return nil
	}
	room, err := c.awaitRoom()
	if err != nil {
		return err
	}
	c.asked = true
	// Not the server but the engine may have been closed.
	ctx, cancel := context.WithTimeout(c.req.Context(), c.cfg.KVWait)
	defer cancel()
	go func() {
		select {
		case <-c.engine.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	g := c.source.peer.take(ctx, claim{
		Key: c.source.key, Print: c.job.prompts[0].print,
		Blocks: c.job.promptBlocks() - room.hits, Wait: c.source.wait,
	})
	if c.req.Context().Err() != nil {
		return errGone
	}
	c.engine.load(c.job, g)
	if !g.OK && c.cfg.FailLostKV {
		return &apiError{status: http.StatusInternalServerError, message: "the KV cache of this request could not be loaded"}
	}
	return nil
}

// awaitRoom waits until the engine can take the job's blocks in. Meanwhile it
// keeps the prefill worker's lease from running out.
func (c *call) awaitRoom() (progress, error) {
	c.source.peer.renew(c.req.Context(), c.source.key)
	beat := time.NewTicker(max(c.cfg.KVLease/3, time.Millisecond))
	defer beat.Stop()
	for {
		select {
		case p := <-c.job.progress:
			return p, nil
		case <-beat.C:
			c.source.peer.renew(c.req.Context(), c.source.key)
		case <-c.req.Context().Done():
			return progress{}, errGone
		case <-c.engine.done:
			return progress{}, errGone
		}
	}
}

// giveUp frees at the prefill worker what an accepted request, at its end, has
// not asked for. Of one that wasn't accepted the engine knows nothing, as with
// vLLM, and a closed engine tells nobody anything, as if its process were killed.
func (c *call) giveUp() {
	if c.source.peer == nil || c.job == nil || c.asked {
		return
	}
	select {
	case <-c.engine.done:
	default:
		c.source.peer.release(c.source.key)
	}
}

// load starts the transfer of j's blocks, or has it prefilled here if they were
// not to be had. A job that is to fail for it stays until it leaves.
func (s *state) load(j *job, g grant, now time.Time) {
	s.advance(now)
	if j.phase != fetching {
		return
	}
	if g.OK {
		j.ready, j.takes = now.Add(g.Takes), g.Takes
		return
	}
	s.stats.KVFailed++
	if s.cfg.FailLostKV {
		return
	}
	s.fetch = without(s.fetch, j)
	j.phase, j.fetches, j.lost = queued, false, true
	s.queue = slices.Insert(s.queue, 0, j)
	s.admit(now)
}

// endFetches moves the jobs whose blocks have arrived into the batch. Their first
// token comes with its next step.
func (s *state) endFetches(now time.Time) {
	s.fetch = slices.DeleteFunc(s.fetch, func(j *job) bool {
		if j.ready.IsZero() || j.ready.After(now) {
			return false
		}
		for _, p := range j.prompts {
			s.cache.Add(p.chain)
			s.stats.LoadedTokens += int64(tokenCount(p.size))
		}
		s.stats.LoadedTokens -= int64(j.hits * BlockTokens)
		s.stats.LoadTime += j.takes
		s.stats.KVLoaded++
		j.loaded, j.phase = true, decoding
		s.decode = append(s.decode, j)
		s.stats.PeakRunning = max(s.stats.PeakRunning, s.running())
		return true
	})
}
