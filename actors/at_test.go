package actors

import (
	"reflect"
	"slices"
	"testing"
)

// At tells of a base URL what a snapshot of everything does, whatever has become of
// the workers there.
func TestAt(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	ranked := Expand(Spec{URL: "http://ranks:1", Base: "http://ranks:1", Rank: NoRank, Handle: "of the ranks"}, 3)
	ids := add(t, r, ranked...)
	check := func(what, base string, want int) {
		t.Helper()
		all := []WorkerAt{}
		for _, v := range snap(t, r).Workers {
			if v.Base == base {
				all = append(all, WorkerAt{v.Spec, v.ID, v.Member, v.Healthy, v.Draining})
			}
		}
		got := r.At(base)
		slices.SortFunc(got, func(a, b WorkerAt) int { return int(a.ID) - int(b.ID) })
		if len(got) != want || !reflect.DeepEqual(got, all) {
			t.Errorf("%s: at %s are %+v, want %d as in the snapshot: %+v", what, base, got, want, all)
		}
	}
	check("not checked yet", "http://ranks:1", 3)
	check("one alone", base(0), 1)
	check("unknown", "http://other:1", 0)
	r.ReportHealth("http://ranks:1", nil)
	check("healthy", "http://ranks:1", 3)
	leases := acquireN(t, r, 5)
	if _, err := r.DrainWorkers(ranked[0].URL); err != nil {
		t.Fatal(err)
	}
	check("one drains", "http://ranks:1", 3)
	remove(t, r, ranked[1].URL)
	check("one is removed, and busy", "http://ranks:1", 3)
	check("another, while one is removed and busy", base(0), 1)
	for _, l := range leases {
		if slices.Contains(ids[1:2], l.Worker) {
			l.Release(Completed, 0)
		}
	}
	check("one is removed, and idle", "http://ranks:1", 2)
	for _, l := range leases {
		if l.Worker != ids[1] {
			l.Release(Completed, 0)
		}
	}
	if err := r.Halt(); err != nil {
		t.Fatal(err)
	}
	if got := r.At(base(0)); got != nil {
		t.Errorf("after the end there are %+v, want none", got)
	}
}

// BenchmarkAt is what a health check costs the loop beside its verdict.
func BenchmarkAt(b *testing.B) {
	r := fleet(b, "power_of_two", 1000)
	b.ReportAllocs()
	for b.Loop() {
		r.At(base(500))
	}
}
