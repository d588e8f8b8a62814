package worker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// blocks is a prompt of n full blocks and one byte, so that all n can be hit.
func blocks(n int) prompt { return newPrompt(make([]byte, n*BlockBytes+1), "") }

// exactly is a prompt of n blocks to the byte, told from others by its first byte.
func exactly(n int, first byte) prompt {
	text := make([]byte, n*BlockBytes)
	text[0] = first
	return newPrompt(text, "")
}

// tokenTimes waits for a job's end and tells when each token came.
func tokenTimes(start time.Time, j *job) []time.Duration {
	var times []time.Duration
	for {
		p := <-j.progress
		for len(times) < p.tokens {
			times = append(times, time.Since(start))
		}
		if p.finished {
			return times
		}
	}
}

// submitted runs the jobs together from the same instant and tells their token times.
func submitted(t *testing.T, e *engine, jobs ...*job) [][]time.Duration {
	t.Helper()
	start := time.Now()
	for _, j := range jobs {
		if err := e.submit(j); err != nil {
			t.Fatalf("submit: %v", err)
		}
	}
	times := make([][]time.Duration, 0, len(jobs))
	done := make(chan int)
	for range jobs {
		times = append(times, nil)
	}
	for i, j := range jobs {
		go func() {
			times[i] = tokenTimes(start, j)
			done <- i
		}()
	}
	for range jobs {
		<-done
	}
	return times
}

func TestPrefillOrder(t *testing.T) {
	tests := []struct {
		name    string
		chunked bool
		want    []time.Duration // first token of prompts of 10, 1 and 1 blocks
	}{
		{"one after another", false, []time.Duration{10 * unit, 11 * unit, 12 * unit}},
		// Three share until the small ones are done: 3 units for one block each.
		{"shared", true, []time.Duration{12 * unit, 3 * unit, 3 * unit}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.ChunkedPrefill = tt.chunked
				e := newEngine(cfg)
				defer e.close()
				var got []time.Duration
				for _, times := range submitted(t, e,
					newJob([]prompt{exactly(10, 'a')}, 1, 1), newJob([]prompt{exactly(1, 'b')}, 1, 1), newJob([]prompt{exactly(1, 'c')}, 1, 1)) {
					got = append(got, times[0])
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("first tokens at %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A step with two streams takes two units, with one it takes one.
func TestDecodeSlowsWithTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		got := submitted(t, e, newJob([]prompt{exactly(1, 'a')}, 1, 5), newJob([]prompt{exactly(1, 'b')}, 1, 3))
		want := [][]time.Duration{
			{1 * unit, 2 * unit, 4 * unit, 6 * unit, 7 * unit},
			{2 * unit, 4 * unit, 6 * unit},
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("job %d: tokens at %v, want %v", i, got[i], want[i])
			}
		}
	})
}

// Prefill doesn't hold decode up.
func TestDecodeGoesOnDuringPrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		got := submitted(t, e, newJob([]prompt{exactly(1, 'a')}, 1, 4), newJob([]prompt{exactly(8, 'b')}, 1, 1))
		want := [][]time.Duration{{1 * unit, 2 * unit, 3 * unit, 4 * unit}, {9 * unit}}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("job %d: tokens at %v, want %v", i, got[i], want[i])
			}
		}
	})
}

// All streams of a request weigh in the batch.
func TestStreamsOfOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		j := newJob([]prompt{exactly(1, 'a'), exactly(2, 'b')}, 4, 3)
		if got, want := submitted(t, e, j)[0], []time.Duration{3 * unit, 7 * unit, 11 * unit}; !slices.Equal(got, want) {
			t.Errorf("tokens at %v, want %v", got, want)
		}
		if got, want := e.stats().GeneratedTokens, int64(12); got != want {
			t.Errorf("%d tokens, want %d", got, want)
		}
	})
}

// A request holds its prompts' blocks and those of each stream's tokens.
func TestHeldBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		if err := e.submit(newJob([]prompt{blocks(1), exactly(2, 'b')}, 3, 100)); err != nil {
			t.Fatal(err)
		}
		var got []int
		// 193 bytes of prompt, a unit for 64; then a step of 3 units a token.
		for _, d := range []time.Duration{unit, 3 * unit, 15 * 3 * unit, 3 * unit} {
			time.Sleep(d)
			got = append(got, e.stats().HeldBlocks)
		}
		if want := []int{4, 7, 7, 10}; !slices.Equal(got, want) {
			t.Errorf("blocks held before the first, after 1, 16 and 17 tokens: %v, want %v", got, want)
		}
	})
}

func TestCachedBlocksTakeNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.PrefillBlocksPerSecond = float64(time.Second/unit) / BlockBytes // a unit a byte
		e := newEngine(cfg)
		defer e.close()
		first := newJob([]prompt{blocks(3)}, 1, 1)
		second := newJob([]prompt{blocks(3)}, 1, 1)
		longer := newJob([]prompt{blocks(4)}, 1, 1)
		if got, want := submitted(t, e, first)[0][0], (3*BlockBytes+1)*unit; got != want {
			t.Errorf("first token of a new prompt after %v, want %v", got, want)
		}
		if got, want := submitted(t, e, second)[0][0], 1*unit; got != want {
			t.Errorf("first token of a known prompt after %v, want %v", got, want)
		}
		if got, want := submitted(t, e, longer)[0][0], (BlockBytes+1)*unit; got != want {
			t.Errorf("first token of a longer prompt after %v, want %v", got, want)
		}
		s := e.stats()
		if got, want := []int64{s.PromptBlocks, s.HitBlocks}, []int64{10, 6}; !slices.Equal(got, want) {
			t.Errorf("blocks asked and hit: %v, want %v", got, want)
		}
	})
}

func TestTimeScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.TimeScale = 4
		e := newEngine(cfg)
		defer e.close()
		got := submitted(t, e, newJob([]prompt{exactly(2, 'a')}, 1, 2))[0]
		if want := []time.Duration{unit / 2, unit/2 + unit/4}; !slices.Equal(got, want) {
			t.Errorf("tokens at %v, want %v", got, want)
		}
	})
}

// A job that leaves makes room in the same instant, wherever it stood.
func TestLeaveFreesTheSlotAtOnce(t *testing.T) {
	tests := []struct {
		name    string
		limit   int           // tokens of the job that leaves
		after   time.Duration // when it leaves
		running int           // with MaxRunning 1, before and after
		waiting int           // after
	}{
		{"prefilling", 5, 4 * unit, 1, 0},
		{"decoding", 5, 13 * unit, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxRunning = 1
				e := newEngine(cfg)
				defer e.close()
				leaver := newJob([]prompt{exactly(10, 'a')}, 1, tt.limit)
				next := newJob([]prompt{exactly(1, 'b')}, 1, 1)
				e.enter(-1)
				e.enter(-1)
				if err := errors.Join(e.submit(leaver), e.submit(next)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.after)
				if s := e.stats(); s.Running != 1 || s.Waiting != 1 {
					t.Fatalf("before: %d running, %d waiting, want 1 and 1", s.Running, s.Waiting)
				}
				left := time.Now()
				e.leave(leaver, aborted)
				s := e.stats()
				if s.Running != tt.running || s.Waiting != tt.waiting || s.Aborted != 1 || s.Open != 1 {
					t.Errorf("after: %+v, want %d running, %d waiting, 1 aborted, 1 open", s, tt.running, tt.waiting)
				}
				if d := time.Since(left); d != 0 {
					t.Errorf("that took %v, want no time", d)
				}
				if got, want := tokenTimes(left, next), []time.Duration{unit}; !slices.Equal(got, want) {
					t.Errorf("the next job's token came after %v, want %v", got, want)
				}
			})
		})
	}
}

// When all streams of a step have left, those that wait for the next one don't
// wait for its end.
func TestLeaveEndsAnEmptyStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.DecodeBase = 100 * unit
		e := newEngine(cfg)
		defer e.close()
		a, b := newJob([]prompt{exactly(1, 'a')}, 1, 9), newJob([]prompt{exactly(1, 'b')}, 1, 2)
		start := time.Now()
		e.enter(-1)
		if err := errors.Join(e.submit(a), e.submit(b)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * unit)
		e.leave(a, aborted)
		if got, want := tokenTimes(start, b)[1], 110*unit; got != want {
			t.Errorf("second token after %v, want %v", got, want)
		}
	})
}

func TestLeaveFromTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		jobs := []*job{newJob([]prompt{exactly(5, 'a')}, 1, 1), newJob([]prompt{exactly(5, 'b')}, 1, 1), newJob([]prompt{exactly(5, 'c')}, 1, 1)}
		start := time.Now()
		for _, j := range jobs {
			e.enter(-1)
			if err := e.submit(j); err != nil {
				t.Fatal(err)
			}
		}
		e.leave(jobs[1], aborted)
		if s := e.stats(); s.Running != 1 || s.Waiting != 1 {
			t.Errorf("%d running, %d waiting, want 1 and 1", s.Running, s.Waiting)
		}
		if got, want := tokenTimes(start, jobs[2]), []time.Duration{10 * unit}; !slices.Equal(got, want) {
			t.Errorf("the last job's token came after %v, want %v", got, want)
		}
	})
}

// Of two jobs that share the prefill rate one leaves: the other has it all.
func TestLeaveGivesItsShareBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.ChunkedPrefill = true
		e := newEngine(cfg)
		defer e.close()
		a, b := newJob([]prompt{exactly(4, 'a')}, 1, 1), newJob([]prompt{exactly(4, 'b')}, 1, 1)
		start := time.Now()
		e.enter(-1)
		if err := errors.Join(e.submit(a), e.submit(b)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * unit)
		e.leave(a, aborted)
		if got, want := tokenTimes(start, b), []time.Duration{5 * unit}; !slices.Equal(got, want) {
			t.Errorf("first token after %v, want %v", got, want)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig() // one in prefill, three in the queue
		e := newEngine(cfg)
		defer e.close()
		var got []error
		for i := range 6 {
			got = append(got, e.submit(newJob([]prompt{exactly(1, byte(i))}, 1, 1)))
		}
		if want := []error{nil, nil, nil, nil, errFull, errFull}; !slices.Equal(got, want) {
			t.Errorf("submitting six gave %v, want %v", got, want)
		}
	})
}

// A reader that looks late sees all that happened in one piece.
func TestSlowReaderHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		defer e.close()
		j := newJob([]prompt{exactly(1, 'a')}, 1, 50)
		if err := e.submit(j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * unit)
		synctest.Wait()
		if got, want := <-j.progress, (progress{tokens: 10}); got != want {
			t.Errorf("progress is %+v, want %+v", got, want)
		}
		time.Sleep(time.Minute)
		if got, want := <-j.progress, (progress{tokens: 50, finished: true}); got != want {
			t.Errorf("progress is %+v, want %+v", got, want)
		}
	})
}

func TestClosedEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(testConfig())
		e.enter(3)
		e.close()
		e.close()
		e.enter(-1)
		e.leave(nil, stopped)
		e.flush()
		if err := e.submit(newJob([]prompt{exactly(1, 'a')}, 1, 1)); !errors.Is(err, errClosed) {
			t.Errorf("submit after close gave %v, want %v", err, errClosed)
		}
		if s := e.stats(); s.Open != 1 || s.Entered != 1 || s.Ranks[3] != 1 {
			t.Errorf("stats after close are %+v, want one request of rank 3 open", s)
		}
	})
}
