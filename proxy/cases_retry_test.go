package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestCaseB54NotFoundIsAnAnswer: a 404 is not asked for again and shuts nobody out.
// Only of a stored response, which one of the workers may have, each is asked,
// once.
func TestCaseB54NotFoundIsAnAnswer(t *testing.T) {
	t.Parallel()
	const verdict = `{"error":{"message":"not found"}}`
	for _, tc := range []struct {
		method, target string
		want           int // requests at workers
	}{
		{"POST", chatPath, 1},
		{"GET", "/v1/files/abc", 1},
		{"GET", "/v1/models/abc", 1},
		{"POST", "/v1/responses", 1},
		{"GET", "/v1/responses/abc", 3},
		{"POST", "/v1/responses/abc/cancel", 3},
	} {
		t.Run(tc.method+" "+tc.target, func(t *testing.T) {
			t.Parallel()
			ws := workers(t, 3, proxytest.JSON(404, verdict))
			r := startRouter(t, touchy("round_robin"), ws...)
			got := r.call(tc.method, tc.target, "")
			if got.Status != 404 || string(got.Body) != verdict {
				t.Errorf("answer %d %s, want the worker's 404", got.Status, got.Body)
			}
			sum := 0
			for _, w := range ws {
				sum += w.Requests()
				if w.Requests() > 1 {
					t.Errorf("a worker was asked %d times, want at most once", w.Requests())
				}
			}
			if sum != tc.want {
				t.Errorf("the workers got %d requests, want %d", sum, tc.want)
			}
			for series, v := range r.scrape() {
				if strings.HasPrefix(series, "vllm_router_retries_total") && v != 0 {
					t.Errorf("%s is %v, want no retries", series, v)
				}
			}
			wantBreakers(t, r, actors.BreakerClosed)
			r.waitHealthy(3)
		})
	}
}

// TestCaseB56WhenToComeBack: a worker that says when to come back is not asked again
// before, and the client hears it if no other worker is less busy.
func TestCaseB56WhenToComeBack(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503} {
		verdict := fmt.Sprintf(`{"error":{"message":"busy: %d"}}`, status)
		busy := func(x *proxytest.Exchange) { x.Reply(status, verdict, jsonType, proxytest.H("Retry-After", "7")) }
		for _, tc := range []struct {
			name    string
			scripts []proxytest.Script
			status  int
			most    int // requests that one worker gets
		}{
			{"alone", []proxytest.Script{busy}, status, 1},
			{"all busy", []proxytest.Script{busy, busy, busy}, status, 1},
			{"another is free", []proxytest.Script{busy, proxytest.JSON(200, verdict)}, 200, 4},
		} {
			t.Run(fmt.Sprintf("%d, %s", status, tc.name), func(t *testing.T) {
				t.Parallel()
				var ws []*proxytest.Worker
				for _, s := range tc.scripts {
					ws = append(ws, proxytest.NewWorker(t, s))
				}
				o := touchy("round_robin")
				o.Retry.MaxAttempts = 4
				r := startRouter(t, o, ws...)
				asked := 1
				if tc.status == 200 {
					asked = 4 // some meet the busy one first
				}
				for range asked {
					got := ask(t, r, chatPath, chat("hi", false))
					if got.Status != tc.status || string(got.Body) != verdict {
						t.Errorf("answer %d %s, want %d %s", got.Status, got.Body, tc.status, verdict)
					}
					if tc.status != 200 {
						wantValues(t, got, "Retry-After", "7")
					}
				}
				for _, w := range ws {
					if w.Requests() > tc.most {
						t.Errorf("a worker got %d requests, want at most %d", w.Requests(), tc.most)
					}
				}
				if tc.status == 200 && ws[0].Requests() == 0 {
					t.Error("the busy worker was not asked, so nothing was tested")
				}
				wantBreakers(t, r, actors.BreakerClosed)
			})
		}
	}
}

// TestCaseB57AnotherWorkerFirst: a retry goes elsewhere, though all that the policy
// knows speaks for the worker that has just failed.
func TestCaseB57AnotherWorkerFirst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		fail   proxytest.Script
	}{
		{"cache_aware", proxytest.JSON(503, `{}`)},
		{"cache_aware", proxytest.ResetBeforeHead},
		{"least_work", proxytest.JSON(500, `{}`)},
		{"sticky_least_loaded", proxytest.JSON(503, `{}`)},
		{"consistent_hash", proxytest.JSON(503, `{}`)},
	} {
		t.Run(tc.policy, func(t *testing.T) {
			t.Parallel()
			const n = 6
			o := testOptions(tc.policy)
			o.Timeouts.PoolIdle = 0 // a kept connection that is reset at once counts as never used
			a, b := proxytest.NewWorker(t, proxytest.JSON(200, `"a"`)), proxytest.NewWorker(t, proxytest.JSON(200, `"b"`))
			r := startRouter(t, o, a, b)
			body := chat(longPrompt("the case", 2000), false)
			session := proxytest.H("X-Session-ID", "s")
			home, other, answer := a, b, `"b"`
			if string(ask(t, r, chatPath, body, session).Body) == `"b"` {
				home, other, answer = b, a, `"a"`
			}
			for range 2 {
				ask(t, r, chatPath, body, session)
			}
			if other.Requests() != 0 {
				t.Fatalf("the policy does not prefer a worker: %d and %d requests", home.Requests(), other.Requests())
			}
			home.SetScript(tc.fail)
			for i := range n {
				before := home.Requests()
				want200(t, ask(t, r, chatPath, body, session), answer)
				if got := home.Requests() - before; got > 1 || i == 0 && got != 1 {
					t.Errorf("request %d: the preferred worker was asked %d times, want once at first, and never twice", i, got)
				}
			}
		})
	}
}

// TestCaseB58NoSecondBeginning: once something of an answer has reached the client
// no other worker is asked.
func TestCaseB58NoSecondBeginning(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		begin func(x *proxytest.Exchange)
		want  string // of the answer, before what the router says
	}{
		{"stream", func(x *proxytest.Exchange) { x.SSEHead(); x.Event("one"); x.Event("two") }, "data: one\n\ndata: two\n\n"},
		{"head of a stream", func(x *proxytest.Exchange) { x.SSEHead() }, ""},
		{"plain", func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Content-Length", "100000"))
			x.Raw(`{"a":`)
		}, `{"a":`},
		{"chunks", func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
			x.Chunk(`{"a":`)
		}, `{"a":`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ws := workers(t, 2, func(x *proxytest.Exchange) {
				tc.begin(x)
				x.Hold() // until the client has it
				x.Reset()
			})
			r := startRouter(t, testOptions("round_robin"), ws...)
			c := r.post(chat("hi", true))
			if _, err := c.ReadHead(patience); err != nil {
				t.Fatal(err)
			}
			ws[0].Release()
			ws[1].Release()
			resp, err := c.ReadResponse(patience)
			if !errors.Is(err, proxytest.ErrTruncated) || !strings.HasPrefix(string(resp.Body), tc.want) || strings.Count(string(resp.Body), "one") > 1 {
				t.Errorf("answer %+v, %v; want %q, perhaps an error, and an end cut short", resp, err, tc.want)
			}
			r.waitLoad(ws[0], 0)
			r.waitLoad(ws[1], 0)
			if got := ws[0].Requests() + ws[1].Requests(); got != 1 {
				t.Errorf("the workers got %d requests, want 1", got)
			}
		})
	}
}

// TestCaseB60DeadWorkersCostNothing: a worker where nobody listens costs its clients
// nothing, and one that takes requests and says nothing costs a few of them, until
// it is shut out; those at other workers don't notice.
func TestCaseB60DeadWorkersCostNothing(t *testing.T) {
	t.Parallel()
	unchecked := func() Options {
		o := testOptions("round_robin")
		o.Router.Health.FailureThreshold = 1 << 20
		o.Health.HealthOptions = o.Router.Health
		return o
	}
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		dead, alive := proxytest.NewWorker(t, proxytest.JSON(200, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, unchecked(), dead, alive)
		dead.Kill()
		const n = 30
		for i := range n {
			path := []string{chatPath, "/v1/responses", "/unknown"}[i%3] // also what may not run twice
			want200(t, ask(t, r, path, chat("hi", false)), `{}`)
		}
		if got := alive.Requests(); got != n {
			t.Errorf("the other worker got %d requests, want %d", got, n)
		}
		if got := r.outcome(actors.ConnectFailed); got != 10 {
			t.Errorf("%d connections were refused, want 10, after which the breaker is open", got)
		}
	})
	t.Run("takes and says nothing", func(t *testing.T) {
		t.Parallel()
		o := unchecked()
		o.Timeouts.FirstByte = brief
		o.Router.Breaker.FailureThreshold = 2
		hole, alive := proxytest.NewWorker(t, proxytest.Silent), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, o, hole, alive)
		var statuses []int
		for range 12 {
			statuses = append(statuses, ask(t, r, chatPath, chat("hi", false)).Status)
		}
		lost := len(slices.DeleteFunc(slices.Clone(statuses), func(s int) bool { return s == 200 }))
		if lost != 2 || hole.Requests() != 2 || slices.ContainsFunc(statuses, func(s int) bool { return s != 200 && s != 504 }) {
			t.Errorf("statuses %v and %d requests at the silent worker, want 504 twice and then 200", statuses, hole.Requests())
		}
		hole.WaitInFlight(0, patience)
	})
}

// TestCaseB61ShutOutIsOut: a worker that always fails gets as many requests as it
// takes to find out, also when they come one by one, and no more.
func TestCaseB61ShutOutIsOut(t *testing.T) {
	t.Parallel()
	const threshold = 5
	for _, policy := range []string{"round_robin", "cache_aware", "random"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			o := testOptions(policy)
			o.Retry.MaxAttempts = 1
			o.Router.Breaker.FailureThreshold = threshold
			bad, good := proxytest.NewWorker(t, proxytest.JSON(500, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, o, bad, good)
			const n = 100
			failed := 0
			for i := range n {
				if ask(t, r, chatPath, chat(fmt.Sprint(i, " of its own"), false)).Status != 200 {
					failed++
				}
			}
			if bad.Requests() != threshold || failed != threshold || good.Requests() != n-threshold {
				t.Errorf("%d requests at the bad worker, %d at the good one, %d failed; want %d, %d and %d",
					bad.Requests(), good.Requests(), failed, threshold, n-threshold, threshold)
			}
		})
	}
}
