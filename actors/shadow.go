package actors

import (
	"errors"

	"loadstar/actors/policy"
)

// MaxShadows is the most shadow policies that a registry asks.
const MaxShadows = 4

var errShadows = errors.New("more shadow policies than may be asked")

// shadow is a policy that is asked what it would do, and never obeyed. Its state is
// its own. What it sees is the real fleet, which the acting policy has shaped: its own
// choices never come to be, so loads don't follow them and prefixes don't gather where
// it would have sent them. Its figures say how the next request would be placed, not
// how a fleet under it would fare.
type shadow struct {
	name       string
	policies   [numRoles]policy.Policy // nil for the acting ones, whose choices are given
	reckonings [numRoles]reckoning
}

// reckoning is what a policy's choices for a role add up to.
type reckoning struct {
	asked, agreed         uint64
	blocks, matched, wait uint64
	shares                shares
}

// shares counts choices by worker, the older the less.
type shares struct {
	of   []float64 // by number, in units of one choice at some time
	unit float64   // of a choice at this time, which grows instead of all others fading
}

// sharesDecay is the weight of a choice after the next one: those before the last
// thousand are soon forgotten.
const sharesDecay = 1 - 1.0/1024

const largestUnit = 1e100

func (h *shares) add(id uint32) {
	if missing := int(id) + 1 - len(h.of); missing > 0 {
		h.of = append(h.of, make([]float64, missing)...)
	}
	if h.unit == 0 {
		h.unit = 1
	}
	h.of[id] += h.unit
	if h.unit /= sharesDecay; h.unit > largestUnit {
		for i := range h.of {
			h.of[i] /= h.unit
		}
		h.unit = 1
	}
}

func (h *shares) forget(id WorkerID) {
	if int(id) < len(h.of) {
		h.of[id] = 0
	}
}

// imbalance is the largest share by the mean of those of workers, 0 if all have none.
func (h *shares) imbalance(counts func(WorkerID) bool) float64 {
	n, sum, most := 0, 0.0, 0.0
	for i := range h.of {
		if counts(WorkerID(i)) {
			n, sum, most = n+1, sum+h.of[i], max(most, h.of[i])
		}
	}
	if sum == 0 {
		return 0
	}
	return most * float64(n) / sum
}

// ShadowView is what a policy would have done since the start, in a Snapshot. That of
// the acting policy is there for comparison, with an empty name.
type ShadowView struct {
	Policy    string
	Role      Role
	Asked     uint64
	Agreed    uint64  // choices of the worker that was taken
	Blocks    uint64  // of the prompts
	Matched   uint64  // of those, known at the worker it would have chosen
	Wait      uint64  // blocks to prefill at that worker before the first token: its pending ones and those of the prompt that it lacks
	Imbalance float64 // the most requests that a worker would have got of the last thousand or so, by the mean
}

// newShadows makes the shadow policies, and beside them the figures of the acting ones;
// none at all without names.
func newShadows(o *Options) ([]shadow, error) {
	if len(o.Shadows) == 0 {
		return nil, nil
	}
	if len(o.Shadows) > MaxShadows {
		return nil, errShadows
	}
	all := []shadow{{}}
	for i, name := range o.Shadows {
		sh := shadow{name: name}
		for r := range sh.policies {
			own := o.PolicyOptions
			own.Seed += uint64(numRoles)*uint64(i+1) + uint64(r)
			p, err := policy.New(name, own)
			if err != nil {
				return nil, err
			}
			sh.policies[r] = p
		}
		all = append(all, sh)
	}
	return all, nil
}

// overshadow asks the shadow policies what they would have chosen for the request that
// the acting one was just asked about.
func (s *state) overshadow(role Role, candidates []policy.Candidate, chosen int) {
	for i := range s.shadows {
		sh := &s.shadows[i]
		at := chosen
		if p := sh.policies[role]; p != nil {
			at = p.Choose(&s.asked, candidates).Index
		}
		c, t := &candidates[at], &sh.reckonings[role]
		t.asked++
		if at == chosen {
			t.agreed++
		}
		t.blocks += uint64(s.asked.Blocks)
		t.matched += uint64(c.Match)
		t.wait += uint64(c.Pending + max(s.asked.Blocks-c.Match, 0))
		t.shares.add(c.ID)
	}
}

// forgetShares drops what counts of a worker whose number another may have.
func (s *state) forgetShares(id WorkerID) {
	for i := range s.shadows {
		for r := range s.shadows[i].reckonings {
			s.shadows[i].reckonings[r].shares.forget(id)
		}
	}
}

// everyPolicy calls f with each policy for a role, the acting one and its shadows.
func (s *state) everyPolicy(role Role, f func(policy.Policy)) {
	f(s.policies[role])
	for i := range s.shadows {
		if p := s.shadows[i].policies[role]; p != nil {
			f(p)
		}
	}
}

func (s *state) shadowViews() []ShadowView {
	var all []ShadowView
	for i := range s.shadows {
		for r := range s.shadows[i].reckonings {
			t := &s.shadows[i].reckonings[r]
			all = append(all, ShadowView{
				Policy: s.shadows[i].name, Role: Role(r), Asked: t.asked, Agreed: t.agreed, Blocks: t.blocks, Matched: t.matched, Wait: t.wait,
				Imbalance: t.shares.imbalance(func(id WorkerID) bool {
					w := &s.workers[id]
					return w.member && w.spec.Roles.Has(Role(r))
				}),
			})
		}
	}
	return all
}
