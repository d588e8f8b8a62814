package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"loadstar/actors/policy"
)

// shadowed starts a router with shadow policies and workers.
func shadowed(t testing.TB, acting string, workers int, shadows ...string) *Router {
	t.Helper()
	o := options(acting)
	o.Shadows = shadows
	r, err := NewRouter(RouterOptions{Options: o, TreeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Halt() })
	for i := range workers {
		join(t, r, spec(base(i)))
	}
	return r
}

// shadowOf is what a policy would have done for regular requests, "" for the acting one.
func shadowOf(t testing.TB, r *Router, name string) ShadowView {
	t.Helper()
	for _, v := range snap(t, r.Registry).Shadows {
		if v.Policy == name && v.Role == Regular {
			return v
		}
	}
	t.Fatalf("no shadow %q", name)
	return ShadowView{}
}

// A shadow policy is asked what the acting one is, has no say, and is counted by what
// it would have done.
func TestShadow(t *testing.T) {
	const workers, requests = 4, 400
	r, alone := shadowed(t, "round_robin", workers, "round_robin", "least_work"), shadowed(t, "round_robin", workers)
	for n := range uint64(requests) {
		q := Request{Key: key(0, 40, 1+n%4), Head: n % 4}
		l, same := acquire(t, r, q), acquire(t, alone, q)
		if l.URL != same.URL || l.Decision.Reason != same.Decision.Reason {
			t.Fatalf("request %d went to %s (%v), want %s (%v) as without a shadow", n, l.URL, l.Decision.Reason, same.URL, same.Decision.Reason)
		}
		l.FirstByte(0)
		l.Release(Completed, 0)
		same.Release(Completed, 0)
	}
	acting, twin, other := shadowOf(t, r, ""), shadowOf(t, r, "round_robin"), shadowOf(t, r, "least_work")
	for _, v := range []ShadowView{acting, twin, other} {
		if v.Asked != requests || v.Blocks != 40*requests || v.Imbalance < 1 || v.Imbalance > workers {
			t.Errorf("%+v, want %d requests of 40 blocks", v, requests)
		}
	}
	if acting.Agreed != requests || twin.Agreed != requests || twin.Matched != acting.Matched || twin.Wait != acting.Wait {
		t.Errorf("acting %+v and its twin %+v, want them to agree", acting, twin)
	}
	if other.Agreed == requests || other.Matched < acting.Matched || other.Wait > acting.Wait {
		t.Errorf("least_work %+v, want it to find more than round_robin %+v", other, acting)
	}
	if acting.Imbalance > 1.1 {
		t.Errorf("imbalance of round_robin is %v, want 1", acting.Imbalance)
	}
	if v := snap(t, alone.Registry).Shadows; v != nil {
		t.Errorf("%+v without shadows, want none", v)
	}
}

// Shadows follow the fleet, and what they counted of a worker goes with it.
func TestShadowFollowsTheFleet(t *testing.T) {
	r := shadowed(t, "random", 3, policy.Names()[:MaxShadows]...)
	ring := shadowed(t, "consistent_hash", 3, "consistent_hash")
	for round := range 4 {
		for n := range 50 {
			q := Request{Head: uint64(n), Session: fmt.Appendf(nil, "header:x-session-id:%d", n)}
			for _, x := range []*Router{r, ring} {
				l := acquire(t, x, q)
				l.Release(Completed, 0)
			}
		}
		for _, x := range []*Router{r, ring} {
			remove(t, x, base(round))
			join(t, x, spec(base(round+3)))
		}
	}
	if v := shadowOf(t, ring, "consistent_hash"); v.Agreed != v.Asked {
		t.Errorf("%+v, want its ring to have followed", v)
	}
	onLoop(t, r.Registry, func(s *state) {
		for i := range s.shadows {
			h := &s.shadows[i].reckonings[Regular].shares
			for id := range s.workers {
				if s.workers[id].spec.URL == base(6) && id < len(h.of) && h.of[id] != 0 {
					t.Errorf("the newest worker has a share of %v, want none", h.of[id])
				}
			}
		}
	})
}

// What is to be prefilled before the first token is what waits and what is lacking.
func TestShadowWaits(t *testing.T) {
	r := shadowed(t, "random", 1, "round_robin")
	for n, want := range []uint64{40, 40 + 40 + 40, 40 + 80 + 80 + 40} { // the leases before it are not prefilled
		acquire(t, r, Request{Key: key(0, 40, uint64(n)+1)})
		if v := shadowOf(t, r, "round_robin"); v.Wait != want {
			t.Errorf("%d blocks for %d requests, want %d", v.Wait, n+1, want)
		}
	}
}

// Nobody is asked about a pinned request.
func TestShadowOfPinned(t *testing.T) {
	r := shadowed(t, "random", 2, "round_robin")
	l := acquire(t, r, Request{})
	l.Pin(7)
	acquire(t, r, Request{Pin: 7})
	if v := shadowOf(t, r, "round_robin"); v.Asked != 1 {
		t.Errorf("asked %d times, want once", v.Asked)
	}
}

func TestShadowFaults(t *testing.T) {
	o := options("random")
	o.Shadows = slices.Repeat([]string{"random"}, MaxShadows+1)
	if _, err := NewRegistry(o); !errors.Is(err, errShadows) {
		t.Errorf("%v, want %v", err, errShadows)
	}
	o.Shadows = []string{"best_of_all"}
	if _, err := NewRegistry(o); err == nil {
		t.Error("no error for an unknown policy")
	}
}

// What fades by growing its unit is what fades by the book, for as long as it may run.
func TestSharesFade(t *testing.T) {
	const workers = 5
	draws := rand.New(rand.NewPCG(1, 2))
	var h shares
	slow := make([]float64, workers)
	for range 300_000 { // the unit is begun anew more than once
		id := draws.IntN(workers) * draws.IntN(2)
		h.add(uint32(id))
		for i := range slow {
			slow[i] *= sharesDecay
		}
		slow[id]++
	}
	sum, most := 0.0, 0.0
	for _, v := range slow {
		sum, most = sum+v, max(most, v)
	}
	got, want := h.imbalance(func(WorkerID) bool { return true }), most*workers/sum
	if got < want*0.999 || got > want*1.001 {
		t.Errorf("imbalance %v, want %v", got, want)
	}
	if got := h.imbalance(func(WorkerID) bool { return false }); got != 0 {
		t.Errorf("imbalance of nobody is %v", got)
	}
}

func BenchmarkShadows(b *testing.B) {
	for _, workers := range []int{4, 64} {
		for _, n := range []int{0, 1, MaxShadows} {
			b.Run(fmt.Sprintf("workers=%d/shadows=%d", workers, n), func(b *testing.B) {
				r := shadowed(b, "least_work", workers, []string{"cache_aware", "least_work", "power_of_two", "consistent_hash"}[:n]...)
				q := &Request{Key: key(0, 64, 1)}
				b.ReportAllocs()
				for b.Loop() {
					q.Head++
					l, err := r.Acquire(q)
					if err != nil {
						b.Fatal(err)
					}
					l.Release(Completed, 0)
				}
			})
		}
	}
}
