package worker

import (
	"slices"
	"time"
)

// maxClaims bounds the decode requests that wait here for their prefill.
const maxClaims = 4096

// pins is the KV cache of prompts whose decoding is another worker's work: kept
// from the end of the prefill until it has been sent or the lease is over. What
// is kept can't be used for other requests.
type pins struct {
	unsent map[string]*pin
	order  []*pin // unsent and being sent, by when they are freed
	blocks int    // of all in order
	claims map[string]openClaim
}

type pin struct {
	key    string
	print  uint64 // the prompt's
	blocks int
	until  time.Time // the end of the lease, or of the transfer
	sent   bool      // a decode worker has it, or is about to
}

// claim is a decode worker's wish for a prompt's blocks.
type claim struct {
	Key    string `json:"key"`
	Print  uint64 `json:"print"`  // of the prompt it is going to decode
	Blocks int    `json:"blocks"` // how many it lacks; may be 0
	Wait   bool   `json:"wait"`   // for a prefill that hasn't ended
}

// grant answers a claim.
type grant struct {
	OK    bool          `json:"ok"`
	Takes time.Duration `json:"takes"` // until the blocks have arrived
}

// openClaim is a claim that waits for its prefill.
type openClaim struct {
	claim
	reply chan<- grant // capacity one
}

func newPins() pins {
	return pins{unsent: make(map[string]*pin), claims: make(map[string]openClaim)}
}

// schedule puts p where it belongs in the order.
func (p *pins) schedule(x *pin, until time.Time) {
	x.until = until
	i, _ := slices.BinarySearchFunc(p.order, x, func(a, b *pin) int { return a.until.Compare(b.until) })
	p.order = slices.Insert(p.order, i, x)
}

// unschedule takes x out of the order.
func (p *pins) unschedule(x *pin) {
	i := slices.Index(p.order, x)
	p.order = slices.Delete(p.order, i, i+1)
}

// pin keeps the blocks of j, which has just ended. Whoever waits for them has
// them at once.
func (s *state) pin(j *job, now time.Time) {
	s.drop(j.keep)
	p := &pin{key: j.keep, print: j.prompts[0].print, blocks: j.held()}
	s.pins.unsent[p.key] = p
	s.pins.blocks += p.blocks
	s.pins.schedule(p, now.Add(s.cfg.KVLease))
	s.stats.Pinned++
	if c, ok := s.pins.claims[p.key]; ok {
		delete(s.pins.claims, p.key)
		c.reply <- s.send(c.claim, now)
	}
}

// take answers a claim, later if it waits for a prefill.
func (s *state) take(c claim, reply chan<- grant, now time.Time) {
	s.advance(now)
	_, taken := s.pins.claims[c.Key]
	if s.pins.unsent[c.Key] == nil && c.Wait && !taken && len(s.pins.claims) < maxClaims {
		s.pins.claims[c.Key] = openClaim{c, reply}
		return
	}
	reply <- s.send(c, now)
}

// send starts the transfer to a decode worker, if what it claims is here.
func (s *state) send(c claim, now time.Time) grant {
	p := s.pins.unsent[c.Key]
	if p == nil {
		return grant{}
	}
	if p.print != c.Print {
		s.stats.KVMismatched++
		return grant{}
	}
	delete(s.pins.unsent, c.Key)
	s.pins.unschedule(p)
	p.sent = true
	takes := s.cfg.transferTime(c.Blocks)
	s.pins.schedule(p, now.Add(takes))
	return grant{OK: true, Takes: takes}
}

// renew starts a lease again: a decode worker has the request in its queue.
func (s *state) renew(key string, now time.Time) {
	s.advance(now)
	if p := s.pins.unsent[key]; p != nil {
		s.pins.unschedule(p)
		s.pins.schedule(p, now.Add(s.cfg.KVLease))
	}
}

// release frees what a decode worker no longer wants.
func (s *state) release(key string, now time.Time) {
	s.advance(now)
	delete(s.pins.claims, key)
	s.drop(key)
	s.admit(now)
}

func (s *state) drop(key string) {
	if p := s.pins.unsent[key]; p != nil {
		delete(s.pins.unsent, key)
		s.pins.unschedule(p)
		s.pins.blocks -= p.blocks
		s.stats.KVDropped++
	}
}

// endPins frees what is sent and what nobody came for.
func (s *state) endPins(now time.Time) {
	for len(s.pins.order) > 0 && !s.pins.order[0].until.After(now) {
		p := s.pins.order[0]
		s.pins.order = slices.Delete(s.pins.order, 0, 1)
		s.pins.blocks -= p.blocks
		if p.sent {
			s.stats.KVSent++
		} else {
			delete(s.pins.unsent, p.key)
			s.stats.KVExpired++
		}
	}
}

// fits says whether j's prompts have room beside what is pinned. With nothing
// pinned they have: the cache makes room for whatever runs.
func (s *state) fits(j *job) bool {
	return s.pins.blocks == 0 || s.pins.blocks+j.promptBlocks() <= s.cfg.pinLimit()
}
