package actors

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

func tell(t *testing.T, r *Registry, origin string, all ...Elsewhere) {
	t.Helper()
	if err := r.SetForeign(origin, all); err != nil {
		t.Fatalf("SetForeign: %v", err)
	}
}

func wantForeign(t *testing.T, r *Registry, url string, want int) {
	t.Helper()
	if got := view(t, r, url).Foreign; got != want {
		t.Errorf("foreign load of %s = %d, want %d", url, got, want)
	}
	wantBalanced(t, r)
}

// What an origin tells replaces what it told before, adds to what others tell,
// and waits for a worker that isn't known yet.
func TestForeignLoad(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	acquireN(t, r, 2)
	tell(t, r, "a", Elsewhere{URL: base(0), N: 3}, Elsewhere{URL: base(5), N: 4})
	tell(t, r, "b", Elsewhere{URL: base(0), N: 2}, Elsewhere{URL: base(1), N: 1})
	wantForeign(t, r, base(0), 5)
	wantForeign(t, r, base(1), 1)
	tell(t, r, "a", Elsewhere{URL: base(5), N: 4})
	wantForeign(t, r, base(0), 2)
	join(t, r, spec(base(5)))
	wantForeign(t, r, base(5), 4)
	remove(t, r, base(5))
	join(t, r, spec(base(5)))
	wantForeign(t, r, base(5), 4)
	tell(t, r, "a")
	tell(t, r, "b")
	for _, url := range []string{base(0), base(1), base(5)} {
		wantForeign(t, r, url, 0)
	}
	wantLoad(t, r, base(0), 1)
}

// It weighs in choices: the least loaded is the one with the least of both.
func TestForeignLoadWeighs(t *testing.T) {
	for _, policy := range []string{"power_of_two", "least_work", "sticky_least_loaded", "cache_aware"} {
		t.Run(policy, func(t *testing.T) {
			o := options(policy)
			o.PolicyOptions.BalanceAbs, o.PolicyOptions.BalanceRel = 1, 1
			r := start(t, o)
			join(t, r, spec(base(0)), spec(base(1)))
			tell(t, r, "a", Elsewhere{URL: base(0), N: 10})
			for i := range 8 {
				if l := acquire(t, r, Request{Head: uint64(i) << 50, Session: fmt.Append(nil, i)}); l.URL != base(1) {
					t.Fatalf("request %d at %s, want %s: the other is busier by far", i, l.URL, base(1))
				}
			}
			wantLoad(t, r, base(0), 0)
			wantForeign(t, r, base(0), 10)
		})
	}
}

// It also counts against a worker's limit, and who waits is served when it goes.
func TestForeignLoadFillsALimit(t *testing.T) {
	o := options("round_robin")
	o.Room = RoomOptions{MaxPerWorker: 2, QueueSize: 4, QueueTimeout: patience, Now: func() int64 { return 0 }}
	r := start(t, o)
	join(t, r, spec(base(0)))
	tell(t, r, "a", Elsewhere{URL: base(0), N: 2})
	served := make(chan error, 1)
	go func() {
		_, err := r.Acquire(&Request{})
		served <- err
	}()
	until(t, "the request to wait", func() bool { return snap(t, r).Room.Waits == 1 })
	tell(t, r, "a", Elsewhere{URL: base(0), N: 1})
	if err := <-served; err != nil {
		t.Errorf("the request that waited: %v, want a lease", err)
	}
	wantLoad(t, r, base(0), 1)
}

// Foreign prompt work weighs too, where a policy reads such work.
func TestForeignPendingWeighs(t *testing.T) {
	r := start(t, options("least_work"))
	join(t, r, spec(base(0)), spec(base(1)))
	acquire(t, r, Request{Key: []uint64{1}}) // from here on the candidates are kept up to date, not made anew
	tell(t, r, Peers, Elsewhere{URL: base(0), Pending: 1000})
	for i := range 8 {
		if l := acquire(t, r, Request{Head: uint64(i) << 50, Key: []uint64{1, 2, 3}}); l.URL != base(1) {
			t.Fatalf("request %d at %s, want %s: much prompt work is pending at the other", i, l.URL, base(1))
		}
	}
	if v := view(t, r, base(0)); v.Pending > 1 || v.ForeignPending != 1000 {
		t.Errorf("pending here %d and elsewhere %d, want 1 at most and 1000", v.Pending, v.ForeignPending)
	}
}

func TestForeignLoadIsBounded(t *testing.T) {
	o := options("random")
	o.MaxWorkers = 3
	r := start(t, o)
	join(t, r, spec(base(0)))
	for i := range MaxOrigins {
		tell(t, r, fmt.Sprint(i), Elsewhere{URL: base(0), N: 1})
	}
	for _, tc := range []struct {
		name   string
		origin string
		all    []Elsewhere
	}{
		{"an origin more", "one more", []Elsewhere{{URL: base(0), N: 1}}},
		{"a worker more", "1", []Elsewhere{{URL: "a", N: 1}, {URL: "b", N: 1}, {URL: "c", N: 1}, {URL: "d", N: 1}}},
		{"below zero", "1", []Elsewhere{{URL: base(0), N: -1}}},
		{"blocks below zero", "1", []Elsewhere{{URL: base(0), Pending: -1}}},
		{"blocks beyond all sense", "1", []Elsewhere{{URL: base(0), Pending: maxForeignPending + 1}}},
		{"beyond all sense", "1", []Elsewhere{{URL: base(0), N: maxForeign + 1}}},
	} {
		if err := r.SetForeign(tc.origin, tc.all); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, want %v", tc.name, err, ErrForeign)
		}
	}
	wantForeign(t, r, base(0), MaxOrigins)
	tell(t, r, "0")
	tell(t, r, "one more", Elsewhere{URL: base(0), N: 7})
	wantForeign(t, r, base(0), MaxOrigins-1+7)
}

// Foreign load and load can't reach each other: weigh alone writes the one, what
// setForeign, believe and lapse call writes no counter of the other and calls nobody
// who does, and load is summed from phases alone.
func TestForeignLoadIsApart(t *testing.T) {
	src := readSource(t)
	w := &writeFinder{source: src, fields: map[*types.Var]string{}, count: map[string]int{}}
	for f := range src.structOf(t, "worker").Fields() {
		if strings.HasPrefix(f.Name(), "foreign") {
			w.fields[f] = "worker." + f.Name()
		}
	}
	if len(w.fields) != 2 {
		t.Fatalf("worker has the fields %v: this test must learn where foreign load is kept", slices.Collect(maps.Values(w.fields)))
	}
	src.each(w.visit)
	got := map[string]int{}
	for place, n := range w.count {
		if strings.Contains(place, "worker.foreign") {
			got[place] = n
		}
	}
	if want := map[string]int{"weigh: worker.foreign =": 1, "weigh: worker.foreignPending =": 1}; !maps.Equal(got, want) {
		t.Errorf("foreign load is written by %v, want %v", got, want)
	}

	calls, reads := map[string][]string{}, map[string][]string{}
	src.each(func(fn string, n ast.Node) {
		x, ok := n.(*ast.SelectorExpr)
		if !ok {
			return
		}
		switch s := src.info.Selections[x]; {
		case s == nil:
		case s.Kind() == types.FieldVal:
			reads[fn] = append(reads[fn], x.Sel.Name)
		case s.Obj().Pkg() == src.pkg:
			calls[fn] = append(calls[fn], x.Sel.Name)
		}
	})
	reach, next := map[string]bool{}, []string{"setForeign", "believe", "lapse"}
	for len(next) > 0 {
		fn := next[0]
		next = next[1:]
		for _, called := range calls[fn] {
			if !reach[called] {
				reach[called] = true
				next = append(next, called)
			}
		}
	}
	for _, fn := range []string{"grant", "advance", "giveBack", "firstByte", "admit", "dismiss", "push", "discharge", "retire", "enlist"} {
		if reach[fn] {
			t.Errorf("foreign load comes to call %s, want it to reach no counter", fn)
		}
	}
	if !reach["weigh"] || !reach["recount"] {
		t.Errorf("foreign load calls %v: this test must learn how it works", reach)
	}
	for _, fn := range []string{"load", "leases"} {
		if slices.Contains(reads[fn], "foreign") || slices.Contains(reads[fn], "said") || !slices.Contains(reads[fn], "inPhase") {
			t.Errorf("%s reads %v, want phases and no foreign load", fn, reads[fn])
		}
	}
}
