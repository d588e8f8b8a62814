package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy/proxytest"
)

// eachPolicy runs a scenario under every policy, side by side.
func eachPolicy(t *testing.T, scenario func(t *testing.T, policy string)) {
	t.Parallel()
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, name)
		})
	}
}

// heldStream streams two events, waits to be released, and ends properly.
func heldStream(x *proxytest.Exchange) {
	x.SSEHead()
	x.Event("one")
	x.Event("two")
	if x.Hold() {
		x.Done()
		x.EndChunks()
	}
}

// heldPlain waits to be released and answers.
func heldPlain(x *proxytest.Exchange) {
	if x.Hold() {
		x.Reply(200, `{"ok":true}`, proxytest.H("Content-Type", "application/json"))
	}
}

// either holds a stream or a plain answer, as the request wants.
var either = proxytest.ByBody(map[string]proxytest.Script{`"stream":true`: heldStream, "": heldPlain})

// TestCompletedRequestsCountNoMore: while requests run they are counted, and
// when they are answered they aren't, streaming or not.
func TestCompletedRequestsCountNoMore(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		w := proxytest.NewWorker(t, either)
		r := startRouter(t, testOptions(policy), w)
		var clients []*proxytest.Client
		for i := range 6 {
			clients = append(clients, r.post(chat(fmt.Sprint("prompt ", i), i%2 == 0)))
		}
		w.WaitInFlight(6, patience)
		r.waitLoad(w, 6)
		w.Release()
		for _, c := range clients {
			if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
				t.Errorf("answer %v, %v", got, err)
			}
		}
		r.waitLoad(w, 0)
		r.waitOutcome(actors.Completed, 6)
	})
}

// TestDoneWhileTheBodyLingers: a worker that has sent the end mark is through
// with the request, though its body is still open.
func TestDoneWhileTheBodyLingers(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Event("one")
			x.Raw("c\r\ndata: [DONE]\r\n") // the mark, cut behind its last letter
			x.Hold()
			x.Raw("2\r\n\n\n\r\n")
			x.Hold()
			x.EndChunks()
		})
		r := startRouter(t, testOptions(policy), w)
		c := r.post(chat("hi", true))
		if _, err := c.ReadEvent(patience); err != nil {
			t.Fatal(err)
		}
		r.waitLoad(w, 1)
		w.Release()
		r.waitLoad(w, 0)
		r.waitOutcome(actors.Completed, 1)
		select {
		case <-c.PeerClosed():
			t.Error("the client's stream ended with the end mark")
		case <-time.After(50 * time.Millisecond):
		}
		w.Release()
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatalf("after the end mark: %v", err)
		}
		if want := "data: one\n\ndata: [DONE]\n\n"; string(got.Body) != want {
			t.Errorf("body %q, want %q", got.Body, want)
		}
	})
}

// TestHealthCyclesLeaveLoadAlone: ten requests run over fourteen rounds of
// checks, in which their worker falls sick and comes back, and stay ten.
func TestHealthCyclesLeaveLoadAlone(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		w := proxytest.NewWorker(t, either)
		o := testOptions(policy)
		o.Router.Health.FailureThreshold, o.Router.Health.SuccessThreshold = 2, 2
		o.Health.HealthOptions = o.Router.Health
		o.Health.Interval = 10 * time.Millisecond
		r := startRouter(t, o, w)
		var clients []*proxytest.Client
		for i := range 10 {
			clients = append(clients, r.post(chat(fmt.Sprint("prompt ", i), i%2 == 0)))
		}
		w.WaitInFlight(10, patience)
		r.waitLoad(w, 10)
		for cycle := range 14 {
			sick := cycle%4 >= 2
			w.SetHealth(func(x *proxytest.Exchange) {
				if sick {
					x.Reply(503, "sick")
				} else {
					x.Reply(200, "well")
				}
			})
			before := w.HealthChecks()
			w.WaitFor("checks", func(c proxytest.Counts) bool { return c.HealthChecks >= before+3 }, patience)
			r.wait("the verdict", func(v *actors.Snapshot) bool { return v.Workers[0].Healthy == !sick })
			if got := r.load(w); got != 10 {
				t.Fatalf("cycle %d, sick %v: load %d, want 10", cycle, sick, got)
			}
		}
		w.Release()
		for _, c := range clients {
			if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
				t.Errorf("answer %v, %v", got, err)
			}
		}
		r.waitLoad(w, 0)
	})
}

// workersJSON asks the router for its workers.
func (r *router) workersJSON() map[string]workerJSON {
	r.t.Helper()
	var in struct {
		Workers []workerJSON `json:"workers"`
	}
	if err := json.Unmarshal(proxytest.Do(r.t, r.addr, proxytest.Request{Target: "/workers"}).Body, &in); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]workerJSON{}
	for _, w := range in.Workers {
		out[w.URL] = w
	}
	return out
}

// TestWorkersEndpointTellsWhatWorkersSee: fifteen requests over three workers.
func TestWorkersEndpointTellsWhatWorkersSee(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		var ws []*proxytest.Worker
		for range 3 {
			ws = append(ws, proxytest.NewWorker(t, either))
		}
		r := startRouter(t, testOptions(policy), ws...)
		for i := range 15 {
			r.post(chat(fmt.Sprintf("prompt number %d of fifteen, each its own", i), i%2 == 0))
		}
		r.wait("15 leases", func(v *actors.Snapshot) bool { return v.Live == 15 })
		seen := func() (n int) {
			for _, w := range ws {
				n += w.InFlight()
			}
			return n
		}
		for end := time.Now().Add(patience); seen() != 15; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the workers see %d requests, want 15", seen())
			}
		}
		told := r.workersJSON()
		for _, w := range ws {
			if got, want := told[w.URL()].Load, w.InFlight(); got != want {
				t.Errorf("/workers says load %d of %s, which sees %d", got, w.URL(), want)
			}
		}
		for _, w := range ws {
			w.Release()
		}
		r.wait("no leases", func(v *actors.Snapshot) bool { return v.Live == 0 })
	})
}

// TestRetries: a worker that fails once and then serves, and the load after it.
func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first proxytest.Script
		cause actors.Cause
	}{
		{"503 then 200", proxytest.JSON(503, `{"error":{"message":"busy"}}`), actors.Busy},
		{"500 then 200", proxytest.JSON(500, `{"error":{"message":"oops"}}`), actors.ServerError},
		{"reset then 200", proxytest.ResetBeforeHead, actors.UpstreamReset},
		{"close then 200", func(x *proxytest.Exchange) { x.CloseFIN() }, actors.UpstreamReset},
		{"not HTTP, then 200", func(x *proxytest.Exchange) { x.Raw("SSH-2.0-OpenSSH\r\n\r\n"); x.CloseFIN() }, actors.UpstreamInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachPolicy(t, func(t *testing.T, policy string) {
				w := proxytest.NewWorker(t, proxytest.Sequence(tc.first, proxytest.JSON(200, `{"ok":true}`)))
				r := startRouter(t, testOptions(policy), w)
				for _, stream := range []bool{false} {
					got := proxytest.Do(t, r.addr, proxytest.Request{Target: "/v1/chat/completions", Body: chat("hi", stream), Headers: []proxytest.Header{jsonType}})
					if got.Status != 200 || string(got.Body) != `{"ok":true}` {
						t.Errorf("answer %d %q, want the second one", got.Status, got.Body)
					}
				}
				r.waitLoad(w, 0)
				r.waitOutcome(tc.cause, 1)
				r.waitOutcome(actors.Completed, 1)
				if n := w.Requests(); n != 2 {
					t.Errorf("the worker got %d requests, want 2", n)
				}
			})
		})
	}
}

// TestWorkerCutsAStream: the client learns it, by an error event and an unclean
// end, and the lease ends as truncated.
func TestWorkerCutsAStream(t *testing.T) {
	for _, how := range []string{"FIN", "RST"} {
		t.Run(how, func(t *testing.T) {
			eachPolicy(t, func(t *testing.T, policy string) {
				w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
					x.SSEHead()
					x.Event("one")
					x.Chunk("data: tw")
					x.Hold()
					if how == "RST" {
						x.Reset()
					} else {
						x.CloseFIN()
					}
				})
				r := startRouter(t, testOptions(policy), w)
				c := r.post(chat("hi", true))
				if _, err := c.ReadEvent(patience); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond) // let the half line pass
				w.Release()
				got, err := c.ReadResponse(patience)
				if err == nil || got == nil || got.Clean {
					t.Fatalf("answer %+v, %v; want it cut", got, err)
				}
				body := string(got.Body)
				if !strings.HasPrefix(body, "data: one\n\ndata: tw\n\ndata: {\"error\":{") || !strings.HasSuffix(body, "}}\n\n") {
					t.Errorf("body %q, want the events, the line closed, and an error event", body)
				}
				r.waitLoad(w, 0)
				r.waitOutcome(actors.UpstreamTruncated, 1)
			})
		})
	}
}

// TestStreamWithoutEndMark ends with its body.
func TestStreamWithoutEndMark(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		w := proxytest.NewWorker(t, proxytest.SSENoDone(3, 0))
		r := startRouter(t, testOptions(policy), w)
		got := proxytest.Do(t, r.addr, proxytest.Request{Target: "/v1/chat/completions", Body: chat("hi", true), Headers: []proxytest.Header{jsonType}})
		if got.Status != 200 || !got.Clean {
			t.Errorf("answer %d, clean %v", got.Status, got.Clean)
		}
		r.waitLoad(w, 0)
		r.waitOutcome(actors.Completed, 1)
	})
}

// TestRemovedAndAddedAgain: requests that run at a worker while it is removed
// and added again are still counted there.
func TestRemovedAndAddedAgain(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		w := proxytest.NewWorker(t, either)
		r := startRouter(t, testOptions(policy), w)
		clients := []*proxytest.Client{r.post(chat("one", true)), r.post(chat("two", false))}
		w.WaitInFlight(2, patience)
		r.waitLoad(w, 2)
		if err := r.RemoveWorker(w.URL()); err != nil {
			t.Fatal(err)
		}
		if got := r.load(w); got != 2 {
			t.Errorf("removed: load %d, want 2", got)
		}
		if _, member := r.workersJSON()[w.URL()]; member {
			t.Error("removed, but listed as a member")
		}
		got := proxytest.Do(t, r.addr, proxytest.Request{Target: "/v1/chat/completions", Body: chat("three", false), Headers: []proxytest.Header{jsonType}})
		if got.Status != 503 {
			t.Errorf("without members: status %d, want 503", got.Status)
		}
		if _, err := r.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
			t.Fatal(err)
		}
		r.waitHealthy(1)
		if got := r.workersJSON()[w.URL()].Load; got != 2 {
			t.Errorf("added again: load %d, want 2", got)
		}
		clients = append(clients, r.post(chat("four", true)))
		r.waitLoad(w, 3)
		w.WaitInFlight(3, patience)
		w.Release()
		for _, c := range clients {
			if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
				t.Errorf("answer %v, %v", got, err)
			}
		}
		r.waitLoad(w, 0)
		if err := r.RemoveWorker(w.URL()); err != nil {
			t.Fatal(err)
		}
		r.wait("the worker to be forgotten", func(v *actors.Snapshot) bool { return len(v.Workers) == 0 })
	})
}
