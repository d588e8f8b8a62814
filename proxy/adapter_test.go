package proxy

import (
	"net/url"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestAdapters: a call that loads an adapter goes to every worker that it is meant
// for, which serve it at once.
func TestAdapters(t *testing.T) {
	a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m2")
	o := askOptions("random")
	o.Health.Interval = 1 << 40 // no check asks in between
	r := startRouter(t, o, a.Worker, b.Worker)
	r.serves(a, "m1")
	r.serves(b, "m2")
	load := func(query, body string) *proxytest.Response {
		t.Helper()
		return ask(t, r, "/v1/load_lora_adapter"+query, body)
	}
	want200(t, load("?model=m2", `{"lora_name":"l2","lora_path":"/p"}`), "Success: done by 1 workers")
	want200(t, r.forModel("l2", 0), `"b"`)
	want200(t, load("?url="+url.QueryEscape(a.URL()), `{"lora_name":"l1","lora_path":"/p"}`), "Success: done by 1 workers")
	want200(t, r.forModel("l1", 0), `"a"`)
	want200(t, load("", `{"lora_name":"both","lora_path":"/p"}`), "Success: done by 2 workers")
	r.serves(a, "m1", "l1", "both")
	r.serves(b, "m2", "l2", "both")
	want200(t, ask(t, r, "/v1/unload_lora_adapter", `{"lora_name":"l2"}`), "Success: done by 2 workers")
	wantProblem(t, r.forModel("l2", 1), 404, "model_not_found")
	wantProblem(t, load("?model=mX", `{"lora_name":"x"}`), 404, "worker_not_found")
	wantProblem(t, load("?url=x", `{"lora_name":"x"}`), 400, "bad_request")
	wantProblem(t, load("", `no JSON`), 400, "bad_request")
	got := load("", `{}`)
	wantProblem(t, got, 400, "adapter_failed")
	if !strings.Contains(string(got.Body), "no lora_name") || !strings.Contains(string(got.Body), a.URL()) {
		t.Errorf("answer %s, want what the workers say", got.Body)
	}
	b.SetScript(proxytest.JSON(500, `{}`))
	got = load("", `{"lora_name":"x","lora_path":"/p"}`)
	wantProblem(t, got, 502, "adapter_failed")
	if !strings.Contains(string(got.Body), "1 of 2 workers") || strings.Contains(string(got.Body), a.URL()) {
		t.Errorf("answer %s, want it to name the one that failed", got.Body)
	}
}

// TestAdaptersAreForOperators: whoever may not administer loads no adapter, however
// the path is written.
func TestAdaptersAreForOperators(t *testing.T) {
	w := newEngine(t, "a", "m")
	o := testOptions("random")
	o.AdminKey, o.ClientKeys = "ak", keysOf(t, "ck")
	r := startRouter(t, o, w.Worker)
	for _, path := range []string{"/v1/load_lora_adapter", "/v1/load_lora_adapter?x", "/v1/unload_lora_adapter"} {
		wantProblem(t, ask(t, r, path, `{"lora_name":"x"}`, bearerOf("ck")), 401, "invalid_api_key")
	}
	for _, path := range []string{"/v1/load%5Flora%5fadapter", "/v1%2Fload_lora_adapter", "/%761/unload_lora%5fadapter"} {
		wantProblem(t, ask(t, r, path, `{"lora_name":"x"}`, bearerOf("ck")), 400, "disguised_path")
	}
	if n := w.Counts().Requests; n != 0 {
		t.Errorf("the worker got %d requests, want 0", n)
	}
	if got := ask(t, r, "/v1/load_lora_adapter", `{"lora_name":"x"}`, bearerOf("ak")); got.Status != 200 {
		t.Errorf("with the key: answer %d %s, want 200", got.Status, got.Body)
	}
}
