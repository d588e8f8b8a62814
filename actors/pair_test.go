package actors

import (
	"errors"
	"testing"

	"loadstar/actors/policy"
)

const (
	p0, p1 = "http://p0:8000", "http://p1:8000"
	d0, d1 = "http://d0:8000", "http://d1:8000"
)

func roleSpec(url string, roles ...Role) Spec {
	return Spec{URL: url, Base: url, Rank: NoRank, Roles: RolesOf(roles...)}
}

// split returns a registry with two workers for prefill and two for decode.
func split(t testing.TB, policyName string) *Registry {
	t.Helper()
	r := start(t, options(policyName))
	join(t, r, roleSpec(p0, Prefill), roleSpec(p1, Prefill), roleSpec(d0, Decode), roleSpec(d1, Decode))
	return r
}

type pairer interface {
	AcquirePair(q *Request) (prefill, decode Lease, err error)
}

func acquirePair(t testing.TB, r pairer, q Request) (prefill, decode Lease) {
	t.Helper()
	prefill, decode, err := r.AcquirePair(&q)
	if err != nil {
		t.Fatalf("AcquirePair: %v", err)
	}
	return prefill, decode
}

func begin(t testing.TB, l Lease, q Request) Lease {
	t.Helper()
	begun, err := l.Begin(&q)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return begun
}

// wantPhases checks how many leases of two workers stand in each phase of a
// pair.
func wantPhases(t testing.TB, r *Registry, when string, urls [2]string, want map[Phase]int) {
	t.Helper()
	got := map[Phase]int{}
	load := 0
	for _, url := range urls {
		v := view(t, r, url)
		load += v.Load
		for p, n := range v.InPhase {
			got[Phase(p)] += n
		}
	}
	for _, p := range []Phase{Plain, Reserved, Prefilling, Decoding} {
		if got[p] != want[p] {
			t.Errorf("%s: %d leases of %v in %v, want %d", when, got[p], urls, p, want[p])
		}
	}
	if want := want[Plain] + want[Prefilling] + want[Decoding]; load != want {
		t.Errorf("%s: load of %v = %d, want %d", when, urls, load, want)
	}
	wantBalanced(t, r)
}

// While requests are in prefill their decode workers show no load, only
// reservations; afterwards they show it until the bodies end.
func TestPairPhases(t *testing.T) {
	const n = 20
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			r := split(t, name)
			var prefills, decodes []Lease
			for i := range n {
				p, d := acquirePair(t, r, Request{Head: uint64(i) * 0x9e3779b97f4a7c15, Key: key(0, 8, uint64(i))})
				prefills, decodes = append(prefills, p), append(decodes, d)
			}
			ps, ds := [2]string{p0, p1}, [2]string{d0, d1}
			wantPhases(t, r, "in prefill", ps, map[Phase]int{Prefilling: n})
			wantPhases(t, r, "in prefill", ds, map[Phase]int{Reserved: n})
			for i := range decodes {
				prefills[i].Release(Completed, 0)
				decodes[i] = begin(t, decodes[i], Request{})
			}
			wantPhases(t, r, "in decode", ps, nil)
			wantPhases(t, r, "in decode", ds, map[Phase]int{Decoding: n})
			for i := range decodes {
				decodes[i].Release(Completed, 0)
			}
			wantPhases(t, r, "at the end", ds, nil)
			if s := snap(t, r); s.Refused != 0 {
				t.Errorf("%d releases refused, want 0", s.Refused)
			}
		})
	}
}

// What is reserved is seen by those who choose meanwhile: requests that arrive
// together don't all end at one decode worker.
func TestReservationsSpread(t *testing.T) {
	for _, name := range []string{"power_of_two", "least_work", "cache_aware", "sticky_least_loaded"} {
		t.Run(name, func(t *testing.T) {
			r := split(t, name)
			for i := range 20 {
				acquirePair(t, r, Request{Head: uint64(i) * 0x9e3779b97f4a7c15})
			}
			for _, url := range []string{d0, d1} {
				if got := view(t, r, url).InPhase[Reserved]; got < 8 {
					t.Errorf("%d of 20 reservations at %s, want about half", got, url)
				}
			}
		})
	}
}

// A pair is granted whole or not at all, and the error says who is missing.
func TestPairAllOrNothing(t *testing.T) {
	r := split(t, "round_robin")
	remove(t, r, d0)
	remove(t, r, d1)
	if _, _, err := r.AcquirePair(&Request{}); !errors.Is(err, ErrNoDecode) || !errors.Is(err, ErrNoWorker) {
		t.Errorf("AcquirePair without decode workers: %v, want %v", err, ErrNoDecode)
	}
	join(t, r, roleSpec(d0, Decode))
	remove(t, r, p0)
	remove(t, r, p1)
	if _, _, err := r.AcquirePair(&Request{}); !errors.Is(err, ErrNoPrefill) || !errors.Is(err, ErrNoWorker) {
		t.Errorf("AcquirePair without prefill workers: %v, want %v", err, ErrNoPrefill)
	}
	if s := snap(t, r); s.Granted != 0 {
		t.Errorf("%d leases granted for pairs that could not be, want 0", s.Granted)
	}
	r.Drain(t.Context())
	if _, _, err := r.AcquirePair(&Request{}); !errors.Is(err, ErrStopped) {
		t.Errorf("AcquirePair after drain: %v, want %v", err, ErrStopped)
	}
}

// A prompt of which the decode worker lacks little isn't prefilled elsewhere.
func TestShortPrompts(t *testing.T) {
	router := startRouter(t, "cache_aware", 1<<20)
	r := router.Registry
	join(t, router, roleSpec(p0, Prefill), roleSpec(d0, Decode))
	for _, tc := range []struct {
		name   string
		prompt uint64
		blocks int
		short  int
		whole  bool
	}{
		{"shorter", 1, 7, 8, true},
		{"as long", 2, 8, 8, false},
		{"no bound", 3, 0, 0, false},
		{"long, not cached", 4, 100, 8, false},
		{"long, cached but for a few", 4, 104, 8, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, d := acquirePair(t, router, Request{Key: key(0, tc.blocks, tc.prompt), Short: tc.short})
			if got := p.registry == nil; got != tc.whole {
				t.Errorf("no prefill = %v, want %v", got, tc.whole)
			}
			want := map[Phase]int{Reserved: 1, Prefilling: 1}
			if tc.whole {
				want = map[Phase]int{Plain: 1}
			}
			wantPhases(t, r, "granted", [2]string{p0, d0}, want)
			p.Release(Completed, 0)
			d.Release(Completed, 0)
			wantPhases(t, r, "returned", [2]string{p0, d0}, nil)
			router.TreeStats() // behind the inserts
		})
	}
}

// Begin takes another decode worker where it may and the reserved one has
// become unfit, and the reservation ends with that.
func TestBeginMoves(t *testing.T) {
	sick := func(t *testing.T, r *Registry, d Lease) {
		for range 3 {
			r.ReportHealth(d.URL, errDown)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, r *Registry, d Lease)
		moves  bool
	}{
		{"nothing changed", func(*testing.T, *Registry, Lease) {}, false},
		{"sick", sick, true},
		{"removed", func(t *testing.T, r *Registry, d Lease) { remove(t, r, d.URL) }, true},
		{"removed and added again", func(t *testing.T, r *Registry, d Lease) {
			remove(t, r, d.URL)
			join(t, r, roleSpec(d.URL, Decode))
		}, true},
		{"for prefill only", func(t *testing.T, r *Registry, d Lease) {
			if err := r.SetRoles(d.URL, RolesOf(Prefill)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"breaker open", func(t *testing.T, r *Registry, d Lease) {
			for range 5 {
				onLoop(t, r, func(s *state) { s.giveBack(s.grant(d.Worker, Decoding, work{}, 0), ServerError, 0) })
			}
		}, true},
		{"much busier", func(t *testing.T, r *Registry, d Lease) {
			onLoop(t, r, func(s *state) {
				for range 65 {
					s.grant(d.Worker, Decoding, work{}, 0)
				}
			})
		}, true},
		{"a little busier", func(t *testing.T, r *Registry, d Lease) {
			onLoop(t, r, func(s *state) {
				for range 64 {
					s.grant(d.Worker, Decoding, work{}, 0)
				}
			})
		}, false},
	} {
		for _, movable := range []bool{true, false} {
			name := tc.name
			if !movable {
				name += ", may not move"
			}
			t.Run(name, func(t *testing.T) {
				r := split(t, "power_of_two")
				_, d := acquirePair(t, r, Request{})
				tc.change(t, r, d)
				begun := begin(t, d, Request{Movable: movable})
				moved := begun.ticket != d.ticket
				if want := tc.moves && movable; moved != want {
					t.Fatalf("moved = %v, want %v", moved, want)
				}
				if v := view(t, r, begun.URL); v.InPhase[Decoding] == 0 || v.InPhase[Reserved] != 0 {
					t.Errorf("leases of %s = %v, want one in decode and none reserved", begun.URL, v.InPhase)
				}
				wantBalanced(t, r)
				before := snap(t, r)
				if moved {
					d.Release(Completed, 0)
				}
				begun.Release(Completed, 0)
				after := snap(t, r)
				if after.Live != before.Live-1 {
					t.Errorf("live = %d, want %d: both names are one lease", after.Live, before.Live-1)
				}
				if want := map[bool]uint64{true: 1}[moved]; after.Refused != want {
					t.Errorf("%d releases refused, want %d", after.Refused, want)
				}
			})
		}
	}
}

// Begin leaves the reservation alone when there is nowhere to go, and is refused
// for what isn't reserved.
func TestBeginFails(t *testing.T) {
	r := split(t, "round_robin")
	p, d := acquirePair(t, r, Request{})
	remove(t, r, d0)
	remove(t, r, d1)
	if _, err := d.Begin(&Request{Movable: true}); !errors.Is(err, ErrNoDecode) {
		t.Errorf("Begin without decode workers: %v, want %v", err, ErrNoDecode)
	}
	if got := view(t, r, d.URL).InPhase[Reserved]; got != 1 {
		t.Errorf("%d reserved, want the one that could not begin", got)
	}
	for _, l := range []Lease{p, begin(t, d, Request{})} {
		if _, err := l.Begin(&Request{}); !errors.Is(err, ErrLeaseEnded) {
			t.Errorf("Begin of a lease that isn't reserved: %v, want %v", err, ErrLeaseEnded)
		}
		l.Release(Completed, 0)
		if _, err := l.Begin(&Request{}); !errors.Is(err, ErrLeaseEnded) {
			t.Errorf("Begin of a lease that has ended: %v, want %v", err, ErrLeaseEnded)
		}
	}
	if s := snap(t, r); s.Live != 0 || s.Refused != 4 {
		t.Errorf("live = %d, refused = %d, want 0 and 4", s.Live, s.Refused)
	}
	if err := r.Halt(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Begin(&Request{}); !errors.Is(err, ErrStopped) {
		t.Errorf("Begin at the end: %v, want %v", err, ErrStopped)
	}
}

// A worker that serves both phases is one worker: its load is the sum.
func TestBothRoles(t *testing.T) {
	r := start(t, options("round_robin"))
	join(t, r, roleSpec(p0, Prefill, Decode))
	p, d := acquirePair(t, r, Request{})
	wantLoad(t, r, p0, 1)
	d = begin(t, d, Request{})
	wantLoad(t, r, p0, 2)
	if got, want := view(t, r, p0).Roles.String(), "prefill+decode"; got != want {
		t.Errorf("roles = %q, want %q", got, want)
	}
	if err := r.SetRoles(p0, RolesOf(Decode)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.AcquirePair(&Request{}); !errors.Is(err, ErrNoPrefill) {
		t.Errorf("AcquirePair after the prefill role is gone: %v, want %v", err, ErrNoPrefill)
	}
	wantLoad(t, r, p0, 2)
	p.Release(Completed, 0)
	d.Release(Completed, 0)
	wantLoad(t, r, p0, 0)
	if err := r.SetRoles(p1, RolesOf(Decode)); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("SetRoles of no member: %v, want %v", err, ErrUnknownWorker)
	}
}

// A whole request may run at a worker of any role.
func TestWholeRequestAtARole(t *testing.T) {
	r := split(t, "round_robin")
	l := acquire(t, r, Request{Role: Decode, Whole: true})
	if got := view(t, r, l.URL).InPhase[Plain]; got != 1 {
		t.Errorf("%d plain leases at %s, want 1", got, l.URL)
	}
	l.Release(Completed, 0)
}

// Pairs find the prefix they share, through the tree.
func TestPairsThroughTheTree(t *testing.T) {
	router := startRouter(t, "cache_aware", 1<<20)
	join(t, router, roleSpec(p0, Prefill), roleSpec(p1, Prefill), roleSpec(d0, Decode), roleSpec(d1, Decode))
	for g := range 8 {
		q := Request{Key: key(0, 64, uint64(g)), Head: uint64(g) * 0x9e3779b97f4a7c15}
		p, d := acquirePair(t, router, q)
		router.TreeStats() // behind the inserts
		for range 4 {
			p2, d2 := acquirePair(t, router, q)
			if p2.URL != p.URL || d2.URL != d.URL {
				t.Errorf("prefix %d went to %s and %s, then to %s and %s, want the same", g, p.URL, d.URL, p2.URL, d2.URL)
			}
			if p2.Decision.Match != 64 || d2.Decision.Match != 64 {
				t.Errorf("prefix %d matched %d and %d blocks, want 64", g, p2.Decision.Match, d2.Decision.Match)
			}
		}
	}
}
