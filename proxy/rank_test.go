package proxy

import (
	"fmt"
	"net/url"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestRanks: each data-parallel rank is a worker with a load of its own, and a
// request carries the rank it was given to, once.
func TestRanks(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	o := testOptions("round_robin")
	o.Ranks = 3
	r := startRouter(t, o)
	if _, err := r.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(3)
	for range 6 {
		c := proxytest.Dial(t, r.addr)
		if err := c.Post("/v1/chat/completions", chat("hi", true), jsonType, proxytest.H("X-Data-Parallel-Rank", "77")); err != nil {
			t.Fatal(err)
		}
	}
	w.WaitInFlight(6, patience)
	r.wait("two leases at each rank", func(v *actors.Snapshot) bool {
		for i := range 3 {
			if loadOf(v, fmt.Sprintf("%s@%d", w.URL(), i)) != 2 {
				return false
			}
		}
		return true
	})
	ranks := map[string]int{}
	for _, x := range w.Seen() {
		got := x.Values("X-data-parallel-rank")
		if len(got) != 1 {
			t.Errorf("a request carries ranks %q, want one", got)
			continue
		}
		ranks[got[0]]++
	}
	if len(ranks) != 3 || ranks["0"] != 2 || ranks["1"] != 2 || ranks["2"] != 2 {
		t.Errorf("requests by rank: %v, want two each", ranks)
	}
	if got := r.call("DELETE", "/workers/"+url.PathEscape(w.URL()+"@1"), ""); got.Status != 200 {
		t.Errorf("removal of one rank: status %d", got.Status)
	}
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, fmt.Sprintf(`{"urls":["%[1]s@0","%[1]s@2"]}`, w.URL()))
	wantAnswer(t, r.call("POST", "/remove_worker?url="+url.QueryEscape(w.URL()), ""), 200, "Successfully removed worker: "+w.URL())
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, `{"urls":[]}`)
	if v := r.snapshot(); v.Live != 6 {
		t.Errorf("%d leases after the removal, want 6", v.Live)
	}
	w.Release()
	r.wait("the ranks to be forgotten", func(v *actors.Snapshot) bool { return len(v.Workers) == 0 })
}
