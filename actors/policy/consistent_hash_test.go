package policy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// These are decisions of a running vllm-router 0.1.17.
func TestConsistentHashPlacesLikeTheReference(t *testing.T) {
	c := fleet(2)
	c[0].URL, c[1].URL = "http://127.0.0.1:28101", "http://127.0.0.1:28102"
	p := build(t, "consistent_hash", DefaultOptions(), c)
	for i, want := range []int{1, 1, 0, 0, 1, 0, 0, 1, 0, 1} {
		session := fmt.Sprintf("header:x-session-id:s%d", i+1)
		got := p.Choose(&Request{Key: uint64(i), Session: []byte(session)}, c)
		if got.Index != want || got.Reason != Ring {
			t.Errorf("%s: %+v, want worker %d by ring", session, got, want+1)
		}
	}
}

// slowVirtualNodes hashes a worker's points one by one.
func slowVirtualNodes(url string, known map[string][]uint64) []uint64 {
	if known[url] == nil {
		for v := range 160 {
			known[url] = append(known[url], slowReferenceHash(fmt.Appendf(nil, "%s:%d", url, v)))
		}
	}
	return known[url]
}

// slowOwner builds the ring over the candidates alone, from nothing, and walks it
// past the workers that are full.
func slowOwner(place uint64, abs int, c []Candidate, known map[string][]uint64) string {
	type node struct {
		at     uint64
		url    string
		worker int
	}
	var ring []node
	total, open := 0, false
	for i, w := range c {
		for _, at := range slowVirtualNodes(w.URL, known) {
			ring = append(ring, node{at, w.URL, i})
		}
		total += w.Load
	}
	full := func(w Candidate) bool {
		return w.Load >= abs && float64(w.Load+1) > 1.25*float64(total+1)/float64(len(c))
	}
	for _, w := range c {
		open = open || !full(w)
	}
	slices.SortFunc(ring, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.url, b.url))
	})
	start := 0
	for start < len(ring) && ring[start].at < place {
		start++
	}
	for i := range ring {
		n := ring[(start+i)%len(ring)]
		if !open || !full(c[n.worker]) {
			return n.url
		}
	}
	return ""
}

// FuzzConsistentHash drives one policy through joining, leaving, reuse of IDs and
// requests among some of the members.
func FuzzConsistentHash(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 90, 200, 210, 1, 220, 250})
	f.Add(uint64(2), []byte{0, 200, 1, 200, 2, 200, 3, 200, 2, 200, 1, 200})
	f.Add(uint64(3), []byte{1, 19, 2, 200, 210}) // ID 1 changes its URL
	for seed := range uint64(20) {
		draws := rand.New(rand.NewPCG(seed, 2))
		steps := make([]byte, 30)
		for i := range steps {
			steps[i] = byte(draws.UintN(256))
		}
		f.Add(seed, steps)
	}
	known := map[string][]uint64{}
	f.Fuzz(func(t *testing.T, seed uint64, steps []byte) {
		draws := rand.New(rand.NewPCG(seed, 1))
		o := DefaultOptions()
		o.BalanceAbs = 2
		built, err := New("consistent_hash", o)
		if err != nil {
			t.Fatal(err)
		}
		p := built.(*consistentHash)
		var all [6]string // by ID
		for _, b := range steps[:min(len(steps), 30)] {
			if b < 128 {
				id := int(b) % len(all)
				switch {
				case all[id] != "" && b%2 == 0:
					all[id] = ""
				default:
					all[id] = fmt.Sprintf("http://10.0.%d.%d:80", b/16, id)
				}
				var m []Member
				for id, url := range all {
					if url != "" {
						m = append(m, Member{uint32(id), url})
					}
				}
				draws.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
				p.SetMembers(m)
				if want := 160 * len(m); len(p.ring.points) != want {
					t.Fatalf("%d points for %d members, want %d", len(p.ring.points), len(m), want)
				}
				continue
			}
			var c []Candidate
			for id, url := range all {
				if url != "" && draws.IntN(4) > 0 {
					c = append(c, Candidate{ID: uint32(id), URL: url, Hash: Hash(url), Load: draws.IntN(5)})
				}
			}
			if len(c) == 0 {
				continue
			}
			req := Request{Session: fmt.Appendf(nil, "user:%d", draws.Uint64())}
			got := c[p.Choose(&req, c).Index].URL
			if want := slowOwner(slowReferenceHash(req.Session), 2, c, known); got != want {
				t.Fatalf("%s among %v: %s, want %s", req.Session, c, got, want)
			}
		}
	})
}

// Two workers' points can share a place. Its owner must not depend on who joined
// first or on who has the lower ID.
func TestRingSharedPlaces(t *testing.T) {
	var h referenceHasher
	seen := map[uint64]string{}
	var low, high string
	var place uint64
	for i := 0; low == ""; i++ {
		url := fmt.Sprintf("http://w%d:80", i)
		for v := range virtualNodes {
			at := h.sum(fmt.Appendf(nil, "%s:%d", url, v))
			if other, ok := seen[at]; ok && other != url {
				low, high, place = min(url, other), max(url, other), at
			}
			seen[at] = url
		}
	}
	for name, joins := range map[string][][]Member{
		"together, low first":  {{{0, low}, {1, high}}},
		"together, high first": {{{0, high}, {1, low}}},
		"low then high":        {{{0, low}}, {{0, low}, {1, high}}},
		"high then low":        {{{0, high}}, {{0, high}, {1, low}}},
		"high then low below":  {{{1, high}}, {{1, high}, {0, low}}},
		"low then high below":  {{{1, low}}, {{1, low}, {0, high}}},
	} {
		var r ring
		for _, m := range joins {
			r.set(m)
		}
		p := r.points[r.from(place)]
		if p.at != place || r.urls[p.id] != low {
			t.Errorf("%s: %s at %#x, want %s at %#x", name, r.urls[p.id], p.at, low, place)
		}
	}
}

func TestRingFrom(t *testing.T) {
	c := fleet(2)
	p := build(t, "consistent_hash", DefaultOptions(), c).(*consistentHash)
	last := p.ring.points[len(p.ring.points)-1]
	if got := p.ring.from(last.at + 1); got != 0 {
		t.Errorf("from(after the last point) = %d, want 0", got)
	}
	if got := p.ring.from(last.at); got != len(p.ring.points)-1 {
		t.Errorf("from(the last point) = %d, want %d", got, len(p.ring.points)-1)
	}
}

func TestHashPoliciesBoundLoad(t *testing.T) {
	tests := []struct {
		name   string
		loads  []int // the owner's first, then the others'
		moves  bool
		change func(*Options)
	}{
		{name: "idle", loads: []int{0, 0, 0, 0}},
		{name: "busy below the absolute threshold", loads: []int{63, 0, 0, 0}},
		{name: "at the absolute threshold and far above the mean", loads: []int{64, 0, 0, 0}, moves: true},
		{name: "high but near the mean", loads: []int{120, 100, 100, 100}},
		{name: "just within a quarter above the mean", loads: []int{99, 75, 74, 71}},
		{name: "just beyond a quarter above the mean", loads: []int{99, 75, 74, 70}, moves: true},
		{
			name: "all are full", loads: []int{0, 0, 0, 0},
			change: func(o *Options) { o.BalanceAbs = 0 },
		},
	}
	for _, policy := range []string{"consistent_hash", "rendezvous_hash"} {
		for _, withSession := range []bool{false, true} {
			for _, tt := range tests {
				t.Run(fmt.Sprintf("%s/session %v/%s", policy, withSession, tt.name), func(t *testing.T) {
					o := DefaultOptions()
					if tt.change != nil {
						tt.change(&o)
					}
					c := fleet(4)
					p := build(t, policy, o, c)
					req := Request{Key: 5}
					if withSession {
						req.Session = []byte("user:u5")
					}
					owner := p.Choose(&req, c)
					others := 1
					for i := range c {
						if i == owner.Index {
							c[i].Load = tt.loads[0]
						} else {
							c[i].Load = tt.loads[others]
							others++
						}
					}
					got := p.Choose(&req, c)
					if !tt.moves {
						if got != owner {
							t.Errorf("%+v, want the owner %+v", got, owner)
						}
						return
					}
					rest := slices.Delete(slices.Clone(c), owner.Index, owner.Index+1)
					next := rest[p.Choose(&req, rest).Index].ID
					if got.Reason != OwnerFull || c[got.Index].ID != next {
						t.Errorf("%+v, want worker %d, next after the owner, by owner_full", got, next)
					}
				})
			}
		}
	}
}

// A worker that the ring does not know must be reachable all the same.
func TestConsistentHashBeforeMembersAreKnown(t *testing.T) {
	tests := []struct {
		name    string
		members func(c []Candidate) []Member
	}{
		{"no members yet", func([]Candidate) []Member { return nil }},
		{"one missing", func(c []Candidate) []Member { return members(c[:3]) }},
		{"an ID under its last owner's URL", func(c []Candidate) []Member {
			m := members(c)
			m[3].URL = "http://10.9.9.9:8000"
			return m
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := fleet(4)
			p := build(t, "consistent_hash", DefaultOptions(), nil)
			p.(MemberKeeper).SetMembers(tt.members(c))
			got := make([]int, len(c))
			for i := range 128 {
				req := Request{Session: fmt.Appendf(nil, "user:%d", i)}
				choice := p.Choose(&req, c)
				if choice.Reason != Rendezvous {
					t.Fatalf("reason %v, want %v", choice.Reason, Rendezvous)
				}
				got[choice.Index]++
			}
			for i, n := range got {
				if n < 19 || n > 51 {
					t.Errorf("worker %d got %d of 128, want 15 to 40 %%; all: %v", i, n, got)
				}
			}
		})
	}
}

// A candidate without a URL is against the contract; it must not hang or kill the
// registry all the same.
func TestConsistentHashWithoutURLs(t *testing.T) {
	p := build(t, "consistent_hash", DefaultOptions(), nil)
	p.(MemberKeeper).SetMembers([]Member{{ID: 0}, {ID: 1}})
	got := p.Choose(&Request{Key: 1}, []Candidate{{ID: 0}, {ID: 1}})
	if got.Reason != Rendezvous {
		t.Errorf("%+v, want a choice by rendezvous", got)
	}
}

func TestRingSharesAreEven(t *testing.T) {
	const keys = 20_000
	c := fleet(8)
	p := build(t, "consistent_hash", DefaultOptions(), c)
	got := make([]int, len(c))
	for key := range uint64(keys) {
		got[p.Choose(&Request{Key: key}, c).Index]++
	}
	for i, n := range got {
		if n < keys/8*70/100 || n > keys/8*130/100 {
			t.Errorf("worker %d owns %d of %d keys, want within 30 %% of an eighth; all: %v", i, n, keys, got)
		}
	}
}
