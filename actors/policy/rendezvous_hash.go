package policy

// rendezvousHash sends a session to the worker with the highest score of session
// and URL under vllm-router's hash. An owner far above the mean load is passed
// over for the next best. Its cost grows with one such hash per candidate.
type rendezvousHash struct {
	abs    int
	hasher referenceHasher
	text   []byte
	scores []uint64
}

func (p *rendezvousHash) Name() string { return "rendezvous_hash" }

func (p *rendezvousHash) Choose(req *Request, c []Candidate) Choice {
	p.score(req, c)
	best := 0
	for i := range c {
		if p.outranks(c, i, best) {
			best = i
		}
	}
	limit := newBound(p.abs, c)
	if !limit.full(c[best].Load) || !limit.binds(c) {
		return Choice{Index: best, Reason: Rendezvous}
	}
	next := -1
	for i := range c {
		if !limit.full(c[i].Load) && (next < 0 || p.outranks(c, i, next)) {
			next = i
		}
	}
	return Choice{Index: next, Reason: OwnerFull}
}

// score fills in every candidate's score: the reference's for a session, our own
// for a request without one.
func (p *rendezvousHash) score(req *Request, c []Candidate) {
	p.scores = p.scores[:0]
	if len(req.Session) == 0 {
		key := spread(req.Key)
		for i := range c {
			p.scores = append(p.scores, affinity(key, c[i].Hash))
		}
		return
	}
	p.text = append(append(p.text[:0], req.Session...), ':')
	prefix := len(p.text)
	for i := range c {
		p.text = append(p.text[:prefix], c[i].URL...)
		p.scores = append(p.scores, p.hasher.sum(p.text))
	}
}

// outranks orders by score. The reference's scores of two workers are equal once
// in eight million, and then the URL decides.
func (p *rendezvousHash) outranks(c []Candidate, a, b int) bool {
	if p.scores[a] != p.scores[b] {
		return p.scores[a] > p.scores[b]
	}
	return c[a].URL < c[b].URL
}
