package actors

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// says has a worker tell how many requests it has, and waits until that is heard.
func says(t *testing.T, r *Registry, url string, requests int, now int64) {
	t.Helper()
	r.WorkerSays(view(t, r, url).ID, requests, now)
	view(t, r, url)
}

// foreignAt is a worker's foreign load at a time.
func foreignAt(t *testing.T, r *Registry, url string, now int64) int {
	t.Helper()
	v, err := r.Snapshot(now)
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	for _, w := range v.Workers {
		if w.URL == url {
			return w.Foreign
		}
	}
	t.Fatalf("there is no worker %s", url)
	return 0
}

// What a worker says is its foreign load but for this router's own leases, until it
// says something else.
func TestWorkerSays(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	leases := acquireN(t, r, 6) // three at each
	for _, tc := range []struct {
		name     string
		requests int
		want     int
	}{
		{"fewer than run here", 2, 0},
		{"as many as run here", 3, 0},
		{"more than run here", 10, 7},
		{"less again", 5, 2},
		{"nothing", 0, 0},
		{"the most", maxForeign, maxForeign - 3},
		{"beyond all sense, which is not heard", maxForeign + 1, maxForeign - 3},
		{"below zero, which is not heard", -1, maxForeign - 3},
		{"little", 4, 1},
	} {
		says(t, r, base(0), tc.requests, 0)
		if got := view(t, r, base(0)).Foreign; got != tc.want {
			t.Errorf("%s: foreign load %d, want %d", tc.name, got, tc.want)
		}
	}
	wantForeign(t, r, base(1), 0)
	wantLoad(t, r, base(0), 3)
	for _, l := range leases {
		l.Release(Completed, 0)
	}
	// It was said while they ran: their end makes no foreign load.
	wantForeign(t, r, base(0), 1)
	r.WorkerSays(math.MaxUint32, 5, 0)
	wantBalanced(t, r)
}

// A reservation is not at the worker yet, so it isn't in its number.
func TestWorkerSaysWithoutReservations(t *testing.T) {
	r := start(t, options("round_robin"))
	join(t, r, roleSpec(base(0), Prefill), roleSpec(base(1), Decode))
	if _, _, err := r.AcquirePair(&Request{}); err != nil {
		t.Fatalf("AcquirePair: %v", err)
	}
	says(t, r, base(0), 5, 0)
	says(t, r, base(1), 5, 0)
	wantForeign(t, r, base(0), 4)
	wantForeign(t, r, base(1), 5)
}

// What other routers run at a worker is in its number, whichever is heard first and
// whichever changes.
func TestWorkerSaysCountsNothingTwice(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	acquireN(t, r, 2)
	says(t, r, base(0), 12, 0)
	wantForeign(t, r, base(0), 10)
	tell(t, r, Peers, Elsewhere{URL: base(0), N: 6})
	wantForeign(t, r, base(0), 10)
	tell(t, r, "before", Elsewhere{URL: base(0), N: 3})
	wantForeign(t, r, base(0), 10)
	tell(t, r, Peers, Elsewhere{URL: base(0), N: 9})
	wantForeign(t, r, base(0), 12) // which the worker's number is too old for
	says(t, r, base(0), 20, 0)
	wantForeign(t, r, base(0), 18)
	says(t, r, base(0), 1, 0)
	wantForeign(t, r, base(0), 12) // what is told for sure stays
	tell(t, r, Peers)
	tell(t, r, "before")
	wantForeign(t, r, base(0), 0)
}

// What a worker says is not passed on: another router would take its own requests
// for this one's.
func TestWorkerSaysIsNotPassedOn(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	acquireN(t, r, 4)
	tell(t, r, Peers, Elsewhere{URL: base(0), N: 5, Pending: 50})
	tell(t, r, "before", Elsewhere{URL: base(0), N: 1, Pending: 10})
	says(t, r, base(0), 100, 0)
	says(t, r, base(1), 100, 0)
	all, ok := r.Running(nil)
	if got, want := fmt.Sprint(all, ok), fmt.Sprint([]Elsewhere{{URL: base(0), N: 3, Pending: 10}, {URL: base(1), N: 2}}, true); got != want {
		t.Errorf("Running = %s, want %s", got, want)
	}
}

// It counts for two seconds from when it was said last, for each worker apart, and as
// late as lapseEvery behind that.
func TestWorkerSaysExpires(t *testing.T) {
	r := fleet(t, "power_of_two", 3)
	const a = second / 2
	says(t, r, base(0), 5, 0)
	says(t, r, base(1), 5, 0)
	says(t, r, base(2), 5, a)
	says(t, r, base(1), 7, 2*a)
	for _, tc := range []struct {
		at   int64
		want [3]int
	}{
		{saidFor - 1, [3]int{5, 7, 5}},
		{saidFor, [3]int{0, 7, 5}},
		{saidFor + a + lapseEvery, [3]int{0, 7, 0}},
		{saidFor + 2*a - 1, [3]int{0, 7, 0}},
		{saidFor + 2*a + lapseEvery, [3]int{}},
		{100 * saidFor, [3]int{}},
	} {
		var got [3]int
		for i := range got {
			got[i] = foreignAt(t, r, base(i), tc.at)
		}
		if got != tc.want {
			t.Errorf("foreign loads at %d = %v, want %v", tc.at, got, tc.want)
		}
	}
	onLoop(t, r, func(s *state) {
		if s.lapseAt != math.MaxInt64 {
			t.Errorf("it is looked for what has expired at %d, want never", s.lapseAt)
		}
	})
}

// Choices go elsewhere as long as it counts, and come back.
func TestWorkerSaysWeighs(t *testing.T) {
	for _, policy := range []string{"power_of_two", "least_work", "sticky_least_loaded", "cache_aware"} {
		t.Run(policy, func(t *testing.T) {
			o := options(policy)
			o.PolicyOptions.BalanceAbs, o.PolicyOptions.BalanceRel = 1, 1
			r := start(t, o)
			join(t, r, spec(base(0)), spec(base(1)))
			says(t, r, base(0), 50, 0)
			at := func(now int64) map[string]int {
				got := map[string]int{}
				for i := range 8 {
					got[acquire(t, r, Request{Head: uint64(i) << 50, Session: fmt.Append(nil, now, i), Now: now}).URL]++
				}
				return got
			}
			if got := at(saidFor - 1); got[base(1)] != 8 {
				t.Errorf("%v, want all 8 at %s: the other has 50 that wait", got, base(1))
			}
			if got := at(saidFor + 1); got[base(0)] == 0 {
				t.Errorf("%v, want some at %s, whose word is too old", got, base(0))
			}
		})
	}
}

// A request that waits for a worker is served when what the worker has said counts no
// more, though nobody says anything else.
func TestWorkerSaysEndsForThoseWhoWait(t *testing.T) {
	var clock atomic.Int64
	o := options("round_robin")
	o.Room = RoomOptions{MaxPerWorker: 2, QueueSize: 4, QueueTimeout: patience, Now: clock.Load}
	r := start(t, o)
	join(t, r, spec(base(0)))
	says(t, r, base(0), 2, 0)
	served := make(chan error, 1)
	go func() {
		_, err := r.Acquire(&Request{})
		served <- err
	}()
	until(t, "the request to wait", func() bool { return snap(t, r).Room.Waits == 1 })
	clock.Store(saidFor)
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("the request that waited: %v, want a lease", err)
		}
	case <-time.After(patience):
		t.Fatal("the request waits on, though the worker's word is too old")
	}
	wantLoad(t, r, base(0), 1)
}

// Another process at the same address has said nothing yet.
func TestWorkerSaysEndsWithItsMembership(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	acquireN(t, r, 1)
	says(t, r, base(0), 9, 0)
	id := view(t, r, base(0)).ID
	remove(t, r, base(0))
	r.WorkerSays(id, 20, 0)
	join(t, r, spec(base(0)))
	wantForeign(t, r, base(0), 0)
}

// A rank behind a server is not believed: the number is the server's.
func TestWorkerSaysNothingOfRanks(t *testing.T) {
	r := start(t, options("round_robin"))
	join(t, r, Expand(Spec{Base: base(0)}, 2)...)
	says(t, r, base(0)+"@1", 9, 0)
	wantForeign(t, r, base(0)+"@1", 0)
}

// A worker's word waits for nobody: where the inbox is full it is dropped.
func TestWorkerSaysNeverBlocks(t *testing.T) {
	r := fleet(t, "round_robin", 1)
	id := view(t, r, base(0)).ID
	letGo := sync.OnceFunc(holdLoop(t, r))
	t.Cleanup(letGo)
	fillInbox(r)
	finish(t, "WorkerSays", inBackground(func() { r.WorkerSays(id, 9, 0) }))
	letGo()
	wantForeign(t, r, base(0), 0)
}
