package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestPoison: a request that every worker fails costs two calls, and nobody else
// an answer.
func TestPoison(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script proxytest.Script
		status int
	}{
		{"503", proxytest.JSON(503, `{"error":{"message":"poison"}}`), 503},
		{"500", proxytest.JSON(500, `{"error":{"message":"poison"}}`), 500},
		{"reset", proxytest.ResetBeforeHead, 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const poisoned = 24
			script := func(x *proxytest.Exchange) {
				if x.Get("X-Poison") != "" {
					tc.script(x)
					return
				}
				x.Reply(200, `{"ok":true}`, jsonType)
			}
			var workers []*proxytest.Worker
			for range 4 {
				workers = append(workers, proxytest.NewWorker(t, script))
			}
			o := testOptions("round_robin")
			o.Router.Retries = actors.RetryOptions{Ratio: 0.1, Floor: 10}
			o.Retry.MaxAttempts, o.Router.Breaker.FailureThreshold = 5, 3
			o.Timeouts.PoolIdle = 0 // a kept connection that is reset at once counts as never used
			r := startRouter(t, o, workers...)
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Add(1)
			go func() { // the others
				defer wg.Done()
				for {
					select {
					case <-stop:
						return
					default:
					}
					if got := r.call("POST", chatPath, chat("fine", false)); got.Status != 200 {
						t.Errorf("somebody else got %d %s", got.Status, got.Body)
						return
					}
				}
			}()
			for range poisoned {
				wg.Add(1)
				go func() {
					defer wg.Done()
					c, err := proxytest.Connect(r.addr, nil)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					if err := c.Post(chatPath, chat("bad", false), jsonType, proxytest.H("X-Poison", "1")); err != nil {
						t.Error(err)
						return
					}
					if got, err := c.ReadResponse(patience); err != nil || got.Status != tc.status {
						t.Errorf("a poisoned request got %v, %v; want %d", got, err, tc.status)
					}
				}()
			}
			time.AfterFunc(time.Second, func() { close(stop) })
			wg.Wait()
			calls := 0
			for _, w := range workers {
				for _, x := range w.Seen() {
					if x.Get("X-Poison") != "" {
						calls++
					}
				}
			}
			if calls > 2*poisoned {
				t.Errorf("%d poisoned requests cost %d calls, want at most two each", poisoned, calls)
			}
			v := r.snapshot()
			for i := range v.Workers {
				if b := v.Workers[i].Breaker; b != actors.BreakerClosed {
					t.Errorf("the breaker of %s is %v", v.Workers[i].URL, b)
				}
			}
		})
	}
}

// TestFailuresOfOneWorkerAreCharged: where another worker answers the same request,
// the first one was to blame.
func TestFailuresOfOneWorkerAreCharged(t *testing.T) {
	bad, good := proxytest.NewWorker(t, proxytest.JSON(500, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	o := testOptions("round_robin")
	o.Router.Breaker.FailureThreshold = 3
	r := startRouter(t, o, bad, good)
	for range 6 {
		wantAnswer(t, r.call("POST", chatPath, chat("hi", false)), 200, `{}`)
	}
	r.wait("an open breaker", func(v *actors.Snapshot) bool {
		for i := range v.Workers {
			if v.Workers[i].URL == bad.URL() {
				return v.Workers[i].Breaker == actors.BreakerOpen
			}
		}
		return false
	})
}

// TestQueue: what is above the limit waits its turn, or is told to come back; who
// leaves gives up the place.
func TestQueue(t *testing.T) {
	const limit, places = 2, 3
	w := proxytest.NewWorker(t, heldPlain)
	o := testOptions("cache_aware")
	o.Router.Room = actors.RoomOptions{MaxLive: limit, QueueSize: places, QueueTimeout: 20 * time.Second, Ageing: time.Second}
	r := startRouter(t, o, w)
	waiting := func(n int) {
		t.Helper()
		r.wait(fmt.Sprint(n, " waiting"), func(v *actors.Snapshot) bool {
			sum := 0
			for _, k := range v.Room.Waiting {
				sum += k
			}
			return sum == n
		})
	}
	var clients []*proxytest.Client
	for range limit {
		clients = append(clients, r.post(chat("hi", false)))
	}
	w.WaitInFlight(limit, patience)
	for i := range places {
		clients = append(clients, r.post(chat("hi", false)))
		waiting(i + 1)
	}
	got := r.call("POST", chatPath, chat("too many", false))
	wantProblem(t, got, 429, "queue_full")
	if got.Get("Retry-After") == "" {
		t.Error("a refusal says nothing of when to come back")
	}
	if n := w.InFlight(); n != limit {
		t.Errorf("%d requests at the worker, want %d", n, limit)
	}
	// Who leaves makes place.
	clients[limit].CloseFIN()
	waiting(places - 1)
	clients = append(clients[:limit], clients[limit+1:]...)
	// Who is served too.
	for len(clients) > 0 {
		w.WaitInFlight(min(limit, len(clients)), patience)
		w.Release()
		kept := clients[:0]
		for i, c := range clients {
			if i < limit {
				if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
					t.Errorf("answer %v, %v", got, err)
				}
				continue
			}
			kept = append(kept, c)
		}
		clients = kept
	}
	r.waitIdle()
	r.wait("no admission", func(v *actors.Snapshot) bool { return v.Room.Admitted == 0 })
}

// TestQueueTimeout: a wait ends.
func TestQueueTimeout(t *testing.T) {
	w := proxytest.NewWorker(t, heldPlain)
	o := testOptions("round_robin")
	o.Router.Room = actors.RoomOptions{MaxPerWorker: 1, QueueSize: 10, QueueTimeout: 50 * time.Millisecond, Ageing: time.Second}
	r := startRouter(t, o, w)
	c := r.post(chat("hi", false))
	w.WaitInFlight(1, patience)
	got := r.call("POST", chatPath, chat("waits", false))
	wantProblem(t, got, 503, "queue_timeout")
	w.Release()
	if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
		t.Errorf("answer %v, %v", got, err)
	}
}

// TestFullQueueGivesWay: a request that outranks one that waits takes its place, and
// that one is told to come back, like any other for which there is no place.
func TestFullQueueGivesWay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header proxytest.Header
	}{
		{"higher class", proxytest.H("x-priority", "7")},
		{"lighter tenant", proxytest.H("x-tenant", "light")},
	} {
		for _, phases := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.name, ", two phases: ", phases), func(t *testing.T) {
				t.Parallel()
				const places = 3
				limited := func(o Options) Options {
					o.Router.Room = actors.RoomOptions{MaxLive: 1, QueueSize: places, QueueTimeout: time.Minute, Ageing: time.Minute}
					o.ClassHeader, o.TenantHeader = "x-priority", "x-tenant"
					return o
				}
				w := proxytest.NewWorker(t, controlCalls(heldPlain))
				var r *router
				if phases {
					p := proxytest.NewWorker(t, prefillWith(nixlReply))
					r = startPD(t, limited(pdOptions("round_robin")), []*proxytest.Worker{p}, []*proxytest.Worker{w})
				} else {
					r = startRouter(t, limited(testOptions("round_robin")), w)
				}
				post := func(prompt string, h ...proxytest.Header) *proxytest.Client {
					t.Helper()
					c := proxytest.Dial(t, r.addr)
					if err := c.Post(chatPath, chat(prompt, false), append(h, jsonType)...); err != nil {
						t.Fatal(err)
					}
					return c
				}
				nth := 0
				served := func(prompt string, c *proxytest.Client) {
					t.Helper()
					x := nthGeneration(t, w, nth)
					nth++
					x.Release()
					got, err := c.ReadResponse(livePatience)
					if err != nil || got.Status != 200 || !strings.Contains(string(x.Body()), prompt) {
						t.Fatalf("answer %v, %v, of a worker that got %q; want 200, of one that got %q", got, err, x.Body(), prompt)
					}
				}
				first := post("first")
				nthGeneration(t, w, 0)
				var flood []*proxytest.Client
				for i := range places {
					flood = append(flood, post(fmt.Sprint("flood ", i), proxytest.H("x-tenant", "flood")))
					r.wait("one more to wait", func(v *actors.Snapshot) bool { return v.Room.Waits == uint64(i+1) })
				}
				few := post("few", tc.header)
				got, err := flood[places-1].ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				wantProblem(t, got, 429, "queue_full")
				if s := got.Get("Retry-After"); s == "" || s == "0" {
					t.Errorf("to come back after %q, want a number of seconds", s)
				}
				if v := r.snapshot(); v.Room.Refusals[actors.RefusedFull] != 1 || v.Live > 2 {
					t.Errorf("%d refused, %d live, want 1 and those of the first", v.Room.Refusals[actors.RefusedFull], v.Live)
				}
				wantProblem(t, r.call("POST", chatPath, chat("more", false), proxytest.H("x-tenant", "flood")), 429, "queue_full")
				served("first", first)
				if tc.header.Name == "x-priority" {
					served("few", few)
					served("flood 0", flood[0])
				} else { // in turn
					served("flood 0", flood[0])
					served("few", few)
				}
				served("flood 1", flood[1])
				r.waitIdle()
				r.wait("no admission", func(v *actors.Snapshot) bool { return v.Room.Admitted == 0 })
			})
		}
	}
}
