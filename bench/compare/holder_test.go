package compare

import (
	"os"
	"testing"
	"time"

	"loadstar/bench/load"
)

func newTestHolder(t *testing.T) (*holder, chan sighting) {
	t.Helper()
	seen := make(chan sighting, 1024)
	h, err := newHolder(seen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ln.Close() })
	return h, seen
}

// without is what measurements take for a router, with none before the worker.
func without(h *holder) *running {
	return &running{peer: peer{name: directName}, address: h.address(), pids: []int{os.Getpid()}}
}

func TestAsked(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing", `{"messages":[{"content":"hello"}]}`, ""},
		{"mute", `{"messages":[{"content":"[bench-mute-7] hello"}]}`, "[bench-mute-7"},
		{"not at the start", `{"messages":[{"content":"hello [bench-mute-7]"}]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := asked([]byte(tt.body)); got != tt.want {
				t.Errorf("it asks %q, want %q", got, tt.want)
			}
		})
	}
}

// A holder answers at once unless it is asked otherwise, and other paths as
// routers want them when they start.
func TestHolderAnswers(t *testing.T) {
	h, _ := newTestHolder(t)
	for _, tt := range []struct {
		name, start string
		least       time.Duration
	}{{"at once", "", 0}, {"after thinking", askThink + "40]", 40 * time.Millisecond}} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := load.Run(t.Context(), load.Config{URL: without(h).url(), Source: load.Chat{Start: tt.start}.Same(), Connections: 1, Requests: 3})
			if err != nil {
				t.Fatal(err)
			}
			if r.OK != 3 || r.Bytes != 3*bodyBytes || r.Total.Min < micros(tt.least)*.99 {
				t.Errorf("%d of 3 answers with %d bytes, the first after %.0f µs, want all with %d after %v", r.OK, r.Bytes, r.Total.Min, 3*bodyBytes, tt.least)
			}
		})
	}
	if n := h.count.Load(); n != 6 {
		t.Errorf("%d generations are counted, want 6", n)
	}
}

// Clients that leave are seen, before headers and in mid-stream.
func TestLeave(t *testing.T) {
	h, seen := newTestHolder(t)
	for _, tt := range []struct{ name, ask, metric string }{
		{"before headers", askMute, LeaveBefore}, {"mid-stream", askStall, LeaveMid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			samples, err := leave(t.Context(), without(h), seen, tt.ask, tt.metric, 5, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(samples) != 2 || samples[0].Metric != tt.metric || samples[1].Metric != tt.metric+LeaveTail {
				t.Fatalf("the samples are %+v, want two", samples)
			}
			if s := samples[0]; s.Failed > 4 || s.Value <= 0 || s.Value > samples[1].Value || samples[1].Value > 1000 {
				t.Errorf("p50 %v, p99 %v ms, %d not seen, want times above 0", s.Value, samples[1].Value, s.Failed)
			}
		})
	}
}

// A leaving that no worker sees is told as such, and after some in a row no more
// are tried.
func TestLeaveUnseen(t *testing.T) {
	h, seen := newTestHolder(t)
	deaf := make(chan sighting) // passes on that requests come, and not that they end
	go func() {
		for s := range seen {
			if !s.left {
				deaf <- s
			}
		}
	}()
	samples, err := leave(t.Context(), without(h), deaf, askMute, LeaveBefore, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[0]; s.Requests != leaveGiveUp || s.Failed != leaveGiveUp || s.Value != 0 || s.Note == "" {
		t.Errorf("the sample is %+v, want %d of %[2]d unseen and a note", s, leaveGiveUp)
	}
}

// Streams are all open when open returns, and their events are counted.
func TestStreams(t *testing.T) {
	twoCores(t)
	h, _ := newTestHolder(t)
	samples, err := cpuPerChunk(t.Context(), without(h), 2500*time.Millisecond, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[0]; s.Metric != ChunkCPU || s.Requests == 0 {
		t.Errorf("the sample is %+v, want chunks", s)
	}
	if n := h.count.Load(); n != chunkStreams {
		t.Errorf("%d streams came, want %d", n, chunkStreams)
	}
	samples, err = memoryPerStream(t.Context(), without(h), 20, 10*time.Millisecond, 1)
	if err != nil || len(samples) != 2 || samples[0].Metric != StreamKB || samples[0].Requests != 20 {
		t.Errorf("the samples are %+v, %v, want memory of 20 streams first", samples, err)
	}
}

// A worker that gets everything is two of two; both alike would be one.
func TestHotSpot(t *testing.T) {
	twoCores(t)
	h, _ := newTestHolder(t)
	idle, _ := newTestHolder(t)
	samples, err := hotSpot(t.Context(), without(h), []*holder{h, idle}, 1)
	if err != nil || samples[0].Value != 2 || samples[0].Failed != 0 {
		t.Errorf("the sample is %+v, %v, want 2 and no failure", samples, err)
	}
}
