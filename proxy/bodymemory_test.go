package proxy

import (
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestBodyMemory: bodies beyond the budget are refused, in such a way that the
// client hears of it, while small ones pass; and it is all there again when the
// requests are over, however they end.
func TestBodyMemory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		end    func(r *router, w *proxytest.Worker, held []*proxytest.Client)
		chunks []int
	}{
		{"answered", func(_ *router, w *proxytest.Worker, _ []*proxytest.Client) { w.Release() }, nil},
		{"answered, chunked", func(_ *router, w *proxytest.Worker, _ []*proxytest.Client) { w.Release() }, []int{50_000}},
		{"clients leave", func(_ *router, _ *proxytest.Worker, held []*proxytest.Client) {
			for _, c := range held {
				c.CloseFIN()
			}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.ByBody(map[string]proxytest.Script{"hold": heldPlain, "": proxytest.JSON(200, "{}")}))
			o := testOptions("round_robin")
			o.Limits.BodiesBytes = 8 << 20
			r := startRouter(t, o, w)
			big := proxytest.Request{
				Target: chatPath, Body: `{"prompt":"hold` + strings.Repeat("x", 3<<20) + `"}`, ChunkSizes: tc.chunks, Headers: []proxytest.Header{jsonType},
			}
			for range 3 {
				var held []*proxytest.Client
				for range 2 { // each takes 4 MiB, as its buffer grows by doubling
					c := proxytest.Dial(t, r.addr)
					if err := c.SendRequest(big); err != nil {
						t.Fatal(err)
					}
					held = append(held, c)
				}
				r.waitLoad(w, 2)
				w.WaitInFlight(2, patience) // so that both are released
				got := proxytest.Do(t, r.addr, big)
				wantProblem(t, got, 503, "router_exhausted")
				if got.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				// Just what counts as small.
				wantAnswer(t, r.call("POST", chatPath, `"`+strings.Repeat("x", 60_000)+`"`), 200, "{}")
				tc.end(r, w, held)
				r.wait("the requests to end", func(v *actors.Snapshot) bool { return v.Live == 0 })
				w.WaitInFlight(0, patience)
				eventually(t, "all memory to be given back", func() bool { return len(r.bodies) == 0 })
			}
		})
	}
}

// TestBodyMemoryIsForWhatCame: a body that is merely announced takes none.
func TestBodyMemoryIsForWhatCame(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Limits.BodiesBytes = 4 << 20
	r := startRouter(t, o, w)
	for range 20 {
		c := proxytest.Dial(t, r.addr)
		if err := c.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n" + strings.Repeat("x", 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	got := r.call("POST", chatPath, `"`+strings.Repeat("x", 1<<20)+`"`)
	wantAnswer(t, got, 200, "{}")
}

// TestBodyShare counts what sizes take.
func TestBodyShare(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sizes []int
		taken int // units; -1 if they don't fit
	}{
		{"small", []int{0, 1, 64 << 10}, 0},
		{"a byte more", []int{64<<10 + 1}, 1},
		{"a whole unit", []int{1 << 20}, 1},
		{"grows", []int{64 << 10, 128 << 10, 1 << 20, 1<<20 + 1, 3 << 20}, 3},
		{"all", []int{4 << 20}, 4},
		{"too much", []int{4<<20 + 1}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newBodyMemory(4 << 20)
			s := bodyShare{of: m}
			fits := true
			for _, n := range tc.sizes {
				fits = s.cover(n)
			}
			if fits != (tc.taken >= 0) || fits && len(m) != tc.taken {
				t.Errorf("%d units taken, fits: %v; want %d", len(m), fits, tc.taken)
			}
			if s.giveBack(); len(m) != 0 || s.units != 0 {
				t.Errorf("%d units left behind", len(m))
			}
		})
	}
	none := bodyShare{of: newBodyMemory(0)}
	if !none.cover(1 << 40) {
		t.Error("without a budget something doesn't fit")
	}
}
