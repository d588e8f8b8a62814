package actors

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// serving is a fleet of one worker for each list of models, all healthy.
func serving(t testing.TB, o Options, lists ...[]string) *Registry {
	t.Helper()
	r := start(t, o)
	for i, models := range lists {
		join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Models: models})
	}
	return r
}

// tellModels has a worker tell its models, and checks whether that is news.
func tellModels(t testing.TB, r *Registry, url string, news bool, models ...string) {
	t.Helper()
	changed, err := r.SetModels(url, models)
	if err != nil || changed != news {
		t.Fatalf("SetModels(%s, %q) = %v, %v; want %v", url, models, changed, err, news)
	}
}

func TestUnknownModel(t *testing.T) {
	asked := &Request{Model: []byte("mistral")}
	t.Run("all members are known", func(t *testing.T) {
		r := serving(t, options("random"), []string{"llama"}, []string{"qwen", "lora"})
		if _, err := r.Acquire(asked); !errors.Is(err, ErrNoModel) || errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v", err, ErrNoModel)
		}
		if _, _, err := r.AcquirePair(asked); !errors.Is(err, ErrNoModel) {
			t.Errorf("AcquirePair: %v, want %v", err, ErrNoModel)
		}
		wantOnly(t, chosen(t, r, Request{}, 64), base(0), base(1))
		wantOnly(t, chosen(t, r, Request{Model: []byte("lora")}, 8), base(1))
	})
	t.Run("one is not", func(t *testing.T) {
		r := serving(t, options("random"), []string{"llama"}, nil)
		wantOnly(t, chosen(t, r, Request{Model: []byte("mistral")}, 8), base(1))
		tellModels(t, r, base(1), true, "qwen")
		if _, err := r.Acquire(asked); !errors.Is(err, ErrNoModel) {
			t.Errorf("Acquire when it has told: %v, want %v", err, ErrNoModel)
		}
	})
	t.Run("nobody is known", func(t *testing.T) {
		r := serving(t, options("random"), nil, nil)
		wantOnly(t, chosen(t, r, Request{Model: []byte("mistral")}, 64), base(0), base(1))
	})
	t.Run("there are no members", func(t *testing.T) {
		r := serving(t, options("random"), []string{"llama"})
		remove(t, r, base(0))
		if _, err := r.Acquire(asked); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
		}
	})
	t.Run("its workers are sick", func(t *testing.T) {
		r := serving(t, options("random"), []string{"mistral"}, []string{"qwen"})
		for range 3 {
			r.ReportHealth(base(0), errDown)
		}
		if _, err := r.Acquire(asked); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
		}
	})
	t.Run("anybody takes it", func(t *testing.T) {
		o := options("random")
		o.AnyForUnknown = true
		r := serving(t, o, []string{"llama"}, []string{"qwen"})
		wantOnly(t, chosen(t, r, Request{Model: []byte("mistral")}, 64), base(0), base(1))
		wantOnly(t, chosen(t, r, Request{Model: []byte("llama")}, 8), base(0))
	})
	t.Run("it waits for room", func(t *testing.T) {
		o := options("random")
		o.Room = RoomOptions{MaxLive: 1, QueueSize: 4, QueueTimeout: time.Hour, Now: func() int64 { return 0 }}
		r := serving(t, o, []string{"llama"}, []string{"mistral"})
		q := &Request{Model: []byte("llama")}
		l, err := r.Acquire(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Acquire(&Request{Model: []byte("qwen")}); !errors.Is(err, ErrNoModel) {
			t.Errorf("Acquire of one that nobody serves: %v, want %v at once", err, ErrNoModel)
		}
		told := make(chan error)
		go func() { _, err := r.Acquire(asked); told <- err }()
		for snap(t, r).Room.Waits == 0 {
			time.Sleep(time.Millisecond)
		}
		remove(t, r, base(1))
		if err := <-told; !errors.Is(err, ErrNoModel) {
			t.Errorf("Acquire of one that nobody serves any more: %v, want %v", err, ErrNoModel)
		}
		l.Release(Completed, 0)
		q.Admission.Release(0)
	})
}

func TestSetModels(t *testing.T) {
	r := serving(t, options("random"), []string{"llama"}, nil)
	tellModels(t, r, base(0), true, "llama", "lora-1")
	tellModels(t, r, base(0), false, "llama", "lora-1")
	tellModels(t, r, base(0), true, "lora-2")
	if got, want := view(t, r, base(0)).Serves, []string{"llama", "lora-2"}; !slices.Equal(got, want) {
		t.Errorf("serves %q, want %q: what it was added for stays", got, want)
	}
	tellModels(t, r, base(0), true)
	tellModels(t, r, base(1), true, "", AnyModel, "qwen", "qwen", string(make([]byte, MaxModelName+1)))
	if got, want := view(t, r, base(1)).Serves, []string{"qwen"}; !slices.Equal(got, want) {
		t.Errorf("serves %q, want %q", got, want)
	}
	if _, err := r.SetModels(base(2), []string{"m"}); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("SetModels of nobody: %v, want %v", err, ErrUnknownWorker)
	}
	l, err := r.Acquire(&Request{Model: []byte("qwen")})
	if err != nil {
		t.Fatal(err)
	}
	tellModels(t, r, base(1), true, "other")
	wantLoad(t, r, base(1), 1)
	l.Release(Completed, 0)
	wantLoad(t, r, base(1), 0)
	remove(t, r, base(1))
	join(t, r, spec(base(1)))
	if got := view(t, r, base(1)).Serves; got != nil {
		t.Errorf("serves %q when it is added again, want what isn't known", got)
	}
}

// All ranks of a server serve what it tells, those too that come later.
func TestRanksServeTheSame(t *testing.T) {
	r := start(t, options("random"))
	for _, s := range Expand(Spec{Base: base(0)}, 2) {
		join(t, r, s)
	}
	tellModels(t, r, base(0), true, "m")
	join(t, r, Spec{URL: base(0) + "@2", Base: base(0), Rank: 2})
	wantOnly(t, chosen(t, r, Request{Model: []byte("m")}, 64), base(0)+"@0", base(0)+"@1", base(0)+"@2")
	if _, err := r.Acquire(&Request{Model: []byte("n")}); !errors.Is(err, ErrNoModel) {
		t.Errorf("Acquire: %v, want %v", err, ErrNoModel)
	}
}

// Whatever workers tell, names are bounded, and a worker whose names find no place
// takes any model.
func TestModelsAreBounded(t *testing.T) {
	names := func(of, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("m-%d-%d", of, i))
		}
		return all
	}
	r := start(t, options("random"))
	const full = maxModels / MaxModelsOfWorker
	for i := range full + 1 {
		join(t, r, spec(base(i)))
		tellModels(t, r, base(i), i < full, names(i, 10*MaxModelsOfWorker)...)
	}
	if n := len(view(t, r, base(0)).Serves); n != MaxModelsOfWorker {
		t.Errorf("a worker serves %d names, want %d", n, MaxModelsOfWorker)
	}
	all, err := r.Models(0)
	if err != nil || len(all) != maxModels {
		t.Errorf("%d models, %v; want %d", len(all), err, maxModels)
	}
	wantOnly(t, chosen(t, r, Request{Model: []byte(names(full, 1)[0])}, 8), base(full))
	remove(t, r, base(0))
	tellModels(t, r, base(full), true, "m-late")
	wantOnly(t, chosen(t, r, Request{Model: []byte("m-late")}, 8), base(full))
}

// TestCatalogSaysWhatWorkersServe: whatever joins, leaves and tells, the catalog is
// what a look at every member finds, and numbers are small and never shared.
func TestCatalogSaysWhatWorkersServe(t *testing.T) {
	o := contained("round_robin")
	o.Breaker.FailureThreshold = 1
	s, err := newState(o, make(chan Event, 1))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	some := func() (all []string) {
		for _, n := range []string{"a", "b", "c", "d", AnyModel, ""} {
			if rng.IntN(3) == 0 {
				all = append(all, n)
			}
		}
		return all
	}
	told := map[WorkerID][]string{}
	now := int64(0)
	for step := range 5000 {
		now += int64(time.Second)
		i := rng.IntN(6)
		switch rng.IntN(5) {
		case 0:
			ids, err := s.add([]Spec{{URL: base(i), Base: base(i), Rank: NoRank, Models: some()}})
			if err == nil {
				told[ids[0]] = nil
				s.reportHealth(base(i), "")
			}
		case 1:
			if rng.IntN(3) == 0 {
				_, _ = s.remove(base(i)) // it may be gone
			}
		case 2:
			names := some()
			if _, err := s.setModels(base(i), names); err == nil {
				told[s.byURL[base(i)]] = names
			}
		default:
			q := Request{Model: []byte{"abcde"[rng.IntN(5)]}, Now: now}
			if s.acquire(&q); q.grant.err == nil && rng.IntN(2) == 0 {
				s.giveBack(q.grant.ticket, ServerError, now)
			}
		}
		checkCatalog(t, s, told, step)
		for _, m := range "abcde" {
			q := Request{Model: []byte(string(m)), Now: now}
			got := slices.Clone(s.candidates(&q, Regular))
			if sc, ok := s.scopeOf(&q); ok {
				if sc.set != nil && len(sc.set.ids) == s.members {
					t.Fatalf("step %d, %c: all members serve it, and it has a set", step, m)
				}
				if want := s.gather(&q, Regular, sc.set, true); !slices.Equal(got, want) {
					t.Fatalf("step %d, %c: candidates %+v, want %+v", step, m, got, want)
				}
			}
		}
	}
}

func checkCatalog(t *testing.T, s *state, told map[WorkerID][]string, step int) {
	t.Helper()
	want, open := map[string][]WorkerID{}, []WorkerID(nil)
	for i := range s.workers {
		w, id := &s.workers[i], WorkerID(i)
		if !w.member {
			continue
		}
		any := true
		for _, n := range slices.Concat(w.spec.Models, told[id]) {
			if n != "" && n != AnyModel {
				any = false
				if !slices.Contains(want[n], id) {
					want[n] = append(want[n], id)
				}
			}
		}
		if any {
			open = append(open, id)
		}
	}
	c := &s.catalog
	if len(c.byName) != len(want) {
		t.Fatalf("step %d: %d models, want %v", step, len(c.byName), want)
	}
	got := map[*set]int{}
	numbers := map[uint32]bool{}
	for name, m := range c.byName {
		if !slices.Equal(m.set.ids, want[name]) {
			t.Fatalf("step %d: %s is served by %v, want %v", step, name, m.set.ids, want[name])
		}
		if numbers[m.number] || m.number == 0 || m.number > 4 {
			t.Fatalf("step %d: %s has the number %d", step, name, m.number)
		}
		numbers[m.number] = true
		got[m.set]++
	}
	if (c.open == nil) != (len(open) == 0) || c.open != nil && !slices.Equal(c.open.ids, open) {
		t.Fatalf("step %d: open is %+v, want %v", step, c.open, open)
	}
	if c.open != nil {
		got[c.open]++
	}
	if len(got) != len(c.sets) {
		t.Fatalf("step %d: %d sets, want %d", step, len(c.sets), len(got))
	}
	pools := map[uint32]bool{}
	for x := range maps.Values(c.sets) {
		if x.users != got[x] || pools[x.pool] || x.pool == 0 || x.pool > 7 {
			t.Fatalf("step %d: set %+v, want %d users", step, x, got[x])
		}
		pools[x.pool] = true
	}
}

// Requests for two models that come in turn go round the workers of each.
func TestRoundRobinPerModel(t *testing.T) {
	r := serving(t, options("round_robin"), []string{"a"}, []string{"a"}, []string{"b"}, []string{"b"})
	got := map[string]int{}
	for range 10 {
		for _, m := range []string{"a", "b"} {
			l, err := r.Acquire(&Request{Model: []byte(m)})
			if err != nil {
				t.Fatal(err)
			}
			got[l.URL]++
			l.Release(Completed, 0)
		}
	}
	for i := range 4 {
		if got[base(i)] != 5 {
			t.Errorf("%s got %d requests, want 5 of 20: %v", base(i), got[base(i)], got)
		}
	}
}

// A session has a worker with each model, and keeps them both.
func TestSessionsPerModel(t *testing.T) {
	r := serving(t, options("sticky_least_loaded"), []string{"a"}, []string{"a"}, []string{"b"}, []string{"b"})
	homes := map[string]string{}
	for i := range 20 {
		for _, m := range []string{"a", "b"} {
			l, err := r.Acquire(&Request{Model: []byte(m), Session: []byte("s"), Head: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			if home := homes[m]; home != "" && l.URL != home {
				t.Fatalf("%s of the session is served at %s, want %s as before", m, l.URL, home)
			}
			homes[m] = l.URL
			acquireN(t, r, 1) // so that the least load is elsewhere
			l.Release(Completed, 0)
		}
	}
	if !r.FinishSession([]byte("s")) || snap(t, r).Sessions != 0 || r.FinishSession([]byte("s")) {
		t.Errorf("%d sessions are left, want none", snap(t, r).Sessions)
	}
}

// Breakers never take out all who serve a model, be they few in their role.
func TestFloorOfAModel(t *testing.T) {
	o := contained("random")
	o.Breaker.FailureThreshold = 1
	lists := [][]string{{"few"}, {"few"}}
	for range 6 {
		lists = append(lists, []string{"many", "more"})
	}
	r := serving(t, o, lists...)
	fail := func(model string, n int) {
		for range n {
			l, err := r.Acquire(&Request{Model: []byte(model)})
			if err != nil {
				t.Fatalf("Acquire for %s: %v", model, err)
			}
			l.Release(ServerError, 0)
		}
	}
	open := func(urls ...string) (n int) {
		for _, u := range urls {
			if view(t, r, u).Breaker != BreakerClosed {
				n++
			}
		}
		return n
	}
	fail("few", 20)
	if n := open(base(0), base(1)); n != 1 {
		t.Errorf("%d breakers of the two that serve few are open, want 1", n)
	}
	// Of one that is left alone with an open breaker, the breaker closes.
	out, in := base(0), base(1)
	if open(out) == 0 {
		out, in = in, out
	}
	for range 3 {
		r.ReportHealth(in, errDown)
	}
	if n := open(out); n != 0 {
		t.Error("the breaker of the only healthy worker of a model is open, want it closed")
	}
	fail("many", 40)
	all := make([]string, 6)
	for i := range all {
		all[i] = base(i + 2)
	}
	if n := open(all...); n != 3 {
		t.Errorf("%d breakers of the six that serve many are open, want 3", n)
	}
}

// A pair is prefilled and decoded where its model is served.
func TestPairPerModel(t *testing.T) {
	o := options("random")
	r := start(t, o)
	for i, m := range []string{"a", "b", "a", "b"} {
		join(t, r, Spec{URL: base(i), Base: base(i), Rank: NoRank, Model: m, Roles: RolesOf([]Role{Prefill, Decode}[i/2])})
	}
	for range 16 {
		p, d, err := r.AcquirePair(&Request{Model: []byte("b")})
		if err != nil || p.URL != base(1) || d.URL != base(3) {
			t.Fatalf("pair %s and %s, %v; want %s and %s", p.URL, d.URL, err, base(1), base(3))
		}
		q := &Request{Model: []byte("b"), Movable: true}
		if d, err = d.Begin(q); err != nil || d.URL != base(3) {
			t.Fatalf("begins at %s, %v; want %s", d.URL, err, base(3))
		}
		p.Release(Completed, 0)
		d.Release(Completed, 0)
	}
	remove(t, r, base(1))
	if _, _, err := r.AcquirePair(&Request{Model: []byte("b")}); !errors.Is(err, ErrNoPrefill) {
		t.Errorf("AcquirePair: %v, want %v: the other one prefills another model", err, ErrNoPrefill)
	}
}

// Requests are counted by model, once whoever serves them.
func TestModelViews(t *testing.T) {
	r := serving(t, options("random"), []string{"a", "lora"}, []string{"a"}, []string{"b"})
	for _, m := range []string{"a", "a", "lora", "b", ""} {
		l, err := r.Acquire(&Request{Model: []byte(m)})
		if err != nil {
			t.Fatal(err)
		}
		l.Release(Completed, 0)
	}
	for range 3 {
		r.ReportHealth(base(1), errDown)
	}
	got, err := r.Models(0)
	slices.SortFunc(got, func(a, b ModelView) int { return int(a.Name[0]) - int(b.Name[0]) })
	if want := []ModelView{{"a", 2, 1, 2}, {"b", 1, 1, 1}, {"lora", 1, 1, 1}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("models %+v, %v; want %+v", got, err, want)
	}
}
