package actors

import (
	"errors"
	"testing"
	"time"
)

// bookedBudget is the retry budget kept in the plainest way: all that ever
// happened, gone through anew for each question.
type bookedBudget struct {
	o      RetryOptions
	events []budgetEvent
}

// budgetEvent is a request and what it adds: a first attempt feeds the budget, a
// retry that was granted has a price, and one that was refused changes nothing.
type budgetEvent struct {
	now  int64
	fed  int64
	cost int64
}

// tokens is how many parts of a token there are at now.
func (b *bookedBudget) tokens(now int64) int64 {
	ratio := int64(b.o.Ratio * retryToken)
	burst := int64(2 * b.o.Floor * retryToken)
	t, fed := burst, map[int64]int64{}
	var begun bool
	var start, last, sec int64
	visit := func(now int64) {
		if !begun {
			begun, start, last = true, now, now
		}
		sec = max(sec, (now-start)/second)
		limit := burst
		for s, n := range fed {
			if s > sec-10 {
				limit += n * ratio
			}
		}
		t = min(t, limit)
		if now > last {
			t = min(limit, int64(float64(t)+b.o.Floor*float64(now-last)))
			last = now
		}
	}
	for _, e := range b.events {
		visit(e.now)
		fed[sec] += e.fed
		t += e.fed*ratio - e.cost
	}
	visit(now)
	return t
}

// The budget allows what the books allow, whatever comes when.
func FuzzBudget(f *testing.F) {
	f.Add([]byte{1, 2, 0, 0, 0, 255, 0, 7, 1, 0, 0, 0, 3, 0, 0, 1, 200, 1, 200})
	f.Add([]byte{2, 0, 0, 1, 0, 1, 0, 1, 0, 1, 9, 250, 0, 1})
	f.Add([]byte{0, 1, 0, 0, 1, 255, 1, 255, 1, 255, 1, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 2 || len(in) > 600 {
			t.Skip()
		}
		o := RetryOptions{Ratio: float64(in[0]%8) / 4, Floor: float64(in[1] % 4)}
		b, books := newBudget(o), bookedBudget{o: o}
		now, refused := int64(0), uint64(0)
		for in = in[2:]; len(in) >= 2; in = in[2:] {
			now += int64(in[1]) * int64(in[1]) * int64(time.Millisecond)
			want := books.tokens(now)
			if got := b.left(now); got != float64(want)/retryToken {
				t.Fatalf("after %d events, at %v: %v tokens left, want %v", len(books.events), time.Duration(now), got, float64(want)/retryToken)
			}
			switch in[0] % 2 {
			case 0:
				b.first(now)
				books.events = append(books.events, budgetEvent{now: now, fed: 1})
			default:
				if got := b.allows(now); got != (want >= retryToken) {
					t.Fatalf("allows = %v with %d parts of a token", got, want)
				}
				if want < retryToken {
					refused++
					books.events = append(books.events, budgetEvent{now: now})
					continue
				}
				b.spend()
				books.events = append(books.events, budgetEvent{now: now, cost: retryToken})
			}
		}
		if b.refused != refused {
			t.Fatalf("refused = %d, want %d", b.refused, refused)
		}
	})
}

// retries asks for n retries and says how many were granted.
func retries(t *testing.T, r *Registry, n int, now int64) (granted int) {
	t.Helper()
	for range n {
		l, err := r.Acquire(&Request{Retry: true, Now: now})
		switch {
		case err == nil:
			granted++
			l.Release(Completed, now)
		case !errors.Is(err, ErrRetryBudget):
			t.Fatalf("Acquire: %v, want a lease or %v", err, ErrRetryBudget)
		}
	}
	return granted
}

func firsts(t *testing.T, r *Registry, n int) {
	t.Helper()
	for range n {
		l := acquire(t, r, Request{})
		l.Release(Completed, 0)
	}
}

func TestRetryBudget(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    RetryOptions
		do   func(t *testing.T, r *Registry)
		at   int64
		want int // of 1000 retries that are asked for at once
	}{
		{"the floor's burst", RetryOptions{Ratio: 0.1, Floor: 10}, func(*testing.T, *Registry) {}, 0, 20},
		{"a tenth of the traffic beyond it", RetryOptions{Ratio: 0.1, Floor: 10}, func(t *testing.T, r *Registry) { firsts(t, r, 500) }, 0, 70},
		{"traffic is remembered for ten seconds", RetryOptions{Ratio: 0.1, Floor: 10}, func(t *testing.T, r *Registry) { firsts(t, r, 500) }, 9 * second, 70},
		{"and no longer", RetryOptions{Ratio: 0.1, Floor: 10}, func(t *testing.T, r *Registry) { firsts(t, r, 500) }, 10 * second, 20},
		{"the floor fills the bucket", RetryOptions{Ratio: 0.1, Floor: 10}, func(t *testing.T, r *Registry) { retries(t, r, 20, 0) }, second / 2, 5},
		{"and fills it no further", RetryOptions{Ratio: 0.1, Floor: 10}, func(t *testing.T, r *Registry) { retries(t, r, 20, 0) }, 3600 * second, 20},
		{"retries feed nothing", RetryOptions{Ratio: 1, Floor: 10}, func(t *testing.T, r *Registry) { retries(t, r, 100, 0) }, 0, 0},
		{"no floor", RetryOptions{Ratio: 0.5}, func(t *testing.T, r *Registry) { firsts(t, r, 11) }, 0, 5},
		{"no ratio", RetryOptions{Floor: 3}, func(t *testing.T, r *Registry) { firsts(t, r, 100) }, 0, 6},
		{"nothing", RetryOptions{}, func(t *testing.T, r *Registry) { firsts(t, r, 100) }, 0, 0},
		{"no bound", RetryOptions{Disabled: true}, func(*testing.T, *Registry) {}, 0, 1000},
		{"senseless values", RetryOptions{Ratio: -1, Floor: -1}, func(t *testing.T, r *Registry) { firsts(t, r, 10) }, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options("round_robin")
			o.Retries = tc.o
			r := start(t, o)
			join(t, r, spec(base(0)))
			tc.do(t, r)
			before := snap(t, r).RetryRefused
			s, err := r.Snapshot(tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := int(s.RetryTokens); !tc.o.Disabled && got != tc.want {
				t.Errorf("%v tokens, want %d", s.RetryTokens, tc.want)
			}
			if got := retries(t, r, 1000, tc.at); got != tc.want {
				t.Errorf("%d retries granted, want %d", got, tc.want)
			}
			if got := snap(t, r).RetryRefused - before; got != uint64(1000-tc.want) {
				t.Errorf("%d refused, want %d", got, 1000-tc.want)
			}
		})
	}
}

// A retry that finds no worker costs no token, and one that is refused is granted
// nothing. Both hold for pairs, which cost one.
func TestRetryBudgetOfPairs(t *testing.T) {
	o := options("round_robin")
	o.Retries = RetryOptions{Floor: 1} // two tokens
	r := start(t, o)
	join(t, r, roleSpec(base(0), Decode))
	pair := func() error {
		p, d, err := r.AcquirePair(&Request{Retry: true})
		p.Release(Completed, 0)
		d.Release(Completed, 0)
		return err
	}
	for range 5 {
		if err := pair(); !errors.Is(err, ErrNoPrefill) {
			t.Errorf("AcquirePair: %v, want %v", err, ErrNoPrefill)
		}
		if _, err := r.Acquire(&Request{Retry: true}); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire: %v, want %v", err, ErrNoWorker)
		}
	}
	join(t, r, roleSpec(base(1), Prefill))
	for i := range 4 {
		var want error
		if i >= 2 {
			want = ErrRetryBudget
		}
		if err := pair(); !errors.Is(err, want) {
			t.Errorf("pair %d: %v, want %v", i, err, want)
		}
	}
	if s := snap(t, r); s.Granted != 4 || s.Live != 0 || s.RetryRefused != 2 {
		t.Errorf("granted = %d, live = %d, refused = %d, want 4, 0 and 2", s.Granted, s.Live, s.RetryRefused)
	}
}

// A pair whose decode worker does the whole costs a token too.
func TestRetryBudgetOfShortPairs(t *testing.T) {
	o := options("round_robin")
	o.Retries = RetryOptions{Floor: 1}
	r := start(t, o)
	join(t, r, roleSpec(base(0), Decode))
	for i := range 3 {
		var want error
		if i == 2 {
			want = ErrRetryBudget
		}
		_, d, err := r.AcquirePair(&Request{Retry: true, Short: 1})
		d.Release(Completed, 0)
		if !errors.Is(err, want) {
			t.Errorf("pair %d: %v, want %v", i, err, want)
		}
	}
}
