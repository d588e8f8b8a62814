package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// TestModelAliases: under another name a model has the same workers and the same
// routing key; in the body only the model changes, in the answer nothing; and the
// list of models has it.
func TestModelAliases(t *testing.T) {
	a, b := newEngine(t, "a", "a-much-longer-model-name"), newEngine(t, "b", "m2")
	a.rest = proxytest.Echo
	o := askOptions("cache_aware")
	o.Aliases = map[string]string{"short": "a-much-longer-model-name", "a-name-that-is-longer-than-m2's": "m2", "lost": "nobody's"}
	r := startRouter(t, o, a.Worker, b.Worker)
	c := proxytest.Dial(t, r.addr)
	const body = ` {"z":9007199254740993,"\u006dodel" : %s ,"messages":[{"role":"user","content":"%s model: short","model":"short"}],"x":1.0,"é":"\u00e9","a":null } `
	for i := range 50 {
		prompt := strings.Repeat("x", i*i)
		if err := c.Post(chatPath, fmt.Sprintf(body, `"s\u0068ort"`, prompt), jsonType); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil || got.Status != 200 {
			t.Fatalf("answer %+v, %v; want 200", got, err)
		}
		var e proxytest.Echoed
		if err := json.Unmarshal(got.Body, &e); err != nil {
			t.Fatal(err)
		}
		wantBytes(t, "the body", e.Body, fmt.Appendf(nil, body, `"a-much-longer-model-name"`, prompt))
	}
	want200(t, r.forModel("a-name-that-is-longer-than-m2's", 0), `"b"`)
	got := r.forModel("lost", 0)
	wantProblem(t, got, 404, "model_not_found")
	if !strings.Contains(string(got.Body), "`lost`") || strings.Contains(string(got.Body), "nobody") {
		t.Errorf("answer %s, want the name that was asked for", got.Body)
	}
	for range 10 { // one of them likely where that request was
		if got := r.forModel("mX", 0); !strings.Contains(string(got.Body), "`mX`") {
			t.Errorf("answer %s, want the name that was asked for", got.Body)
		}
	}
	if got := r.forModel("m2", 0); string(got.Body) != `"b"` {
		t.Errorf("answer %s under its own name, want b's", got.Body)
	}
	var list struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal(r.call("GET", "/v1/models", "").Body, &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if want := []string{"a-much-longer-model-name", "a-name-that-is-longer-than-m2's", "m2", "short"}; !slices.Equal(ids, want) {
		t.Errorf("models %q, want %q", ids, want)
	}
}

// TestAliasesOfOneWorker: they are listed too where its own answer would pass, and
// share what is known of prompts.
func TestAliasesOfOneWorker(t *testing.T) {
	a := newEngine(t, "a", "m")
	o := testOptions("cache_aware")
	o.Aliases = map[string]string{"other": "m"}
	r := startRouter(t, o, a.Worker)
	wantAnswer(t, r.call("GET", "/v1/models", ""), 200,
		`{"object":"list","data":[{"id":"m","object":"model","parent":null},{"id":"other","object":"model","parent":null}]}`)
	long := strings.Repeat("all of this is the prompt ", 40)
	for _, m := range []string{"m", "other"} {
		want200(t, ask(t, r, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, m, long)), `"a"`)
	}
	if got := r.scrape()["loadstar_prompt_blocks_matched_total"]; got == 0 {
		t.Error("nothing of the prompt is known under the other name, want all of it")
	}
}

// TestAliasesInTwoPhases: both phases are asked under the model's own name, at
// workers that serve it.
func TestAliasesInTwoPhases(t *testing.T) {
	newWorker := func(models string, script proxytest.Script) *proxytest.Worker {
		return proxytest.NewWorker(t, func(x *proxytest.Exchange) {
			if x.Path() == "/v1/models" {
				x.Reply(200, listOf(models), jsonType)
				return
			}
			script(x)
		})
	}
	p1, p2 := newWorker("m1", prefillWith(nixlReply)), newWorker("m2", prefillWith(nixlReply))
	d1, d2 := newWorker("m1", decodeEither), newWorker("m2", decodeEither)
	o := pdOptions("random")
	o.AskModels, o.Aliases = true, map[string]string{"x": "m2"}
	r := startPD(t, o, []*proxytest.Worker{p1, p2}, []*proxytest.Worker{d1, d2})
	for i := range 8 {
		if got := r.forModel("x", i); got.Status != 200 {
			t.Fatalf("answer %d %s, want 200", got.Status, got.Body)
		}
	}
	if n := p1.Requests(chatPath) + d1.Requests(chatPath); n != 0 {
		t.Errorf("workers of the other model got %d requests, want 0", n)
	}
	for _, w := range []*proxytest.Worker{p2, d2} {
		if n := w.Requests(chatPath); n != 8 {
			t.Errorf("a worker of the model got %d requests, want 8", n)
		}
		for _, x := range w.Seen() {
			if x.Path() == chatPath && !strings.Contains(string(x.Body()), `"model":"m2"`) {
				t.Errorf("body %s, want the model's own name", x.Body())
			}
		}
	}
	wantProblem(t, r.forModel("m3", 0), 404, "model_not_found")
	if err := r.RemoveWorker(p2.URL()); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, r.forModel("m2", 0), 503, "no_available_workers")
	r.waitIdle()
}
