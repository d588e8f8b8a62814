package proxy

import (
	"fmt"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// responder stores responses and serves those it has.
func responder(name string) proxytest.Script {
	return func(x *proxytest.Exchange) {
		switch {
		case x.Method == "POST" && x.Path() == "/v1/responses":
			if strings.Contains(string(x.Body()), `"stream":true`) {
				x.SSEHead()
				x.Event(fmt.Sprintf(`{"type":"response.created","response":{"id":"resp_%s_s","object":"response"}}`, name))
				x.Done()
				x.EndChunks()
				return
			}
			x.Reply(200, fmt.Sprintf(`{"id": "resp_%s","object":"response","output":[{"id":"msg_1"}]}`, name), jsonType)
		case strings.HasPrefix(x.Path(), "/v1/responses/resp_"+name):
			x.Reply(200, name, jsonType)
		default:
			x.Reply(404, `{"error":{"message":"no such response"}}`, jsonType)
		}
	}
}

// TestStoredResponses: what is about a stored response goes to the worker that
// stores it; without that knowledge each is asked once.
func TestStoredResponses(t *testing.T) {
	ws := map[string]*proxytest.Worker{}
	r := startRouter(t, testOptions("round_robin"))
	for _, name := range []string{"a", "b", "c"} {
		ws[name] = proxytest.NewWorker(t, responder(name))
		if _, err := r.AddWorker(WorkerSpec{URL: ws[name].URL()}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitHealthy(3)
	total := func() (n int) {
		for _, w := range ws {
			n += w.Requests()
		}
		return n
	}
	for _, stream := range []string{"false", "true"} {
		for range 3 {
			got := string(r.call("POST", "/v1/responses", `{"input":"x","stream":`+stream+`}`).Body)
			id := string(storedID([]byte(got)))
			name := strings.Split(id, "_")[1]
			before := total()
			wantAnswer(t, r.call("GET", "/v1/responses/"+id, ""), 200, name)
			wantAnswer(t, r.call("POST", "/v1/responses/"+id+"/cancel", ""), 200, name)
			r.call("POST", "/v1/responses", fmt.Sprintf(`{"input":"more","previous_response_id":%q}`, id))
			if n := total() - before; n != 3 {
				t.Errorf("%s: 3 requests became %d", id, n)
			}
			last := ws[name].Seen()[len(ws[name].Seen())-1]
			if !strings.Contains(string(last.Body()), "previous_response_id") {
				t.Errorf("what goes on from %s went elsewhere", id)
			}
		}
	}

	fresh := startRouter(t, testOptions("round_robin"), ws["a"], ws["b"], ws["c"])
	wantAnswer(t, fresh.call("GET", "/v1/responses/resp_c_old", ""), 200, "c")
	before := total()
	if got := fresh.call("GET", "/v1/responses/resp_none", ""); got.Status != 404 || !strings.Contains(string(got.Body), "no such response") {
		t.Errorf("answer %d %q, want a worker's 404", got.Status, got.Body)
	}
	if n := total() - before; n != 3 {
		t.Errorf("a response that nobody has: %d workers asked, want each of 3 once", n)
	}
}

// TestStoredResponseOfAWorkerThatLeft: the pin is gone with its membership.
func TestStoredResponseOfAWorkerThatLeft(t *testing.T) {
	a := proxytest.NewWorker(t, responder("a"))
	r := startRouter(t, testOptions("round_robin"), a)
	r.call("POST", "/v1/responses", `{"input":"x"}`)
	if err := r.RemoveWorker(a.URL()); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, r.call("GET", "/v1/responses/resp_a", ""), 503, "no_available_workers")
	b := proxytest.NewWorker(t, responder("b"))
	if _, err := r.AddWorker(WorkerSpec{URL: b.URL()}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	if got := r.call("GET", "/v1/responses/resp_a", ""); got.Status != 404 {
		t.Errorf("status %d, want the other worker's 404", got.Status)
	}
}
