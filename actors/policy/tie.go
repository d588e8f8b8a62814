package policy

import "math"

// tie decides among candidates that are equal in everything a policy cares
// about. A policy calls lead for a candidate better than all before, and equal
// for one as good as the leader; the highest affinity to the key wins. The zero
// index is a safe answer because there is always a candidate.
type tie struct {
	key   uint64
	index int
	score uint64
}

// newTie starts a contest for a routing key.
func newTie(key uint64) tie {
	return tie{key: spread(key)}
}

func (t *tie) lead(c []Candidate, i int) {
	t.index = i
	t.score = affinity(t.key, c[i].Hash)
}

func (t *tie) equal(c []Candidate, i int) {
	score := affinity(t.key, c[i].Hash)
	if score < t.score {
		return
	}
	if score > t.score || c[i].URL < c[t.index].URL {
		t.index = i
		t.score = score
	}
}

// leastLoaded is the least loaded of the candidates that have at least match
// blocks of the prompt.
func leastLoaded(key uint64, match int, c []Candidate) int {
	t := newTie(key)
	least := math.MaxInt
	for i := range c {
		if c[i].Match < match {
			continue
		}
		switch load := c[i].Load; {
		case load < least:
			least = load
			t.lead(c, i)
		case load == least:
			t.equal(c, i)
		}
	}
	return t.index
}

// closest is the candidate with the highest affinity to the key.
func closest(key uint64, c []Candidate) int {
	t := newTie(key)
	t.lead(c, 0)
	for i := 1; i < len(c); i++ {
		t.equal(c, i)
	}
	return t.index
}
