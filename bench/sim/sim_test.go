package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loadstar/actors/learn"
	"loadstar/bench/workload"
	"loadstar/prefixtree"
)

// small is a scenario in which everything happens: queues, evictions, workers of
// unlike speed, a restart.
func small(giveBack string) *Settings {
	s := Settings{
		Setup: workload.Setup{
			Workload: "conversations", Rate: 150, Seconds: 3, Workers: 3, Speeds: []float64{1, .5, 2}, CacheBlocks: 400,
			Restart: workload.Restart{Worker: 2, Seconds: 2},
		},
		GiveBack: giveBack, ViewBytes: 128 << 10,
	}.WithDefaults()
	return &s
}

// slowCache is lists of keys, newest first.
type slowCache struct {
	limit int
	keys  []uint64
}

func (c *slowCache) add(chain []uint64) {
	for _, key := range slices.Backward(chain[:min(len(chain), c.limit)]) {
		c.keys = slices.DeleteFunc(c.keys, func(k uint64) bool { return k == key })
		c.keys = slices.Insert(c.keys, 0, key)
		c.keys = c.keys[:min(len(c.keys), c.limit)]
	}
}

func (c *slowCache) match(chain []uint64) int {
	n := 0
	for n < len(chain) && slices.Contains(c.keys, chain[n]) {
		n++
	}
	c.add(chain[:n])
	return n
}

// Whatever the rule, each request is prefilled once, at the worker it was given to,
// in the order of arrival and as soon as those before it are; with the hits of a
// cache that is obviously right; and what was counted for it is given back.
func TestEachRequestIsServedOnceInOrder(t *testing.T) {
	for i, name := range Rules() {
		giveBack := []string{AtFirst, AtHead, AtEnd}[i%3]
		t.Run(name+", "+giveBack, func(t *testing.T) {
			s := small(giveBack)
			requests, err := s.requests(1)
			if err != nil {
				t.Fatal(err)
			}
			at := make([][]*job, s.Workers)
			m, err := s.simulate(Rule(name), 1, requests, func(j *job) {
				at[j.lease.worker] = append(at[j.lease.worker], j)
			})
			if err != nil {
				t.Fatal(err)
			}
			served := make([]bool, len(requests))
			for worker, jobs := range at {
				checkWorker(t, s, worker, jobs, served)
				if got, want := m.workers[worker].requests, int64(len(jobs)); got != want {
					t.Errorf("worker %d was given %d requests and served %d", worker, got, want)
				}
			}
			if i := slices.Index(served, false); i >= 0 {
				t.Errorf("request %d was not served", i)
			}
			for _, w := range m.router.workers {
				if w.Load != 0 || w.Pending != 0 {
					t.Errorf("in the end %s has %d requests and %d blocks pending", w.URL, w.Load, w.Pending)
				}
			}
		})
	}
}

func checkWorker(t *testing.T, s *Settings, worker int, jobs []*job, served []bool) {
	cache := &slowCache{limit: s.CacheBlocks}
	free, last, lost := time.Duration(0), -1, s.Restart.Worker-1 != worker
	for _, j := range jobs {
		if served[j.number] {
			t.Fatalf("request %d was served twice", j.number)
		}
		served[j.number] = true
		if j.number < last {
			t.Fatalf("request %d was served behind %d, which came later", j.number, last)
		}
		last = j.number
		q := j.request
		begins := max(free, q.at)
		if !lost && begins >= seconds(s.Restart.Seconds) {
			cache.keys, lost = nil, true
		}
		hits := min(cache.match(q.chain), len(q.chain)-1)
		free = begins + time.Duration(len(q.chain)-hits)*s.PerBlock(worker)
		if !lost && free >= seconds(s.Restart.Seconds) {
			cache.keys, lost = nil, true
		}
		cache.add(q.chain)
		if j.hits != hits || j.first != free {
			t.Fatalf("request %d at worker %d: %d hits, first token at %v; want %d, %v", j.number, worker, j.hits, j.first, hits, free)
		}
	}
}

func TestSeedsRepeat(t *testing.T) {
	run := func(seed uint64) string {
		runs, err := small(AtFirst).runs(t.Context(), []Rule{"least_work", "random"}, seed)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(runs)
	}
	one := run(1)
	if again := run(1); one != again {
		t.Error("the same seed gives other runs")
	}
	if one == run(2) {
		t.Error("another seed gives the same runs")
	}
}

// While a request runs the router counts it, and its work for as long as it is said
// to be pending.
func TestGiveBack(t *testing.T) {
	tests := []struct {
		giveBack              string
		granted, begun, ended int // blocks pending
	}{
		{AtFirst, 3, 0, 0},
		{AtHead, 0, 0, 0},
		{AtEnd, 3, 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.giveBack, func(t *testing.T) {
			s := Settings{Setup: workload.Setup{Workload: "unique", Workers: 1}, GiveBack: tt.giveBack, TokenTime: 1}.WithDefaults()
			r, err := newRouter(&s, "least_work", 1)
			if err != nil {
				t.Fatal(err)
			}
			m := s.simulation(r, func(*job) {})
			pending := func() int { return r.workers[0].Pending }
			m.arrive(&request{chain: []uint64{1, 2, 3}, size: 3, output: 2}, 0)
			granted := pending()
			m.happen(m.agenda.next())
			begun, load := pending(), r.workers[0].Load
			end := m.agenda.next()
			if want := 3*s.PerBlock(0) + time.Millisecond; end.at != want {
				t.Errorf("the second token comes at %v, want %v", end.at, want)
			}
			m.happen(end)
			if granted != tt.granted || begun != tt.begun || pending() != tt.ended || load != 1 || r.workers[0].Load != 0 {
				t.Errorf("pending are %d, %d and %d, the load is %d and then %d; want %d, %d, %d, 1, 0",
					granted, begun, pending(), load, r.workers[0].Load, tt.granted, tt.begun, tt.ended)
			}
		})
	}
}

// A lease's share of the pending work is what the worker isn't thought to have, by
// what was granted before.
func TestShareOfPendingWork(t *testing.T) {
	s := Settings{Setup: workload.Setup{Workload: "unique", Workers: 1}}.WithDefaults()
	r, err := newRouter(&s, "least_work", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		chain []uint64
		want  int
	}{
		{"unknown", []uint64{1, 2, 3}, 3},
		{"known in part", []uint64{1, 2, 4}, 1},
		{"known", []uint64{1, 2, 3}, 0},
		{"unknown again", []uint64{7, 8}, 2},
	} {
		if l := r.grant(&request{chain: tt.chain}, 0); l.pending != tt.want {
			t.Errorf("%s: %d blocks are pending, want %d", tt.name, l.pending, tt.want)
		}
	}
}

// What happens comes in the order of time, and what is planned first comes first.
func TestAgenda(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var a agenda
	for range 1000 {
		a.plan(event{at: time.Duration(random.IntN(50))})
	}
	last := event{}
	for n := 1000; n > 0; n-- {
		if a.before(last.at - 1) {
			t.Fatalf("there is something before %v", last.at)
		}
		e := a.next()
		if e.at < last.at || e.at == last.at && e.number < last.number {
			t.Fatalf("%+v comes behind %+v", e, last)
		}
		last = e
	}
	if a.before(time.Hour) {
		t.Error("there is more than was planned")
	}
}

// A tree with room for all and a view with room for all see the same.
func TestViewsAgree(t *testing.T) {
	s := small(AtFirst)
	requests, err := s.requests(3)
	if err != nil {
		t.Fatal(err)
	}
	s.ViewBytes = 16 << 20
	tree := s.view()
	s.ViewBlocks = 1 << 20
	blocks := s.view()
	random := rand.New(rand.NewPCG(2, 2))
	for i := range requests {
		chain := requests[i].chain
		a, b := tree.Match(chain, nil), blocks.Match(chain, nil)
		for _, hits := range [][]prefixtree.Hit{a, b} {
			slices.SortFunc(hits, func(x, y prefixtree.Hit) int { return int(x.Worker) - int(y.Worker) })
		}
		if !slices.Equal(a, b) {
			t.Fatalf("request %d: the tree says %v, the other view %v", i, a, b)
		}
		w := uint32(random.IntN(s.Workers))
		tree.Insert(learn.Lease{}, chain, w)
		blocks.Insert(learn.Lease{}, chain, w)
	}
}

// A view that is smaller forgets.
func TestViewBlocksAreBounded(t *testing.T) {
	s := Settings{Setup: workload.Setup{Workload: "unique", Workers: 2}, ViewBlocks: 3}.WithDefaults()
	v := s.view()
	v.Insert(learn.Lease{}, []uint64{1, 2}, 0)
	v.Insert(learn.Lease{}, []uint64{1, 3}, 1)
	v.Insert(learn.Lease{}, []uint64{4, 5}, 0)
	want := []prefixtree.Hit{{Worker: 0, Blocks: 1}, {Worker: 1, Blocks: 1}}
	if got := v.Match([]uint64{1, 2}, nil); !slices.Equal(got, want) {
		t.Errorf("it sees %v, want %v", got, want)
	}
}

// What a trace says of tokens is what prefill takes.
func TestPartsOfBlocks(t *testing.T) {
	w := &worker{perBlock: time.Second, cache: (&Settings{Setup: workload.Setup{CacheBlocks: 9}}).worker(0).cache}
	for _, tt := range []struct {
		name  string
		chain []uint64
		size  float64
		want  time.Duration
	}{
		{"cold", []uint64{1, 2, 3}, 2.5, 2500 * time.Millisecond},
		{"the start is cached", []uint64{1, 2, 3, 4}, 3.25, 250 * time.Millisecond},
		{"all is cached", []uint64{1, 2}, 2, time.Second},
	} {
		w.add(&job{request: &request{chain: tt.chain, size: tt.size}})
		if got := w.begin(); got != tt.want {
			t.Errorf("%s: prefill takes %v, want %v", tt.name, got, tt.want)
		}
		w.end()
	}
}
