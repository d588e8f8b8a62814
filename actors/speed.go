package actors

import (
	"math"
	"slices"
	"time"
)

// How fast a worker prefills is learnt from streams, whose first byte says that the
// prompt is worked off. Between two first bytes a busy worker has worked off the
// second one's share, so neither the queue nor a batch of prompts that are worked on
// together disturb the sum. What a worker takes beside the prompt counts as
// slowness, so short prompts teach nothing.
const (
	speedBlocks  = 32   // shortest share that teaches
	speedWeight  = 1024 // longest; what is longer weighs no more
	speedDecay   = 0.95 // weight of the past, per share
	speedSamples = 4    // shares until a speed is known
	speedOutlier = 4    // times as fast or slow as it is known to be are the most that is believed

	// A worker's pace is its time for a block beside that of others, in steps of half
	// a power of two: what workers differ by for no reason must not make them unequal.
	paceSteps = 2
	paceMost  = 2 * paceSteps // steps
	paceBand  = 0.8           // steps that it takes to leave one

	speedsEvery = int64(time.Second) // how often paces are compared

	// A worker that is slower than others gets fewer prompts, and on a fleet with little
	// to do none that could tell that it is so no longer. So a slow pace holds for as
	// long behind the last share that taught, and then as long as there is work.
	slowHolds = 60 * int64(time.Second)
)

// speed is what is known of how fast a worker prefills.
type speed struct {
	blocks, ns float64 // sums over the recent past
	samples    int
	learntAt   int64   // the end of the last of them
	step       int     // of its pace
	pace       float64 // how many times as long as others it takes for a block; 0 is once
	firstAt    int64   // its last first byte of a stream
	firstSince int64   // the grant of that stream
	plain      int     // live leases whose answers don't tell when their share has ended
	plainAt    int64   // the last grant of one, and the last end
	plainEnd   int64
}

// rate is in blocks a nanosecond, 0 if it isn't known.
func (p *speed) rate() float64 {
	if p.samples < speedSamples {
		return 0
	}
	return p.blocks / p.ns
}

// firstByte takes in that a share, granted at since, was worked off at now.
func (p *speed) firstByte(blocks int, since, now int64) {
	from := max(since, p.firstAt)
	alone := p.plainAt <= p.firstSince || p.plain == 0 && p.plainEnd <= from
	p.firstAt, p.firstSince = now, since
	if blocks >= speedBlocks && alone && now > from {
		p.learn(float64(blocks), float64(now-from))
		p.learntAt = now
	}
}

func (p *speed) learn(blocks, ns float64) {
	if rate := p.rate(); rate > 0 {
		ns = min(max(ns, blocks/rate/speedOutlier), blocks/rate*speedOutlier)
	}
	weight := min(1, speedWeight/blocks)
	p.blocks = p.blocks*speedDecay + blocks*weight
	p.ns = p.ns*speedDecay + ns*weight
	p.samples = min(p.samples+1, speedSamples)
}

// forget has the next shares tell how fast the worker is.
func (p *speed) forget() { p.blocks, p.ns, p.samples = 0, 0, 0 }

// speeds is what is known of those of the fleet.
type speeds struct {
	at      int64     // when shares are due to be looked at; never, if no policy reads them
	compare int64     // when paces are
	median  float64   // of the known rates; 0 if there is none
	known   []float64 // scratch
}

// dueEvery is how often it is looked which shares have been worked off by now.
const dueEvery = int64(time.Millisecond)

// payOff ends the shares that have been worked off by now as far as is known, of
// answers whose first byte comes too late to say so.
func (s *state) payOff(now int64) {
	s.speeds.at = now + dueEvery
	for i := range s.workers {
		w := &s.workers[i]
		if w.dues.first == 0 || s.slots[w.dues.first-1].due > now {
			continue
		}
		for w.dues.first != 0 && s.slots[w.dues.first-1].due <= now {
			s.prefilled(w, &s.slots[w.dues.first-1])
		}
		s.recount(w)
	}
	if now >= s.speeds.compare {
		s.compareSpeeds(now)
	}
}

// compareSpeeds has the pace of each worker follow its speed. One whose speed isn't
// known is as fast as the fleet.
func (s *state) compareSpeeds(now int64) {
	v := &s.speeds
	v.compare, v.known = now+speedsEvery, v.known[:0]
	for i := range s.workers {
		w := &s.workers[i]
		if w.speed.step > 0 && w.pending == 0 && now-w.speed.learntAt > slowHolds {
			w.speed.forget()
		}
		if r := w.speed.rate(); r > 0 {
			v.known = append(v.known, r)
		}
	}
	if v.median = 0; len(v.known) > 0 {
		slices.Sort(v.known)
		v.median = v.known[len(v.known)/2]
	}
	for i := range s.workers {
		w := &s.workers[i]
		p, step := &w.speed, 0.0
		if r := p.rate(); r > 0 {
			step = paceSteps * math.Log2(v.median/r)
		}
		if math.Abs(step-float64(p.step)) > paceBand {
			p.step = int(math.Round(max(-paceMost, min(step, paceMost))))
			p.pace = math.Exp2(float64(p.step) / paceSteps)
			s.disturb(w)
		}
	}
}

// rateOf is how fast a worker prefills, or the fleet if that isn't known; 0 if
// neither is.
func (s *state) rateOf(w *worker) float64 {
	if r := w.speed.rate(); r > 0 {
		return r
	}
	return s.speeds.median
}

// row is some of a worker's shares, in the order in which they were granted, or sent, and
// will be worked off. Numbers are those of slots, plus one.
type row struct{ first, last uint32 }

// append puts that of a slot, which must be in no other row, at the end.
func (s *state) append(to *row, n uint32) {
	sl := &s.slots[n]
	if to.last != 0 {
		s.slots[to.last-1].nextShare = n + 1
	} else {
		to.first = n + 1
	}
	sl.prevShare, to.last = to.last, n+1
}

// unlink takes out that of a slot, which must be in there.
func (s *state) unlink(from *row, sl *slot) {
	if sl.prevShare != 0 {
		s.slots[sl.prevShare-1].nextShare = sl.nextShare
	} else {
		from.first = sl.nextShare
	}
	if sl.nextShare != 0 {
		s.slots[sl.nextShare-1].prevShare = sl.prevShare
	} else {
		from.last = sl.prevShare
	}
	sl.prevShare, sl.nextShare = 0, 0
}

// owe has the share of a slot end when all that was granted to its worker before,
// and itself, will have been worked off; never, if nobody's speed is known.
func (s *state) owe(w *worker, n uint32, now int64) {
	w.speed.plain++
	w.speed.plainAt = now
	rate := s.rateOf(w)
	if rate == 0 {
		return
	}
	sl := &s.slots[n]
	sl.due = now + int64(min(float64(w.pending-w.parked)/rate, math.MaxInt32*float64(time.Second)))
	s.append(&w.dues, n)
}

// owesNoMore notes the end of a lease that owe was called for.
func (s *state) owesNoMore(w *worker, sl *slot, now int64) {
	if sl.owes && sl.epoch == w.epoch {
		w.speed.plain--
		w.speed.plainEnd = now
	}
}

// prefilled ends a live lease's share of its worker's pending prompt work, once. The
// caller has the pools know of it.
func (s *state) prefilled(w *worker, sl *slot) {
	w.pending -= sl.pending
	switch {
	case sl.phase == Parked:
		w.parked -= sl.pending
	case sl.sent:
		s.heard(w, sl)
	}
	sl.pending = 0
	if sl.due != 0 {
		s.unlink(&w.dues, sl)
		sl.due = 0
	}
}
