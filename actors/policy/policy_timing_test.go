package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// states are what the workers of a benchmark look like: all equal, so that each
// choice is one great tie, or all different.
var states = []struct {
	name string
	set  func(draws *rand.Rand, w *Candidate)
}{
	{"idle", func(*rand.Rand, *Candidate) {}},
	{"busy", func(draws *rand.Rand, w *Candidate) {
		w.Load, w.Pending, w.Match = draws.IntN(60), draws.IntN(200), draws.IntN(90)
	}},
}

func BenchmarkChoose(b *testing.B) {
	for _, name := range Names() {
		for _, state := range states {
			for _, workers := range []int{4, 64, 512} {
				b.Run(fmt.Sprintf("%s/%s/workers=%d", name, state.name, workers), func(b *testing.B) {
					benchChoose(b, name, workers, state.set, nil)
				})
			}
		}
	}
}

func BenchmarkChooseWithSession(b *testing.B) {
	sessions := make([][]byte, 1<<16)
	for i := range sessions {
		sessions[i] = fmt.Appendf(nil, "header:x-session-id:%08x", i)
	}
	for _, name := range []string{"consistent_hash", "rendezvous_hash", "sticky_least_loaded"} {
		for _, workers := range []int{4, 64, 512} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				benchChoose(b, name, workers, states[1].set, sessions)
			})
		}
	}
}

// BenchmarkChooseKVAware is what kv_aware does beyond least_work.
func BenchmarkChooseKVAware(b *testing.B) {
	sessions := make([][]byte, 1<<16)
	for i := range sessions {
		sessions[i] = fmt.Appendf(nil, "framework_header:%08x:lead", i)
	}
	for name, change := range map[string]func(*Options){
		"draws":    func(o *Options) { o.Temperature = 800 },
		"sessions": func(o *Options) { o.AffinityTTL = 1 },
	} {
		for _, workers := range []int{4, 64, 512} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				draws := rand.New(rand.NewPCG(9, 9))
				c := fleet(workers)
				for i := range c {
					states[1].set(draws, &c[i])
				}
				o := DefaultOptions()
				change(&o)
				p := build(b, kvAware, o, c)
				req := Request{Blocks: 100}
				b.ReportAllocs()
				for b.Loop() {
					req.Key += golden
					req.Affinity = sessions[req.Key>>48]
					p.Choose(&req, c)
				}
			})
		}
	}
}

func benchChoose(b *testing.B, name string, workers int, set func(*rand.Rand, *Candidate), sessions [][]byte) {
	draws := rand.New(rand.NewPCG(9, 9))
	c := fleet(workers)
	for i := range c {
		set(draws, &c[i])
	}
	p := build(b, name, DefaultOptions(), c)
	req := Request{Blocks: 100}
	b.ReportAllocs()
	for b.Loop() {
		req.Key += golden
		if sessions != nil {
			req.Session = sessions[req.Key>>48]
		}
		p.Choose(&req, c)
	}
}

// BenchmarkStickyChurn is a full table and nothing but new sessions.
func BenchmarkStickyChurn(b *testing.B) {
	c := fleet(4)
	p := newSticky(b, c, nil)
	session := make([]byte, 24)
	var req Request
	choose := func() {
		req.Key++
		for i := range 8 {
			session[i] = byte(req.Key >> (8 * i))
		}
		req.Session = session
		p.Choose(&req, c)
	}
	for range 300_000 {
		choose()
	}
	b.ReportAllocs()
	for b.Loop() {
		choose()
	}
}

// BenchmarkJoin is the last of so many members leaving and joining again.
func BenchmarkJoin(b *testing.B) {
	for _, name := range []string{"consistent_hash", "sticky_least_loaded"} {
		for _, workers := range []int{4, 64, 512} {
			b.Run(fmt.Sprintf("%s/members=%d", name, workers), func(b *testing.B) {
				all := members(fleet(workers))
				p := build(b, name, DefaultOptions(), fleet(workers)).(MemberKeeper)
				b.ReportAllocs()
				for b.Loop() {
					p.SetMembers(all[:workers-1])
					p.SetMembers(all)
				}
			})
		}
	}
}

// BenchmarkFirstMembers is a whole fleet known at once, as at start-up.
func BenchmarkFirstMembers(b *testing.B) {
	all := members(fleet(512))
	for b.Loop() {
		build(b, "consistent_hash", DefaultOptions(), nil).(MemberKeeper).SetMembers(all)
	}
}
