package actors

import (
	"fmt"
	"slices"
	"testing"

	"loadstar/actors/policy"
)

// A choice is explained by what was known when it was made: the chosen worker first,
// then the best of the others, no more than are wanted.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name, policy  string
		workers, most int
		want          int // workers told of
		weighs        bool
	}{
		{name: "all", policy: "least_work", workers: 3, most: 16, want: 3, weighs: true},
		{name: "the best", policy: "least_work", workers: 40, most: 16, want: 16, weighs: true},
		{name: "no more than the figures of the chosen", policy: "least_work", workers: 3, most: 0, want: 0, weighs: true},
		{name: "a policy without costs", policy: "cache_aware", workers: 40, most: 5, want: 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRouter(t, tt.policy, 1<<20)
			for i := range tt.workers {
				join(t, r, spec(base(i)))
			}
			q := &Request{Key: key(0, 64, 1), Explain: &Explanation{Most: tt.most}}
			for n := range 3 * tt.workers {
				q.Head++
				if n == 2*tt.workers {
					q.Key = key(0, 64, 2) // so that not all have the prompt
				}
				q.Explain.Clear()
				l, err := r.Acquire(q)
				if err != nil {
					t.Fatal(err)
				}
				e := &q.Explain.Of[Regular]
				if !e.Made() || e.Policy != tt.policy || e.Reason != l.Decision.Reason || e.Blocks != 64 || e.Total != tt.workers || e.Weighs != tt.weighs {
					t.Fatalf("%+v, want the decision %+v", e, l.Decision)
				}
				if v := view(t, r.Registry, l.URL); e.Chosen.URL != l.URL || e.Chosen.Match != l.Decision.Match || e.Chosen.Load != v.Load-1 {
					t.Fatalf("chosen %+v, want %s with match %d and load %d", e.Chosen, l.URL, l.Decision.Match, v.Load-1)
				}
				if len(e.Workers) != tt.want {
					t.Fatalf("%d workers, want %d", len(e.Workers), tt.want)
				}
				seen := map[string]bool{}
				for _, w := range e.Workers {
					seen[w.URL] = true
				}
				if len(seen) != tt.want || tt.want > 0 && (e.Workers[0] != e.Chosen || !slices.IsSortedFunc(e.Workers[1:], better)) {
					t.Fatalf("workers %+v", e.Workers)
				}
			}
			for role := range q.Explain.Of {
				if got := q.Explain.Of[role].Made(); got != (role == int(Regular)) {
					t.Errorf("a choice for role %d: %v", role, got)
				}
			}
		})
	}
}

// Those that are told of are the best of all, in order.
func TestExplainTakesTheBest(t *testing.T) {
	for _, name := range []string{"least_work", "cache_aware"} {
		t.Run(name, func(t *testing.T) { explainsTheBest(t, startRouter(t, name, 1<<20)) })
	}
}

func explainsTheBest(t *testing.T, r *Router) {
	t.Helper()
	const all, most = 30, 8
	for i := range all {
		join(t, r, spec(base(i)))
	}
	onLoop(t, r.Registry, func(s *state) {
		c := make([]policy.Candidate, all)
		for i := range c {
			c[i] = policy.Candidate{ID: uint32(i), URL: base(i), Load: i * 7 % all}
		}
		var e Explained
		s.explain(&e, most, 0, Regular, c, &policy.Choice{Index: 5})
		want := []string{base(5)}
		for load := range all {
			for i := range c {
				if c[i].Load == load && i != 5 && len(want) < most {
					want = append(want, base(i))
				}
			}
		}
		var got []string
		for _, w := range e.Workers {
			got = append(got, w.URL)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("workers %v, want %v", got, want)
		}
	})
}

// Both choices of a pair are explained.
func TestExplainPair(t *testing.T) {
	r := startRouter(t, "least_work", 1<<20)
	for i := range 4 {
		join(t, r, roleSpec(base(i), []Role{Prefill, Decode}[i%2]))
	}
	q := &Request{Key: key(0, 64, 1), Explain: &Explanation{Most: 4}}
	p, d, err := r.AcquirePair(q)
	if err != nil {
		t.Fatal(err)
	}
	of := &q.Explain.Of
	if of[Prefill].Chosen.URL != p.URL || of[Decode].Chosen.URL != d.URL || of[Regular].Made() {
		t.Errorf("%+v, want %s and %s", of, p.URL, d.URL)
	}
}

// What explains a pinned request is the pin: no policy was asked.
func TestExplainPinned(t *testing.T) {
	r := startRouter(t, "least_work", 1<<20)
	for i := range 4 {
		join(t, r, spec(base(i)))
	}
	q := &Request{Key: key(0, 64, 1)}
	first, err := r.Acquire(q)
	if err != nil {
		t.Fatal(err)
	}
	first.Pin(7)
	q.Pin, q.Explain = 7, &Explanation{Most: 4}
	if _, err := r.Acquire(q); err != nil {
		t.Fatal(err)
	}
	if e := &q.Explain.Of[Regular]; e.Reason != policy.Pinned || e.Weighs || e.Chosen.URL != first.URL {
		t.Errorf("%+v, want pinned to %s", e, first.URL)
	}
}

func BenchmarkExplain(b *testing.B) {
	for _, most := range []int{-1, 0, 16} { // -1 for no explanation
		b.Run(fmt.Sprintf("most=%d", most), func(b *testing.B) {
			r := startRouter(b, "least_work", 1<<20)
			for i := range 64 {
				join(b, r, spec(base(i)))
			}
			q := &Request{Key: key(0, 64, 1)}
			if most >= 0 {
				q.Explain = &Explanation{Most: most}
			}
			b.ReportAllocs()
			for b.Loop() {
				q.Head++
				l, err := r.Acquire(q)
				if err != nil {
					b.Fatal(err)
				}
				l.Release(Completed, 0)
			}
		})
	}
}
