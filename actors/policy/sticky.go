package policy

import "math"

// stickyLeastLoaded sends a new session to the least loaded worker and keeps it
// there until it has been idle for its lifetime, its worker is no candidate, or
// that worker carries far more than the least loaded one. With each model a session
// has a worker of its own: those of one model serve no other.
type stickyLeastLoaded struct {
	balance balance
	table   *sessions
	models  uint32 // the highest number of a model that a request has asked for
}

func newStickyLeastLoaded(o Options) *stickyLeastLoaded {
	return &stickyLeastLoaded{
		balance: balance{abs: o.BalanceAbs, rel: o.BalanceRel},
		table:   newSessions(o.SessionCap, o.SessionTTL),
	}
}

func (p *stickyLeastLoaded) Name() string { return "sticky_least_loaded" }

// SetMembers forgets, over time, the sessions of workers that left.
func (p *stickyLeastLoaded) SetMembers(members []Member) {
	p.table.residents.set(members)
}

// FinishSession forgets a session, with all models.
func (p *stickyLeastLoaded) FinishSession(session []byte) bool {
	known := false
	for m := range p.models + 1 {
		known = p.table.remove(sessionKey(session, m)) || known
	}
	return known
}

// sessionKey stands for a session with a model, or with none.
func sessionKey(session []byte, model uint32) uint64 {
	return hashOf(session) ^ uint64(model)*0x9e3779b97f4a7c15
}

// Sessions is the number of sessions in the table.
func (p *stickyLeastLoaded) Sessions() int {
	return p.table.len()
}

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

	p.models = max(p.models, req.Model)
	key := sessionKey(req.Session, req.Model)
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
	p.table.put(key, p.table.residents.settle(w.ID, w.URL), req.Now)
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
