package kvevents

import "math/bits"

// tier is how far from the GPU a block lies, nearest first.
type tier uint8

const (
	device tier = iota
	host
	external
	disk
	numTiers
)

// perShard is how many streams share a word.
const perShard = 64

// maxAdapters bounds the adapters that are known by name.
const maxAdapters = 4096

// index is what is held where. It belongs to one goroutine and reads no clock.
type index struct {
	weights  [numTiers]float64 // what a block in a tier counts
	max      int               // blocks, each counted for each stream that has it
	blocks   int
	shards   []*shard
	adapters map[uint64]struct{} // seeds of those seen
	leaving  []*slot             // whose blocks are being dropped
}

// shard is what is held by up to 64 streams, each of which has a bit.
type shard struct {
	slots [perShard]*slot
	live  uint64 // those that have a say
	held  [numTiers]map[uint64]uint64
}

// slot is what one stream has told since it began anew.
type slot struct {
	shard *shard
	bit   uint
	known map[uint64]place // by the engine's hash
	live  bool
	whole bool // nothing is missing: followed from the beginning
	seen  bool // it has stored a block of our size

	credit float64 // of the last match, in blocks
}

// place is where a block of a stream is noted.
type place struct {
	key   uint64
	tiers uint8 // a bit for each
}

func newIndex(weights [numTiers]float64, most int) *index {
	return &index{weights: weights, max: most, adapters: make(map[uint64]struct{})}
}

// open gives a stream a slot.
func (x *index) open() *slot {
	for _, sh := range x.shards {
		for i, s := range sh.slots {
			if s == nil {
				return sh.open(uint(i))
			}
		}
	}
	sh := &shard{}
	for t := range sh.held {
		sh.held[t] = make(map[uint64]uint64)
	}
	x.shards = append(x.shards, sh)
	return sh.open(0)
}

func (sh *shard) open(bit uint) *slot {
	s := &slot{shard: sh, bit: bit, known: make(map[uint64]place)}
	sh.slots[bit] = s
	return s
}

// setLive says whether a stream has a say.
func (s *slot) setLive(live bool) {
	s.live = live
	s.shard.live &^= 1 << s.bit
	if live {
		s.shard.live |= 1 << s.bit
	}
}

// close ends a slot: it has no say any more, and drop lets its blocks go.
func (x *index) close(s *slot) {
	s.setLive(false)
	x.leaving = append(x.leaving, s)
}

// renew has a stream begin anew in a slot of its own, with nothing held.
func (x *index) renew(s *slot, whole bool) *slot {
	n := x.open()
	n.whole, n.seen = whole, s.seen
	n.setLive(s.live)
	x.close(s)
	return n
}

// drop lets go of up to steps blocks of those that are leaving.
func (x *index) drop(steps int) {
	for len(x.leaving) > 0 && steps > 0 {
		s := x.leaving[0]
		for hash, p := range s.known {
			if steps == 0 {
				return
			}
			steps--
			x.erase(s, hash, p, p.tiers)
		}
		s.shard.slots[s.bit] = nil
		x.leaving[0] = nil
		x.leaving = x.leaving[1:]
	}
}

// store notes a block, and says what became of it.
func (x *index) store(s *slot, c *change) kind {
	s.seen = true
	before := c.seed
	if !c.first {
		p, ok := s.known[c.parent]
		if !ok {
			return kindOrphaned
		}
		before = p.key
	}
	key := link(before^c.seed, c.content) ^ c.seed
	p, ok := s.known[c.hash]
	switch {
	case ok && p.key != key: // the engine gave the hash to something else
		x.erase(s, c.hash, p, p.tiers)
		p = place{}
		x.blocks++
	case !ok && x.blocks >= x.max:
		s.whole = false
		return kindFull
	case !ok:
		x.blocks++
	}
	if c.seed != 0 && len(x.adapters) < maxAdapters {
		x.adapters[c.seed] = struct{}{}
	}
	p.key = key
	p.tiers |= 1 << c.tier
	s.known[c.hash] = p
	s.shard.held[c.tier][key] |= 1 << s.bit
	return kindStored
}

// remove notes that a block is in a tier no more, and says what became of it.
func (x *index) remove(s *slot, c *change) kind {
	p, ok := s.known[c.hash]
	if !ok || p.tiers&(1<<c.tier) == 0 {
		return kindUnknown
	}
	x.erase(s, c.hash, p, 1<<c.tier)
	return kindRemoved
}

// erase takes a block out of some tiers.
func (x *index) erase(s *slot, hash uint64, p place, tiers uint8) {
	for m := tiers & p.tiers; m != 0; m &= m - 1 {
		held := s.shard.held[bits.TrailingZeros8(m)]
		if left := held[p.key] &^ (1 << s.bit); left != 0 {
			held[p.key] = left
		} else {
			delete(held, p.key)
		}
	}
	if p.tiers &^= tiers; p.tiers != 0 {
		s.known[hash] = p
		return
	}
	delete(s.known, hash)
	x.blocks--
}

// match finds how much of a prompt, of which keys has the hash of each block, every
// live stream has from its beginning on, and leaves it in the slots' credit.
func (x *index) match(keys []uint64, seed uint64) {
	if _, ok := x.adapters[seed]; !ok {
		seed = 0
	}
	for _, sh := range x.shards {
		if sh.live != 0 {
			sh.match(keys, seed, &x.weights)
		}
	}
}

func (sh *shard) match(keys []uint64, seed uint64, weights *[numTiers]float64) {
	var less [perShard]float64 // what a stream's blocks count less than one each
	left := sh.live
	for i, key := range keys {
		key ^= seed
		have := sh.held[device][key] & left
		for t := host; t < numTiers && have != left; t++ {
			if len(sh.held[t]) == 0 {
				continue
			}
			more := sh.held[t][key] & left &^ have
			for m := more; m != 0; m &= m - 1 {
				less[bits.TrailingZeros64(m)] += 1 - weights[t]
			}
			have |= more
		}
		sh.credit(left&^have, i, &less)
		if left = have; left == 0 {
			return
		}
	}
	sh.credit(left, len(keys), &less)
}

// credit notes that some streams have n blocks.
func (sh *shard) credit(streams uint64, n int, less *[perShard]float64) {
	for m := streams; m != 0; m &= m - 1 {
		bit := bits.TrailingZeros64(m)
		sh.slots[bit].credit = float64(n) - less[bit]
	}
}
