package actors

import (
	"cmp"
	"math"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// prefilling is a least_work registry with workers whose speed a test teaches.
type prefilling struct {
	t   *testing.T
	r   *Registry
	now int64
}

func newPrefilling(t *testing.T, workers int) *prefilling {
	t.Helper()
	return &prefilling{t: t, r: fleet(t, "least_work", workers), now: second}
}

// at takes a lease for a prompt of a number of blocks at one of the workers.
func (p *prefilling) at(worker, blocks int, stream bool) Lease {
	p.t.Helper()
	q := Request{Key: make([]uint64, blocks), Now: p.now, Stream: stream}
	for _, w := range snap(p.t, p.r).Workers {
		if w.URL != base(worker) {
			q.Exclude = append(q.Exclude, w.ID)
		}
	}
	l := acquire(p.t, p.r, q)
	if l.URL != base(worker) {
		p.t.Fatalf("acquired at %s, want %s", l.URL, base(worker))
	}
	return l
}

// teach has a worker work off streams one after another, at a number of blocks a
// second each.
func (p *prefilling) teach(worker int, rates ...float64) {
	p.t.Helper()
	for _, rate := range rates {
		l := p.at(worker, 100, true)
		p.now += int64(100 / rate * float64(second))
		l.FirstByte(p.now)
		l.Release(Completed, p.now)
	}
}

// pass lets time pass, and has somebody ask for a worker and leave.
func (p *prefilling) pass(d int64) {
	p.t.Helper()
	p.now += d
	l := acquire(p.t, p.r, Request{Now: p.now})
	l.Release(ClientGone, p.now)
}

// want checks how many blocks are pending at the first worker.
func (p *prefilling) want(when string, pending int) {
	p.t.Helper()
	if got := view(p.t, p.r, base(0)).Pending; got != pending {
		p.t.Errorf("%s: %d blocks pending at %s, want %d", when, got, base(0), pending)
	}
	wantBalanced(p.t, p.r)
}

// The share of an answer that comes whole ends when it has been worked off by the
// worker's speed, in its turn, and not at the answer's end; it ends once.
func TestShareEndsInItsTime(t *testing.T) {
	p := newPrefilling(t, 1)
	p.teach(0, 1000, 1000, 1000, 1000)
	first := p.at(0, 100, false)
	second := p.at(0, 50, false)
	p.want("at once", 150)
	p.pass(98 * ms)
	p.want("before the first one's time", 150)
	p.pass(4 * ms)
	p.want("after it", 50)
	stream := p.at(0, 10, true)
	p.pass(50 * ms)
	p.want("after the second one's time", 10)
	p.pass(5 * int64(time.Second))
	p.want("after a stream's time, which tells itself", 10)
	stream.FirstByte(p.now)
	p.want("after its first byte", 0)
	first.FirstByte(p.now)
	for _, l := range []Lease{first, second, stream} {
		l.Release(Completed, p.now)
	}
	p.want("at the end", 0)
}

// A share that ended early leaves the others in their turn.
func TestShareEndsEarly(t *testing.T) {
	for _, early := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {2, 0}, {2, 1, 0}} {
		p := newPrefilling(t, 1)
		p.teach(0, 1000, 1000, 1000, 1000)
		leases := []Lease{p.at(0, 100, false), p.at(0, 100, false), p.at(0, 100, false)}
		left := 300
		for _, i := range early {
			leases[i].Release(ClientGone, p.now)
			left -= 100
		}
		p.want("after leaving", left)
		for i := range leases {
			p.pass(101 * ms)
			gone := false
			for _, k := range early {
				gone = gone || k == i
			}
			if !gone {
				left -= 100
			}
			p.want("in turn", left)
		}
	}
}

// As long as no stream has told how fast anyone is, a share ends with its answer. A
// worker that isn't known is taken to be as fast as the fleet.
func TestShareAtUnknownWorker(t *testing.T) {
	p := newPrefilling(t, 3)
	l := p.at(0, 100, false)
	p.pass(int64(time.Hour))
	p.want("nobody's speed is known", 100)
	l.Release(Completed, p.now)
	p.want("at its end", 0)

	p.teach(1, 1000, 1000, 1000, 1000)
	p.pass(speedsEvery)
	p.at(0, 100, false)
	p.pass(90 * ms)
	p.want("another's speed is known", 100)
	p.pass(20 * ms)
	p.want("another's speed is known, after its time", 0)
}

func TestLearnSpeed(t *testing.T) {
	same := func(rate float64, n int) (all []float64) {
		for range n {
			all = append(all, rate)
		}
		return all
	}
	for _, tc := range []struct {
		name string
		do   func(p *prefilling)
		want float64 // blocks a second
	}{
		{"nothing", func(*prefilling) {}, 0},
		{"three are too few", func(p *prefilling) { p.teach(0, same(1000, 3)...) }, 0},
		{"four", func(p *prefilling) { p.teach(0, same(1000, 4)...) }, 1000},
		{"a stall", func(p *prefilling) { p.teach(0, append(same(1000, 20), .1)...) }, 800},
		{"a wonder", func(p *prefilling) { p.teach(0, append(same(1000, 20), 1e6)...) }, 1060},
		{"slow at first", func(p *prefilling) { p.teach(0, append([]float64{3, 3}, same(1000, 150)...)...) }, 1000},
		{"it gets slower", func(p *prefilling) { p.teach(0, append(same(1000, 20), same(250, 150)...)...) }, 250},
		{"short prompts", func(p *prefilling) {
			for range 9 {
				l := p.at(0, speedBlocks-1, true)
				p.now += ms
				l.FirstByte(p.now)
			}
		}, 0},
		{"a queue", func(p *prefilling) {
			var all []Lease
			for range 9 {
				all = append(all, p.at(0, 100, true))
			}
			for i := range all {
				p.now += 100 * ms
				all[i].FirstByte(p.now)
			}
		}, 1000},
		{"all in one batch", func(p *prefilling) {
			for range 9 {
				a, b, c := p.at(0, 100, true), p.at(0, 100, true), p.at(0, 100, true)
				p.now += 299 * ms
				a.FirstByte(p.now)
				p.now += ms / 2
				b.FirstByte(p.now)
				p.now += ms / 2
				c.FirstByte(p.now)
			}
		}, 900},
		{"whole answers between", func(p *prefilling) {
			for range 9 {
				p.at(0, 100, false)
				l := p.at(0, 100, true)
				p.now += 200 * ms
				l.FirstByte(p.now)
			}
		}, 0},
		{"whole answers that have ended before", func(p *prefilling) {
			for range 9 {
				p.now += 50 * ms
				whole := p.at(0, 100, false)
				whole.Release(Completed, p.now)
				l := p.at(0, 100, true)
				p.now += 100 * ms
				l.FirstByte(p.now)
			}
		}, 1000},
		{"no clock", func(p *prefilling) {
			for range 9 {
				l := p.at(0, 100, true)
				p.now += 100 * ms
				l.FirstByte(0)
			}
		}, 0},
		{"the end says nothing", func(p *prefilling) {
			for range 9 {
				l := p.at(0, 100, true)
				p.now += 100 * ms
				l.Release(Completed, p.now)
			}
		}, 0},
		{"known of another membership", func(p *prefilling) {
			p.teach(0, same(1000, 9)...)
			var all []Lease
			for range 9 {
				all = append(all, p.at(0, 100, true))
			}
			remove(p.t, p.r, base(0))
			join(p.t, p.r, spec(base(0)))
			for i := range all {
				p.now += 100 * ms
				all[i].FirstByte(p.now)
			}
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPrefilling(t, 1)
			tc.do(p)
			if got := view(t, p.r, base(0)).Speed; math.Abs(got-tc.want) > tc.want/10 {
				t.Errorf("%v blocks a second, want %v", got, tc.want)
			}
		})
	}
}

// Workers that differ by a little are equals; others are weighed by the time that
// they take, within bounds, and one that isn't known is as others are.
func TestPaceOfWorkers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rates []float64 // 0 is not known
		want  []float64
	}{
		{"equal", []float64{1000, 1000, 1000}, []float64{1, 1, 1}},
		{"by a little", []float64{880, 1000, 1130}, []float64{1, 1, 1}},
		{"one is slow", []float64{1000, 1000, 500}, []float64{1, 1, 2}},
		{"one is fast", []float64{1000, 2900, 1000}, []float64{1, math.Exp2(-1.5), 1}},
		{"one isn't known", []float64{1000, 1000, 0, 300}, []float64{1, 1, 1, math.Exp2(1.5)}},
		{"bounded", []float64{1000, 1, 1e6, 1000, 1000}, []float64{1, 4, .25, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPrefilling(t, len(tc.rates))
			for i, rate := range tc.rates {
				for range 6 {
					if rate > 0 {
						p.teach(i, rate)
					}
				}
			}
			p.pass(speedsEvery)
			onLoop(t, p.r, func(s *state) {
				c := s.candidates(&Request{}, Regular)
				for i, want := range tc.want {
					if got := cmp.Or(c[i].Pace, 1); got != want {
						t.Errorf("pace of worker %d = %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// A pace that has been left is not taken again for a little: between two, a worker
// stays where it is.
func TestPaceStays(t *testing.T) {
	p := newPrefilling(t, 3)
	p.teach(0, 1000, 1000, 1000, 1000)
	p.teach(1, 1000, 1000, 1000, 1000)
	pace := func(rate float64) (got float64) {
		for range 200 {
			p.teach(2, rate)
		}
		p.pass(speedsEvery)
		onLoop(t, p.r, func(s *state) { got = s.candidates(&Request{}, Regular)[2].Pace })
		return cmp.Or(got, 1)
	}
	for i, tc := range []struct{ rate, want float64 }{{800, 1}, {500, 2}, {620, 2}, {700, 1.414213562373095}, {900, 1.414213562373095}, {1000, 1}} {
		if got := pace(tc.rate); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%d: at %v blocks a second the pace is %v, want %v", i, tc.rate, got, tc.want)
		}
	}
}

// A worker that was slow gets prompts again when that was long ago, and then the first
// ones tell how fast it is.
func TestSlowPaceIsForgotten(t *testing.T) {
	for _, tc := range []struct{ rate, want float64 }{{250, 4}, {1000, 1}} {
		p := newPrefilling(t, 3)
		p.teach(0, 1000, 1000, 1000, 1000)
		p.teach(1, 1000, 1000, 1000, 1000)
		p.teach(2, 250, 250, 250, 250)
		want := func(when string, pace float64) {
			t.Helper()
			p.pass(speedsEvery)
			onLoop(t, p.r, func(s *state) {
				if got := cmp.Or(s.candidates(&Request{}, Regular)[2].Pace, 1); got != pace {
					t.Errorf("%s: the pace is %v, want %v", when, got, pace)
				}
			})
		}
		want("at first", 4)
		p.pass(slowHolds / 2)
		want("later", 4)
		l := p.at(2, 100, true)
		p.pass(slowHolds)
		want("while it works", 4)
		l.Release(ClientGone, p.now)
		want("much later", 1)
		p.teach(2, tc.rate, tc.rate, tc.rate)
		want("after some prompts", 1)
		p.teach(2, tc.rate)
		want("after enough of them", tc.want)
		wantBalanced(t, p.r)
	}
}

// What a decode worker holds is counted from its reservation to its end, also when
// it is moved.
func TestHeld(t *testing.T) {
	r := start(t, options("least_work"))
	join(t, r, roleSpec(base(0), Prefill))
	join(t, r, roleSpec(base(1), Decode))
	want := func(when string, url string, held int) {
		t.Helper()
		if got := view(t, r, url).Held; got != held {
			t.Errorf("%s: %s holds %d blocks, want %d", when, url, got, held)
		}
	}
	q := &Request{Key: make([]uint64, 40)}
	p, d, err := r.AcquirePair(q)
	if err != nil {
		t.Fatal(err)
	}
	want("reserved", base(0), 0)
	want("reserved", base(1), 40)
	p.Release(Completed, 0)
	join(t, r, roleSpec(base(2), Decode))
	for range 3 {
		r.ReportHealth(base(1), errDown)
	}
	moved, err := d.Begin(&Request{Movable: true, Key: q.Key})
	if err != nil {
		t.Fatal(err)
	}
	want("moved", base(1), 0)
	want("moved", moved.URL, 40)
	moved.Release(Completed, 0)
	want("over", moved.URL, 0)
	whole := acquire(t, r, Request{Role: Decode, Whole: true, Key: q.Key})
	want("all of it", whole.URL, 40)
	whole.Release(Completed, 0)
	want("all of it, over", whole.URL, 0)
}
