package actors

import (
	"slices"

	"loadstar/actors/policy"
)

// Explanation is how the workers of a request were chosen. It costs the registry
// time, so only a request that somebody asks about has one.
type Explanation struct {
	Most int // workers that each choice tells of; 0 for the chosen one's figures alone
	Of   [numRoles]Explained
}

// Clear makes e fit for another request.
func (e *Explanation) Clear() {
	for r := range e.Of {
		e.Of[r] = Explained{Workers: e.Of[r].Workers[:0]}
	}
}

// Explained is the last choice that was made for a role. Its zero value is that of a
// role for which there was none.
type Explained struct {
	Policy  string
	Reason  policy.Reason
	Blocks  int     // of the prompt
	Total   int     // workers among which there was a choice
	Weighs  bool    // the policy goes by costs, so Lambda and those of Workers mean something
	Lambda  float64 // price of a miss above its own time
	Chosen  Weighed
	Workers []Weighed // the chosen one, and behind it the best of the others
	made    bool
}

// Made reports whether there was a choice.
func (e *Explained) Made() bool { return e.made }

// Weighed is what a policy knew of a worker when it chose, before the request was
// counted there.
type Weighed struct {
	URL     string
	Match   int // leading blocks of the prompt thought to be cached there
	Load    int
	Pending int     // blocks of prompt not yet prefilled
	Held    int     // blocks of prompt of those who decode there
	Pace    float64 // how many times as long as others it takes for a block
	Cost    float64 // in blocks, where the policy goes by it
}

// explain writes down a choice that was made among candidates.
func (s *state) explain(e *Explained, most, blocks int, role Role, candidates []policy.Candidate, chosen *policy.Choice) {
	weigher, weighs := s.policies[role].(policy.Weigher)
	weighs = weighs && chosen.Reason != policy.Pinned // of which no policy was asked
	*e = Explained{
		Policy: s.opts.Policy[role], Reason: chosen.Reason, Blocks: blocks, Total: len(candidates), Weighs: weighs,
		Workers: e.Workers[:0], made: true,
	}
	weigh := func(c *policy.Candidate) Weighed {
		w := Weighed{URL: c.URL, Match: c.Match, Load: c.Load, Pending: c.Pending, Held: c.Held, Pace: c.Pace}
		if weighs {
			e.Lambda, w.Cost = weigher.Weigh(&s.asked, c)
		}
		return w
	}
	e.Chosen = weigh(&candidates[chosen.Index])
	if most < 1 {
		return
	}
	e.Workers = append(e.Workers, e.Chosen)
	for i := range candidates {
		if i == chosen.Index {
			continue
		}
		w := weigh(&candidates[i])
		others := e.Workers[1:]
		at, _ := slices.BinarySearchFunc(others, w, better)
		switch {
		case len(e.Workers) < most:
			e.Workers = append(e.Workers, Weighed{})
		case at == len(others):
			continue
		}
		others = e.Workers[1:]
		copy(others[at+1:], others[at:])
		others[at] = w
	}
}

// better orders workers by what speaks for them: their cost, where the policy goes
// by it, else the prefix they have, else their load.
func better(a, b Weighed) int {
	switch {
	case a.Cost != b.Cost:
		return order(a.Cost < b.Cost)
	case a.Match != b.Match:
		return order(a.Match > b.Match)
	case a.Load != b.Load:
		return order(a.Load < b.Load)
	default:
		return 0
	}
}

func order(first bool) int {
	if first {
		return -1
	}
	return 1
}
