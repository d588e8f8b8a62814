package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstar/bench/worker"
	"loadstar/bench/workload"
)

// small is a trace of which an endless cache has 5 of 14 blocks.
const small = `0,1536,3,0+2
0,1024,2,0+1
3000,2048,4,0+1 7 8
3000,512,1,9
6000,2048,4,0 9 9 9
`

// quick replays a workload through no router to workers of its own, which are
// direct if there is one only.
func quick(t *testing.T, s Settings, workers int) (*Measured, error) {
	t.Helper()
	s.Model, s.MaxOutput, s.Connections, s.Rounds = "m", 3, 256, 1
	s = s.withDefaults()
	started, err := startWorkers(slices.Repeat([]string{"127.0.0.1:0"}, workers), func(int) worker.Config {
		return worker.Config{Model: "m", CacheBlocks: 1 << 16, TimeScale: s.TimeScale}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endWorkers(started) })
	next, file, err := s.open(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	m := &Measured{}
	return m, s.replay(t.Context(), newPlan(s, next, 1), []string{"http://" + started[0].address + generation}, started, m)
}

// One worker that forgets nothing is the endless cache.
func TestOneWorkerIsEndless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.csv")
	if err := os.WriteFile(file, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		s    Settings
		want uint64 // requests
	}{
		{"trace", Settings{Setup: workload.Setup{Workload: file, Speed: 100}}, 5},
		{"conversations", Settings{Setup: workload.Setup{Workload: "conversations", Speed: 50}, TimeScale: 20, Requests: 150}, 150},
		{"unique", Settings{Setup: workload.Setup{Workload: "unique", Speed: 50}, TimeScale: 20, Requests: 20}, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := quick(t, tt.s, 1)
			if err != nil {
				t.Fatal(err)
			}
			if m.Sent != tt.want || m.OK != tt.want || m.Counted != tt.want || m.Unpriced+m.Unsent+m.Truncated != 0 {
				t.Errorf("%d sent, %d ok, %d counted, want %d: %+v", m.Sent, m.OK, m.Counted, tt.want, m)
			}
			if m.Hit != m.Endless || (m.Endless > 0) != (tt.name != "unique") {
				t.Errorf("the hit ratio is %v, that of the endless cache %v; want the same", m.Hit, m.Endless)
			}
			if m.Requests.Unevenness != 1 || m.Prompts.Unevenness != 1 || m.Prompts.ByWorker[0] != int64(m.PromptTokens) {
				t.Errorf("one worker: %+v and %+v of %d tokens", m.Requests, m.Prompts, m.PromptTokens)
			}
			// A token of what isn't cached takes 0.05 ms; HDR histograms round a bit.
			if least := .05 * float64(m.PromptTokens-m.CachedTokens) / float64(m.Counted) * .98; m.TTFT.Mean < least {
				t.Errorf("the mean time to the first token is %v ms, less than prefill takes, %v", m.TTFT.Mean, least)
			}
			if m.TTFT.P50 > m.TTFT.P90 || m.TTFT.P90 > m.TTFT.P99 || m.TTFT.P99 > m.TTFT.Max {
				t.Errorf("the times to the first token are %+v", m.TTFT)
			}
		})
	}
	t.Run("ratio", func(t *testing.T) {
		m, err := quick(t, Settings{Setup: workload.Setup{Workload: file, Speed: 100}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		// What stands around a prompt has 22 bytes: 6 tokens.
		if want := 5. * 16 / (14*16 + 5*6); math.Abs(m.Endless-want) > 1e-9 {
			t.Errorf("the endless cache's ratio is %v, want %v", m.Endless, want)
		}
	})
}

// The warm-up's requests fill the cache and are not counted.
func TestWarmUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.csv")
	if err := os.WriteFile(file, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := quick(t, Settings{Setup: workload.Setup{Workload: file, Speed: 10, WarmUp: 3}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := 3. * 16 / (9*16 + 3*6); m.Counted != 3 || math.Abs(m.Endless-want) > 1e-9 {
		t.Errorf("%d are counted with a ratio of %v, want 3 with %v", m.Counted, m.Endless, want)
	}
	if m.Sent != 5 || !slices.Equal(m.Requests.ByWorker, []int64{5, 0}) || m.Requests.Unevenness != 2 {
		t.Errorf("%d are sent, %+v, want 5, all to the first worker", m.Sent, m.Requests)
	}
}

// A replay ends where it is told to, and at a faulty line with an error.
func TestReplayEnds(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name, trace string
		s           Settings
		want        uint64
		err         string
	}{
		{"by requests", small, Settings{Requests: 3}, 3, ""},
		{"by time", small, Settings{Setup: workload.Setup{Seconds: 3}}, 2, ""},
		{"by a fault", small + "9,x,1,5\n", Settings{}, 0, `, line 6: input tokens "x": give a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Workload, tt.s.Speed = filepath.Join(dir, "trace.csv"), 100
			if err := os.WriteFile(tt.s.Workload, []byte(tt.trace), 0o644); err != nil {
				t.Fatal(err)
			}
			m, err := quick(t, tt.s, 1)
			if tt.err != "" {
				if err == nil || !strings.HasSuffix(err.Error(), tt.err) {
					t.Errorf("the error is %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || m.OK != tt.want {
				t.Errorf("%d ok, %v, want %d", m.OK, err, tt.want)
			}
		})
	}
}

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// A router that runs is one that answers at its URL; here, the only worker itself.
func TestRunAtURL(t *testing.T) {
	a := freeAddress(t)
	s := Settings{
		Setup: workload.Setup{Workload: "hot", Speed: 40, MaxOutput: 3, CacheBlocks: 1 << 16},
		URL:   "http://" + a + generation, Listen: []string{a}, Model: "m", Rounds: 2, Seed: 1,
		TimeScale: 20, Requests: 60, Connections: 64,
	}
	r, err := Run(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || r.Failed() != 0 || r.Interrupted {
		t.Fatalf("%d runs with %d failures, want 2 with none", len(r.Runs), r.Failed())
	}
	for _, m := range r.Runs {
		if m.Counted != 60 || m.Hit != m.Endless || m.Requests.ByWorker[0] != 60 {
			t.Errorf("round %d: %+v", m.Round, m)
		}
	}
	if r.Runs[0].PromptTokens == r.Runs[1].PromptTokens {
		t.Error("both rounds have the same prompts")
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), a+generation+" "); n != 2 { // and perhaps in a line on trouble, with a comma
		t.Errorf("the table names the router %d times, want 2:\n%s", n, &out)
	}
}

// What fails is told of and not in the ratios, and the end of ctx ends a run.
func TestRunWithTrouble(t *testing.T) {
	var served, cancelAt atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n := served.Add(1)
		if n == cancelAt.Load() {
			cancel()
		}
		switch {
		case n == 1, n%3 == 0: // hello, and what tells no usage
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: {}\n\ndata: [DONE]\n\n")
		case n%3 == 1:
			rw.WriteHeader(http.StatusTeapot)
		default:
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: {}\n\n")
		}
	})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	s := Settings{
		Setup: workload.Setup{Workload: "unique", MaxOutput: 3},
		URL:   "http://" + ln.Addr().String() + generation, Model: "m", Rounds: 1, Seed: 1,
		TimeScale: 20, Requests: 9, Connections: 9,
	}
	r, err := Run(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Runs[0]
	if m.Sent != 9 || m.OK != 3 || m.Counted != 3 || m.PromptTokens != 0 || r.Failed() != 6 {
		t.Errorf("%d failed, want 6 of 9: %+v", r.Failed(), m)
	}
	if got, want := m.Trouble(0), "3 truncated, 3 with status 418, 3 without usage"; got != want {
		t.Errorf("the trouble is %q, want %q", got, want)
	}

	served.Store(0)
	cancelAt.Store(3)
	r, err = Run(ctx, s, io.Discard)
	if !errors.Is(err, context.Canceled) || !r.Interrupted || len(r.Runs) != 0 {
		t.Errorf("the error is %v, interrupted %v with %d runs", err, r.Interrupted, len(r.Runs))
	}
}

// Of workers that are not ours only the share of the prompt is known that an endless
// cache would have had.
func TestEndlessElsewhere(t *testing.T) {
	tail := []byte(`{"usage":{"prompt_tokens":600,"prompt_tokens_details":{"cached_tokens":90}}}`)
	for _, tt := range []struct {
		name                      string
		blocks, hits, blockTokens int
		want                      uint64
	}{
		{"ours", 30, 10, 16, 160},
		{"elsewhere", 30, 10, 0, 200},
		{"no prompt", 0, 0, 0, 0},
	} {
		b := newBook()
		b.add(tt.blocks, tt.hits, tt.blockTokens, time.Millisecond, tail)
		if b.endless != tt.want || b.prompt != 600 || b.cached != 90 {
			t.Errorf("%s: %d of %d, cached %d, want %d of 600, 90", tt.name, b.endless, b.prompt, b.cached, tt.want)
		}
	}
}

func TestTrouble(t *testing.T) {
	tests := []struct {
		name string
		m    Measured
		want string
	}{
		{"none", Measured{Counted: 1, TTFT: Quantity{P50: 100}, Late: Quantity{P99: 9}}, ""},
		{"late", Measured{Counted: 1, TTFT: Quantity{P50: 100}, Late: Quantity{P99: 11}}, "times mean nothing, as 1 % of the requests were sent 110 ms late or more"},
		{"no times", Measured{Late: Quantity{P99: 11}, Unsent: 2}, "2 unsent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.m.Trouble(10); got != tt.want {
				t.Errorf("it is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	tests := []struct {
		name, text string
		want       uint64
		found      bool
	}{
		{"bare", `{"prompt_tokens":12}`, 12, true},
		{"spaced", `{"prompt_tokens" : 7,`, 7, true},
		{"the last counts", `"prompt_tokens":1 "prompt_tokens":2`, 2, true},
		{"absent", `{"tokens":12}`, 0, false},
		{"null", `{"prompt_tokens":null}`, 0, false},
		{"cut", `{"prompt_tokens"`, 0, false},
		{"huge", `"prompt_tokens":99999999999999999999`, 999999999999999999, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n, found := number([]byte(tt.text), `"prompt_tokens"`); n != tt.want || found != tt.found {
				t.Errorf("it is %d, %v, want %d, %v", n, found, tt.want, tt.found)
			}
		})
	}
}
