package actors

import (
	"fmt"
	"runtime"
	"testing"
)

// One operation of each benchmark is a request's whole use of the actors: a
// lease taken and given back.

func BenchmarkRegistry(b *testing.B) {
	for _, workers := range []int{4, 64, 512} {
		for _, goroutines := range []int{1, 1000} {
			b.Run(fmt.Sprintf("workers=%d/goroutines=%d", workers, goroutines), func(b *testing.B) {
				benchPairs(b, "power_of_two", workers, goroutines, 0)
			})
		}
	}
}

func BenchmarkTree(b *testing.B) {
	for _, blocks := range []int{16, 128, 512} { // 1, 8 and 32 KB of prompt
		for _, workers := range []int{4, 64} {
			for _, goroutines := range []int{1, 1000} {
				b.Run(fmt.Sprintf("blocks=%d/workers=%d/goroutines=%d", blocks, workers, goroutines), func(b *testing.B) {
					benchPairs(b, "cache_aware", workers, goroutines, blocks)
				})
			}
		}
	}
}

// benchPairs runs pairs from a number of goroutines. With blocks, prompts share
// three quarters of their blocks with fifteen in sixteen others and end in their
// own way, so that each is both known and new.
func benchPairs(b *testing.B, policyName string, workers, goroutines, blocks int) {
	r := startRouter(b, policyName, 64<<20)
	for i := range workers {
		join(b, r, spec(base(i)))
	}
	stems := make([][]uint64, 16)
	for i := range stems {
		stems[i] = key(0, blocks*3/4, uint64(i)+1)
	}
	b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	pairs := func(next func() bool, seed uint64) {
		q := new(Request)
		for n := seed; next(); n += 0x9e3779b97f4a7c15 {
			q.Head, q.Now = n, q.Now+1
			if blocks > 0 {
				q.Key = append(q.Key[:0], stems[n>>60]...)
				for len(q.Key) < blocks {
					q.Key = append(q.Key, n^uint64(len(q.Key)))
				}
				q.Head = q.Key[0]
			}
			l, err := r.Acquire(q)
			if err != nil {
				b.Errorf("Acquire: %v", err)
				return
			}
			l.Release(Completed, q.Now)
		}
	}
	if goroutines == 1 {
		pairs(b.Loop, 1)
		return
	}
	seeds := make(chan uint64, 1)
	seeds <- 1
	b.RunParallel(func(pb *testing.PB) {
		seed := <-seeds
		seeds <- seed * 0xd1342543de82ef95
		pairs(pb.Next, seed)
	})
}

// BenchmarkSnapshot is what a scrape costs the loop.
func BenchmarkSnapshot(b *testing.B) {
	for _, workers := range []int{4, 64, 512} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			r := fleet(b, "power_of_two", workers)
			acquireN(b, r, 4*workers)
			b.ReportAllocs()
			for b.Loop() {
				snap(b, r)
			}
		})
	}
}

// What other routers run is told some 50 times a second, whole.
func BenchmarkSetForeign(b *testing.B) {
	for _, n := range []int{4, 64, 1024} {
		b.Run(fmt.Sprint(n, " workers"), func(b *testing.B) {
			o := options("least_work")
			o.MaxWorkers = n
			r := start(b, o)
			var all []Elsewhere
			for i := range n {
				join(b, r, spec(base(i)))
				all = append(all, Elsewhere{URL: base(i)})
			}
			for i := 0; b.Loop(); i++ {
				for k := range all {
					all[k].N, all[k].Pending = i%50+k, i
				}
				if err := r.SetForeign(Peers, all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkModels is what the loop does for a request for one of several models that
// a fleet serves, in turn.
func BenchmarkModels(b *testing.B) {
	for _, models := range []int{0, 1, 2, 8} {
		for _, workers := range []int{8, 64, 512} {
			b.Run(fmt.Sprintf("models=%d/workers=%d", models, workers), func(b *testing.B) {
				s, err := newState(options("power_of_two"), make(chan Event, eventsSize))
				if err != nil {
					b.Fatal(err)
				}
				names := [][]byte{nil}
				for i := range models {
					names = append(names[:i], fmt.Append(nil, "model-", i))
				}
				for i := range workers {
					w := spec(base(i))
					w.Model = string(names[i%len(names)])
					if _, err := s.add([]Spec{w}); err != nil {
						b.Fatal(err)
					}
					s.reportHealth(base(i), "")
				}
				q := new(Request)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					q.Head, q.Now, q.Model = uint64(n)*0x9e3779b97f4a7c15, q.Now+1, names[n%len(names)]
					if s.acquire(q); q.grant.err != nil {
						b.Fatal(q.grant.err)
					}
					s.giveBack(q.grant.ticket, Completed, q.Now)
				}
			})
		}
	}
}
