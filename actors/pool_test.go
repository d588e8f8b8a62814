package actors

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"loadstar/actors/policy"
	"loadstar/prefixtree"
)

// TestPoolSaysWhatCountersSay: whatever happens to a fleet, the candidates that
// the pool offers are those that a look at every worker finds, with the loads
// that the counters give.
func TestPoolSaysWhatCountersSay(t *testing.T) {
	o := contained("least_work")
	o.Breaker.FailureThreshold, o.Breaker.SuccessThreshold = 2, 1
	s, err := newState(o, make(chan Event, 1))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	var tickets []ticket
	for step := range 20_000 {
		now += rng.Int64N(int64(o.Breaker.Timeout) / 10)
		url := base(rng.IntN(8))
		switch rng.IntN(10) {
		case 0:
			roles := Roles(rng.IntN(1 << numRoles))
			if rng.IntN(4) == 0 {
				_ = s.setRoles(url, roles) // it may be gone
				break
			}
			_, _ = s.add([]Spec{{URL: url, Base: url, Rank: NoRank, Roles: roles}}) // it may be there
		case 1:
			if rng.IntN(3) == 0 {
				_, _ = s.remove(url) // it may be gone
			}
		case 2:
			var reason string
			if rng.IntN(2) == 0 {
				reason = errors.ErrUnsupported.Error()
			}
			s.reportHealth(url, reason)
		case 3, 4:
			if len(tickets) > 0 {
				i := rng.IntN(len(tickets))
				if rng.IntN(4) == 0 {
					s.firstByte(tickets[i], now)
				}
				c := Cause(rng.IntN(int(numCauses)))
				switch rng.IntN(4) {
				case 0:
					s.progress(tickets[i], now)
				case 1:
					s.withhold(tickets[i])
				}
				s.giveBack(tickets[i], c, now)
				if rng.IntN(2) == 0 {
					s.judge(tickets[i], c, now)
				}
				tickets = slices.Delete(tickets, i, i+1)
			}
		default:
			q := Request{Retry: rng.IntN(8) == 0, Role: Role(rng.IntN(int(numRoles))), Key: make([]uint64, 4), Now: now, reply: make(chan struct{}, 1)}
			for i := range 8 {
				if rng.IntN(2) == 0 {
					q.hits = append(q.hits, prefixtree.Hit{Worker: uint32(i), Blocks: uint32(1 + rng.IntN(4))})
				}
			}
			switch rng.IntN(3) {
			case 0:
				s.acquirePair(&q)
				tickets = append(tickets, q.grant.ticket, q.second.ticket)
			case 1:
				if len(tickets) > 0 {
					q.Movable = true
					i := rng.IntN(len(tickets))
					if s.begin(tickets[i], &q); q.grant.err == nil {
						tickets[i] = q.grant.ticket
					}
				}
			default:
				s.acquire(&q)
				tickets = append(tickets, q.grant.ticket)
			}
			tickets = slices.DeleteFunc(tickets, func(t ticket) bool { return t == ticket{} })
		}
		for role := range numRoles {
			q := Request{Role: role, Now: now}
			got := slices.Clone(s.candidates(&q, role))
			if want := s.gather(&q, role, nil, true); !slices.Equal(got, want) {
				t.Fatalf("step %d, %s: candidates %+v, want %+v", step, role, got, want)
			}
		}
	}
}

func TestPlaceOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		ids  []uint32
	}{
		{"none", nil},
		{"all", []uint32{0, 1, 2, 3}},
		{"gaps", []uint32{1, 4, 5, 9}},
		{"one", []uint32{7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c []policy.Candidate
			for _, id := range tc.ids {
				c = append(c, policy.Candidate{ID: id})
			}
			for id := range uint32(12) {
				i, ok := placeOf(c, id)
				if want := slices.Index(tc.ids, id); ok != (want >= 0) || ok && i != want {
					t.Errorf("placeOf(%d) = %d, %v; want %d", id, i, ok, want)
				}
			}
		})
	}
}
