package peers

import (
	"slices"
	"time"

	"loadstar/actors"
)

// Bounds of the table and of time.
const (
	// MaxPeers is how many other routers count at a time.
	MaxPeers = 64

	// remembered is how many are known at most, with those that have fallen silent.
	remembered = 2 * MaxPeers

	// silence is how long what a router said counts. With the ticks before and behind
	// it this stays below a second.
	silence = 900 * time.Millisecond

	// memory is how long a router that fell silent is remembered, so that a straggling
	// message doesn't bring back what it said. One that is heard and nothing of which
	// counts is forgotten as well: one message with a wrong clock or number must not
	// silence it for good.
	memory = 10 * time.Second

	// drift is how much faster one router's clock may be than another's: one part in
	// 2^drift.
	drift = 7
)

// table is what is known of the other routers. It belongs to the loop and reads no
// clock: times are nanoseconds of this router's.
type table struct {
	own     head    // of this router
	workers int     // of which there may be as many
	peers   []*peer // in the order in which they came
	changed bool    // sums would say something else than before
}

// peer is another router.
type peer struct {
	name        string
	incarnation uint64
	present     bool   // false: remembered only
	top         uint64 // the highest sequence number that counted
	floor       uint64 // what isn't above it was sent before the last silence
	since       int64  // when it came
	taken       int64  // when a message came that counted
	heard       int64  // when any came
	synced      bool   // clock is known
	clock       int64  // this router's clock less the peer's, and the shortest way of a message
	lag         int64  // how long the last message that counted was under way beyond that
	shards      [shards]shard
}

// shard is what counts of what a peer said of some workers.
type shard struct {
	sequence uint64
	heard    int64
	all      []actors.Elsewhere
}

// hear takes what another router says and that comes at now.
func (t *table) hear(m *figures, now int64) Drop {
	p, d := t.find(&m.head)
	if p == nil {
		return d
	}
	p.heard, p.clock, p.synced = now, p.clockBy(m.sent, now), true
	lag := now - m.sent - p.clock
	if lag > int64(silence) {
		return Late
	}
	var fresh uint64 // shards of which this is news
	parts, n := m.split(), 0
	for i := range p.shards {
		s := &p.shards[i]
		if m.shards&(1<<i) != 0 && m.sequence > max(s.sequence, p.floor) {
			fresh |= 1 << i
			n += len(parts[i])
		} else {
			n += len(s.all)
		}
	}
	switch {
	case fresh == 0:
		return Stale
	case n > t.workers:
		return Crowded
	}
	if !p.present {
		p.present, p.since = true, now
	}
	p.top, p.taken, p.lag = max(p.top, m.sequence), now, lag
	for i := range p.shards {
		if fresh&(1<<i) != 0 {
			t.changed = t.changed || !slices.Equal(p.shards[i].all, parts[i])
			p.shards[i] = shard{m.sequence, now, parts[i]}
		}
	}
	return notDropped
}

// split sorts a message's entries by shard.
func (m *figures) split() (parts [shards][]actors.Elsewhere) {
	for _, e := range m.all {
		s := shardOf(e.URL)
		parts[s] = append(parts[s], e)
	}
	return parts
}

// find returns the peer whose message has this head, as its present incarnation, or
// says why there is none. Of this router's own message it says nothing.
func (t *table) find(h *head) (*peer, Drop) {
	if h.name == t.own.name {
		if h.incarnation == t.own.incarnation {
			return nil, notDropped
		}
		return nil, Namesake
	}
	i := slices.IndexFunc(t.peers, func(p *peer) bool { return p.name == h.name })
	switch {
	case i >= 0 && h.incarnation < t.peers[i].incarnation:
		return nil, Stale
	case i >= 0 && h.incarnation == t.peers[i].incarnation && t.peers[i].present:
		return t.peers[i], notDropped
	case (i < 0 || !t.peers[i].present) && t.present() >= MaxPeers:
		return nil, Crowded
	case i < 0:
		t.forgetOne()
		p := &peer{name: h.name, incarnation: h.incarnation}
		t.peers = append(t.peers, p)
		return p, notDropped
	case h.incarnation > t.peers[i].incarnation:
		t.changed = t.changed || t.peers[i].tells()
		*t.peers[i] = peer{name: h.name, incarnation: h.incarnation}
	}
	return t.peers[i], notDropped
}

// clockBy is the peer's clock with a message that was sent at one time of it and
// comes at now. The quickest messages tell it best; what was known before loses a
// little with time, for clocks drift.
func (p *peer) clockBy(sent, now int64) int64 {
	if !p.synced {
		return now - sent
	}
	return min(now-sent, p.clock+(now-p.heard)>>drift)
}

// tells reports whether anything counts of what the peer said.
func (p *peer) tells() bool {
	return slices.ContainsFunc(p.shards[:], func(s shard) bool { return len(s.all) > 0 })
}

func (t *table) present() int {
	n := 0
	for _, p := range t.peers {
		if p.present {
			n++
		}
	}
	return n
}

// forgetOne makes room for one more peer, of which there are fewer than MaxPeers that
// are present.
func (t *table) forgetOne() {
	if len(t.peers) < remembered {
		return
	}
	oldest := -1
	for i, p := range t.peers {
		if !p.present && (oldest < 0 || p.heard < t.peers[oldest].heard) {
			oldest = i
		}
	}
	t.peers = slices.Delete(t.peers, oldest, oldest+1)
}

// expire drops what doesn't count any more at now, and those who fell silent. It
// calls gone for each of them.
func (t *table) expire(now int64, gone func(p *peer)) {
	for _, p := range t.peers {
		for i := range p.shards {
			s := &p.shards[i]
			if len(s.all) > 0 && now-s.heard > int64(silence) {
				s.all, t.changed = nil, true
			}
		}
		if now-p.heard > int64(silence) {
			p.synced = false // it may have been suspended, and its clock with it
		}
		if p.present && now-p.taken > int64(silence) {
			p.present, p.floor = false, p.top
			gone(p)
		}
	}
	t.peers = slices.DeleteFunc(t.peers, func(p *peer) bool {
		return !p.present && (now-p.heard > int64(memory) || p.taken > 0 && now-p.taken > int64(memory))
	})
}

// sums adds up what the peers run, by worker, and says how many entries were left
// out because there are more workers than there may be.
func (t *table) sums() (all []actors.Elsewhere, crowded int) {
	at := make(map[string]int)
	for _, p := range t.peers {
		for i := range p.shards {
			for _, e := range p.shards[i].all {
				k, known := at[e.URL]
				switch {
				case known:
					all[k].N += e.N
					all[k].Pending += e.Pending
					all[k].Decode += e.Decode
				case len(all) == t.workers:
					crowded++
				default:
					at[e.URL] = len(all)
					all = append(all, e)
				}
			}
		}
	}
	return all, crowded
}
