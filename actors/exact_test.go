package actors

import (
	"fmt"
	"slices"
	"testing"

	"loadstar/prefixtree"
)

// told is an Exact that answers what the test says, and notes what it is asked and
// told. It is used from one goroutine.
type told struct {
	hits  []ExactHit
	asked int
	heard []string

	before func() // what happens before the next one joins; nil for nothing
}

func (x *told) Match(q *ExactQuery) {
	x.asked++
	q.Hits = append(q.Hits, x.hits...)
	q.Outcome = ExactHeld
}

func (x *told) Join(id WorkerID, url string) {
	if f := x.before; f != nil {
		x.before = nil
		f()
	}
	x.heard = append(x.heard, fmt.Sprintf("%s is %d", url, id))
}

func (x *told) Leave(id WorkerID, url string) {
	x.heard = append(x.heard, fmt.Sprintf("%d leaves as %s", id, url))
}

// exactRouter is a router that asks x.
func exactRouter(t testing.TB, name string, x Exact) *Router {
	t.Helper()
	r, err := NewRouter(RouterOptions{Options: options(name), TreeBytes: 4 << 20, Exact: x})
	if err != nil {
		t.Fatalf("NewRouter: %v", err)
	}
	t.Cleanup(func() { r.Halt() })
	return r
}

// tokenRequest is a request of 40 blocks of prompt and 20 blocks of tokens.
func tokenRequest() Request {
	k := key(0, 40, 7)
	return Request{Key: k, Head: k[0], Tokens: key(0, 20, 9), TokenBlocks: 20}
}

func TestCorrect(t *testing.T) {
	type hits = [][2]uint32 // worker and blocks
	made := func(all hits) (out []prefixtree.Hit) {
		for _, h := range all {
			out = append(out, prefixtree.Hit{Worker: h[0], Blocks: h[1]})
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		tree  hits
		exact []ExactHit
		want  hits
	}{
		{"nothing told", hits{{1, 8}}, nil, hits{{1, 8}}},
		{"more than predicted", hits{{1, 8}}, []ExactHit{{1, 10, true}}, hits{{1, 20}}},
		{"less than predicted", hits{{1, 8}}, []ExactHit{{1, 2, true}}, hits{{1, 4}}},
		{"surely nothing", hits{{1, 8}, {2, 4}}, []ExactHit{{1, 0, true}}, hits{{1, 0}, {2, 4}}},
		{"nothing, not surely", hits{{1, 8}}, []ExactHit{{1, 0, false}}, hits{{1, 8}}},
		{"less, not surely", hits{{1, 8}}, []ExactHit{{1, 2, false}}, hits{{1, 8}}},
		{"more, not surely", hits{{1, 8}}, []ExactHit{{1, 5, false}}, hits{{1, 10}}},
		{"not predicted", hits{{7, 8}}, []ExactHit{{1, 0, true}, {3, 20, true}, {9, 1.5, false}}, hits{{7, 8}, {3, 40}, {9, 3}}},
		{"never more than the prompt", nil, []ExactHit{{1, 30, true}}, hits{{1, 40}}},
		{"in any order", hits{{9, 1}, {3, 1}, {5, 1}}, []ExactHit{{3, 2, true}, {4, 1, true}, {9, 3, true}}, hits{{9, 6}, {3, 4}, {5, 1}, {4, 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := tokenRequest()
			q.exact.Hits = slices.Clone(tc.exact)
			if got := q.correct(made(tc.tree)); !slices.Equal(got, made(tc.want)) {
				t.Errorf("hits %v, want %v", got, tc.want)
			}
		})
	}
}

// What workers tell goes before what the tree predicts, in the choice and in what the
// decision says of it, also when the tree is too busy to be asked.
func TestExactGoesBeforeTheTree(t *testing.T) {
	x := &told{}
	r := exactRouter(t, "kv_aware", x)
	for i := range 3 {
		join(t, r, spec(base(i)))
	}
	q := tokenRequest()
	first := acquire(t, r, q)
	first.Release(Completed, 0)
	statsOf(t, r)
	other := (first.Worker + 1) % 3
	check := func(when string) {
		t.Helper()
		for _, tc := range []struct {
			name        string
			hits        []ExactHit
			want        WorkerID
			match, best int
		}{
			{"it holds what the tree says", []ExactHit{{first.Worker, 20, true}}, first.Worker, 40, 40},
			{"another holds it", []ExactHit{{first.Worker, 0, true}, {other, 19, true}}, other, 38, 38},
		} {
			x.hits = slices.SortedFunc(slices.Values(tc.hits), func(a, b ExactHit) int { return int(a.Worker) - int(b.Worker) })
			l := acquire(t, r, q)
			if d := l.Decision; l.Worker != tc.want || d.Match != tc.match || d.Best != tc.best {
				t.Errorf("%s, %s: worker %d with %d blocks and %d at best, want %d with %d and %d", when, tc.name, l.Worker, d.Match, d.Best, tc.want, tc.match, tc.best)
			}
			l.Release(Completed, 0)
		}
	}
	check("with the tree")
	letGo := holdTree(t, r.tree)
	for r.tree.Insert(key(0, 4, 1), 0) {
	}
	check("without the tree")
	letGo()
}

// A request that is used again has nothing of the one before.
func TestExactHitsAreOfThisRequest(t *testing.T) {
	x := &told{hits: []ExactHit{{0, 20, true}}}
	r := exactRouter(t, "kv_aware", x)
	join(t, r, spec(base(0)))
	q := tokenRequest()
	for i, want := range []int{40, 0} {
		l, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		if l.Decision.Match != want {
			t.Errorf("request %d: %d blocks, want %d", i, l.Decision.Match, want)
		}
		l.Release(Completed, 0)
		statsOf(t, r)
		q.Key, q.Tokens = key(0, 40, 5), nil
	}
}

// Only requests of token ids for a policy that goes by it are a question to Exact.
func TestWhoAsksExact(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		tokens       bool
		want         int
	}{
		{"token ids", "kv_aware", true, 1},
		{"text", "kv_aware", false, 0},
		{"another policy", "least_work", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &told{}
			r := exactRouter(t, tc.policy, x)
			join(t, r, spec(base(0)))
			q := tokenRequest()
			if !tc.tokens {
				q.Tokens = nil
			}
			acquire(t, r, q)
			if x.asked != tc.want {
				t.Errorf("asked %d times, want %d", x.asked, tc.want)
			}
			if got, want := r.NeedsTokens(Regular), tc.policy == "kv_aware"; got != want {
				t.Errorf("NeedsTokens = %v, want %v", got, want)
			}
		})
	}
	for _, role := range []Role{Prefill, Decode} {
		t.Run("pair, for "+role.String(), func(t *testing.T) {
			x := &told{hits: []ExactHit{{1, 20, true}, {3, 20, true}}}
			o := options("random")
			o.Policy[role] = "kv_aware"
			r, err := NewRouter(RouterOptions{Options: o, TreeBytes: 1 << 20, Exact: x})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Halt()
			for i := range 4 {
				join(t, r, roleSpec(base(i), []Role{Prefill, Prefill, Decode, Decode}[i]))
			}
			q := tokenRequest()
			p, d, err := r.AcquirePair(&q)
			if err != nil {
				t.Fatal(err)
			}
			got, want := p.Worker, WorkerID(1)
			if role == Decode {
				got, want = d.Worker, 3
			}
			if x.asked != 1 || got != want {
				t.Errorf("asked %d times, worker %d, want once and %d", x.asked, got, want)
			}
			p.Release(Completed, 0)
			d.Release(Completed, 0)
		})
	}
}

// Exact hears of every worker that comes and goes.
func TestExactHearsOfMembers(t *testing.T) {
	x := &told{}
	r := exactRouter(t, "kv_aware", x)
	join(t, r, spec(base(0)), spec(base(1)))
	remove(t, r, base(0))
	join(t, r, spec(base(0)))
	l := acquireAt(t, r.Registry, base(1))
	d, err := r.DrainWorkers(base(1))
	if err != nil {
		t.Fatal(err)
	}
	if !r.EndDrain(&d[0]) {
		t.Fatal("EndDrain = false, want true")
	}
	l.Release(Completed, 0)
	want := []string{base(0) + " is 0", base(1) + " is 1", "0 leaves as " + base(0), base(0) + " is 0", "1 leaves as " + base(1)}
	if !slices.Equal(x.heard, want) {
		t.Errorf("heard %q, want %q", x.heard, want)
	}
	// One that was added again, before it was told that it has left.
	r.Drained(&Drain{ID: 0, URL: base(0), Base: base(0)})
	if want = append(want, "0 leaves as "+base(0), base(0)+" is 0"); !slices.Equal(x.heard, want) {
		t.Errorf("heard %q, want %q", x.heard, want)
	}
	// One that is removed before it was told that it has joined.
	x.before = func() { remove(t, r, base(2)) }
	add(t, r, spec(base(2)))
	if want = append(want, "1 leaves as "+base(2), base(2)+" is 1", "1 leaves as "+base(2)); !slices.Equal(x.heard, want) {
		t.Errorf("heard %q, want %q", x.heard, want)
	}
	none := &told{}
	join(t, exactRouter(t, "least_work", none), spec(base(0)))
	if len(none.heard) > 0 {
		t.Errorf("heard %q under another policy, want nothing", none.heard)
	}
}
