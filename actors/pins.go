package actors

import "loadstar/actors/policy"

// maxPins is how many pins are kept; the oldest go first.
const maxPins = 1 << 16

// pins remember which worker holds something that only it can go on from, such
// as a stored response. They are found by a 64-bit hash of its name, so two
// names may share a pin; a worker that is asked for what it hasn't says so.
type pins struct {
	at   map[uint64]pin
	ring []uint64 // keys by age, a ring once it is full
	next int      // where in the ring the next key goes
}

// pin is a worker in one of its memberships: what it held is gone with it.
type pin struct {
	worker WorkerID
	epoch  uint32
}

func (p *pins) put(key uint64, to pin) {
	if p.at == nil {
		p.at = make(map[uint64]pin)
	}
	if _, known := p.at[key]; !known {
		if len(p.ring) < maxPins {
			p.ring = append(p.ring, key)
		} else {
			delete(p.at, p.ring[p.next])
			p.ring[p.next] = key
			p.next = (p.next + 1) % maxPins
		}
	}
	p.at[key] = to
}

// pinned returns the position among the candidates of the worker that a request
// is pinned to, or -1.
func (s *state) pinned(key uint64, candidates []policy.Candidate) int {
	if key == 0 {
		return -1
	}
	to, ok := s.pins.at[key]
	if !ok || s.workers[to.worker].epoch != to.epoch {
		return -1
	}
	if i, ok := placeOf(candidates, uint32(to.worker)); ok {
		return i
	}
	return -1
}

// pin notes that the worker of a live lease holds what key names.
func (s *state) pin(t ticket, key uint64) {
	if sl := s.find(t); sl != nil {
		s.pins.put(key, pin{sl.worker, sl.epoch})
	}
}
