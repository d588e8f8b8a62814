package kvevents

import (
	"cmp"
	"context"
	"slices"

	"loadstar/actors"
)

const (
	eventsSize  = 16  // messages of sources that may wait; a source waits for room
	queriesSize = 256 // queries that may wait; one more is left out

	// How many blocks are dropped at a time, so that nobody waits for it.
	dropStep  = 64         // while no message waits
	dropShare = maxChanges // after each message: no less than it can bring

	// queryShare is how many queries are answered for one message of another kind that
	// waits, so that a crowd of them shuts out neither events nor members.
	queryShare = 16
)

// kind counts what became of events.
type kind uint8

// Kinds of events, as Stats counts them.
const (
	kindStored   kind = iota // blocks
	kindRemoved              // blocks
	kindCleared              // caches
	kindOrphaned             // blocks behind one that isn't known
	kindUnknown              // removals of a block that isn't known
	kindSkipped              // blocks that can't be matched: another size, a window of the prompt, an image or salt
	kindFull                 // blocks for which there was no room
	kindGap                  // gaps in the numbers that a replay has filled
	kindLost                 // times that all was forgotten since batches were missed
	kindUnreadable
	numKinds
)

var kindNames = [numKinds]string{
	"stored", "removed", "cleared", "orphaned", "unknown", "skipped", "full", "gap", "lost", "unreadable",
}

// op is what a message of a source says first.
type op uint8

const (
	opChanges op = iota
	opClear      // the cache is empty, and all that follows is known
	opRenew      // what is known doesn't hold any more
	opUp         // the source speaks, and nothing is missing from here on
	opDown       // the source is cut off
	opCount      // an event of kind count
	opEnded      // the source's goroutine has ended
)

// event is a message of a source.
type event struct {
	from    *stream
	op      op
	whole   bool // opRenew: what follows is all there is
	count   kind // opCount
	skipped int  // opChanges: blocks that were left out before
	changes []change
}

// change is a block that was stored or removed. Hashes are the engine's.
type change struct {
	removed bool
	first   bool // of its prompt
	tier    tier
	hash    uint64
	parent  uint64
	content uint64 // of its tokens
	seed    uint64 // of the adapter
}

// member is a worker and its streams.
type member struct {
	id      actors.WorkerID
	url     string
	streams []*stream
}

// stream is one source of a worker. All but what its goroutine reads belongs to the
// index.
type stream struct {
	source
	cancel context.CancelFunc
	slot   *slot // nil once the worker has left
	counts [numKinds]uint64
}

// control is a rare message.
type control struct {
	join  bool
	leave bool
	id    actors.WorkerID
	url   string
	stats chan<- []SourceStats
	halt  bool
}

// state belongs to the loop.
type state struct {
	e       *Events
	x       *index
	members []*member // by rising id
	running int       // goroutines of streams
	halted  bool
}

// loop owns the index until it is halted and every source has ended.
func (e *Events) loop() {
	defer close(e.done)
	s := &state{e: e, x: newIndex(e.weights(), e.opts.MaxBlocks)}
	answered := 0 // queries in a row
	for !s.halted || s.running > 0 {
		if answered == queryShare {
			answered = 0
			s.turn()
			continue
		}
		select { // who asks waits with a request
		case q := <-e.queries:
			s.answer(q)
			answered++
			continue
		default:
		}
		answered = 0
		if len(s.x.leaving) > 0 {
			s.turn()
			continue
		}
		select {
		case q := <-e.queries:
			s.answer(q)
		case m := <-e.events:
			s.take(m)
		case c := <-e.controls:
			s.obey(c)
		}
	}
	for {
		select {
		case q := <-e.queries:
			s.answer(q)
		default:
			return
		}
	}
}

// turn takes a message that is no query, if one waits, and drops some blocks.
func (s *state) turn() {
	select {
	case m := <-s.e.events:
		s.take(m)
		s.x.drop(dropShare)
	case c := <-s.e.controls:
		s.obey(c)
	default:
		s.x.drop(dropStep)
	}
}

// answer answers a query.
func (s *state) answer(q *actors.ExactQuery) {
	q.Outcome = s.match(q)
	q.Reply <- struct{}{}
}

func (s *state) match(q *actors.ExactQuery) actors.ExactOutcome {
	seed := nameSeed(q.Model)
	if m := s.e.opts.Model; m != "" && len(q.Model) > 0 && string(q.Model) != m {
		if _, ok := s.x.adapters[seed]; !ok {
			return actors.ExactOtherModel
		}
	}
	s.x.match(q.Blocks, seed)
	outcome := actors.ExactUnavailable
	for _, m := range s.members {
		h, ok := m.hit()
		if !ok {
			continue
		}
		q.Hits = append(q.Hits, h)
		switch {
		case h.Blocks > 0:
			outcome = actors.ExactHeld
		case outcome == actors.ExactUnavailable:
			outcome = actors.ExactMissed
		}
	}
	return outcome
}

// hit is what the last match has found at a worker. It reports false if none of its
// streams has a say.
func (m *member) hit() (h actors.ExactHit, ok bool) {
	h = actors.ExactHit{Worker: m.id, Sure: true}
	for _, t := range m.streams {
		h.Sure = h.Sure && t.slot.live && t.slot.whole && t.slot.seen
		if t.slot.live {
			h.Blocks, ok = max(h.Blocks, t.slot.credit), true
		}
	}
	return h, ok
}

// take takes a message of a source.
func (s *state) take(m event) {
	t := m.from
	if m.op == opEnded {
		s.running--
		return
	}
	if t.slot == nil {
		return
	}
	switch m.op {
	case opChanges:
		t.counts[kindSkipped] += uint64(m.skipped)
		for i := range m.changes {
			s.apply(t, &m.changes[i])
		}
	case opClear:
		t.counts[kindCleared]++
		t.slot = s.x.renew(t.slot, true)
	case opRenew:
		t.slot = s.x.renew(t.slot, m.whole)
	case opUp:
		t.slot.setLive(true)
	case opDown:
		t.slot.setLive(false)
	case opCount:
		t.counts[m.count]++
	}
}

func (s *state) apply(t *stream, c *change) {
	var k kind
	if c.removed {
		k = s.x.remove(t.slot, c)
	} else {
		k = s.x.store(t.slot, c)
	}
	t.counts[k]++
}

// obey takes a rare message.
func (s *state) obey(c control) {
	switch {
	case c.join:
		s.leave(c.id)
		s.join(c.id, c.url)
	case c.leave:
		if at, ok := s.find(c.id); ok && s.members[at].url == c.url {
			s.leave(c.id)
		}
	case c.stats != nil:
		c.stats <- s.stats()
	case c.halt:
		s.halted = true
		for len(s.members) > 0 {
			s.leave(s.members[0].id)
		}
	}
}

// join starts the sources of a worker, if it has any.
func (s *state) join(id actors.WorkerID, url string) {
	sources := s.e.opts.sourcesOf(url)
	if len(sources) == 0 || s.halted {
		return
	}
	m := &member{id: id, url: url}
	for _, src := range sources {
		if s.running >= MaxStreams {
			break // those of workers that have left are about to end
		}
		ctx, cancel := context.WithCancel(context.Background())
		t := &stream{source: src, cancel: cancel, slot: s.x.open()}
		m.streams = append(m.streams, t)
		s.running++
		r := reader{source: src, stream: t, opts: &s.e.opts, out: s.e.events}
		go r.run(ctx)
	}
	at, _ := s.find(id)
	s.members = slices.Insert(s.members, at, m)
}

// leave ends the sources of a worker.
func (s *state) leave(id actors.WorkerID) {
	at, ok := s.find(id)
	if !ok {
		return
	}
	for _, t := range s.members[at].streams {
		t.cancel()
		s.x.close(t.slot)
		t.slot = nil
	}
	s.members = slices.Delete(s.members, at, at+1)
}

func (s *state) find(id actors.WorkerID) (at int, ok bool) {
	return slices.BinarySearchFunc(s.members, id, func(m *member, id actors.WorkerID) int { return cmp.Compare(m.id, id) })
}

func (s *state) stats() []SourceStats {
	var all []SourceStats
	for _, m := range s.members {
		for _, t := range m.streams {
			all = append(all, SourceStats{
				Worker: t.worker, Endpoint: t.endpoint, Up: t.slot.live, Whole: t.slot.whole && t.slot.seen, Blocks: len(t.slot.known), counts: t.counts,
			})
		}
	}
	return all
}
