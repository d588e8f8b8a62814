package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// chatter streams for ever, without a pause.
func chatter(x *proxytest.Exchange) {
	x.SSEHead()
	for i := 0; x.Event(fmt.Sprint("ev-", i)); i++ {
	}
}

// TestTotalTimeout: an answer that isn't there in time is given up, whatever it
// does meanwhile; a stream that is cut tells so and ends uncleanly.
func TestTotalTimeout(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		body   string
		script proxytest.Script
		status int
	}{
		{"no head", chat("hi", false), proxytest.Silent, 504},
		{"stream that stalls", chat("hi", true), stalledStream, 200},
		{"stream that never pauses", chat("hi", true), chatter, 200},
		{"upload that is not read", `"` + strings.Repeat("x", 16<<20) + `"`, nil, 504},
	} {
		for _, idle := range []time.Duration{0, farOff} {
			t.Run(fmt.Sprintf("%s, idle %v", tc.name, idle), func(t *testing.T) {
				t.Parallel()
				w := proxytest.NewWorker(t, tc.script)
				if tc.script == nil {
					w.SetEarly(proxytest.Silent)
				}
				o := testOptions("round_robin")
				o.Timeouts.Idle, o.Timeouts.FirstByte = idle, idle
				o.Timeouts.Total = brief
				r := startRouter(t, o, w)
				c := proxytest.Dial(t, r.addr)
				if err := c.Post(chatPath, tc.body, jsonType); err != nil {
					t.Fatal(err)
				}
				got, err := c.ReadResponse(patience)
				switch {
				case got == nil:
					t.Fatalf("no answer: %v", err)
				case got.Status != tc.status || !strings.Contains(string(got.Body), "upstream_timeout"):
					t.Errorf("answer %d %q, want %d and upstream_timeout", got.Status, got.Body, tc.status)
				case tc.status == 200 && err == nil:
					t.Error("a stream that was cut ended cleanly")
				}
				r.waitOutcome(actors.UpstreamTimeout, 1)
				if n := w.Requests(); n > 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		}
	}
}

// TestTotalTimeoutOfAllAttempts: a worker that fails late leaves the next one no
// time, so there is none.
func TestTotalTimeoutOfAllAttempts(t *testing.T) {
	t.Parallel()
	late := func(x *proxytest.Exchange) {
		x.Sleep(20 * time.Millisecond)
		x.Reply(500, "x")
	}
	o := testOptions("round_robin")
	o.Timeouts.Total = brief
	o.Retry.MaxAttempts = 1000
	w := proxytest.NewWorker(t, late)
	r := startRouter(t, o, w)
	if got := r.call("POST", chatPath, chat("hi", false)); got.Status < 500 {
		t.Errorf("status %d, want an error", got.Status)
	}
	if n := w.Requests(); n < 2 || n > 250 {
		t.Errorf("%d attempts in %v, each of 20 ms", n, brief)
	}
}

// TestTotalTimeoutDuringBackoff: when no time is left for another attempt the
// client gets the error there is, and no other worker is blamed for it.
func TestTotalTimeoutDuringBackoff(t *testing.T) {
	t.Parallel()
	o := testOptions("round_robin")
	o.Timeouts.Total = brief
	o.Retry.InitialBackoff, o.Retry.MaxBackoff = time.Hour, time.Hour
	a, b := proxytest.NewWorker(t, proxytest.JSON(500, `"mine"`)), proxytest.NewWorker(t, proxytest.JSON(500, `"mine"`))
	r := startRouter(t, o, a, b)
	c := r.post(chat("hi", false))
	got, err := c.ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, got, 500, `"mine"`)
	if n := a.Requests() + b.Requests(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	r.waitOutcome(actors.ServerError, 1)
	r.waitOutcome(actors.UpstreamTimeout, 0)
}

// TestTotalTimeoutInTwoPhases: the clock runs from the first phase on, and for what
// runs beside it.
func TestTotalTimeoutInTwoPhases(t *testing.T) {
	t.Parallel()
	o := pdOptions("round_robin")
	o.Timeouts.Total = brief
	prefill := proxytest.NewWorker(t, controlCalls(proxytest.Silent))
	decode := proxytest.NewWorker(t, controlCalls(proxytest.Silent))
	r := startPD(t, o, []*proxytest.Worker{prefill}, []*proxytest.Worker{decode})
	got, err := r.post(chat("hi", true)).ReadResponse(patience)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, got, 504, "upstream_timeout")
	r.waitIdle()
}

// TestTotalTimeoutBeside: a prefill that an answer waits for is bounded too.
func TestTotalTimeoutBeside(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			o := pdOptions("round_robin")
			o.Timeouts.Total = brief
			b := besideConnectors["mooncake"](t, o)
			b.p.SetScript(controlCalls(proxytest.Silent))
			if stream {
				b.d.SetScript(controlCalls(rawStream("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n", "data: [DONE]\n\n")))
			}
			c, _, _ := b.begin(t, stream)
			got, _ := c.ReadResponse(patience)
			if got == nil || !strings.Contains(string(got.Body), "upstream_timeout") && !stream {
				t.Errorf("answer %v, want upstream_timeout", got)
			}
			b.r.waitIdle()
		})
	}
}

// TestTotalTimeoutWithHeartbeats: they don't prolong it.
func TestTotalTimeoutWithHeartbeats(t *testing.T) {
	t.Parallel()
	o := beating()
	o.Timeouts.Total = brief
	r := startRouter(t, o, proxytest.NewWorker(t, stalledStream))
	got, err := r.post(chat("hi", true)).ReadResponse(patience)
	if err == nil || got == nil || !strings.Contains(string(got.Body), "upstream_timeout") {
		t.Fatalf("a stream that stalls: %v, %v; want it cut, with an error event", got, err)
	}
	if n := strings.Count(string(got.Body), heartbeat); n < 1 || n > 100 {
		t.Errorf("%d heartbeats in %v, want about 50", n, brief)
	}
}

// TestNoTotalTimeout: without one a stream may last.
func TestNoTotalTimeout(t *testing.T) {
	t.Parallel()
	o := testOptions("round_robin")
	o.Timeouts.Total = time.Minute
	r := startRouter(t, o, proxytest.NewWorker(t, proxytest.SSE(20, 10*time.Millisecond)))
	if got := r.call("POST", chatPath, chat("hi", true)); !got.Clean || !strings.HasSuffix(string(got.Body), "data: [DONE]\n\n") {
		t.Errorf("a stream of 200 ms that may take a minute: %q", got.Body)
	}
}

// TestSoonerDeadlineStays: a retry waits for room until the sooner of the client's
// deadline and the total timeout, and then the client gets the error there is.
func TestSoonerDeadlineStays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		total    time.Duration
		deadline string // of the client, in milliseconds
	}{
		{"the client's", time.Minute, "2500"},
		{"the client's, without a total timeout", 0, "2500"},
		{"the total timeout", brief, "60000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bad, busy := proxytest.NewWorker(t, proxytest.JSON(503, `"bad"`)), proxytest.NewWorker(t, heldPlain)
			o := testOptions("round_robin")
			o.Timeouts.Total = tc.total
			o.Router.Room = actors.RoomOptions{MaxPerWorker: 1, QueueSize: 10, QueueTimeout: time.Minute, Ageing: time.Minute}
			r := startRouter(t, o, bad, busy)
			var places [2]actors.Lease // one at each, of which that at the bad one is given back
			for i := range places {
				var err error
				if places[i], err = r.router.Acquire(&actors.Request{Now: r.now()}); err != nil {
					t.Fatal(err)
				}
			}
			if places[0].URL == busy.URL() {
				places[0], places[1] = places[1], places[0]
			}
			places[0].Release(actors.Completed, r.now())
			defer func() { places[1].Release(actors.Completed, r.now()) }()
			c := proxytest.Dial(t, r.addr)
			if err := c.Post(chatPath, chat("hi", false), jsonType, proxytest.H("x-request-deadline-ms", tc.deadline)); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, got, 503, `"bad"`)
			if n := r.snapshot().Room.Refusals[actors.RefusedDeadline]; n != 1 || bad.Requests() != 1 || busy.Requests() != 0 {
				t.Errorf("%d refused by their deadline, %d and %d requests at workers, want 1, 1 and none", n, bad.Requests(), busy.Requests())
			}
		})
	}
}
