package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fleet makes n idle workers with IDs from 0.
func fleet(n int) []Candidate {
	c := make([]Candidate, n)
	for i := range c {
		url := fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256)
		c[i] = Candidate{ID: uint32(i), URL: url, Hash: Hash(url), Cost: 1}
	}
	return c
}

// loaded makes workers with the given loads.
func loaded(loads ...int) []Candidate {
	c := fleet(len(loads))
	for i := range c {
		c[i].Load = loads[i]
	}
	return c
}

func members(c []Candidate) []Member {
	m := make([]Member, len(c))
	for i := range c {
		m[i] = Member{ID: c[i].ID, URL: c[i].URL}
	}
	return m
}

// build makes a policy that knows the workers c as the fleet.
func build(t testing.TB, name string, o Options, c []Candidate) Policy {
	t.Helper()
	p, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := p.(MemberKeeper); ok {
		k.SetMembers(members(c))
	}
	return p
}

// tieBreakers are the policies that must spread equal workers by key.
var tieBreakers = []string{
	"power_of_two", "cache_aware", "consistent_hash", "rendezvous_hash", "sticky_least_loaded", "least_work", "kv_aware",
}

func TestNewMakesEveryName(t *testing.T) {
	want := []string{
		"random", "round_robin", "power_of_two", "cache_aware",
		"consistent_hash", "rendezvous_hash", "sticky_least_loaded", "least_work", "kv_aware",
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	for _, name := range Names() {
		p, err := New(name, DefaultOptions())
		if err != nil {
			t.Errorf("New(%q): %v", name, err)
			continue
		}
		if p.Name() != name {
			t.Errorf("New(%q).Name() = %q, want the same", name, p.Name())
		}
		wantPrefixes := name == "cache_aware" || name == "least_work" || name == "kv_aware"
		if got := NeedsPrefixes(name); got != wantPrefixes {
			t.Errorf("NeedsPrefixes(%q) = %v, want %v", name, got, wantPrefixes)
		}
		if got, want := NeedsWork(name), name == "least_work" || name == "kv_aware"; got != want {
			t.Errorf("NeedsWork(%q) = %v, want %v", name, got, want)
		}
		if got, want := NeedsExact(name), name == "kv_aware"; got != want {
			t.Errorf("NeedsExact(%q) = %v, want %v", name, got, want)
		}
		_, keepsMembers := p.(MemberKeeper)
		if want := name == "consistent_hash" || name == "sticky_least_loaded"; keepsMembers != want {
			t.Errorf("%s is a MemberKeeper: %v, want %v", name, keepsMembers, want)
		}
		_, keepsSessions := p.(SessionKeeper)
		if want := name == "sticky_least_loaded"; keepsSessions != want {
			t.Errorf("%s is a SessionKeeper: %v, want %v", name, keepsSessions, want)
		}
	}
	if NeedsPrefixes("nonsense") {
		t.Error("NeedsPrefixes of an unknown policy = true, want false")
	}
}

func TestNewReportsEveryFault(t *testing.T) {
	o := Options{
		CacheThreshold: math.NaN(),
		BalanceAbs:     -1,
		BalanceRel:     0.5,
		SessionTTL:     0,
		SessionCap:     maxSessionCap + 1,
		Temperature:    math.Inf(1),
		AffinityTTL:    -1,
		MissBacklog:    0,
		MissCap:        math.Inf(1),
		BacklogDecay:   1,
		LoadBlocks:     -2,
	}
	_, err := New("best_of_all", o)
	if err == nil {
		t.Fatal("New gave no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		`unknown policy "best_of_all": use one of random, round_robin, `,
		"--cache-threshold is NaN: give a number from 0 to 1",
		"--balance-abs-threshold is -1: give ",
		"--balance-rel-threshold is 0.5: give ",
		"the session lifetime in nanoseconds is 0: give ",
		"the number of sessions remembered is 16777217: give a number from 1 to 16777216",
		"--router-temperature is +Inf: give a number of at least 0",
		"the lifetime of kv_aware's sessions in nanoseconds is -1: give ",
		"least_work's backlog per prompt is 0: give ",
		"least_work's limit on the price of a miss is +Inf: give ",
		"least_work's decay of the backlog is 1: give ",
		"least_work's price of a running request is -2: give ",
	}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%v", len(lines), len(want), err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d = %q, want it to begin with %q", i, lines[i], want[i])
		}
	}
}

func TestNewKnownNameWithBadOptions(t *testing.T) {
	o := DefaultOptions()
	o.CacheThreshold = 1.5
	p, err := New("cache_aware", o)
	if p != nil || err == nil {
		t.Fatalf("New = %v, %v, want an error only", p, err)
	}
	for _, temperature := range []float64{-1e-9, math.NaN(), math.Inf(1), math.Inf(-1)} {
		o := DefaultOptions()
		o.Temperature = temperature
		if p, err := New(kvAware, o); p != nil || err == nil {
			t.Errorf("a temperature of %v: New = %v, %v, want an error only", temperature, p, err)
		}
	}
	if want := "--cache-threshold is 1.5: give a number from 0 to 1"; err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"threshold 0":      func(o *Options) { o.CacheThreshold = 0 },
		"threshold 1":      func(o *Options) { o.CacheThreshold = 1 },
		"abs 0":            func(o *Options) { o.BalanceAbs = 0 },
		"rel 1":            func(o *Options) { o.BalanceRel = 1 },
		"one session":      func(o *Options) { o.SessionCap = 1 },
		"all sessions":     func(o *Options) { o.SessionCap = maxSessionCap },
		"no price of miss": func(o *Options) { o.MissCap = 0 },
		"no memory":        func(o *Options) { o.BacklogDecay = 0 },
		"no load":          func(o *Options) { o.LoadBlocks = 0 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v, want no error", name, err)
		}
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		name := r.String()
		if name == "unknown" || name == "" || seen[name] {
			t.Errorf("Reason(%d) = %q, want a name of its own", r, name)
		}
		seen[name] = true
	}
	for _, r := range []Reason{0, Pinned + 1, 255} {
		if got := r.String(); got != "unknown" {
			t.Errorf("Reason(%d) = %q, want unknown", r, got)
		}
	}
}

// A request without a session on an idle fleet has only its key to go by. The
// reference sends all of them to one worker.
func TestIdleFleetSpreadsKeys(t *testing.T) {
	shares := []struct {
		workers   int
		low, high float64
	}{
		{2, .35, .65},
		{3, .20, .47},
		{4, .15, .40},
		{8, .04, .24},
	}
	keys := map[string]func(i int) uint64{
		"random keys": func() func(int) uint64 {
			draws := rand.New(rand.NewPCG(1, 2))
			return func(int) uint64 { return draws.Uint64() }
		}(),
		"small keys":     func(i int) uint64 { return uint64(i) },
		"high bits only": func(i int) uint64 { return uint64(i) << 56 },
	}
	for _, name := range tieBreakers {
		for kind, key := range keys {
			for _, s := range shares {
				t.Run(fmt.Sprintf("%s/%s/%d workers", name, kind, s.workers), func(t *testing.T) {
					const requests = 128
					c := fleet(s.workers)
					p := build(t, name, DefaultOptions(), c)
					got := make([]int, len(c))
					for i := range requests {
						got[p.Choose(&Request{Key: key(i), Blocks: 10}, c).Index]++
					}
					for i, n := range got {
						if share := float64(n) / requests; share < s.low || share > s.high {
							t.Errorf("worker %d got %d of %d, want %.0f to %.0f %%; all: %v",
								i, n, requests, 100*s.low, 100*s.high, got)
						}
					}
				})
			}
		}
	}
}

// The same for new sessions, whose requests share a system prompt and so a key.
func TestIdleFleetSpreadsSessions(t *testing.T) {
	for _, name := range []string{"consistent_hash", "rendezvous_hash", "sticky_least_loaded"} {
		t.Run(name, func(t *testing.T) {
			const requests = 128
			c := fleet(4)
			p := build(t, name, DefaultOptions(), c)
			got := make([]int, len(c))
			for i := range requests {
				session := fmt.Appendf(nil, "header:x-session-id:%d", i)
				got[p.Choose(&Request{Key: 7, Blocks: 10, Session: session}, c).Index]++
			}
			for i, n := range got {
				if n < 19 || n > 51 {
					t.Errorf("worker %d got %d of %d, want 15 to 40 %%; all: %v", i, n, requests, got)
				}
			}
		})
	}
}

// scenario draws a request and the state of a fleet; some states are full of
// ties and some have workers missing.
func scenario(draws *rand.Rand, all []Candidate) (Request, []Candidate) {
	req := Request{Key: draws.Uint64(), Blocks: draws.IntN(100)}
	if draws.IntN(2) == 0 {
		req.Session = fmt.Appendf(nil, "user:%d", draws.IntN(40))
	}
	level := []int{1, 3, 300}[draws.IntN(3)]
	var c []Candidate
	for _, w := range all {
		if draws.IntN(5) == 0 {
			continue
		}
		w.Load = draws.IntN(level)
		w.Pending = draws.IntN(level)
		w.Match = draws.IntN(min(level, req.Blocks+1))
		c = append(c, w)
	}
	if len(c) == 0 {
		c = append(c, all[draws.IntN(len(all))])
	}
	return req, c
}

func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	for _, name := range tieBreakers {
		t.Run(name, func(t *testing.T) {
			draws := rand.New(rand.NewPCG(3, 4))
			all := fleet(9)
			if name == "power_of_two" {
				all = all[:2] // the draw is by position; with two, both are drawn
			}
			sorted, shuffled := build(t, name, DefaultOptions(), all), build(t, name, DefaultOptions(), all)
			for step := range 3000 {
				req, c := scenario(draws, all)
				req.Now = int64(step)
				d := slices.Clone(c)
				draws.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
				a, b := sorted.Choose(&req, c), shuffled.Choose(&req, d)
				if c[a.Index].ID != d[b.Index].ID || a.Reason != b.Reason ||
					a.MaxLoad != b.MaxLoad || a.MinLoad != b.MinLoad || a.Imbalanced != b.Imbalanced {
					t.Fatalf("step %d: sorted %s %+v, shuffled %s %+v, want the same",
						step, c[a.Index].URL, a, d[b.Index].URL, b)
				}
			}
		})
	}
}

// A second router numbers the same workers otherwise.
func TestAnotherRouterPlacesAlike(t *testing.T) {
	for _, name := range tieBreakers {
		t.Run(name, func(t *testing.T) {
			draws := rand.New(rand.NewPCG(5, 6))
			all := fleet(9)
			if name == "power_of_two" {
				all = all[:2]
			}
			renumbered := map[string]uint32{}
			for i, id := range draws.Perm(len(all)) {
				renumbered[all[i].URL] = uint32(id)
			}
			renumber := func(c []Candidate) []Candidate {
				c = slices.Clone(c)
				for i := range c {
					c[i].ID = renumbered[c[i].URL]
				}
				return c
			}
			here, there := build(t, name, DefaultOptions(), all), build(t, name, DefaultOptions(), renumber(all))
			for step := range 2000 {
				req, c := scenario(draws, all)
				req.Now = int64(step)
				a, b := here.Choose(&req, c), there.Choose(&req, renumber(c))
				if a != b {
					t.Fatalf("step %d: here %+v, there %+v, want the same", step, a, b)
				}
			}
		})
	}
}

func TestLosingOneWorkerMovesOnlyItsKeys(t *testing.T) {
	tests := []struct {
		policy  string
		session bool
	}{
		{"cache_aware", false},
		{"least_work", false},
		{"sticky_least_loaded", false},
		{"consistent_hash", false},
		{"consistent_hash", true},
		{"rendezvous_hash", false},
		{"rendezvous_hash", true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/session %v", tt.policy, tt.session), func(t *testing.T) {
			c := fleet(6)
			p := build(t, tt.policy, DefaultOptions(), c)
			for key := range uint64(300) {
				req := Request{Key: key, Blocks: 10}
				if tt.session {
					req.Session = fmt.Appendf(nil, "user:%d", key)
				}
				owner := p.Choose(&req, c).Index
				for gone := range c {
					rest := slices.Delete(slices.Clone(c), gone, gone+1)
					got := rest[p.Choose(&req, rest).Index].ID
					if gone != owner && got != c[owner].ID {
						t.Fatalf("key %d moved from %d to %d when %d left", key, owner, got, gone)
					}
					if gone == owner && got == c[owner].ID {
						t.Fatalf("key %d stayed with %d, which left", key, owner)
					}
				}
			}
		})
	}
}

// The keys of a worker that left must not all fall on one other.
func TestLosingOneWorkerSpreadsItsKeys(t *testing.T) {
	c := fleet(4)
	p := build(t, "cache_aware", DefaultOptions(), c)
	got := make([]int, len(c))
	for key := range uint64(1200) {
		req := Request{Key: key, Blocks: 10}
		if p.Choose(&req, c).Index == 3 {
			got[p.Choose(&req, c[:3]).Index]++
		}
	}
	for i, n := range got[:3] {
		if n < 60 || n > 140 {
			t.Errorf("worker %d inherited %d, want about 100; all: %v", i, n, got)
		}
	}
}
