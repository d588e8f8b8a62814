package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// TestAffinitySources: what kv_aware knows a session by keeps its requests at one
// worker, whatever their prompts; nothing else does, nor does anything where no session
// is kept.
func TestAffinitySources(t *testing.T) {
	t.Parallel()
	const apart = "%d" // stands for the number of the request
	header := func(pairs ...string) (all []proxytest.Header) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, proxytest.H(pairs[i], pairs[i+1]))
		}
		return all
	}
	var workers []*proxytest.Worker
	for range 4 {
		workers = append(workers, proxytest.NewWorker(t, proxytest.JSON(200, "{}")))
	}
	with := testOptions("kv_aware")
	with.Router.PolicyOptions.AffinityTTL = int64(time.Hour)
	keeps, plain := startRouter(t, with, workers...), startRouter(t, testOptions("kv_aware"), workers...)
	for _, tc := range []struct {
		name    string
		headers []proxytest.Header
		members string // of the body
		r       *router
		want    bool // they stay together
	}{
		{"context", nil, `,"vllm_xargs":{"agentic_context":{"task_id":"t1"}}`, keeps, true},
		{"context in a string", nil, `,"vllm_xargs":{"agentic_context":"{\"program_id\":\"p1\"}"}`, keeps, true},
		{"hint", nil, `,"agent_hint":{"session_id":"h1"}`, keeps, true},
		{"session of Claude Code", header("X-Claude-Code-Session-Id", "c1", "X-Claude-Code-Agent-Id", "a"), "", keeps, true},
		{"agents of one session", header("X-Claude-Code-Session-Id", "c2", "X-Claude-Code-Agent-Id", apart), "", keeps, false},
		{"session of Codex", header("Session-Id", "x1", "Thread-Id", "th"), "", keeps, true},
		{"threads of one session", header("Session-Id", "x2", "Thread-Id", apart), "", keeps, false},
		{"X-Session-ID", header("X-Session-ID", "s1"), "", keeps, true},
		{"an agent of another framework", header("X-Session-ID", "s2", "Thread-Id", apart), "", keeps, true},
		{"session_params", nil, `,"session_params":{"session_id":"p1"}`, keeps, true},
		{"session_id", nil, `,"session_id":5`, keeps, true},
		{"the first of two headers", header("Session-Id", "x3", "X-Session-ID", apart), "", keeps, true},
		{"and not the second", header("Session-Id", apart, "X-Session-ID", "s3"), "", keeps, false},
		{"an empty header is none", header("Session-Id", "", "X-Session-ID", "s4"), "", keeps, true},
		{"body before headers", header("X-Session-ID", apart), `,"agent_hint":{"session_id":"h2"}`, keeps, true},
		{"headers before session_id", header("X-Session-ID", apart), `,"session_id":"b1"`, keeps, false},
		{"salts of one session", header("X-Session-ID", "s5"), `,"cache_salt":"` + apart + `"`, keeps, false},
		{"one salt", header("X-Session-ID", "s6"), `,"cache_salt":"x"`, keeps, true},

		{"no session", nil, "", keeps, false},
		{"users are none", header("X-User-ID", "u", "X-Tenant-ID", "t", "X-Correlation-ID", "c", "X-Request-ID", "r"), `,"user":"u","user_id":"u"`, keeps, false},
		{"sessions that aren't kept", header("X-Session-ID", "s1"), `,"session_id":"b"`, plain, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const requests = 12
			before := make([]int, len(workers))
			for i, w := range workers {
				before[i] = w.Requests()
			}
			for i := range requests {
				number := func(s string) string { return strings.ReplaceAll(s, apart, fmt.Sprint("n", i)) }
				var headers []proxytest.Header
				for _, h := range tc.headers {
					headers = append(headers, proxytest.H(h.Name, number(h.Value)))
				}
				body := fmt.Sprintf(`{"model":"m","prompt":"%s %d"%s}`, tc.name, i, number(tc.members))
				want200(t, tc.r.call("POST", "/v1/completions", body, headers...), "{}")
			}
			var got []int
			together := false
			for i, w := range workers {
				got = append(got, w.Requests()-before[i])
				together = together || got[i] == requests
			}
			if together != tc.want {
				t.Errorf("requests at the workers: %v, want all at one: %v", got, tc.want)
			}
		})
	}
	if n := plain.snapshot().Sessions; n != 0 {
		t.Errorf("%d sessions are kept where none should be", n)
	}
}

// TestFinishAffinity: a session that is told to be over is forgotten, wherever its id
// came from; what is kept of a long one is bounded.
func TestFinishAffinity(t *testing.T) {
	t.Parallel()
	o := testOptions("kv_aware")
	o.Router.PolicyOptions.AffinityTTL = int64(time.Hour)
	r := startRouter(t, o, proxytest.NewWorker(t, proxytest.JSON(200, "{}")))
	long := strings.Repeat("s", 1<<16)
	for _, tc := range []struct {
		name, id, body string
		headers        []proxytest.Header
	}{
		{"header", "s1", `{}`, []proxytest.Header{proxytest.H("Session-Id", "s1")}},
		{"program", "s1", `{"vllm_xargs":{"agentic_context":{"program_id":"s1"}}}`, nil},
		{"context", "s1", `{"vllm_xargs":{"agentic_context":{"session_id":"s1"}}}`, nil},
		{"hint", "s1", `{"agent_hint":{"session_id":"s1"}}`, nil},
		{"body", "s1", `{"session_id":"s1"}`, nil},
		{"a long one", long[:4000], `{"session_id":"` + long[:4000] + `"}`, nil},
		{"a very long one", "", `{"session_id":"` + long + `"}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want200(t, r.call("POST", "/v1/completions", tc.body, tc.headers...), "{}")
			if n := r.snapshot().Sessions; n != 1 {
				t.Errorf("%d sessions, want 1", n)
			}
			if x := r.exchanges.Get().(*exchange); cap(x.kin) > keptSession {
				t.Errorf("%d bytes are kept for identities, want at most %d", cap(x.kin), keptSession)
			}
			if tc.id == "" {
				return
			}
			r.call("POST", "/finish_session?session_id="+tc.id, "")
			if n := r.snapshot().Sessions; n != 0 {
				t.Errorf("%d sessions after the end, want 0", n)
			}
		})
	}
}
