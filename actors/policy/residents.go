package policy

import "slices"

// residents knows, per worker, how many sessions live there. The registry gives
// an ID to another worker once the first is gone, so each ID has a generation:
// a session that was placed under an earlier one has lost its worker.
type residents struct {
	homes []home // by ID
	round uint64 // number of the membership that is being set
}

type home struct {
	url        string // empty while nobody has the ID
	generation uint32
	sessions   int
	round      uint64
}

// address is where a session lives.
type address struct {
	id         uint32
	generation uint32
}

// set makes the membership, and turns out the sessions of all who left.
func (r *residents) set(members []Member) {
	r.round++
	for _, m := range members {
		r.settle(m.ID, m.URL)
		r.homes[m.ID].round = r.round
	}
	for i := range r.homes {
		if h := &r.homes[i]; h.round != r.round && h.url != "" {
			h.pass("")
		}
	}
}

// settle is the address of the worker that has the ID.
func (r *residents) settle(id uint32, url string) address {
	if missing := int(id) + 1 - len(r.homes); missing > 0 {
		r.homes = append(r.homes, make([]home, missing)...)
	}
	h := &r.homes[id]
	if h.url != url {
		h.pass(url)
	}
	return address{id: id, generation: h.generation}
}

// pass gives the ID to another worker.
func (h *home) pass(url string) {
	h.url = url
	h.generation++
	h.sessions = 0
}

// at is the index of the candidate that lives at the address, or -1.
func (r *residents) at(a address, c []Candidate) int {
	if !r.current(a) {
		return -1
	}
	url := r.homes[a.id].url
	return slices.IndexFunc(c, func(w Candidate) bool { return w.ID == a.id && w.URL == url })
}

// current reports whether the worker at the address is still a member.
func (r *residents) current(a address) bool {
	return int(a.id) < len(r.homes) && r.homes[a.id].generation == a.generation
}

// count is the number of sessions at a worker.
func (r *residents) count(id uint32) int {
	if int(id) >= len(r.homes) {
		return 0
	}
	return r.homes[id].sessions
}

// enter counts a session in at an address that settle gave.
func (r *residents) enter(a address) {
	r.homes[a.id].sessions++
}

// leave counts a session out, unless its worker has gone and its count with it.
func (r *residents) leave(a address) {
	if r.current(a) {
		r.homes[a.id].sessions--
	}
}
