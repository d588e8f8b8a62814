package policy

// consistentHash sends a session to its owner on the ring that vllm-router
// builds, so sessions stay where they were. An owner far above the mean load is
// passed over for the next on the ring.
type consistentHash struct {
	abs    int
	ring   ring
	hasher referenceHasher
	marks  []mark // by ID
	call   uint64
}

// mark says where a member stands among the candidates of one call. A mark of an
// earlier call is void, so nothing has to be cleared.
type mark struct {
	call  uint64
	index int
}

func (p *consistentHash) Name() string { return "consistent_hash" }

// SetMembers puts the members on the ring.
func (p *consistentHash) SetMembers(members []Member) {
	p.ring.set(members)
	if missing := len(p.ring.urls) - len(p.marks); missing > 0 {
		p.marks = append(p.marks, make([]mark, missing)...)
	}
}

func (p *consistentHash) Choose(req *Request, c []Candidate) Choice {
	if len(c) == 1 {
		return Choice{Reason: Ring}
	}
	place := spread(req.Key)
	if len(req.Session) > 0 {
		place = p.hasher.sum(req.Session)
	}
	if !p.mark(c) {
		return Choice{Index: closest(place, c), Reason: Rendezvous}
	}
	limit := newBound(p.abs, c)
	binds := limit.binds(c)
	choice := Choice{Reason: Ring}
	points := p.ring.points
	for i := p.ring.from(place); ; i++ {
		if i == len(points) {
			i = 0
		}
		m := p.marks[points[i].id]
		if m.call != p.call {
			continue
		}
		if binds && limit.full(c[m.index].Load) {
			choice.Reason = OwnerFull
			continue
		}
		choice.Index = m.index
		return choice
	}
}

// mark notes where each candidate is, and reports whether all are on the ring.
// One that is not could never be reached by walking it.
func (p *consistentHash) mark(c []Candidate) bool {
	p.call++
	for i := range c {
		id := c[i].ID
		if url := p.ring.url(id); url == "" || url != c[i].URL {
			return false
		}
		p.marks[id] = mark{call: p.call, index: i}
	}
	return true
}
