package proxy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// call makes one request to the router and returns the answer.
func (r *router) call(method, target, body string, headers ...proxytest.Header) *proxytest.Response {
	r.t.Helper()
	if body != "" {
		headers = append(headers, jsonType)
	}
	return proxytest.Do(r.t, r.addr, proxytest.Request{Method: method, Target: target, Body: body, Headers: headers})
}

func wantAnswer(t testing.TB, got *proxytest.Response, status int, body string) {
	t.Helper()
	if got.Status != status || string(got.Body) != body {
		t.Errorf("answer %d %q, want %d %q", got.Status, got.Body, status, body)
	}
}

// wantProblem wants an error in the shape that OpenAI's clients read.
func wantProblem(t testing.TB, got *proxytest.Response, status int, code string) {
	t.Helper()
	var in struct {
		Error struct {
			Message, Type, Code string
		} `json:"error"`
	}
	if err := json.Unmarshal(got.Body, &in); err != nil {
		t.Errorf("answer %d %q: %v", got.Status, got.Body, err)
		return
	}
	if got.Status != status || in.Error.Code != code || in.Error.Message == "" || in.Error.Type == "" {
		t.Errorf("answer %d %s, want %d and code %q with message and type", got.Status, got.Body, status, code)
	}
	if ct := got.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q, want application/json", ct)
	}
}

func TestAddAndRemoveByQuery(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"))
	q := url.QueryEscape(w.URL())
	wantAnswer(t, r.call("POST", "/add_worker?url="+q, ""), 200, "Successfully added worker: "+w.URL())
	wantProblem(t, r.call("POST", "/add_worker?url="+q, ""), 409, "add_worker_failed")
	wantProblem(t, r.call("POST", "/add_worker?url="+url.QueryEscape(strings.ToUpper(w.URL())+"/"), ""), 409, "add_worker_failed")
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, fmt.Sprintf(`{"urls":[%q]}`, w.URL()))
	wantAnswer(t, r.call("GET", "/get_loads", ""), 200, fmt.Sprintf(`{"workers":[{"worker":%q,"load":0}]}`, w.URL()))
	wantAnswer(t, r.call("POST", "/remove_worker?url="+q, ""), 200, "Successfully removed worker: "+w.URL())
	wantProblem(t, r.call("POST", "/remove_worker?url="+q, ""), 404, "worker_not_found")
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, `{"urls":[]}`)
	wantProblem(t, r.call("POST", "/add_worker", ""), 400, "bad_request")
	wantProblem(t, r.call("POST", "/remove_worker", ""), 400, "bad_request")
	for _, bad := range []string{"worker1:8000", "ftp://worker1", "http://bob:secret@worker1", "file:///etc/passwd", "unix:/run/x"} {
		got := r.call("POST", "/add_worker?url="+url.QueryEscape(bad), "")
		wantProblem(t, got, 400, "add_worker_failed")
		if strings.Contains(string(got.Body), "secret") {
			t.Errorf("the answer gives a password away: %s", got.Body)
		}
	}
}

func TestAddWithoutHealth(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	w.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
	o := testOptions("round_robin")
	o.StartupTimeout = 100 * time.Millisecond
	r := startRouter(t, o)
	q := url.QueryEscape(w.URL())
	if got := r.call("POST", "/add_worker?require_healthy=true&url="+q, ""); got.Status != 400 || !strings.Contains(string(got.Body), "--worker-startup-timeout-secs") {
		t.Errorf("required to be healthy: answer %d %s", got.Status, got.Body)
	}
	wantAnswer(t, r.call("GET", "/list_workers", ""), 200, `{"urls":[]}`)
	for _, wait := range []string{"", "&wait=false"} {
		got := r.call("POST", "/add_worker?url="+q+wait, "")
		if got.Status != 202 {
			t.Errorf("%q: status %d, want 202", wait, got.Status)
		}
		if got := r.call("POST", "/v1/chat/completions", chat("hi", false)); got.Status != 503 {
			t.Errorf("a worker that isn't healthy got a request: %d", got.Status)
		}
		wantAnswer(t, r.call("GET", "/list_workers", ""), 200, fmt.Sprintf(`{"urls":[%q]}`, w.URL()))
		wantAnswer(t, r.call("POST", "/remove_worker?url="+q, ""), 200, "Successfully removed worker: "+w.URL())
	}
}

// TestAdderLeaves: a client that gives up waiting for its worker's health is
// noticed, and the worker stays.
func TestAdderLeaves(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	w.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
	o := testOptions("round_robin")
	o.StartupTimeout = time.Hour
	r := startRouter(t, o)
	c := proxytest.Dial(t, r.addr)
	if err := c.Post("/add_worker?url="+url.QueryEscape(w.URL()), ""); err != nil {
		t.Fatal(err)
	}
	r.wait("the worker to be added", func(v *actors.Snapshot) bool { return len(v.Workers) == 1 })
	c.CloseFIN()
	// The cleanup's shutdown would wait for the call otherwise.
}

func TestWorkersREST(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("least_work"))
	body := fmt.Sprintf(`{"url":%q,"model_id":"m1","priority":7,"cost":2.5,"labels":{"zone":"a"},"worker_type":"regular"}`, w.URL()+"/")
	wantAnswer(t, r.call("POST", "/workers", body), 200, fmt.Sprintf(`{"success":true,"message":"Successfully added worker: %s"}`, w.URL()))
	name := url.PathEscape(w.URL())
	wantAnswer(t, r.call("POST", "/workers", body), 409, fmt.Sprintf(`{"error":"Worker %s already exists","code":"ADD_WORKER_FAILED"}`, w.URL()))
	one := fmt.Sprintf(`{"url":%q,"model_id":"m1","worker_type":"regular","is_healthy":true,"load":0,"connection_mode":"Http","priority":7,"cost":2.5,`+
		`"breaker":"closed","phases":{},"processed":0,"models":["m1"],"foreign":0,"labels":{"zone":"a"},"source":"api"}`, w.URL())
	wantAnswer(t, r.call("GET", "/workers/"+name, ""), 200, one)
	wantAnswer(t, r.call("GET", "/workers", ""), 200,
		`{"workers":[`+one+`],"total":1,"stats":{"prefill_count":0,"decode_count":0,"regular_count":1},`+
			`"cache":{"prompt_blocks":0,"matched_blocks":0,"best_blocks":0,"tokens":{"prompt":0,"predicted":0,"reported":0,"best":0}}}`)
	wantAnswer(t, r.call("DELETE", "/workers/"+name, ""), 200, fmt.Sprintf(`{"success":true,"message":"Worker %s removed successfully"}`, w.URL()))
	gone := fmt.Sprintf(`{"error":"Worker %s not found","code":"WORKER_NOT_FOUND"}`, w.URL())
	wantAnswer(t, r.call("DELETE", "/workers/"+name, ""), 404, gone)
	wantAnswer(t, r.call("GET", "/workers/"+name, ""), 404, gone)
	for _, bad := range []string{`{`, `[]`, `{}`, `{"url":""}`, `{"url":"nope"}`, `{"url":"http://h:1","worker_type":"prefill"}`, `{"url":"http://h:1","cost":-1}`} {
		got := r.call("POST", "/workers", bad)
		if got.Status != 400 || !strings.Contains(string(got.Body), "ADD_WORKER_FAILED") {
			t.Errorf("%s: answer %d %s, want 400 and ADD_WORKER_FAILED", bad, got.Status, got.Body)
		}
	}
	if got := r.call("GET", "/workers/%zz", ""); got.Status != 400 {
		t.Errorf("a worker's name that isn't percent-encoded: status %d, want 400", got.Status)
	}
}

// TestModelIsHonoured: a worker that was added for a model gets what asks for
// it, and one that was added for none does not.
func TestModelIsHonoured(t *testing.T) {
	any, m1 := proxytest.NewWorker(t, proxytest.JSON(200, `"any"`)), proxytest.NewWorker(t, proxytest.JSON(200, `"m1"`))
	r := startRouter(t, testOptions("cache_aware"), any)
	r.call("POST", "/workers", fmt.Sprintf(`{"url":%q,"model_id":"m1"}`, m1.URL()))
	for i := range 10 {
		got := r.call("POST", "/v1/completions", fmt.Sprintf(`{"model":"m1","prompt":"%d"}`, i))
		wantAnswer(t, got, 200, `"m1"`)
	}
}

func TestCompat(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Compat = true
	r := startRouter(t, o, w)
	q := url.QueryEscape(w.URL())
	wantAnswer(t, r.call("POST", "/add_worker?url="+q, ""), 400, fmt.Sprintf("Worker %s already exists", w.URL()))
	wantAnswer(t, r.call("POST", "/remove_worker?url="+q, ""), 200, "Successfully removed worker: "+w.URL())
	wantAnswer(t, r.call("POST", "/remove_worker?url="+q, ""), 200, "Successfully removed worker: "+w.URL())
	if got := r.call("DELETE", "/workers/"+url.PathEscape(w.URL()), ""); got.Status != 200 {
		t.Errorf("DELETE of an unknown worker: status %d, want 200", got.Status)
	}
	wantAnswer(t, r.call("POST", "/v1/chat/completions", chat("hi", false)), 503, "No available workers (all circuits open or unhealthy).")
}

func TestFlushCache(t *testing.T) {
	a, b := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("cache_aware"), a, b)
	wantAnswer(t, r.call("POST", "/flush_cache", ""), 200, "Cache flushed on all servers")
	if a.Requests("/flush_cache") != 1 || b.Requests("/flush_cache") != 1 {
		t.Errorf("flushes: %d and %d, want one each", a.Requests("/flush_cache"), b.Requests("/flush_cache"))
	}
	b.SetScript(proxytest.JSON(500, "{}"))
	got := r.call("POST", "/flush_cache", "")
	wantProblem(t, got, 500, "flush_failed")
	if !strings.Contains(string(got.Body), b.URL()) || strings.Contains(string(got.Body), a.URL()) {
		t.Errorf("answer %s, want it to name the one that failed", got.Body)
	}
}

// TestModelsOfTheFleet: the models of all workers, each once; those of a single
// worker as it tells them.
func TestModelsOfTheFleet(t *testing.T) {
	list := func(ids ...string) proxytest.Script {
		var data []string
		for _, id := range ids {
			data = append(data, fmt.Sprintf(`{"id": %q, "x_%s": 1.50}`, id, id))
		}
		return proxytest.JSON(200, `{"object":"list","data":[`+strings.Join(data, ",")+`]}`)
	}
	a, b, broken := proxytest.NewWorker(t, list("m1", "lora1")), proxytest.NewWorker(t, list("m2", "m1")), proxytest.NewWorker(t, proxytest.JSON(500, "{}"))
	r := startRouter(t, testOptions("round_robin"), a)
	wantAnswer(t, r.call("GET", "/v1/models", ""), 200, `{"object":"list","data":[{"id": "m1", "x_m1": 1.50},{"id": "lora1", "x_lora1": 1.50}]}`)
	for _, w := range []*proxytest.Worker{b, broken} {
		if _, err := r.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
			t.Fatal(err)
		}
	}
	r.waitHealthy(3)
	auth := proxytest.H("Authorization", "Bearer ck")
	wantAnswer(t, r.call("GET", "/v1/models", "", auth), 200,
		`{"object":"list","data":[{"id":"m1","x_m1":1.50},{"id":"lora1","x_lora1":1.50},{"id":"m2","x_m2":1.50}]}`)
	for _, x := range b.Seen() {
		if x.Path() == "/v1/models" && x.Get("Authorization") != "Bearer ck" {
			t.Errorf("a worker was asked with Authorization %q, want the client's", x.Get("Authorization"))
		}
	}
}

func TestFinishSession(t *testing.T) {
	a, b := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("sticky_least_loaded"), a, b)
	r.call("POST", "/v1/chat/completions", chat("hi", false), proxytest.H("X-Session-ID", "s1"))
	if v := r.snapshot(); v.Sessions != 1 {
		t.Errorf("%d sessions, want 1", v.Sessions)
	}
	wantAnswer(t, r.call("POST", "/finish_session?session_id=s1", ""), 200, `{"status":"ok","session_id":"s1"}`)
	if v := r.snapshot(); v.Sessions != 0 {
		t.Errorf("%d sessions, want 0", v.Sessions)
	}
	wantAnswer(t, r.call("POST", "/finish_session?session_id=s1", ""), 200, `{"status":"ok","session_id":"s1"}`)
	wantProblem(t, r.call("POST", "/finish_session", ""), 400, "bad_request")
}

func TestMethodsOfOwnPaths(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"), w)
	for _, tc := range []struct{ method, target, allow string }{
		{"GET", "/v1/chat/completions", "POST"},
		{"DELETE", "/v1/completions", "POST"},
		{"PUT", "/workers", "POST,GET,HEAD"},
		{"POST", "/health", "GET,HEAD"},
		{"POST", "/workers/x", "GET,HEAD,DELETE"},
		{"GET", "/flush_cache", "POST"},
		{"OPTIONS", "/workers", "POST,GET,HEAD"},
	} {
		t.Run(tc.method+" "+tc.target, func(t *testing.T) {
			got := r.call(tc.method, tc.target, "")
			wantProblem(t, got, 405, "method_not_allowed")
			if got.Get("Allow") != tc.allow {
				t.Errorf("Allow %q, want %q", got.Get("Allow"), tc.allow)
			}
		})
	}
	if n := w.Requests(); n != 0 {
		t.Errorf("the worker got %d requests, want 0", n)
	}
	if got := r.call("HEAD", "/health", ""); got.Status != 200 || len(got.Body) != 0 {
		t.Errorf("HEAD /health: %d %q", got.Status, got.Body)
	}
}

func TestCORS(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.CORSOrigins = []string{"https://a.example"}
	r := startRouter(t, o, w)
	const allow = "access-control-allow-origin"
	for _, tc := range []struct{ method, target, origin, want string }{
		{"POST", "/v1/chat/completions", "https://a.example", "https://a.example"},
		{"POST", "/v1/chat/completions", "https://b.example", ""},
		{"GET", "/health", "https://a.example", "https://a.example"},
		{"OPTIONS", "/v1/chat/completions", "https://a.example", "https://a.example"},
		{"OPTIONS", "/v1/unknown", "https://a.example", "https://a.example"},
		{"OPTIONS", "/workers", "https://b.example", ""},
	} {
		t.Run(tc.method+" "+tc.target+" from "+tc.origin, func(t *testing.T) {
			got := r.call(tc.method, tc.target, "", proxytest.H("Origin", tc.origin))
			if got.Status != 200 || got.Get(allow) != tc.want || got.Get("Vary") == "" {
				t.Errorf("answer %s, want 200, %s %q and Vary", got.RawHead, allow, tc.want)
			}
			if tc.method == "OPTIONS" && got.Get("access-control-allow-methods") == "" {
				t.Error("no access-control-allow-methods")
			}
		})
	}
	plain := startRouter(t, testOptions("round_robin"), w)
	if got := plain.call("POST", "/v1/chat/completions", "{}", proxytest.H("Origin", "https://a.example")); got.Get(allow) != "" || got.Get("Vary") != "" {
		t.Errorf("without origins configured: %s", got.RawHead)
	}
}
