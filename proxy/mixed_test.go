package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// mixed is a router in front of workers of both kinds.
type mixed struct {
	*router
	prefill, decode, whole *proxytest.Worker
}

// startMixed starts a router whose model "split" is served in two phases and "whole"
// by a regular worker; all of them serve "both".
func startMixed(t *testing.T, policy string, prefill, decode, whole proxytest.Script) mixed {
	t.Helper()
	o := pdOptions(policy)
	o.PD.Beside, o.PD.Rescues = true, 0 // a rescue is a request of its own, which a silent worker holds
	m := mixed{startRouter(t, o), proxytest.NewWorker(t, prefill), proxytest.NewWorker(t, decode), proxytest.NewWorker(t, controlCalls(whole))}
	err := m.AddWorkers([]WorkerSpec{
		{URL: m.prefill.URL(), Models: []string{"split", "both"}, Roles: actors.RolesOf(actors.Prefill)},
		{URL: m.decode.URL(), Models: []string{"split", "both"}, Roles: actors.RolesOf(actors.Decode)},
		{URL: m.whole.URL(), Models: []string{"whole", "both"}, Roles: actors.RolesOf(actors.Regular)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.waitHealthy(3)
	return m
}

// asking is a request for a model.
func asking(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],"stream":%v}`, model, stream)
}

// wantSeen checks how many requests each kind of worker has seen.
func (m *mixed) wantSeen(when string, prefill, decode, whole int) {
	m.t.Helper()
	got := []int{len(generations(m.prefill)), len(generations(m.decode)), len(generations(m.whole))}
	if want := []int{prefill, decode, whole}; fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Errorf("%s: prefill, decode and regular worker have seen %v requests, want %v", when, got, want)
	}
}

// wantDone waits until nothing runs, and checks that no lease was returned twice.
func (m *mixed) wantDone() {
	m.t.Helper()
	m.waitIdle()
	if v := m.snapshot(); v.Refused != 0 || v.Granted != v.Returned {
		m.t.Errorf("%d leases granted, %d returned, %d of them refused; want as many and none", v.Granted, v.Returned, v.Refused)
	}
}

// TestMixedFleet: each model goes where its workers are. What a regular worker gets is
// what the client sent.
func TestMixedFleet(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		m := startMixed(t, policy, prefillWith(nixlReply), decodeEither, proxytest.JSON(200, `{"whole":1}`))
		for _, stream := range []bool{false, true} {
			body := asking("whole", stream)
			want200(t, ask(t, m.router, chatPath, body), `{"whole":1}`)
			all := generations(m.whole)
			if got := string(all[len(all)-1].Body()); got != body {
				t.Errorf("the regular worker got %s, want %s", got, body)
			}
			if got := ask(t, m.router, chatPath, asking("split", stream)); got.Status != 200 || strings.Contains(string(got.Body), "whole") {
				t.Errorf("answer %d %s, want the decode worker's", got.Status, got.Body)
			}
		}
		m.wantSeen("each model", 2, 2, 2)
		if got := ask(t, m.router, chatPath, asking("both", false)); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
		m.wantSeen("a model of both", 3, 3, 2)
		want200(t, ask(t, m.router, "/v1/embeddings", `{"model":"whole","input":"x"}`), `{"whole":1}`)
		m.wantSeen("what has no phases", 3, 3, 3)
		wantProblem(t, ask(t, m.router, chatPath, asking("none", false)), 404, "model_not_found")
		m.wantDone()
		if got := ask(t, m.router, chatPath, strings.Replace(asking("whole", false), "{", `{"kv_transfer_params":{"do_remote_prefill":true},`, 1)); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
		all := generations(m.whole)
		if got := string(all[len(all)-1].Body()); strings.Contains(got, "remote") {
			t.Errorf("the regular worker got a client's transfer parameters: %s", got)
		}
	})
}

// TestMixedFallsBack: a model of both kinds is served as long as one kind is there, and
// no request fails when a worker of a pair does.
func TestMixedFallsBack(t *testing.T) {
	for _, phase := range []string{"prefill", "decode"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			m := startMixed(t, "cache_aware", prefillWith(nixlReply), decodeEither, proxytest.JSON(200, `{"whole":1}`))
			dead := m.prefill
			if phase == "decode" {
				dead = m.decode
			}
			dead.Kill()
			for range 4 { // before a check has noticed
				want200(t, ask(t, m.router, chatPath, asking("both", false)), `{"whole":1}`)
			}
			m.waitHealthy(2)
			want200(t, ask(t, m.router, chatPath, asking("both", true)), `{"whole":1}`)
			if got := ask(t, m.router, chatPath, asking("split", false)); got.Status != 503 {
				t.Errorf("answer %d %s to a request that needs a pair, want 503", got.Status, got.Body)
			}
			var ready struct {
				Status  string
				Regular struct{ Healthy, Total int }
			}
			if err := json.Unmarshal(m.call("GET", "/readiness", "").Body, &ready); err != nil || ready.Status != "ready" || ready.Regular.Healthy != 1 || ready.Regular.Total != 1 {
				t.Errorf("readiness %+v, %v; want ready, with one regular worker", ready, err)
			}
			for _, x := range generations(m.whole) {
				if got := string(x.Body()); got != asking("both", strings.Contains(got, "true")) {
					t.Errorf("the regular worker got %s, want what the client sent", got)
				}
			}
			m.whole.SetHealth(proxytest.JSON(500, ""))
			m.waitHealthy(1)
			wantProblem(t, ask(t, m.router, chatPath, asking("both", false)), 503, "no_available_workers")
			if got := m.call("GET", "/readiness", ""); got.Status != 503 {
				t.Errorf("readiness %d, want 503", got.Status)
			}
			m.wantDone()
		})
	}
}

// TestMixedRetries: a request that failed at a regular worker goes to another one, and
// one that failed in a phase to a regular worker.
func TestMixedRetries(t *testing.T) {
	failing := proxytest.JSON(500, `{"error":{"message":"no"}}`)
	t.Run("regular", func(t *testing.T) {
		t.Parallel()
		m := startMixed(t, "round_robin", prefillWith(nixlReply), decodeEither, failing)
		other := proxytest.NewWorker(t, controlCalls(proxytest.JSON(200, `{"other":1}`)))
		if _, err := m.AddWorker(WorkerSpec{URL: other.URL(), Model: "whole", Roles: actors.RolesOf(actors.Regular)}); err != nil {
			t.Fatal(err)
		}
		m.waitHealthy(4)
		for range 4 {
			want200(t, ask(t, m.router, chatPath, asking("whole", false)), `{"other":1}`)
		}
		m.wantDone()
	})
	for _, phase := range []string{"prefill", "decode"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			prefill, decode := prefillWith(nixlReply), proxytest.Script(decodeEither)
			if phase == "prefill" {
				prefill = controlCalls(failing)
			} else {
				decode = controlCalls(failing)
			}
			m := startMixed(t, "round_robin", prefill, decode, proxytest.JSON(200, `{"whole":1}`))
			want200(t, ask(t, m.router, chatPath, asking("both", false)), `{"whole":1}`)
			m.wantDone()
		})
	}
}

// TestMixedClientLeaves: a request counts where it is, in both kinds, until its client
// leaves, whatever its worker was about.
func TestMixedClientLeaves(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		prefill, decode, whole proxytest.Script
		model                  string
		want                   [3]int // loads of the prefill, the decode and the regular worker meanwhile
	}{
		{"a regular worker that is silent", prefillWith(nixlReply), decodeEither, proxytest.Silent, "whole", [3]int{0, 0, 1}},
		{"a regular worker's stream", prefillWith(nixlReply), decodeEither, heldStream, "whole", [3]int{0, 0, 1}},
		{"prefill", controlCalls(proxytest.Silent), decodeEither, proxytest.Silent, "both", [3]int{1, 0, 0}},
		{"a decode worker's stream", prefillWith(nixlReply), controlCalls(heldStream), proxytest.Silent, "both", [3]int{0, 1, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := startMixed(t, "least_work", tc.prefill, tc.decode, tc.whole)
			const n = 5
			var open []*proxytest.Client
			for range n {
				open = append(open, m.post(asking(tc.model, true)))
			}
			for i, w := range []*proxytest.Worker{m.prefill, m.decode, m.whole} {
				m.waitLoad(w, n*tc.want[i])
			}
			for i, w := range []*proxytest.Worker{m.prefill, m.decode, m.whole} {
				if got := m.load(w); got != n*tc.want[i] {
					t.Errorf("load %d at worker %d, want %d", got, i, n*tc.want[i])
				}
			}
			for _, c := range open {
				c.CloseFIN()
			}
			m.wantDone()
			if v := m.snapshot(); v.Granted < n {
				t.Errorf("%d leases were granted, want %d at least", v.Granted, n)
			}
		})
	}
}

// TestMixedStoredResponses: a response is found wherever it is stored, in either kind,
// and what goes on from it goes there.
func TestMixedStoredResponses(t *testing.T) {
	stored := func(x *proxytest.Exchange) {
		switch x.Method {
		case "GET":
			x.Reply(200, `{"id":"resp_1"}`, jsonType)
		default:
			x.Reply(200, `{"id":"resp_2","object":"response","status":"completed"}`, jsonType)
		}
	}
	missing := controlCalls(func(x *proxytest.Exchange) { x.Reply(404, `{"error":{"message":"no such response"}}`, jsonType) })
	m := startMixed(t, "round_robin", prefillWith(nixlReply), missing, stored)
	got := m.call("GET", "/v1/responses/resp_1", "")
	wantAnswer(t, got, 200, `{"id":"resp_1"}`)
	m.wantSeen("a response of nobody knows whom", 0, 1, 1)
	if got := ask(t, m.router, "/v1/responses", `{"model":"whole","input":"x"}`); got.Status != 200 {
		t.Fatalf("answer %d %s, want 200", got.Status, got.Body)
	}
	for range 3 {
		if got := ask(t, m.router, "/v1/responses", `{"model":"both","input":"x","previous_response_id":"resp_2"}`); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
	}
	m.wantSeen("what goes on from one", 0, 1, 5)
	if err := m.RemoveWorker(m.whole.URL()); err != nil {
		t.Fatal(err)
	}
	if got := m.call("GET", "/v1/responses/resp_9", ""); got.Status != 404 {
		t.Errorf("answer %d %s for a response of nobody, want 404", got.Status, got.Body)
	}
	m.wantDone()
}
