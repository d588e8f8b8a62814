package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func newAffine(t testing.TB, c []Candidate, change func(*Options)) *affineWork {
	t.Helper()
	o := DefaultOptions()
	o.AffinityTTL = 100 * second
	if change != nil {
		change(&o)
	}
	return build(t, kvAware, o, c).(*affineWork)
}

// visit is one request of a session, without a prompt.
func visit(t *testing.T, p *affineWork, req Request, c []Candidate, wantID uint32, wantReason Reason) {
	t.Helper()
	if got := p.Choose(&req, c); c[got.Index].ID != wantID || got.Reason != wantReason {
		t.Errorf("%s at %d s: worker %d by %v, want %d by %v", req.Affinity, req.Now/second, c[got.Index].ID, got.Reason, wantID, wantReason)
	}
}

func of(session string) Request { return Request{Affinity: []byte(session)} }

func at(session string, now int64) Request { return Request{Affinity: []byte(session), Now: now} }

// A session stays where it was put by cost, though others are cheaper by now, and one
// without an identity is chosen for by cost each time.
func TestAffinityKeeps(t *testing.T) {
	c := loaded(0, 1, 1)
	c[2].Match = 10
	p := newAffine(t, c, nil)
	prompt := Request{Affinity: []byte("s"), Blocks: 10}
	visit(t, p, prompt, c, 2, PrefixHit)
	c[2].Load, c[2].Match = 60, 0
	visit(t, p, prompt, c, 2, SessionKept)
	visit(t, p, Request{Session: []byte("s"), Blocks: 10}, c, 0, PrefixMiss)
	visit(t, p, of("other"), c, 0, PrefixMiss)
	if got := p.Sessions(); got != 2 {
		t.Errorf("Sessions() = %d, want 2", got)
	}
}

func TestAffinityYields(t *testing.T) {
	for _, tc := range []struct {
		name       string
		decode     bool
		loads      []int // worker 0 is the session's
		want       uint32
		wantReason Reason
	}{
		{"balanced", false, []int{60, 0, 5}, 0, SessionKept},
		{"at the absolute threshold", false, []int{64, 0, 5}, 0, SessionKept},
		{"beyond it", false, []int{65, 0, 5}, 1, LoadImbalance},
		{"at the relative threshold", false, []int{300, 250, 200}, 0, SessionKept},
		{"beyond it too", false, []int{301, 250, 200}, 2, LoadImbalance},
		{"another worker is the busy one", false, []int{10, 500, 5}, 0, SessionKept},

		{"decode, idle", true, []int{0, 0, 0}, 0, SessionKept},
		{"decode, at a share of one request", true, []int{1, 0, 1}, 1, LoadImbalance},
		{"decode, below its share", true, []int{3, 4, 4}, 0, SessionKept},
		{"decode, at its share", true, []int{4, 4, 3}, 2, LoadImbalance},
		{"decode, below a share that is rounded up", true, []int{4, 4, 4}, 0, SessionKept},
		{"decode, another is beyond its share", true, []int{2, 9, 1}, 0, SessionKept},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := loaded(0, 1, 1)
			p := newAffine(t, c, nil)
			req := Request{Affinity: []byte("s"), Decode: tc.decode}
			visit(t, p, req, c, 0, PrefixMiss)
			visit(t, p, req, loadedAs(c, tc.loads...), tc.want, tc.wantReason)
			// It lives where it was served.
			visit(t, p, req, loadedAs(c, 0, 0, 0), tc.want, SessionKept)
			if got := p.Sessions(); got != 1 {
				t.Errorf("Sessions() = %d, want 1", got)
			}
		})
	}
}

// One that yields is chosen for by cost, which may be where it was.
func TestAffinityYieldsToCost(t *testing.T) {
	c := loaded(0, 1)
	p := newAffine(t, c, nil)
	req := Request{Affinity: []byte("s"), Blocks: 1000}
	visit(t, p, req, c, 0, PrefixMiss)
	c[0].Load, c[0].Match = 70, 1000
	visit(t, p, req, c, 0, PrefixHit)
	c[0].Load = 300
	visit(t, p, req, c, 1, LoadImbalance)
}

// The share is the one that vllm-router takes: the requests, the new one with them, by
// the workers, rounded up.
func TestAffinityShare(t *testing.T) {
	draws := rand.New(rand.NewPCG(23, 1))
	p := newAffine(t, nil, nil)
	for range 5000 {
		c := fleet(1 + draws.IntN(6))
		total := 1
		for i := range c {
			c[i].Load = draws.IntN(5)
			total += c[i].Load
		}
		share := 0
		for share*len(c) < total {
			share++
		}
		home := draws.IntN(len(c))
		if got, want := p.yields(&Request{Decode: true}, c, home), c[home].Load >= share; got != want {
			t.Fatalf("yields at %d of %+v: %v, want %v", home, c, got, want)
		}
	}
}

func TestAffinityLifetimeSlides(t *testing.T) {
	c := loaded(0, 1)
	p := newAffine(t, c, nil)
	visit(t, p, at("s", 0), c, 0, PrefixMiss)
	loadedAs(c, 1, 0)
	visit(t, p, at("s", 100*second), c, 0, SessionKept)
	visit(t, p, at("s", 200*second), c, 0, SessionKept)
	visit(t, p, at("s", 300*second+1), c, 1, PrefixMiss)
}

// Its lifetime is its own, not that of sticky_least_loaded.
func TestAffinityLifetime(t *testing.T) {
	c := loaded(0, 1)
	p := newAffine(t, c, func(o *Options) { o.SessionTTL, o.AffinityTTL = 1, 50*second })
	visit(t, p, at("s", 0), c, 0, PrefixMiss)
	visit(t, p, at("s", 50*second), loadedAs(c, 1, 0), 0, SessionKept)
}

func TestAffinityMovesOffAWorkerThatIsNoCandidate(t *testing.T) {
	c := loaded(0, 1, 2)
	p := newAffine(t, c, nil)
	visit(t, p, of("s"), c, 0, PrefixMiss)
	visit(t, p, of("s"), c[1:], 1, SessionMoved)
	visit(t, p, of("s"), c, 1, SessionKept)

	p.SetMembers(members(c[:1]))
	p.SetMembers(members(c)) // whoever has come back has an empty cache
	visit(t, p, of("s"), c, 0, SessionMoved)
}

func TestAffinityOfEachModel(t *testing.T) {
	c := loaded(0, 1)
	p := newAffine(t, c, nil)
	req := of("s")
	visit(t, p, req, c, 0, PrefixMiss)
	req.Model = 3
	visit(t, p, req, loadedAs(c, 1, 0), 1, PrefixMiss)
	visit(t, p, req, c, 1, SessionKept)
	visit(t, p, of("s"), c, 0, SessionKept)
	if !p.FinishSession([]byte("s")) || p.Sessions() != 0 || p.FinishSession([]byte("s")) {
		t.Errorf("%d sessions after the end of it, want it ended once with all models", p.Sessions())
	}
}

func TestAffinityForgetsTheLongestIdle(t *testing.T) {
	c := loaded(0, 1)
	p := newAffine(t, c, func(o *Options) { o.SessionCap = 2 })
	for i, s := range []string{"a", "b", "a", "c"} { // c takes the place of b
		p.Choose(&Request{Affinity: []byte(s), Now: int64(i)}, c)
	}
	loadedAs(c, 1, 0)
	visit(t, p, at("a", 5), c, 0, SessionKept)
	visit(t, p, at("c", 6), c, 0, SessionKept)
	visit(t, p, at("b", 7), c, 1, PrefixMiss)
}

// Expired sessions go a few at a time, with any requests.
func TestAffinityClearsExpiredSessions(t *testing.T) {
	c := fleet(2)
	p := newAffine(t, c, nil)
	for i := range 10 {
		p.Choose(&Request{Affinity: fmt.Append(nil, i)}, c)
	}
	for want := 8; want >= 0; want -= 2 {
		p.Choose(&Request{Now: 100*second + 1}, c)
		if got := p.Sessions(); got != want {
			t.Errorf("Sessions() = %d, want %d", got, want)
		}
	}
}

// A request that needs no choice counts in the backlog as one that does, and is
// explained by the prices that it would have been chosen by.
func TestAffinityReckons(t *testing.T) {
	c := fleet(2)
	for i := range c {
		c[i].Pending = 50
	}
	p, plain := newAffine(t, c, nil), newLeastWork("least_work", DefaultOptions())
	for range 100 {
		req := Request{Affinity: []byte("s"), Blocks: 10}
		p.Choose(&req, c)
		plain.Choose(&req, c)
		got, _ := p.Weigh(&req, &c[0])
		if want, _ := plain.Weigh(&req, &c[0]); got != want || want == 0 {
			t.Fatalf("λ = %v, want %v as without affinity", got, want)
		}
	}
}

// New sessions are drawn for where there is a temperature; known ones stay.
func TestAffinityWithTemperature(t *testing.T) {
	c := loaded(0, 1, 2, 3)
	p := newAffine(t, c, func(o *Options) { o.Temperature = 800 })
	homes := map[int]int{}
	for i := range 100 {
		req := of(fmt.Sprint(i))
		home := p.Choose(&req, c).Index
		homes[home]++
		for range 3 {
			visit(t, p, req, c, uint32(home), SessionKept)
		}
	}
	if len(homes) != len(c) {
		t.Errorf("sessions at %v, want some at each", homes)
	}
}

// Whatever is asked, sessions are where a plain map with times says they are.
func TestAffinityAgainstAMap(t *testing.T) {
	type stay struct {
		home uint32
		used int64
	}
	draws := rand.New(rand.NewPCG(24, 1))
	all := fleet(6)
	p := newAffine(t, all, func(o *Options) { o.BalanceAbs, o.BalanceRel = 10, 1.2 })
	stays := map[string]stay{}
	now, kept, left := int64(0), 0, 0
	for step := range 10_000 {
		req, c := scenario(draws, all)
		now += draws.Int64N(20 * second)
		name := fmt.Sprint(draws.IntN(30))
		req.Affinity, req.Session, req.Now, req.Model, req.Decode = []byte(name), nil, now, uint32(draws.IntN(2)), draws.IntN(3) == 0
		name += fmt.Sprint("/", req.Model)
		s, known := stays[name]
		known = known && now-s.used <= 100*second
		low, high, total, load := c[0].Load, 0, 1, -1
		for i := range c {
			low, high, total = min(low, c[i].Load), max(high, c[i].Load), total+c[i].Load
			if c[i].ID == s.home {
				load = c[i].Load
			}
		}
		stands := known && load >= 0
		if req.Decode {
			stands = stands && load*len(c) < total
		} else {
			stands = stands && (load-low <= 10 || float64(load) <= 1.2*float64(low))
		}
		got := p.Choose(&req, c)
		if stands != (got.Reason == SessionKept) || stands && c[got.Index].ID != s.home {
			t.Fatalf("step %d: %+v, worker %d, want kept %v at %d; known %v, load %d of %d to %d", step, got, c[got.Index].ID, stands, s.home, known, load, low, high)
		}
		if stands {
			kept++
		} else {
			left++
		}
		stays[name] = stay{c[got.Index].ID, now}
	}
	if kept < 500 || left < 500 {
		t.Errorf("%d kept and %d not, want many of both", kept, left)
	}
}
