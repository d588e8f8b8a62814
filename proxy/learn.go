package proxy

import (
	"loadstar/actors"
	"loadstar/actors/learn"
	"loadstar/proxy/pd"
	"loadstar/proxy/usage"

	"github.com/valyala/fasthttp"
)

// learns reports whether there is something to learn from the usage that the answer
// tells. A worker that only decodes has its prompt from elsewhere.
func (x *exchange) learns(lease *actors.Lease) bool {
	return x.p.router.NeedsKey(x.query.Served()) && x.answer.Status == fasthttp.StatusOK && !x.encoded &&
		lease.Decision.Blocks > 0 && x.split.pair.ID == (pd.ID{})
}

// learn has the router learn from the usage in a whole answer, and returns it. It is
// for callers who know that somebody wants to: see learns.
func (p *Proxy) learn(lease *actors.Lease, answer []byte) usage.Usage {
	var s usage.Scanner
	s.Feed(answer)
	u := s.Usage()
	p.learnt(lease, u)
	return u
}

// learnt has the router learn from a usage, before the lease is released.
func (p *Proxy) learnt(lease *actors.Lease, u usage.Usage) {
	if !u.HasPrompt {
		return
	}
	told := learn.Usage{Prompt: int(u.Prompt), Cached: -1}
	if u.HasCached {
		told.Cached = int(u.Cached)
	}
	p.router.Learn(lease, told)
	p.metrics.usage.add(u, &lease.Decision)
}
