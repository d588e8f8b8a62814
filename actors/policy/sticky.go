package policy

import "math"

// stickyLeastLoaded sends a new session to the least loaded worker and keeps it
// there until it has been idle for its lifetime, its worker is no candidate, or
// that worker carries far more than the least loaded one.
type stickyLeastLoaded struct {
	lodging
	balance balance
}

func newStickyLeastLoaded(o Options) *stickyLeastLoaded {
	return &stickyLeastLoaded{
		lodging: lodging{table: newSessions(o.SessionCap, o.SessionTTL)},
		balance: balance{abs: o.BalanceAbs, rel: o.BalanceRel},
	}
}

func (p *stickyLeastLoaded) Name() string { return "sticky_least_loaded" }

func (p *stickyLeastLoaded) Choose(req *Request, c []Candidate) Choice {
	p.table.expire(req.Now)
	low, high := math.MaxInt, 0
	for i := range c {
		low = min(low, c[i].Load)
		high = max(high, c[i].Load)
	}
	choice := Choice{MaxLoad: high, MinLoad: low, Imbalanced: p.balance.lost(high, low)}
	if len(req.Session) == 0 {
		choice.Index, choice.Reason = leastLoaded(req.Key, 0, c), LeastLoad
		return choice
	}

	key := p.key(req.Session, req.Model)
	choice.Reason = SessionNew
	if entry, known := p.table.find(key, req.Now); known {
		at := p.table.residents.at(p.table.entry(entry).home, c)
		switch {
		case at < 0:
			choice.Reason = SessionMoved
		case p.balance.lost(c[at].Load, low):
			choice.Reason = LoadImbalance
		default:
			p.table.touch(entry, req.Now)
			choice.Index, choice.Reason = at, SessionKept
			return choice
		}
	}
	choice.Index = p.place(key, low, c)
	w := &c[choice.Index]
	p.lodge(key, w, req.Now)
	return choice
}

// place is the candidate for a session to live at: of those with the least load
// the one with the fewest sessions. The session is the key of the tie, because
// it is what all its requests have in common.
func (p *stickyLeastLoaded) place(key uint64, least int, c []Candidate) int {
	t := newTie(key)
	fewest := math.MaxInt
	for i := range c {
		if c[i].Load != least {
			continue
		}
		switch sessions := p.table.residents.count(c[i].ID); {
		case sessions < fewest:
			fewest = sessions
			t.lead(c, i)
		case sessions == fewest:
			t.equal(c, i)
		}
	}
	return t.index
}
