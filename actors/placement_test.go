package actors

import (
	"fmt"
	"reflect"
	"testing"
)

// sharing is routedFleet for a router that keeps what it places.
func sharing(t *testing.T, n, treeBytes int) *Router {
	t.Helper()
	o := RouterOptions{Options: options("cache_aware"), TreeBytes: treeBytes, KeepPlacements: true}
	r, err := NewRouter(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Halt() })
	for i := range n {
		join(t, r, spec(base(i)))
	}
	return r
}

// place has a router place a prompt, and returns where.
func place(t *testing.T, r *Router, k []uint64) string {
	t.Helper()
	l, err := r.Acquire(&Request{Key: k, Head: k[0]})
	if err != nil {
		t.Fatal(err)
	}
	l.Release(Completed, 0)
	return l.URL
}

// What a router places is collected once, with repetitions left out and long prompts
// cut, and makes another router place the same prompts there.
func TestPlacementsTeachAnotherRouter(t *testing.T) {
	a, b := sharing(t, 4, 4<<20), sharing(t, 4, 4<<20)
	join(t, a, spec("http://elsewhere:1"))
	at := map[uint64]string{}
	var keys [][]uint64
	for i := range uint64(20) {
		keys = append(keys, key(3, 40, i<<8))
	}
	keys = append(keys, key(0, 2*MaxPlacementBlocks, 77))
	for range 3 {
		for _, k := range keys {
			at[k[len(k)-1]] = place(t, a, k)
		}
	}
	all := a.Placed()
	if len(all) != len(keys) {
		t.Fatalf("%d placements of %d prompts, want each once", len(all), len(keys))
	}
	elsewhere := 0
	for i, p := range all {
		want := Placement{at[keys[i][len(keys[i])-1]], keys[i][:min(len(keys[i]), MaxPlacementBlocks)]}
		if !reflect.DeepEqual(p, want) {
			t.Errorf("placement %d is of %d blocks at %s, want %d at %s", i, len(p.Key), p.Worker, len(want.Key), want.Worker)
		}
		if p.Worker == "http://elsewhere:1" {
			elsewhere++
		}
	}
	if more := a.Placed(); len(more) != 0 {
		t.Errorf("%d placements are there again", len(more))
	}
	if got, want := b.Hint(all), len(all)-elsewhere; got != want {
		t.Errorf("%d hints taken, want %d: all but those at a worker that isn't known", got, want)
	}
	if s := statsOf(t, b); s.Hints != uint64(len(all)-elsewhere) {
		t.Errorf("%d hints learnt, want %d", s.Hints, len(all)-elsewhere)
	}
	for _, p := range all {
		if got := place(t, b, p.Key); p.Worker != "http://elsewhere:1" && got != p.Worker {
			t.Errorf("another router places the prompt at %s, want %s, where the first did", got, p.Worker)
		}
	}
	if again := b.Placed(); len(again) != len(all) {
		t.Errorf("%d placements, want %d: what was placed here, and no hint", len(again), len(all))
	}
}

// A prompt of a worker that has gone since is left out.
func TestPlacementsOfWhoHasGone(t *testing.T) {
	r := sharing(t, 1, 4<<20)
	place(t, r, key(0, 5, 1))
	remove(t, r, base(0))
	if all := r.Placed(); len(all) != 0 {
		t.Errorf("%v, want nothing", all)
	}
}

// Between two collections no more is kept than there may be.
func TestPlacementsAreBounded(t *testing.T) {
	for _, tc := range []struct {
		name         string
		blocks, want int
	}{
		{"short prompts", 1, MaxPlacements},
		{"long prompts", 1000, maxPlacedBlocks / 1000},
		{"prompts that are cut", 9000, maxPlacedBlocks / MaxPlacementBlocks},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlacements()
			for i := range 2 * MaxPlacements {
				p.add(key(0, tc.blocks, uint64(i+1)), 3)
			}
			if len(p.all) != tc.want || len(p.blocks) > maxPlacedBlocks || len(p.seen) != tc.want {
				t.Errorf("%d prompts of %d blocks are kept, want %d", len(p.all), len(p.blocks), tc.want)
			}
			p.add(nil, 3)
		})
	}
}

// Nothing is kept by who doesn't share, and without a tree there is nothing to do.
func TestNoPlacements(t *testing.T) {
	r := routedFleet(t, 1)
	place(t, r, key(0, 5, 1))
	if all := r.Placed(); len(all) != 0 {
		t.Errorf("%v is kept, want nothing", all)
	}
	o := RouterOptions{Options: options("random"), KeepPlacements: true}
	r, err := NewRouter(o)
	if err != nil {
		t.Fatal(err)
	}
	join(t, r, spec(base(0)))
	place(t, r, key(0, 5, 1))
	if all, n := r.Placed(), r.Hint([]Placement{{base(0), []uint64{1}}}); len(all) != 0 || n != 0 {
		t.Errorf("%v is kept and %d hints taken, want nothing", all, n)
	}
	_ = r.Halt()
	if all, n := r.Placed(), r.Hint([]Placement{{base(0), []uint64{1}}}); len(all) != 0 || n != 0 {
		t.Errorf("behind the end %v is kept and %d hints taken, want nothing", all, n)
	}
}

// A full tree takes as many hints as there are things learnt here, and no more: what
// was learnt here stays.
func TestHintsDoNotFloodAFullTree(t *testing.T) {
	r := sharing(t, 2, 256<<10)
	hint := func(i int) {
		for r.Hint([]Placement{{base(1), key(0, 60, uint64(i)<<20|1)}}) == 0 {
			statsOf(t, r) // its inbox was more than a quarter full
		}
	}
	n := 0
	for ; statsOf(t, r).Evicted == 0; n++ {
		hint(n)
	}
	before := statsOf(t, r).Hints
	for i := range 1000 {
		hint(n + i)
	}
	if got := statsOf(t, r).Hints - before; got > 1 {
		t.Errorf("a full tree learnt %d hints of others and nothing here, want none but one", got)
	}
	before = statsOf(t, r).Hints
	for i := range uint64(30) {
		place(t, r, key(0, 20, i<<40|3))
	}
	for i := range 1000 {
		hint(2*n + i)
	}
	if got := statsOf(t, r).Hints - before; got != 30 {
		t.Errorf("%d hints learnt beside 30 prompts placed here, want as many", got)
	}
	for i := range uint64(30) {
		k := key(0, 20, i<<40|3)
		if got := max(matchAt(t, r, k, 0), matchAt(t, r, k, 1)); got != len(k) {
			t.Errorf("%d blocks of prompt %d are known, want all %d: it was learnt here", got, i, len(k))
		}
	}
}

// A tree that has much to do takes no hint.
func TestBusyTreeTakesNoHint(t *testing.T) {
	r := sharing(t, 1, 4<<20)
	letGo := holdTree(t, r.tree)
	taken := 0
	for i := range treeInboxSize {
		taken += r.Hint([]Placement{{base(0), key(0, 4, uint64(i+1))}})
	}
	if want := treeInboxSize / 4; taken != want {
		t.Errorf("%d hints taken, want %d", taken, want)
	}
	if !r.tree.Insert(key(0, 4, 9999), 0) {
		t.Error("what is learnt here was not taken, and there is room for it")
	}
	letGo()
}

// Numbers and URLs find each other, for members only.
func TestWorkersAreFound(t *testing.T) {
	r := sharing(t, 2, 4<<20)
	acquireN(t, r.Registry, 2) // so that the one that is removed is not forgotten yet
	remove(t, r, base(1))
	reply := make(chan []WorkerID, 1)
	ids, _ := ask(r.Registry, findWorkers{[]string{base(0), base(1), "http://nobody:1"}, reply}, reply)
	if want := []WorkerID{0, NoWorker, NoWorker}; !reflect.DeepEqual(ids, want) {
		t.Errorf("found %v, want %v", ids, want)
	}
	names := make(chan []string, 1)
	urls, _ := ask(r.Registry, nameWorkers{[]WorkerID{0, 1, 99}, names}, names)
	if want := []string{base(0), base(1), ""}; fmt.Sprint(urls) != fmt.Sprint(want) {
		t.Errorf("named %q, want %q", urls, want)
	}
}
