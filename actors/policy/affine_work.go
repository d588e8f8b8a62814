package policy

import "math"

// affineWork keeps a session at the worker that a policy by costs has chosen for it
// first, until it has been idle for its lifetime, its worker is no candidate, or that
// has too much to do: then the policy chooses anew, and the session lives there.
type affineWork struct {
	weighing
	lodging
	balance balance
}

func newAffineWork(p weighing, o Options) *affineWork {
	return &affineWork{
		weighing: p,
		lodging:  lodging{table: newSessions(o.SessionCap, o.AffinityTTL)},
		balance:  balance{abs: o.BalanceAbs, rel: o.BalanceRel},
	}
}

func (p *affineWork) Choose(req *Request, c []Candidate) Choice {
	p.table.expire(req.Now)
	if len(req.Affinity) == 0 {
		return p.weighing.Choose(req, c)
	}
	key, home := p.key(req.Affinity, req.Model), -1
	var leaves Reason // 0 for a session that has no worker
	if entry, known := p.table.find(key, req.Now); known {
		home = p.table.residents.at(p.table.entry(entry).home, c)
		switch {
		case home < 0:
			leaves = SessionMoved
		case p.yields(req, c, home):
			leaves = LoadImbalance
		default:
			p.table.touch(entry, req.Now)
			p.reckon(req, c)
			return Choice{Index: home, Reason: SessionKept}
		}
	}
	choice := p.weighing.Choose(req, c)
	if leaves != 0 && choice.Index != home {
		choice.Reason = leaves
	}
	p.lodge(key, &c[choice.Index], req.Now)
	return choice
}

// yields reports whether the worker at home has too much to do for a session to stay:
// more than the least loaded by both thresholds of balance. Each request that decodes
// slows all others there with every token, so decode workers keep no session beyond
// their share of the requests, this one with them.
func (p *affineWork) yields(req *Request, c []Candidate, home int) bool {
	least, total := math.MaxInt, 1
	for i := range c {
		least = min(least, c[i].Load)
		total += c[i].Load
	}
	if req.Decode {
		return c[home].Load*len(c) >= total
	}
	return p.balance.lost(c[home].Load, least)
}
