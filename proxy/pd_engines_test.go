package proxy

import (
	"net/url"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestEnginesOfServer: a server's own metrics tell how many workers it is, when
// its first check goes well; a rank that is named is one alone.
func TestEnginesOfServer(t *testing.T) {
	t.Parallel()
	none := func(x *proxytest.Exchange) { x.Reply(200, nixlReply, jsonType) }
	for _, tt := range []struct {
		name  string
		serve proxytest.Script
		rank  string
		flag  int
		want  []string
	}{
		{"one engine", withEngines(1, none), "", 0, []string{""}},
		{"one engine, flag 2", withEngines(1, none), "", 2, []string{""}},
		{"three engines", withEngines(3, none), "", 0, []string{"@0", "@1", "@2"}},
		{"three engines, flag 2", withEngines(3, none), "", 2, []string{"@0", "@1", "@2"}},
		{"two engines, flag 2", withEngines(2, none), "", 2, []string{"@0", "@1"}},
		{"no metrics, flag 2", prefillWith(nixlReply), "", 2, []string{"@0", "@1"}},
		{"no metrics", prefillWith(nixlReply), "", 0, []string{""}},
		{"metrics of something else", func(x *proxytest.Exchange) { x.Reply(200, "up{engine=\"7\"} 1\n") }, "", 2, []string{"@0", "@1"}},
		{"pinned", withEngines(3, none), "@2", 0, []string{"@2"}},
		{"pinned, flag 2", withEngines(3, none), "@1", 2, []string{"@1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, d := proxytest.NewWorker(t, tt.serve), proxytest.NewWorker(t, withEngines(1, decodeEither))
			o := pdOptions("round_robin")
			o.Ranks = tt.flag
			r := startRouter(t, o)
			r.enrollPair(WorkerSpec{URL: p.URL() + tt.rank}, WorkerSpec{URL: d.URL()})
			r.waitMembers(actors.Decode, 1)
			r.waitMembers(actors.Prefill, len(tt.want))
			want := map[string]bool{}
			for _, rank := range tt.want {
				want[p.URL()+rank] = true
			}
			checks := p.HealthChecks()
			for range 2 { // they stay
				v := r.snapshot()
				for i := range v.Workers {
					if w := &v.Workers[i]; w.Base == p.URL() && (!want[w.URL] || !w.Member || !w.Roles.Has(actors.Prefill)) {
						t.Errorf("worker %s, member %v, roles %v; want %v", w.URL, w.Member, w.Roles, tt.want)
					}
				}
				eventually(t, "more checks", func() bool { return p.HealthChecks() > checks+2 })
			}
			r.waitMembers(actors.Prefill, len(tt.want))
			// All go by the one name that the server was given.
			if got := r.call("DELETE", "/workers/"+url.PathEscape(p.URL()+tt.rank), ""); got.Status != 200 {
				t.Errorf("removal by %s: status %d", tt.rank, got.Status)
			}
			r.waitMembers(actors.Prefill, 0)
			if got := r.call("DELETE", "/workers/"+url.PathEscape(p.URL()), ""); got.Status != 404 {
				t.Errorf("second removal: status %d, want 404", got.Status)
			}
		})
	}
}

// TestEnginesKnownLate: requests that run while a server becomes several workers
// stay counted, and what comes next goes to the ranks.
func TestEnginesKnownLate(t *testing.T) {
	t.Parallel()
	p := proxytest.NewWorker(t, held(reply(200, nixlReply)))
	d := proxytest.NewWorker(t, decodeEither)
	r := startPD(t, pdOptions("round_robin"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
	c := r.post(chat("hi", false))
	x := nthGeneration(t, p, 0)
	p.SetScript(withEngines(2, reply(200, nixlReply)))
	r.waitMembers(actors.Prefill, 2)
	r.waitPhase(p, actors.Prefilling, 1)
	x.Release()
	finish(t, c)
	finish(t, r.post(chat("hi", false)))
	wantValues(t, nthGeneration(t, p, 0), "X-data-parallel-rank")
	if rank := nthGeneration(t, p, 1).Get("X-data-parallel-rank"); rank != "0" && rank != "1" {
		t.Errorf("the next request is prefilled at rank %q, want one", rank)
	}
	r.waitIdle()
	r.wait("the server's first self to be forgotten", func(v *actors.Snapshot) bool { return len(v.Workers) == 3 })
}
