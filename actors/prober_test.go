package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// record is what a fake worker saw of its checks.
type record struct {
	mu      sync.Mutex
	began   []time.Duration // since the start of the test
	running int
}

// times are when the checks so far began.
func (r *record) times() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.began)
}

// checks is the number of checks so far.
func (r *record) checks() int { return len(r.times()) }

// live is the number of checks that run at this moment.
func (r *record) live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// enter notes a check and returns its number.
func (r *record) enter(at time.Duration) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = append(r.began, at)
	r.running++
	return len(r.began) - 1
}

func (r *record) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
}

// probed is a registry with workers, and a prober that records checks.
type probed struct {
	*Registry
	*Prober
	at    map[string]*record
	watch func(base string)
}

// probe starts a prober over workers that are members already but not watched.
// answer gives the result of the n-th check of a worker, from 0.
func probe(t *testing.T, o Options, bases []string, answer func(ctx context.Context, base string, n int) error) *probed {
	t.Helper()
	p := &probed{Registry: start(t, o), at: make(map[string]*record)}
	for _, b := range bases {
		add(t, p.Registry, spec(b))
		p.at[b] = new(record)
	}
	began := time.Now()
	p.Prober = NewProber(p.Registry, o.Health)
	p.watch = func(base string) {
		p.Watch(base, func(ctx context.Context) error {
			rec := p.at[base]
			n := rec.enter(time.Since(began))
			defer rec.leave()
			return answer(ctx, base, n)
		})
	}
	t.Cleanup(p.Stop)
	return p
}

func (p *probed) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// about reports whether a pause is what was asked for, give or take the tenth
// by which pauses vary.
func about(got, want time.Duration) bool {
	return got >= want-want/10 && got <= want+want/10
}

func well(context.Context, string, int) error { return nil }

// One worker that lets every check run into its timeout delays no check of
// another, the first included.
func TestChecksRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options("random")
		slow, quick := base(0), base(1)
		p := probe(t, o, []string{slow, quick}, func(ctx context.Context, base string, _ int) error {
			if base == slow {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		p.watch(slow)
		p.watch(quick)
		synctest.Wait()
		if !view(t, p.Registry, quick).Healthy {
			t.Error("the quick worker is not healthy before time has passed, want healthy")
		}
		p.pass(5 * time.Minute)
		times := p.at[quick].times()
		for i := 1; i < len(times); i++ {
			if got := times[i] - times[i-1]; !about(got, o.Health.Interval) {
				t.Errorf("check %d came %v after the one before, want about %v", i, got, o.Health.Interval)
			}
		}
		if got := len(times); got < 27 {
			t.Errorf("the quick worker had %d checks in five minutes, want 27 or more", got)
		}
		if view(t, p.Registry, slow).Healthy {
			t.Error("a worker that never answers is healthy, want not")
		}
		if got := p.at[slow].checks(); got < 40 {
			t.Errorf("the slow worker had %d checks, want 40 or more: it is retried while it was never healthy", got)
		}
	})
}

// A check is called off at its timeout, not later.
func TestCheckTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options("random")
		var took atomic.Int64
		p := probe(t, o, []string{base(0)}, func(ctx context.Context, _ string, _ int) error {
			began := time.Now()
			<-ctx.Done()
			took.Store(int64(time.Since(began)))
			return ctx.Err()
		})
		p.watch(base(0))
		p.pass(o.Health.Timeout)
		if got := time.Duration(took.Load()); got != o.Health.Timeout {
			t.Errorf("the check was called off after %v, want %v", got, o.Health.Timeout)
		}
		if got, want := view(t, p.Registry, base(0)).Reason, context.DeadlineExceeded.Error(); got != want {
			t.Errorf("reason = %q, want %q", got, want)
		}
	})
}

// A check that could not be made leaves the worker's health as it is, and is made
// again.
func TestCheckWithoutVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options("random")
		var fail atomic.Pointer[error]
		fail.Store(new(error))
		p := probe(t, o, []string{base(0)}, func(context.Context, string, int) error { return *fail.Load() })
		p.watch(base(0))
		p.pass(time.Minute)
		for _, tc := range []struct {
			err  error
			want bool // healthy
		}{
			{fmt.Errorf("%w: too many open files", ErrNoVerdict), true},
			{errDown, false},
			{fmt.Errorf("%w: too many open files", ErrNoVerdict), false},
			{nil, true},
		} {
			before := p.at[base(0)].checks()
			fail.Store(&tc.err)
			p.pass(5 * time.Minute)
			if got := view(t, p.Registry, base(0)).Healthy; got != tc.want {
				t.Errorf("healthy = %v after checks that end with %v, want %v", got, tc.err, tc.want)
			}
			if p.at[base(0)].checks() < before+10 {
				t.Errorf("checks that end with %v are not made again", tc.err)
			}
		}
	})
}

// A worker that was never healthy is asked again soon, one that was is asked at
// the regular interval even while it is sick.
func TestRetryIntervalBeforeFirstSuccess(t *testing.T) {
	for _, tc := range []struct {
		name            string
		interval, retry time.Duration
		early           time.Duration // pause wanted before the first success
	}{
		{"retry interval", 10 * time.Second, time.Second, time.Second},
		{"never slower than the interval", 3 * time.Second, 30 * time.Second, 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const firstGood = 5
				o := options("random")
				o.Health.Interval, o.Health.RetryInterval = tc.interval, tc.retry
				p := probe(t, o, []string{base(0)}, func(_ context.Context, _ string, n int) error {
					if n == firstGood {
						return nil
					}
					return errDown
				})
				p.watch(base(0))
				p.pass(3 * time.Minute)
				times := p.at[base(0)].times()
				if len(times) < firstGood+6 {
					t.Fatalf("%d checks in three minutes, want %d or more", len(times), firstGood+6)
				}
				for i := 1; i < len(times); i++ {
					want := tc.early
					if i > firstGood {
						want = tc.interval
					}
					if got := times[i] - times[i-1]; !about(got, want) {
						t.Errorf("pause before check %d = %v, want about %v", i, got, want)
					}
				}
			})
		})
	}
}

// The checks of a fleet that was added at one moment don't stay in step.
func TestChecksSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options("random")
		bases := []string{base(0), base(1), base(2), base(3), base(4), base(5), base(6), base(7)}
		p := probe(t, o, bases, well)
		for _, b := range bases {
			p.watch(b)
		}
		p.pass(time.Minute)
		second := make(map[time.Duration]bool)
		for _, b := range bases {
			second[p.at[b].times()[1]] = true
		}
		if len(second) < 2 {
			t.Errorf("the second checks of %d workers all began at %v, want different times", len(bases), p.at[base(0)].times()[1])
		}
	})
}

func TestUnwatchEndsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probe(t, options("random"), []string{base(0), base(1)}, well)
		p.watch(base(0))
		p.watch(base(1))
		p.pass(time.Minute)
		p.Unwatch(base(0))
		synctest.Wait()
		gone, stays := p.at[base(0)].checks(), p.at[base(1)].checks()
		p.pass(10 * time.Minute)
		if got := p.at[base(0)].checks(); got != gone {
			t.Errorf("%d checks after Unwatch, want 0", got-gone)
		}
		if got := p.at[base(1)].checks(); got < stays+50 {
			t.Errorf("%d checks of the other worker in ten minutes, want 50 or more", got-stays)
		}
	})
}

// A check that is called off by Unwatch says nothing about the worker: the
// same URL may have been added again in the meantime.
func TestUnwatchedCheckIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probe(t, options("random"), []string{base(0)}, func(ctx context.Context, _ string, _ int) error {
			<-ctx.Done()
			return nil
		})
		p.watch(base(0))
		p.pass(time.Second)
		p.Unwatch(base(0))
		synctest.Wait()
		if got := p.at[base(0)].live(); got != 0 {
			t.Errorf("%d checks run after Unwatch, want 0", got)
		}
		if view(t, p.Registry, base(0)).Healthy {
			t.Error("a check that was called off made the worker healthy, want no verdict")
		}
	})
}

// Ranks share their base URL: checks run once for all of them, and until the
// last one goes. Membership and watching are two messages from goroutines that
// may overtake each other, so either order must come to the same.
func TestWatchCounts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		calls   string // + Watch, - Unwatch
		checked bool
	}{
		{"watch", "+", true},
		{"watch and unwatch", "+-", false},
		{"unwatch overtakes", "-+", false},
		{"two ranks, one goes", "++-", true},
		{"two ranks, both go", "++--", false},
		{"both go first", "--++", false},
		{"one goes first", "-++", true},
		{"both go first, one is back", "--+++", true},
		{"in turns", "+--+", false},
		{"in turns, back", "+--++", true},
		{"three ranks overtaken", "---+++", false},
		{"three ranks half overtaken", "--+-++", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probe(t, options("random"), []string{base(0)}, well)
				for _, c := range tc.calls {
					if c == '+' {
						p.watch(base(0))
					} else {
						p.Unwatch(base(0))
					}
				}
				synctest.Wait()
				before := p.at[base(0)].checks()
				p.pass(105 * time.Second)
				n := p.at[base(0)].checks() - before
				if tc.checked && (n < 9 || n > 12) {
					t.Errorf("%d checks in 105 s, want those of one checker", n)
				}
				if !tc.checked && n != 0 {
					t.Errorf("%d checks of a worker that nobody watches, want 0", n)
				}
				p.Stop() // must end whatever was started
				p.pass(time.Minute)
				if got := p.at[base(0)].checks() - before - n; got != 0 {
					t.Errorf("%d checks after Stop, want 0", got)
				}
			})
		})
	}
}

// Stop calls off the checks that run and waits until they have ended.
func TestStopWithChecksRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tidyUp = 300 * time.Millisecond
		bases := []string{base(0), base(1), base(2)}
		p := probe(t, options("random"), bases, func(ctx context.Context, _ string, _ int) error {
			<-ctx.Done()
			time.Sleep(tidyUp)
			return ctx.Err()
		})
		for _, b := range bases {
			p.watch(b)
		}
		p.pass(time.Second)
		began := time.Now()
		p.Stop()
		if got := time.Since(began); got != tidyUp {
			t.Errorf("Stop took %v, want %v: what the checks need to end", got, tidyUp)
		}
		for _, b := range bases {
			if got := p.at[b].live(); got != 0 {
				t.Errorf("%d checks of %s run after Stop, want 0", got, b)
			}
			if view(t, p.Registry, b).Reason != "not checked yet" {
				t.Errorf("a check that Stop called off was reported, want no verdict")
			}
		}
	})
}

// After Stop no call blocks, however many there are.
func TestProberAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probe(t, options("random"), []string{base(0)}, well)
		p.watch(base(0))
		p.pass(time.Second)
		p.Stop()
		n := p.at[base(0)].checks()
		for range 4 * cap(p.Prober.inbox) {
			p.watch(base(0))
			p.Unwatch(base(0))
		}
		p.watch(base(0))
		p.Stop()
		p.pass(time.Minute)
		if got := p.at[base(0)].checks() - n; got != 0 {
			t.Errorf("%d checks after Stop, want 0", got)
		}
	})
}

// A prober outlives its registry without harm: verdicts go nowhere.
func TestProberOutlivesRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probe(t, options("random"), []string{base(0)}, well)
		p.watch(base(0))
		p.pass(time.Second)
		if err := p.Halt(); err != nil {
			t.Errorf("Halt: %v", err)
		}
		p.pass(time.Minute)
		if p.ReportHealth(base(0), errors.New("late")) {
			t.Error("a registry that has ended calls a worker healthy, want not")
		}
		p.Stop()
	})
}
