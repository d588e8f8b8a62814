package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"loadstar/actors/policy"
)

// chosen is how often each worker was chosen for a request, with every lease
// given back at once. One that excludes workers is a retry and comes after a
// first attempt, which takes the turn where turns are taken.
func chosen(t *testing.T, r acquirer, q Request, n int) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for i := range n {
		q.Head = uint64(i) * 0x9e3779b97f4a7c15
		if len(q.Exclude) > 0 {
			first := q
			first.Exclude = nil
			l := acquire(t, r, first)
			l.Release(Aborted, q.Now)
		}
		l := acquire(t, r, q)
		got[l.URL]++
		l.Release(Completed, q.Now)
	}
	return got
}

// wantOnly checks that exactly these workers were chosen.
func wantOnly(t *testing.T, got map[string]int, want ...string) {
	t.Helper()
	for _, url := range want {
		if got[url] == 0 {
			t.Errorf("chosen: %v, want %s among them", got, url)
		}
	}
	if len(got) != len(want) {
		t.Errorf("chosen: %v, want %v and no other", got, want)
	}
}

// A worker that failed a request gets it again only when there is no other,
// under every policy: a retry that insists on other workers than there are
// would fail for nothing.
func TestExclusion(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			r := fleet(t, name, 3)
			id := func(i int) WorkerID { return view(t, r, base(i)).ID }
			a, b, c := id(0), id(1), id(2)
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{b}}, 64), base(0), base(2))
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{b, a}}, 8), base(2))
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{b, a, c}}, 64), base(0), base(1), base(2))
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{77, b, b}}, 64), base(0), base(2))

			for range 3 {
				r.ReportHealth(base(2), errDown)
			}
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{a}}, 8), base(1))
			wantOnly(t, chosen(t, r, Request{Exclude: []WorkerID{a, b}}, 64), base(0), base(1))
		})
	}
}

// Exclusion never makes an ineligible worker eligible.
func TestExclusionOfAllThatAreSick(t *testing.T) {
	r := fleet(t, "random", 2)
	ids := []WorkerID{view(t, r, base(0)).ID, view(t, r, base(1)).ID}
	for i := range 2 {
		for range 3 {
			r.ReportHealth(base(i), errDown)
		}
	}
	if _, err := r.Acquire(&Request{Exclude: ids}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
	}
}

// A request goes to the workers of its model where some member is known to serve
// it, and otherwise to those of which it isn't known what they serve. One that names
// no model goes to anyone.
func TestModels(t *testing.T) {
	llama, qwen, open := base(0), base(1), base(2)
	fleet := func(t *testing.T) *Registry {
		r := start(t, options("random"))
		for url, model := range map[string]string{llama: "llama", qwen: "qwen", open: ""} {
			join(t, r, Spec{URL: url, Base: url, Rank: NoRank, Model: model})
		}
		return r
	}
	for _, tc := range []struct {
		name, model string
		want        []string
	}{
		{"known", "llama", []string{llama}},
		{"another", "qwen", []string{qwen}},
		{"unknown to all", "mistral", []string{open}},
		{"none asked for", "", []string{llama, qwen, open}},
		{"the name for any", AnyModel, []string{open}},
		{"case matters", "Llama", []string{open}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantOnly(t, chosen(t, fleet(t), Request{Model: []byte(tc.model)}, 64), tc.want...)
		})
	}
	t.Run("its only worker is sick", func(t *testing.T) {
		r := fleet(t)
		for range 3 {
			r.ReportHealth(llama, errDown)
		}
		if _, err := r.Acquire(&Request{Model: []byte("llama")}); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v: no other serves the model", err, ErrNoWorker)
		}
	})
	t.Run("its only worker has gone", func(t *testing.T) {
		r := fleet(t)
		remove(t, r, llama)
		wantOnly(t, chosen(t, r, Request{Model: []byte("llama")}, 64), open)
	})
	t.Run("its only worker is excluded", func(t *testing.T) {
		r := fleet(t)
		q := Request{Model: []byte("llama"), Exclude: []WorkerID{view(t, r, llama).ID}}
		wantOnly(t, chosen(t, r, q, 8), llama)
	})
	t.Run("two serve it, one goes", func(t *testing.T) {
		r := fleet(t)
		join(t, r, Spec{URL: base(3), Base: base(3), Rank: NoRank, Model: "llama"})
		wantOnly(t, chosen(t, r, Request{Model: []byte("llama")}, 64), llama, base(3))
		remove(t, r, llama)
		wantOnly(t, chosen(t, r, Request{Model: []byte("llama")}, 8), base(3))
	})
	t.Run("comes back with another model", func(t *testing.T) {
		r := fleet(t)
		l := acquireAt(t, r, llama)
		remove(t, r, llama)
		join(t, r, Spec{URL: llama, Base: llama, Rank: NoRank, Model: "qwen"})
		wantOnly(t, chosen(t, r, Request{Model: []byte("qwen")}, 64), llama, qwen)
		wantOnly(t, chosen(t, r, Request{Model: []byte("llama")}, 64), open)
		wantLoad(t, r, llama, 1)
		l.Release(Completed, 0)
	})
}

// A role's requests go to that role's workers, in that role's phase.
func TestRoles(t *testing.T) {
	r := start(t, options("random"))
	for i, role := range []Role{Regular, Prefill, Decode} {
		join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Roles: RolesOf(role)})
	}
	for i, want := range []Phase{Plain, Prefilling, Decoding} {
		role := Role(i)
		wantOnly(t, chosen(t, r, Request{Role: role}, 8), base(i))
		l := acquire(t, r, Request{Role: role})
		got := view(t, r, base(i)).InPhase
		if got[want] != 1 {
			t.Errorf("%v lease stands in %v, want one in %v", role, got, want)
		}
		l.Release(Completed, 0)
		wantLoad(t, r, base(i), 0)
	}
	remove(t, r, base(1))
	if _, err := r.Acquire(&Request{Role: Prefill}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire for a role without workers: %v, want %v", err, ErrNoWorker)
	}
}

// Policies see members in the order of their numbers, and only those that may
// serve: round robin goes round whoever is left.
func TestRoundRobinGoesRoundWhoIsLeft(t *testing.T) {
	r := fleet(t, "round_robin", 4)
	leases := acquireN(t, r, 8)
	for i := range 4 {
		wantLoad(t, r, base(i), 2)
	}
	remove(t, r, base(2))
	for range 3 {
		r.ReportHealth(base(0), errDown)
	}
	acquireN(t, r, 4)
	for i, want := range []int{2, 4, 2, 4} {
		wantLoad(t, r, base(i), want)
	}
	for i := range leases {
		leases[i].Release(Completed, 0)
	}
	for i, want := range []int{0, 2, -1, 2} {
		if want >= 0 {
			wantLoad(t, r, base(i), want)
		}
	}
}

// Load is seen live: the least loaded of two is the one whose lease has just
// come back.
func TestChoiceSeesLiveLoad(t *testing.T) {
	r := fleet(t, "least_work", 2)
	a, b := acquire(t, r, Request{}), acquire(t, r, Request{})
	if a.URL == b.URL {
		t.Fatalf("two requests both went to %s, want one each", a.URL)
	}
	for range 20 {
		a.Release(Completed, 0)
		next := acquire(t, r, Request{})
		if next.URL != a.URL {
			t.Fatalf("chosen %s, want %s: it has just become idle", next.URL, a.URL)
		}
		a, b = b, next
	}
}

// A session ends where a policy keeps it, in whichever role.
func TestSessions(t *testing.T) {
	r := fleet(t, "sticky_least_loaded", 4)
	session := []byte("header:x-session-id:s1")
	first := acquire(t, r, Request{Session: session})
	for i := range 16 {
		l := acquire(t, r, Request{Session: session, Head: uint64(i)})
		if l.URL != first.URL {
			t.Fatalf("request %d of the session went to %s, want %s", i, l.URL, first.URL)
		}
		l.Release(Completed, 0)
	}
	if got := snap(t, r).Sessions; got != 1 {
		t.Errorf("sessions = %d, want 1", got)
	}
	if !r.FinishSession(session) {
		t.Error("FinishSession of a known session = false, want true")
	}
	if r.FinishSession(session) {
		t.Error("second FinishSession = true, want false")
	}
	if got := snap(t, r).Sessions; got != 0 {
		t.Errorf("sessions = %d, want 0", got)
	}
	if fleet(t, "random", 1).FinishSession(session) {
		t.Error("FinishSession under a policy without sessions = true, want false")
	}
}

// A policy that keeps its own view of the fleet is told of every change, with
// the workers of its role and no other.
func TestPoliciesKnowTheMembers(t *testing.T) {
	r := start(t, options("consistent_hash"))
	join(t, r, spec(base(0)), spec(base(1)))
	join(t, r, Spec{URL: base(2), Base: base(2), Rank: NoRank, Roles: RolesOf(Decode)})
	check := func(when string) {
		t.Helper()
		alone, err := policy.New("consistent_hash", policy.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		var members []policy.Member
		var candidates []policy.Candidate
		for _, w := range snap(t, r).Workers {
			if w.Member && w.Roles.Has(Regular) {
				members = append(members, policy.Member{ID: uint32(w.ID), URL: w.URL})
				candidates = append(candidates, policy.Candidate{ID: uint32(w.ID), URL: w.URL, Hash: policy.Hash(w.URL), Cost: 1})
			}
		}
		alone.(policy.MemberKeeper).SetMembers(members)
		for i := range 64 {
			session := fmt.Appendf(nil, "header:x-session-id:%d", i)
			l := acquire(t, r, Request{Session: session})
			l.Release(Completed, 0)
			c := alone.Choose(&policy.Request{Session: session}, candidates)
			if want := candidates[c.Index].URL; l.URL != want || l.Decision.Reason != c.Reason {
				t.Errorf("%s, session %d went to %s (%v), want %s (%v)", when, i, l.URL, l.Decision.Reason, want, c.Reason)
			}
		}
	}
	check("at the start")
	join(t, r, spec(base(3)))
	check("after one has joined")
	remove(t, r, base(0))
	check("after one has left")
	join(t, r, spec(base(0)), spec(base(4)))
	check("after it has come back with another")
}

func TestNewRegistryFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(o *Options)
		want string
	}{
		{"unknown policy", func(o *Options) { o.Policy[Regular] = "best_of_all" }, `"best_of_all"`},
		{"unknown policy of decode", func(o *Options) { o.Policy[Decode] = "worst" }, `"worst"`},
		{"no policy", func(o *Options) { o.Policy[Prefill] = "" }, `""`},
		{"threshold", func(o *Options) { o.PolicyOptions.CacheThreshold = 2 }, "--cache-threshold"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("cache_aware")
			tc.set(&o)
			r, err := NewRegistry(o)
			if r != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("NewRegistry: %v, want an error with %s", err, tc.want)
			}
			if router, err := NewRouter(RouterOptions{Options: o}); router != nil || err == nil {
				t.Errorf("NewRouter: %v, want an error", err)
			}
		})
	}
}
