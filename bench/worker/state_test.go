package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"loadstar/bench/lru"
)

// unit is the tick of the slow model. Every time in these tests is a multiple.
const unit = time.Millisecond

// testConfig has a block and a lone decode step take one unit each.
func testConfig() Config {
	return Config{
		PrefillBlocksPerSecond: float64(time.Second / unit), DecodeBase: unit, DecodePerStream: unit,
		MaxRunning: 4, MaxQueue: 3, CacheBlocks: 12,
	}.withDefaults()
}

// slowJob and slowState are the engine with FIFO prefill, one tick after another.
type slowJob struct {
	job         *job // its twin in the real state
	left        int  // ticks of prefill
	tokens      int
	joined      bool // in the step under way
	in, prefill bool
}

type slowState struct {
	cfg   Config
	cache *lru.Cache
	jobs  []*slowJob // order of arrival, and so of everything else
	step  int        // ticks left of the step, 0 for none
}

func (s *slowState) running() (n int, busy bool) {
	for _, j := range s.jobs {
		if j.in {
			n++
		}
		busy = busy || j.prefill
	}
	return n, busy
}

// settle starts what can start without time passing.
func (s *slowState) settle() {
	for _, j := range s.jobs {
		if n, busy := s.running(); !j.in && !busy && n < s.cfg.MaxRunning {
			j.in, j.prefill = true, true
			j.left = j.job.prompts[0].size / BlockBytes
			j.left -= min(s.cache.Match(j.job.prompts[0].chain), j.job.prompts[0].usable())
		}
	}
	if s.step == 0 {
		streams := 0
		for _, j := range s.jobs {
			if j.joined = j.in && !j.prefill; j.joined {
				streams += j.job.streams
			}
		}
		s.step = streams // DecodeBase and DecodePerStream are one tick each
	}
}

func (s *slowState) tick() {
	if s.step > 0 {
		if s.step--; s.step == 0 {
			for _, j := range s.jobs {
				if j.joined {
					j.tokens++
				}
			}
		}
	}
	for _, j := range s.jobs {
		if j.prefill {
			if j.left--; j.left == 0 {
				j.prefill = false
				j.tokens = min(1, j.job.limit)
				s.cache.Add(j.job.prompts[0].chain)
			}
		}
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j *slowJob) bool { return j.in && !j.prefill && j.tokens == j.job.limit })
	s.settle()
}

func (s *slowState) leave(twin *job) {
	s.jobs = slices.DeleteFunc(s.jobs, func(j *slowJob) bool { return j.job == twin })
	if !slices.ContainsFunc(s.jobs, func(j *slowJob) bool { return j.joined }) {
		s.step = 0
	}
	s.settle()
}

// FuzzState plays arrivals, departures and time to the engine and to the slow
// model, and compares both after each. In chunked mode, which the model doesn't
// know, some jobs fetch their blocks or keep them at their end, and it checks the
// bounds and that the books balance.
func FuzzState(f *testing.F) {
	f.Add(false, []byte{0, 3, 0, 40, 2, 5, 0, 9, 1, 0, 2, 9})
	f.Add(true, []byte{0, 3, 0, 40, 2, 5, 0, 9, 1, 0, 2, 9})
	f.Add(true, []byte{0, 211, 0, 255, 0, 254, 3, 0, 2, 3, 3, 1, 3, 3, 2, 9, 0, 66, 2, 40})
	f.Add(false, []byte{0, 255, 2, 140, 0, 254, 2, 133, 1, 0, 2, 9})
	f.Add(false, []byte{0, 108, 0, 66, 0, 108, 2, 135, 0, 66, 2, 143, 1, 1, 2, 9, 2, 9})
	f.Add(false, []byte{0, 255, 0, 254, 0, 253, 0, 252, 0, 251, 0, 250, 0, 249, 0, 248, 2, 3, 1, 3, 2, 9, 1, 0})
	f.Fuzz(func(t *testing.T, chunked bool, script []byte) {
		cfg := testConfig()
		cfg.ChunkedPrefill = chunked
		now := time.Unix(0, 0)
		s, slow := newState(cfg), &slowState{cfg: cfg, cache: lru.New(cfg.CacheBlocks)}
		var open []*job
		script = script[:min(len(script), 400)] // more of the same teaches nothing
		for len(script) >= 2 {
			op, arg := script[0], int(script[1])
			script = script[2:]
			switch op % 4 {
			case 0:
				text := make([]byte, (1+arg%7)*BlockBytes)
				text[0] = byte(arg / 7 % 3)
				j := newJob([]prompt{newPrompt(text, "")}, 1+arg/21%2, arg/42)
				if chunked {
					j.fetches = arg >= 210
					j.keep = []string{"", "", "k1", "k2"}[arg%4]
				}
				s.enter(arg)
				if s.submit(j, now) {
					open = append(open, j)
					slow.jobs = append(slow.jobs, &slowJob{job: j})
					slow.settle()
				} else {
					s.leave(nil, refused, now)
				}
			case 1:
				if len(open) > 0 {
					j := open[arg%len(open)]
					open = without(open, j)
					s.leave(j, aborted, now)
					slow.leave(j)
				}
			case 2:
				for range arg % 16 {
					now = now.Add(unit)
					slow.tick()
				}
				if arg >= 128 {
					continue // the next call must catch up by itself
				}
				s.advance(now)
			case 3:
				s.advance(now)
				if len(s.fetch) > 0 {
					s.load(s.fetch[arg%len(s.fetch)], grant{OK: arg < 128, Takes: time.Duration(arg%4) * unit}, now)
				}
			}
			if !chunked {
				compare(t, s, slow)
			}
			checkBooks(t, s, open, now)
		}
		for range 1 + len(open) {
			for len(s.fetch) > 0 && s.fetch[0].ready.IsZero() {
				s.load(s.fetch[0], grant{}, now)
			}
			now = now.Add(time.Hour)
			s.advance(now)
		}
		for _, j := range open {
			if p := <-j.progress; !p.finished || p.tokens != j.limit {
				t.Fatalf("after an hour a job's progress is %+v, want it finished with %d tokens", p, j.limit)
			}
			s.leave(j, stopped, now)
		}
		checkBooks(t, s, nil, now)
		if n := len(s.queue) + len(s.fetch) + s.running() + len(s.pins.order); n > 0 {
			t.Fatalf("%d jobs or pins remain", n)
		}
	})
}

func compare(t *testing.T, s *state, slow *slowState) {
	t.Helper()
	var got, want []string
	for _, jobs := range [][]*job{s.decode, s.prefill, s.queue} {
		for _, j := range jobs {
			got = append(got, fmt.Sprintf("%d tokens, phase %d", j.tokens, j.phase))
		}
	}
	for _, j := range slow.jobs {
		phase := decoding
		if j.prefill {
			phase = prefilling
		} else if !j.in {
			phase = queued
		}
		want = append(want, fmt.Sprintf("%d tokens, phase %d", j.tokens, phase))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("jobs are\n%q, want\n%q", got, want)
	}
	if got, want := s.cache.Keys(), slow.cache.Keys(); !slices.Equal(got, want) {
		t.Fatalf("the cache holds %x, want %x", got, want)
	}
}

func checkBooks(t *testing.T, s *state, open []*job, now time.Time) {
	t.Helper()
	n := s.snapshot(now)
	if n.Open != len(open) || n.Entered != n.Completed+n.Aborted+n.Failed+n.Refused+int64(n.Open) {
		t.Fatalf("%d requests are open, the books say %+v", len(open), n)
	}
	if n.Running+n.Loading > s.cfg.MaxRunning || n.Waiting > s.cfg.MaxQueue+s.cfg.MaxRunning || n.PeakRunning > s.cfg.MaxRunning || n.CachedBlocks > s.cfg.CacheBlocks {
		t.Fatalf("a bound is broken: %+v", n)
	}
	if n.Pinned != n.KVSent+n.KVDropped+n.KVExpired+int64(n.PinnedRequests) {
		t.Fatalf("the books of what is pinned don't balance: %+v", n)
	}
	for name, jobs := range map[phase][]*job{queued: s.queue, fetching: s.fetch, prefilling: s.prefill, decoding: s.decode} {
		for _, j := range jobs {
			if j.phase != name || !slices.Contains(open, j) {
				t.Fatalf("a job in list %d has phase %d, open %t", name, j.phase, slices.Contains(open, j))
			}
		}
	}
}

// However late advance is called, everything happens at its own time.
func TestLateAdvanceChangesNothing(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked %t", chunked), func(t *testing.T) {
			run := func(late bool) []time.Duration {
				cfg := testConfig()
				cfg.ChunkedPrefill = chunked
				start := time.Unix(0, 0)
				s := newState(cfg)
				for _, blocks := range []int{3, 1, 2} {
					s.submit(newJob([]prompt{newPrompt(make([]byte, blocks*BlockBytes+blocks), "")}, 1, 3), start)
				}
				var events []time.Duration
				for {
					at, ok := s.next()
					if !ok {
						return events
					}
					if late {
						s.advance(at.Add(time.Hour))
						return []time.Duration{s.worked.Sub(start)}
					}
					events = append(events, at.Sub(start))
					s.advance(at)
				}
			}
			onTime, late := run(false), run(true)
			if got, want := late[0], onTime[len(onTime)-1]; got != want {
				t.Errorf("called late, the last event is at %v, want %v", got, want)
			}
		})
	}
}
