package proxy

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/proxy/proxytest"
)

// says is workers as a source says them.
func says(urls ...string) []discovery.Worker {
	all := make([]discovery.Worker, len(urls))
	for i, u := range urls {
		all[i] = discovery.Worker{URL: u, Priority: 50, Cost: 1}
	}
	return all
}

// TestSourceDrains: a worker that its source says no longer finishes its stream and gets nothing
// more. If it is said again meanwhile it stays, with its stream counted.
func TestSourceDrains(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("back: ", back), func(t *testing.T) {
			gate := make(chan struct{})
			old, other := proxytest.NewWorker(t, gated(gate)), proxytest.NewWorker(t, proxytest.JSON(200, `"other"`))
			r := startRouter(t, testOptions("round_robin"))
			s := r.Sources().Add("file")
			s.Say(says(old.URL()))
			r.waitHealthy(1)
			c := r.post(chat("a", true))
			r.waitLoad(old, 1)
			s.Say(says(other.URL()))
			r.waitHealthy(2) // the one that drains is a member still
			for range 4 {
				wantAnswer(t, r.call("POST", chatPath, chat("b", false)), 200, `"other"`)
			}
			if n := r.load(old); n != 1 {
				t.Errorf("load %d while it drains, want 1", n)
			}
			if back {
				s.Say(says(other.URL(), old.URL()))
				r.wait("the drain to be taken back", func(v *actors.Snapshot) bool { return !v.Workers[0].Draining && !v.Workers[1].Draining })
				if n := r.load(old); n != 1 {
					t.Errorf("load %d afterwards, want 1", n)
				}
			}
			close(gate)
			if resp, err := c.ReadResponse(patience); err != nil || !strings.HasSuffix(string(resp.Body), "[DONE]\n\n") {
				t.Errorf("the stream that ran: %v", err)
			}
			want := 1
			if back {
				want = 2
			}
			r.wait(fmt.Sprint(want, " workers"), func(v *actors.Snapshot) bool { return v.Live == 0 && len(v.Workers) == want })
		})
	}
}

// TestSourceAndHand: what was added by hand stays that, whatever a source says.
func TestSourceAndHand(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `"w"`))
	r := startRouter(t, testOptions("round_robin"), w)
	s := r.Sources().Add("file")
	ws := says(w.URL())
	ws[0].Model = "m"
	s.Say(ws)
	s.Say(nil)
	s.Alive() // the loop has done with what was said before
	v := r.snapshot()
	if len(v.Workers) != 1 || v.Workers[0].Draining || v.Workers[0].Model != actors.AnyModel {
		t.Errorf("workers %s, want the one that was added by hand, as it was", describe(&v))
	}
}

// TestSourceTakesNoOther: a worker that came from a source, was removed and then added by
// hand is not the source's any more.
func TestSourceTakesNoOther(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `"w"`))
	r := startRouter(t, testOptions("round_robin"))
	s := r.Sources().Add("file")
	s.Say(says(w.URL()))
	r.waitHealthy(1)
	if got := r.call("POST", "/remove_worker?url="+url.QueryEscape(w.URL()), ""); got.Status != 200 {
		t.Fatalf("remove_worker: %d %s", got.Status, got.Body)
	}
	if got := r.call("POST", "/add_worker?url="+url.QueryEscape(w.URL()), ""); got.Status != 200 {
		t.Fatalf("add_worker: %d %s", got.Status, got.Body)
	}
	s.Say(nil)
	s.Alive()
	if v := r.snapshot(); len(v.Workers) != 1 || v.Workers[0].Draining || v.Workers[0].Source != sourceAPI {
		t.Errorf("workers %s, want the one that was added by hand", describe(&v))
	}
}

// TestSourceAmends: what a source says anew of a worker holds at once, and costs it neither its
// health nor its place.
func TestSourceAmends(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `"w"`))
	r := startRouter(t, testOptions("round_robin"))
	s := r.Sources().Add("kubernetes")
	ws := says(w.URL())
	ws[0].Process = "one"
	s.Say(ws)
	r.waitHealthy(1)
	id := r.snapshot().Workers[0].ID
	changed := ws[0]
	changed.Model, changed.Labels, changed.Cost, changed.Priority = "m", map[string]string{"pod": "p"}, 2, 7
	s.Say([]discovery.Worker{changed})
	s.Alive()
	v := r.snapshot()
	if k := v.Workers[0]; !k.Healthy || k.ID != id || k.Model != "m" || k.Cost != 2 || k.Priority != 7 {
		t.Errorf("the worker is %s %+v, want it healthy and changed", describe(&v), k.Spec)
	}
	got := string(r.call("GET", "/workers", "").Body)
	for _, want := range []string{`"source":"kubernetes"`, `"model_id":"m"`, `"labels":{"pod":"p"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("/workers shows %s, want %s in it", got, want)
		}
	}
}

// TestSourceNewProcess: another process at a worker's URL begins anew, and what still
// runs at the old one counts.
func TestSourceNewProcess(t *testing.T) {
	gate := make(chan struct{})
	w := proxytest.NewWorker(t, gated(gate))
	r := startRouter(t, testOptions("round_robin"))
	s := r.Sources().Add("kubernetes")
	ws := says(w.URL())
	ws[0].Process = "one"
	s.Say(ws)
	r.waitHealthy(1)
	c := r.post(chat("a", true))
	r.waitLoad(w, 1)
	w.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
	next := ws[0]
	next.Process = "two"
	s.Say([]discovery.Worker{next})
	s.Alive()
	v := r.snapshot()
	if k := v.Workers[0]; len(v.Workers) != 1 || k.Healthy || !k.Member || k.Load != 1 || k.Process != "two" {
		t.Errorf("workers %s, want one that isn't known to be healthy, with load 1", describe(&v))
	}
	w.SetHealth(func(x *proxytest.Exchange) { x.Reply(200, "") })
	r.waitHealthy(1)
	close(gate)
	if _, err := c.ReadResponse(patience); err != nil {
		t.Errorf("the stream that ran: %v", err)
	}
	r.wait("the stream to end", func(v *actors.Snapshot) bool { return v.Live == 0 && len(v.Workers) == 1 })
}

// TestSourceRanks: of a server whose ranks drain one may be gone already when the server is said
// again: all of them are back.
func TestSourceRanks(t *testing.T) {
	gate := make(chan struct{})
	w := proxytest.NewWorker(t, gated(gate))
	o := testOptions("round_robin")
	o.Ranks = 2
	r := startRouter(t, o)
	s := r.Sources().Add("file")
	s.Say(says(w.URL()))
	r.waitHealthy(2)
	c := r.post(chat("a", true)) // at one of them
	r.wait("the stream", func(v *actors.Snapshot) bool { return v.Live == 1 })
	s.Say(nil)
	r.wait("the idle rank to go", func(v *actors.Snapshot) bool { return len(v.Workers) == 1 && v.Workers[0].Draining })
	s.Say(says(w.URL()))
	r.wait("both ranks", func(v *actors.Snapshot) bool {
		return v.Live == 1 && len(v.Workers) == 2 && v.Workers[0].Usable() && v.Workers[1].Usable()
	})
	close(gate)
	if _, err := c.ReadResponse(patience); err != nil {
		t.Errorf("the stream that ran: %v", err)
	}
	r.wait("the stream to end", func(v *actors.Snapshot) bool { return v.Live == 0 && len(v.Workers) == 2 })
}

// TestSourceMetrics: how each source fares.
func TestSourceMetrics(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `"w"`))
	r := startRouter(t, testOptions("round_robin"))
	rec := r.Sources()
	s := rec.Add("file")
	rec.Add("dns/x:1").Failed()
	s.Say(says(w.URL(), "http://127.0.0.1:1"))
	s.Failed()
	var b strings.Builder
	r.metrics.write(&b)
	for _, want := range []string{
		"loadstar_discovery_workers{source=\"file\"} 2\n", "loadstar_discovery_errors_total{source=\"file\"} 1\n",
		"loadstar_discovery_last_answer_seconds{source=\"file\"} ", "loadstar_discovery_workers{source=\"dns/x:1\"} 0\n",
		"loadstar_discovery_errors_total{source=\"dns/x:1\"} 1\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the metrics have no %q", want)
		}
	}
	if strings.Contains(b.String(), `last_answer_seconds{source="dns`) {
		t.Error("a source that never had an answer has an age")
	}
}
