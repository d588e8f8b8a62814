package proxy

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// gated streams one event, and the rest when the gate is opened.
func gated(gate <-chan struct{}) proxytest.Script {
	return func(x *proxytest.Exchange) {
		if x.SSEHead() && x.Event(proxytest.EventData(0)) {
			<-gate
			if x.Done() {
				x.EndChunks()
			}
		}
	}
}

// TestDrainAWorker: a stream runs on, new requests go elsewhere, and the worker
// goes with the end of its stream, by each of the calls that ask for it.
func TestDrainAWorker(t *testing.T) {
	for _, tc := range []struct{ name, method, target string }{
		{"drain", "POST", "/workers/%s/drain"},
		{"delete", "DELETE", "/workers/%s?drain=true"},
		{"remove_worker", "POST", "/remove_worker?url=%s&drain=true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gate := make(chan struct{})
			old, other := proxytest.NewWorker(t, gated(gate)), proxytest.NewWorker(t, proxytest.JSON(200, `"other"`))
			r := startRouter(t, testOptions("round_robin"), old)
			c := r.post(chat("a", true))
			r.waitLoad(old, 1)
			if _, err := r.AddWorker(WorkerSpec{URL: other.URL()}); err != nil {
				t.Fatal(err)
			}
			r.waitHealthy(2)
			got := r.call(tc.method, fmt.Sprintf(tc.target, url.QueryEscape(old.URL())), "")
			if got.Status != 202 || !strings.Contains(string(got.Body), "drains: 1 requests are still there") {
				t.Errorf("answer %d %s, want 202 and how many requests are still there", got.Status, got.Body)
			}
			for range 4 {
				wantAnswer(t, r.call("POST", chatPath, chat("b", false)), 200, `"other"`)
			}
			if got := r.call("GET", "/workers/"+url.QueryEscape(old.URL()), ""); !strings.Contains(string(got.Body), `"draining":true`) {
				t.Errorf("the worker is shown as %s, want it draining", got.Body)
			}
			close(gate)
			if resp, err := c.ReadResponse(patience); err != nil || !strings.HasSuffix(string(resp.Body), "[DONE]\n\n") {
				t.Errorf("the stream that ran: %v", err)
			}
			r.wait("the worker to go", func(v *actors.Snapshot) bool { return len(v.Workers) == 1 })
			if got := r.call("GET", "/workers/"+url.QueryEscape(old.URL()), ""); got.Status != 404 {
				t.Errorf("the worker afterwards: %d, want 404", got.Status)
			}
		})
	}
}

// TestDrainByTime: when its time is over, a worker is removed and its stream runs
// on, still counted. A drain that was taken back removes nothing.
func TestDrainByTime(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("taken back: ", back), func(t *testing.T) {
			gate := make(chan struct{})
			w := proxytest.NewWorker(t, gated(gate))
			r := startRouter(t, testOptions("round_robin"), w)
			c := r.post(chat("a", true))
			r.waitLoad(w, 1)
			path := "/workers/" + url.QueryEscape(w.URL()) + "/drain"
			if back {
				r.call("POST", path, "")
				wantAnswer(t, r.call("DELETE", path, ""), 200, fmt.Sprintf(`{"success":true,"message":"Worker %s gets requests"}`, w.URL()))
			} else {
				r.call("POST", path+"?timeout_secs=0.01", "")
			}
			if !back {
				r.wait("the worker to be removed", func(v *actors.Snapshot) bool { return len(v.Workers) == 1 && !v.Workers[0].Member })
			}
			if n := r.load(w); n != 1 {
				t.Errorf("load %d, want 1", n)
			}
			close(gate)
			if _, err := c.ReadResponse(patience); err != nil {
				t.Errorf("the stream that ran: %v", err)
			}
			r.wait("the stream to end", func(v *actors.Snapshot) bool { return v.Live == 0 })
			if n := len(r.snapshot().Workers); (n == 1) != back {
				t.Errorf("%d workers afterwards, want it there only if the drain was taken back", n)
			}
		})
	}
}

func TestDrainRefusals(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"), w)
	name := url.QueryEscape(w.URL())
	for _, tc := range []struct {
		method, target string
		want           int
	}{
		{"POST", "/workers/" + name + "/drain?timeout_secs=-1", 400},
		{"POST", "/workers/" + name + "/drain?timeout_secs=NaN", 400},
		{"POST", "/workers/" + name + "/drain?timeout_secs=1e300", 400},
		{"POST", "/workers/http%3A%2F%2Fnobody%3A1/drain", 404},
		{"DELETE", "/workers/http%3A%2F%2Fnobody%3A1/drain", 404},
		{"DELETE", "/workers/" + name + "%2Fdrain", 404}, // a worker whose own path ends so
		{"DELETE", "/workers/http%3A%2F%2Fnobody%3A1?drain=true", 404},
		{"POST", "/remove_worker?drain=true&url=http%3A%2F%2Fnobody%3A1", 404},
		{"GET", "/workers/" + name + "/drain", 405},
		{"POST", "/workers/drain", 405},
	} {
		if got := r.call(tc.method, tc.target, ""); got.Status != tc.want {
			t.Errorf("%s %s: %d %s, want %d", tc.method, tc.target, got.Status, got.Body, tc.want)
		}
	}
	if v := r.snapshot(); v.Workers[0].Draining {
		t.Error("the worker drains after calls that were refused")
	}
	wantAnswer(t, r.call("POST", "/workers/"+name+"/drain", ""), 200, fmt.Sprintf(`{"success":true,"message":"Worker %s had no requests and is removed"}`, w.URL()))
	if got := r.call("GET", "/health", ""); got.Status != 503 {
		t.Errorf("/health with no worker: %d, want 503", got.Status)
	}
}
