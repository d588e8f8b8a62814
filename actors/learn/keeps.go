package learn

import "math"

// What a worker's cache keeps is learnt from predictions that came true and from
// those that didn't, by the distance of the last block predicted: how many blocks
// the worker had used since. A cache that drops what was used longest ago keeps what
// is near and has lost what is far, and what lies between is its size, as the tree
// sees it: in blocks of prompts, without what is generated or comes from elsewhere.
//
// A worker that has restarted is told from one with a small cache by losing what is
// near as well.
const (
	ageSteps  = 8   // buckets of distances in each power of two
	ageFirst  = 64  // blocks, up to which distances are in the first bucket
	ageCount  = 128 // buckets
	ageHalves = 256

	sizeMisses = 8 // predictions beyond what is kept that failed, until the size is known
	sizeLeast  = 256

	// sizeFinds is how many prompts have to find what the tree has forgotten, while no
	// prediction fails, for the size to be in doubt. It is more than sizeMisses, for
	// other routers' prompts may be found as well.
	sizeFinds = 16

	// restartMisses is how many predictions have to fail, none of which should
	// have, for a worker to have restarted.
	restartMisses = 8
	nearSteps     = 4 // buckets that a distance must be nearer than what is kept, for the worker to be sure to keep it
)

// keeps is what is known of what one worker keeps. Times are numbers of inserts.
type keeps struct {
	hits, misses [ageCount]uint16 // predictions by distance
	counted      int              // since they were halved
	size         int              // blocks that it keeps; 0 if that isn't known
	finds        int              // prompts of which it had what wasn't predicted, since a prediction failed

	answered uint32 // the latest insert whose request has been answered
	forgot   uint32 // the insert up to which it has forgotten everything; if it has
	restarts int

	// Predictions that failed and should not have, as long as nothing that was used
	// before the newest of what was lost has been kept.
	suspects  int
	suspected [restartMisses]uint8 // their buckets
	since     uint32               // the first one's insert
	newest    uint32               // the last insert that used something of what was lost
}

// ageOf is the bucket of a distance.
func ageOf(distance int) int {
	if distance <= ageFirst {
		return 0
	}
	return min(int(ageSteps*math.Log2(float64(distance)/ageFirst)), ageCount-1)
}

// ageEnd is the largest distance in a bucket.
func ageEnd(age int) int {
	return int(ageFirst * math.Exp2(float64(age+1)/ageSteps))
}

// hit takes in that a prediction came true.
func (k *keeps) hit(e *expectation) {
	if k.suspects > 0 && later(e.now, k.since) && !later(e.before, k.newest) {
		k.clear()
	}
	k.count(&k.hits, uint8(ageOf(e.distance)))
}

// miss takes in that a prediction failed, and reports whether the worker has
// restarted: then it has nothing that it used up to forgot.
func (k *keeps) miss(e *expectation) (restarted bool) {
	k.finds = 0
	if k.restarts > 0 && !later(e.before, k.forgot) {
		return false // known
	}
	age := uint8(ageOf(e.distance))
	if int(age) > k.proven()-nearSteps {
		k.count(&k.misses, age)
		return false
	}
	if k.suspects == 0 {
		k.since, k.newest = e.now, e.before
	}
	if later(e.before, k.newest) {
		k.newest = e.before
	}
	k.suspected[k.suspects] = age
	if k.suspects++; k.suspects < restartMisses {
		return false
	}
	k.suspects = 0 // they tell nothing of the cache's size
	k.restarts++
	if k.forgot = k.since - 1; later(k.newest, k.forgot) {
		k.forgot = k.newest
	}
	return true
}

// find takes in that much more was cached than predicted. A tree that was shrunk to
// too small a size predicts nothing beyond it, and so nothing could come true or fail
// there: only this tells that the cache has grown.
func (k *keeps) find() {
	if k.size == 0 {
		return
	}
	if k.finds++; k.finds < sizeFinds {
		return
	}
	k.finds, k.size = 0, 0
	clear(k.misses[k.proven()+1:])
}

// clear ends a suspicion: the cache was too small.
func (k *keeps) clear() {
	n := k.suspects
	k.suspects = 0
	for _, age := range k.suspected[:n] {
		k.count(&k.misses, age)
	}
}

// proven is the farthest bucket of which more is kept than lost, or -1.
func (k *keeps) proven() int {
	for age := ageCount - 1; age >= 0; age-- {
		if k.hits[age] > 0 && k.hits[age] >= k.misses[age] {
			return age
		}
	}
	return -1
}

func (k *keeps) count(of *[ageCount]uint16, age uint8) {
	of[age]++
	if k.counted++; k.counted == ageHalves {
		k.counted = 0
		for i := range ageCount {
			k.hits[i] /= 2
			k.misses[i] /= 2
		}
	}
	k.measure()
}

// measure finds the size: where predictions begin to fail behind the farthest that
// come true as often as not. It is the end of the first bucket in which they fail,
// so that there are always some that may: a view that is too small costs hits, and
// couldn't tell that it is. If they come true there as well, the cache has grown, and
// its size isn't known.
func (k *keeps) measure() {
	kept := k.proven()
	failed, from := 0, ageCount
	for age := ageCount - 1; age > kept; age-- {
		if k.misses[age] > 0 {
			failed += int(k.misses[age])
			from = age
		}
	}
	switch {
	case failed >= sizeMisses:
		k.size = max(ageEnd(from), sizeLeast)
	case kept >= 0 && ageEnd(kept) >= k.size:
		k.size = 0
	}
}

// later reports whether an insert came after another; their numbers wrap.
func later(a, b uint32) bool { return int32(a-b) > 0 }
