package actors

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors/policy"
)

const (
	w0, w1 = "http://r0:8000", "http://r1:8000"
)

// modelSpec is a worker of roles for one model.
func modelSpec(url, model string, roles ...Role) Spec {
	s := roleSpec(url, roles...)
	s.Models = []string{model}
	return s
}

// TestBeside: a model that is served in two phases goes there, others go whole to
// regular workers, and so does what one of the phases has nobody for.
func TestBeside(t *testing.T) {
	pair := []Spec{modelSpec(p0, "split", Prefill), modelSpec(d0, "split", Decode)}
	sick := func(specs []Spec, urls ...string) []Spec {
		for i := range specs {
			if slices.Contains(urls, specs[i].URL) {
				specs[i].Handle = "sick"
			}
		}
		return specs
	}
	both := func() []Spec {
		return []Spec{modelSpec(p0, "m", Prefill), modelSpec(d0, "m", Decode), modelSpec(w0, "m", Regular)}
	}
	for _, tc := range []struct {
		name    string
		fleet   []Spec
		q       Request
		exclude []string
		want    []string // of a pair, or the one that does the whole
		as      Role     // it is served
		err     error
	}{
		{name: "a model of pairs", fleet: append(pair, modelSpec(w0, "whole", Regular)), q: Request{Model: []byte("split")}, want: []string{p0, d0}, as: Decode},
		{name: "a model of regular workers", fleet: append(pair, modelSpec(w0, "whole", Regular)), q: Request{Model: []byte("whole")}, want: []string{w0}, as: Regular},
		{name: "nobody's model", fleet: append(pair, modelSpec(w0, "whole", Regular)), q: Request{Model: []byte("x")}, err: ErrNoModel},
		{name: "no model", fleet: append(pair, modelSpec(w0, "whole", Regular)), want: []string{p0, d0}, as: Decode},
		{name: "a model of both", fleet: both(), q: Request{Model: []byte("m")}, want: []string{p0, d0}, as: Decode},
		{name: "a short prompt", fleet: both(), q: Request{Model: []byte("m"), Short: 1}, want: []string{d0}, as: Decode},
		{name: "no prefill", fleet: sick(both(), p0), q: Request{Model: []byte("m")}, want: []string{w0}, as: Regular},
		{name: "no decode", fleet: sick(both(), d0), q: Request{Model: []byte("m")}, want: []string{w0}, as: Regular},
		{name: "no regular", fleet: sick(both(), w0), q: Request{Model: []byte("m")}, want: []string{p0, d0}, as: Decode},
		{name: "nobody", fleet: sick(both(), p0, d0, w0), q: Request{Model: []byte("m")}, err: ErrNoWorker},
		{name: "neither prefill nor regular", fleet: sick(both(), p0, w0), q: Request{Model: []byte("m")}, err: ErrNoWorker},
		{name: "a decode worker that failed", fleet: both(), q: Request{Model: []byte("m")}, exclude: []string{d0}, want: []string{w0}, as: Regular},
		{name: "a prefill worker that failed", fleet: both(), q: Request{Model: []byte("m")}, exclude: []string{p0}, want: []string{w0}, as: Regular},
		{name: "all have failed", fleet: both(), q: Request{Model: []byte("m")}, exclude: []string{p0, d0, w0}, want: []string{p0, d0}, as: Decode},
		{name: "those that are left have failed", fleet: sick(both(), d0), q: Request{Model: []byte("m")}, exclude: []string{w0}, want: []string{w0}, as: Regular},
	} {
		for _, name := range policy.Names() {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				r := start(t, options(name))
				ids := map[string]WorkerID{}
				for _, s := range tc.fleet {
					if s.Handle == nil {
						ids[s.URL] = join(t, r, s)[0]
					} else {
						ids[s.URL] = add(t, r, s)[0] // no check has found it healthy
					}
				}
				q := tc.q
				q.Beside = true
				for _, url := range tc.exclude {
					q.Exclude = append(q.Exclude, ids[url])
				}
				prefill, decode, err := r.AcquirePair(&q)
				if !errors.Is(err, tc.err) {
					t.Fatalf("AcquirePair: %v, want %v", err, tc.err)
				}
				if tc.err != nil {
					return
				}
				got := []string{decode.URL}
				if prefill.URL != "" {
					got = []string{prefill.URL, decode.URL}
				}
				if !slices.Equal(got, tc.want) || q.Served() != tc.as {
					t.Errorf("granted %q as %v, want %q as %v", got, q.Served(), tc.want, tc.as)
				}
				if tc.as == Regular {
					if v := view(t, r, decode.URL); v.Load != 1 || v.InPhase[Plain] != 1 {
						t.Errorf("load %d in phases %v, want one in %v", v.Load, v.InPhase, Plain)
					}
				}
				prefill.Release(Completed, 0)
				decode.Release(Completed, 0)
				for _, s := range tc.fleet {
					wantLoad(t, r, s.URL, 0)
				}
				wantBalanced(t, r)
			})
		}
	}
}

// TestBesideWhole: what has no phases goes to its role, and whole to a regular worker
// where that has nobody; one that isn't Beside never does.
func TestBesideWhole(t *testing.T) {
	r := start(t, options("round_robin"))
	join(t, r, modelSpec(d0, "split", Decode), modelSpec(w0, "whole", Regular), modelSpec(w1, "whole", Regular))
	for _, tc := range []struct {
		name string
		q    Request
		want []string
		err  error
	}{
		{"its role", Request{Role: Decode, Whole: true, Beside: true, Model: []byte("split")}, []string{d0}, nil},
		{"regular", Request{Role: Decode, Whole: true, Beside: true, Model: []byte("whole")}, []string{w0, w1}, nil},
		{"of the other role", Request{Role: Prefill, Whole: true, Beside: true, Model: []byte("whole")}, []string{w0, w1}, nil},
		{"nobody", Request{Role: Prefill, Whole: true, Beside: true, Model: []byte("split")}, nil, ErrNoWorker},
		{"not beside", Request{Role: Decode, Whole: true, Model: []byte("whole")}, nil, ErrNoDecode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for range 2 * len(tc.want) {
				l := acquire(t, r, tc.q)
				got = append(got, l.URL)
				l.Release(Completed, 0)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, tc.want) {
				t.Errorf("granted %q, want %q", got, tc.want)
			}
			if _, err := r.Acquire(&tc.q); tc.err != nil && !errors.Is(err, tc.err) {
				t.Errorf("Acquire: %v, want %v", err, tc.err)
			}
		})
	}
}

// TestBesideWaits: a request that finds both kinds at their limit waits, and goes to
// whoever has room first.
func TestBesideWaits(t *testing.T) {
	for _, tc := range []struct {
		name string
		free string // whose leases end
		want []string
	}{
		{"for the pair", d0, []string{p0, d0}},
		{"for a regular worker", w0, []string{"", w0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := roomy(t, 0, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
				join(t, r, roleSpec(p0, Prefill), roleSpec(d0, Decode), roleSpec(w0, Regular))
				held := map[string]Lease{}
				prefill, decode := acquirePair(t, r, Request{Beside: true})
				prefill.Release(Completed, 0)
				held[d0] = decode
				_, whole := acquirePair(t, r, Request{Beside: true}) // since the decode worker is at its limit
				if whole.URL != w0 {
					t.Fatalf("the second is at %s, want %s", whole.URL, w0)
				}
				held[w0] = whole
				q := &Request{Beside: true}
				var p, d Lease
				var err error
				done := inBackground(func() { p, d, err = r.AcquirePairFor(q, make(client)) })
				synctest.Wait()
				if got := snap(t, r); got.Room.Waiting[0] != 1 {
					t.Fatalf("%v wait, want 1", got.Room.Waiting)
				}
				l := held[tc.free]
				l.Release(Completed, 0)
				finish(t, "the third", done)
				if got := []string{p.URL, d.URL}; err != nil || !slices.Equal(got, tc.want) {
					t.Errorf("granted %q, %v; want %q", got, err, tc.want)
				}
				wantBalanced(t, r)
			})
		})
	}
}

// TestBesideWaitsFor: whom a request waits for, though the other kind has nobody, or
// somebody free.
func TestBesideWaitsFor(t *testing.T) {
	const pin = 7
	for _, tc := range []struct {
		name  string
		fleet []Spec
		full  []string // of which each has its one request
		q     Request
		want  string // once that is over who has the request
	}{
		{"a pair, without regular workers", []Spec{roleSpec(p0, Prefill), roleSpec(d0, Decode)}, []string{d0}, Request{}, d0},
		{"a regular worker, without prefill workers", []Spec{roleSpec(d0, Decode), roleSpec(w0, Regular)}, []string{w0}, Request{}, w0},
		{"a pinned regular worker, with a free pair", []Spec{roleSpec(p0, Prefill), roleSpec(d0, Decode), roleSpec(w0, Regular)}, []string{w0}, Request{Pin: pin}, w0},
		{"a pinned worker, with a free regular one", []Spec{roleSpec(p0, Prefill), roleSpec(d0, Decode), roleSpec(w0, Regular)}, []string{d0}, Request{Pin: pin}, d0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := roomy(t, 0, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
				join(t, r, tc.fleet...)
				var held []Lease
				for _, url := range tc.full {
					role := Decode
					if url == w0 {
						role = Regular
					}
					l := acquire(t, r, Request{Role: role})
					l.Pin(pin)
					held = append(held, l)
				}
				q := tc.q
				q.Beside = true
				var p, d Lease
				var err error
				done := inBackground(func() { p, d, err = r.AcquirePairFor(&q, make(client)) })
				synctest.Wait()
				if got := snap(t, r); got.Room.Waiting[0] != 1 {
					t.Fatalf("%v wait, want 1; granted %s and %s, %v", got.Room.Waiting, p.URL, d.URL, err)
				}
				for _, l := range held {
					l.Release(Completed, 0)
				}
				finish(t, "the wait", done)
				if err != nil || d.URL != tc.want {
					t.Errorf("granted %q, %v; want %q", d.URL, err, tc.want)
				}
			})
		})
	}
}

// TestBesidePinned: what goes on from something at a regular worker goes there, while
// it is there.
func TestBesidePinned(t *testing.T) {
	const pin = 7
	r := start(t, options("round_robin"))
	ids := join(t, r, roleSpec(p0, Prefill), roleSpec(d0, Decode), roleSpec(w0, Regular), roleSpec(w1, Regular))
	l := acquire(t, r, Request{Role: Regular, Exclude: ids[2:3]})
	l.Pin(pin)
	for range 3 {
		if got := acquire(t, r, Request{Role: Decode, Whole: true, Beside: true, Pin: pin}); got.URL != w1 {
			t.Errorf("served at %s, want %s", got.URL, w1)
		}
	}
	if got := acquire(t, r, Request{Role: Decode, Whole: true, Beside: true, Pin: pin, Exclude: ids[3:]}); got.URL == w1 {
		t.Errorf("served at %s, which has failed it", got.URL)
	}
	remove(t, r, w1)
	if got := acquire(t, r, Request{Role: Decode, Whole: true, Beside: true, Pin: pin}); got.URL == w1 {
		t.Errorf("served at %s, which is no member", got.URL)
	}
}

// TestBesideInLine: one that regular workers may serve is not held up by one that they
// may not, and came before.
func TestBesideInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 0, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
		join(t, r, roleSpec(d0, Decode), roleSpec(w0, Regular))
		acquire(t, r, Request{Role: Decode})
		held := acquire(t, r, Request{Role: Regular})
		first, second := r.call(&Request{Role: Decode}), r.call(&Request{Role: Decode, Beside: true})
		held.Release(Completed, 0)
		wantAnswer(t, second, nil)
		if !first.waits() || second.lease.URL != w0 {
			t.Errorf("the second is at %s and the first waits: %v; want %s and true", second.lease.URL, first.waits(), w0)
		}
	})
}
