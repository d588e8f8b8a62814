package policy

import (
	"fmt"
	"testing"
)

func TestRendezvousHashIsTheReferences(t *testing.T) {
	c := fleet(5)
	p := build(t, "rendezvous_hash", DefaultOptions(), c)
	for i := range 200 {
		session := fmt.Sprintf("header:x-user-id:%d", i)
		want, best := 0, uint64(0)
		for j := range c {
			if score := slowReferenceHash([]byte(session + ":" + c[j].URL)); score >= best {
				want, best = j, score
			}
		}
		got := p.Choose(&Request{Key: 1, Session: []byte(session)}, c)
		if got.Index != want || got.Reason != Rendezvous {
			t.Errorf("%s: %+v, want worker %d by rendezvous", session, got, want)
		}
	}
}

// Without a session the key decides, as it does for ties everywhere.
func TestRendezvousHashWithoutSession(t *testing.T) {
	c := fleet(5)
	p := build(t, "rendezvous_hash", DefaultOptions(), c)
	for key := range uint64(200) {
		got := p.Choose(&Request{Key: key}, c)
		if want := closest(key, c); got.Index != want || got.Reason != Rendezvous {
			t.Errorf("key %d: %+v, want worker %d by rendezvous", key, got, want)
		}
	}
}

// The reference's scores have 23 bits, so two workers do tie; these two were
// searched for. The order of candidates must not decide.
func TestRendezvousHashEqualScores(t *testing.T) {
	p := &rendezvousHash{abs: 64}
	req := Request{Session: []byte("user:u1")}
	seen := map[uint64]string{}
	var a, b string
	for i := 0; a == ""; i++ {
		url := fmt.Sprintf("http://w%d:80", i)
		score := p.hasher.sum([]byte("user:u1:" + url))
		if other, ok := seen[score]; ok {
			a, b = min(url, other), max(url, other)
		}
		seen[score] = url
	}
	for _, c := range [][]Candidate{
		{{ID: 0, URL: a}, {ID: 1, URL: b}},
		{{ID: 0, URL: b}, {ID: 1, URL: a}},
	} {
		if got := c[p.Choose(&req, c).Index].URL; got != a {
			t.Errorf("%s and %s have equal scores: %s, want the lower URL", a, b, got)
		}
	}
}
