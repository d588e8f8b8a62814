package proxy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// engine is a worker that serves some models and says so. Adapters can be loaded
// into it and out of it.
type engine struct {
	*proxytest.Worker
	t    testing.TB
	name string

	mu     sync.Mutex
	models []string
	rest   proxytest.Script // what it does with requests
}

func newEngine(t testing.TB, name string, models ...string) *engine {
	e := &engine{t: t, name: name, models: models, rest: proxytest.JSON(200, fmt.Sprintf("%q", name))}
	e.Worker = proxytest.NewWorker(t, e.serve)
	return e
}

func (e *engine) serve(x *proxytest.Exchange) {
	e.mu.Lock()
	models, rest := slices.Clone(e.models), e.rest
	e.mu.Unlock()
	switch x.Path() {
	case "/v1/models":
		x.Reply(200, listOf(models...), jsonType)
	case "/v1/load_lora_adapter", "/v1/unload_lora_adapter":
		var in struct {
			Name string `json:"lora_name"`
		}
		if json.Unmarshal(x.Body(), &in) != nil || in.Name == "" {
			x.Reply(400, `{"error":{"message":"no lora_name"}}`, jsonType)
			return
		}
		e.set(slices.DeleteFunc(models, func(m string) bool { return m == in.Name })...)
		if x.Path() == "/v1/load_lora_adapter" {
			e.set(append(models, in.Name)...)
		}
		x.Reply(200, "Success", jsonType)
	case "/metrics":
		x.Reply(404, "")
	default:
		rest(x)
	}
}

func (e *engine) set(models ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.models = models
}

// listOf is an answer to /v1/models. What has a colon in it is an adapter of the
// model before it.
func listOf(models ...string) string {
	var data []string
	for _, m := range models {
		parent := "null"
		if base, _, ok := strings.Cut(m, ":"); ok {
			parent = fmt.Sprintf("%q", base)
		}
		data = append(data, fmt.Sprintf(`{"id":%q,"object":"model","parent":%s}`, m, parent))
	}
	return `{"object":"list","data":[` + strings.Join(data, ",") + `]}`
}

// askOptions are testOptions with workers asked for their models.
func askOptions(policy string) Options {
	o := testOptions(policy)
	o.AskModels = true
	return o
}

// forModel asks for a short answer of a model.
func (r *router) forModel(model string, prompt int) *proxytest.Response {
	r.t.Helper()
	return ask(r.t, r, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"prompt %d"}]}`, model, prompt))
}

// serves waits until a worker is known to serve these models.
func (r *router) serves(w interface{ URL() string }, models ...string) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%s to serve %q", w.URL(), models), func(v *actors.Snapshot) bool {
		for i := range v.Workers {
			if v.Workers[i].URL == w.URL() && v.Workers[i].Member {
				return slices.Equal(v.Workers[i].Serves, models)
			}
		}
		return false
	})
}

// TestModelsThatWorkersTell: a request goes to workers that tell its model, be it a
// base model or an adapter; one that nobody has is a 404 in OpenAI's shape; one
// whose workers are sick is a 503.
func TestModelsThatWorkersTell(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy string) {
		a, b := newEngine(t, "a", "org/m1"), newEngine(t, "b", "m2", "m2:lora1")
		r := startRouter(t, askOptions(policy), a.Worker, b.Worker)
		for i := range 5 {
			want200(t, r.forModel("org/m1", i), `"a"`)
			want200(t, r.forModel("m2", i), `"b"`)
			want200(t, r.forModel("m2:lora1", i), `"b"`)
		}
		got := r.forModel("mX", 0)
		wantProblem(t, got, 404, "model_not_found")
		if want := `"message":"The model ` + "`mX`" + ` does not exist."`; !strings.Contains(string(got.Body), want) || !strings.Contains(string(got.Body), `"type":"invalid_request_error"`) {
			t.Errorf("answer %s, want %s in it", got.Body, want)
		}
		if got := ask(t, r, chatPath, `{"messages":[]}`); got.Status != 200 {
			t.Errorf("without a model: answer %d %s, want 200", got.Status, got.Body)
		}
		wantAnswer(t, r.call("GET", "/v1/models/org%2Fm1", ""), 200, `"a"`)
		wantProblem(t, r.call("GET", "/v1/models/org%2FmX", ""), 404, "model_not_found")
		a.SetHealth(proxytest.JSON(500, ""))
		r.waitHealthy(1)
		wantProblem(t, r.forModel("org/m1", 0), 503, "no_available_workers")
	})
}

// TestModelsOnceUnasked: without being asked to, the router asks no worker for its
// models, and sends any model anywhere.
func TestModelsOnceUnasked(t *testing.T) {
	a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m2")
	r := startRouter(t, testOptions("round_robin"), a.Worker, b.Worker)
	got := map[string]int{}
	for i := range 4 {
		got[string(r.forModel("m1", i).Body)]++
	}
	if got[`"a"`] != 2 || got[`"b"`] != 2 {
		t.Errorf("answers %v, want two of each", got)
	}
	if n := a.Requests("/v1/models") + b.Requests("/v1/models"); n != 0 {
		t.Errorf("workers were asked for their models %d times, want 0", n)
	}
}

// TestModelsChange: a worker's models are asked for again and again, hold while it
// gives no answer, and are others when another process comes up at its address.
func TestModelsChange(t *testing.T) {
	a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m2")
	r := startRouter(t, askOptions("least_work"), a.Worker, b.Worker)
	r.serves(a, "m1")
	a.set("m1", "m1:new")
	r.serves(a, "m1", "m1:new")
	want200(t, r.forModel("m1:new", 0), `"a"`)
	a.set()
	n := a.Counts().Requests // it gets none beside those for its models
	a.WaitFor("two more questions", func(c proxytest.Counts) bool { return c.Requests >= n+2 }, patience)
	want200(t, r.forModel("m1:new", 1), `"a"`)
	a.set("m3")
	r.serves(a, "m3")
	wantProblem(t, r.forModel("m1", 2), 404, "model_not_found")
	want200(t, r.forModel("m3", 2), `"a"`)
	if got := r.scrape(); got["loadstar_models"] != 2 || got[`loadstar_model_workers{model="m3"}`] != 1 || got[`loadstar_model_requests_total{model="m3"}`] != 1 {
		t.Errorf("models %v, workers %v, requests %v; want 2, 1, 1",
			got["loadstar_models"], got[`loadstar_model_workers{model="m3"}`], got[`loadstar_model_requests_total{model="m3"}`])
	}
	type shown struct {
		Model  string   `json:"model_id"`
		Models []string `json:"models"`
	}
	var w shown
	if err := json.Unmarshal(r.call("GET", "/workers/"+url.PathEscape(a.URL()), "").Body, &w); err != nil || w.Model != "m3" || !slices.Equal(w.Models, []string{"m3"}) {
		t.Errorf("the worker is shown as %+v, %v; want model m3", w, err)
	}
}

// TestModelsOfTheNextProcess: what comes up where a worker was tells its own models
// before it gets a request.
func TestModelsOfTheNextProcess(t *testing.T) {
	a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m2")
	r := startRouter(t, askOptions("random"), a.Worker, b.Worker)
	for i := range 5 {
		a.SetHealth(proxytest.JSON(500, ""))
		r.waitHealthy(1)
		model := fmt.Sprint("next-", i)
		a.set(model)
		a.SetHealth(proxytest.JSON(200, ""))
		r.waitHealthy(2)
		want200(t, r.forModel(model, i), `"a"`)
	}
}

// TestMergedModelsAreBounded: neither how many models workers list nor the length of
// their names makes an answer that has no end.
func TestMergedModelsAreBounded(t *testing.T) {
	var answers [][]byte
	for w := range 3 {
		ids := []string{strings.Repeat("x", actors.MaxModelName+1)}
		for i := range modelsListed / 2 {
			ids = append(ids, fmt.Sprint(w, "-", i))
		}
		answers = append(answers, []byte(listOf(ids...)))
	}
	if n := len(mergeModels(answers, newAliases(map[string]string{"a": "0-0", "b": "2-9"}))); n != modelsListed+1 {
		t.Errorf("%d models, want %d and the alias of one that is there", n, modelsListed)
	}
}

// TestModelsOfRunningRequests: what a worker serves, and whether it is there, change
// no count of what runs there.
func TestModelsOfRunningRequests(t *testing.T) {
	a, b := newEngine(t, "a", "m1", "m1:x"), newEngine(t, "b", "m2")
	a.rest = proxytest.Silent
	r := startRouter(t, askOptions("cache_aware"), a.Worker, b.Worker)
	var open []*proxytest.Client
	for _, m := range []string{"m1", "m1:x", "m1"} {
		open = append(open, r.post(fmt.Sprintf(`{"model":%q,"messages":[]}`, m)))
	}
	r.waitLoad(a.Worker, 3)
	a.set("m3")
	r.serves(a, "m3")
	if n := r.load(a.Worker); n != 3 {
		t.Errorf("load %d with other models, want 3", n)
	}
	if err := r.RemoveWorker(a.URL()); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, r.forModel("m3", 0), 404, "model_not_found")
	if n := r.load(a.Worker); n != 3 {
		t.Errorf("load %d when it is removed, want 3", n)
	}
	open[0].CloseFIN()
	r.waitLoad(a.Worker, 2)
	if _, err := r.AddWorker(WorkerSpec{URL: a.URL()}); err != nil {
		t.Fatal(err)
	}
	r.serves(a, "m3")
	if n := r.load(a.Worker); n != 2 {
		t.Errorf("load %d when it is back, want 2", n)
	}
	open[1].CloseFIN()
	open[2].CloseFIN()
	r.waitLoad(a.Worker, 0)
}

// TestModelListsAreHostile: whatever a worker answers, the router goes on, and what
// can be no name is none.
func TestModelListsAreHostile(t *testing.T) {
	many := make([]string, 3*actors.MaxModelsOfWorker)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	for _, tc := range []struct {
		name, answer string
		want         []string // nil if it is as good as none
	}{
		{"empty", ``, nil},
		{"no list", `{"object":"list"}`, nil},
		{"a list of nothing", `{"data":[]}`, nil},
		{"null", `{"data":null}`, nil},
		{"a list alone", `["m"]`, nil},
		{"cut", `{"data":[{"id":"m"}`, nil},
		{"HTML", `<html>{"data":[{"id":"m"}]}</html>`, nil},
		{"deep", `{"data":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, nil},
		{"longer than may be", `{"data":[{"id":"m"}],"x":"` + strings.Repeat("x", modelsAnswer) + `"}`, nil},
		{"ids of all kinds", `{"data":[{"id":1},{"id":null},{"id":{}},{"id":["m"]},{"id":""},{},7,"m",null,{"id":"m"}]}`, []string{"m"}},
		{"control characters", `{"data":[{"id":"a\nb"},{"id":"a\u0000"},{"id":"` + "\xff" + `"},{"id":"m"}]}`, []string{"m"}},
		{"escapes", `{"data":[{"\u0069d":"org\/m\u00e9"}]}`, []string{"org/mé"}},
		{"twice", `{"data":[{"id":"m"},{"id":"n","id":"m"}]}`, []string{"m"}},
		{"a long name", `{"data":[{"id":"` + strings.Repeat("x", actors.MaxModelName+1) + `"},{"id":"` + strings.Repeat("y", actors.MaxModelName) + `"}]}`, []string{strings.Repeat("y", actors.MaxModelName)}},
		{"many", listOf(many...), many[:actors.MaxModelsOfWorker]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			names, cut, err := readModels([]byte(tc.answer))
			if tc.name != "longer than may be" && (!slices.Equal(names, tc.want) || (err == nil) != (tc.want != nil) || cut != (tc.name == "many")) {
				t.Errorf("names %.200q, cut %v, %v; want %.200q", names, cut, err, tc.want)
			}
			w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if x.Path() == "/v1/models" {
					x.Reply(200, tc.answer, jsonType)
					return
				}
				x.Reply(200, `{}`, jsonType)
			})
			r := startRouter(t, askOptions("cache_aware"), w)
			r.serves(w, tc.want...)
			model := "any"
			if tc.want != nil {
				model = tc.want[0]
			}
			want200(t, r.forModel(model, 0), `{}`)
			if got := r.forModel("\x01\"\u2028", 0); tc.want != nil && (got.Status != 404 || !json.Valid(got.Body)) {
				t.Errorf("answer %d %q for a strange name, want a 404 of JSON", got.Status, got.Body)
			}
			if got := r.call("GET", "/metrics", ""); got.Status != 200 {
				t.Errorf("metrics: status %d, want 200", got.Status)
			}
		})
	}
}

// FuzzReadModels reads lists as encoding/json does, where that can.
func FuzzReadModels(f *testing.F) {
	f.Add([]byte(listOf("a", "b:c", "a")))
	f.Add([]byte(`{"data":[{"id":"\ud83d"},{"id":3}],"data":[{"id":"x\\"}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		names, _, err := readModels(answer)
		for i, n := range names {
			if !actors.FitModelName(n) || slices.Contains(names[:i], n) || len(names) > actors.MaxModelsOfWorker {
				t.Fatalf("names %q", names)
			}
		}
		var list struct {
			Data []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(answer, &list) != nil {
			return
		}
		if strings.Count(strings.ToLower(string(answer)), `data"`) > 1 || strings.Contains(string(answer), `\u`) {
			return // which encoding/json matches in any case
		}
		var want []string
		for _, m := range list.Data {
			var v map[string]json.RawMessage
			var id string
			if json.Unmarshal(m, &v) != nil || v["id"] == nil || v["id"][0] != '"' || json.Unmarshal(v["id"], &id) != nil {
				continue
			}
			if actors.FitModelName(id) && !strings.Contains(id, "\ufffd") && !slices.Contains(want, id) && len(want) < actors.MaxModelsOfWorker {
				want = append(want, id)
			}
		}
		if len(want) > 0 && err == nil && !slices.Equal(want, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "\ufffd") })) {
			t.Fatalf("%q: names %q, want %q", answer, names, want)
		}
	})
}

// TestModelsNamedByOperators: POST /workers says what a worker serves, and bad names
// are refused.
func TestModelsNamedByOperators(t *testing.T) {
	a, b := newEngine(t, "a", "x"), newEngine(t, "b", "x")
	r := startRouter(t, testOptions("random"))
	for _, body := range []string{
		fmt.Sprintf(`{"url":%q,"model_id":"m1","models":["m1:l1","m1:l2"]}`, a.URL()),
		fmt.Sprintf(`{"url":%q,"models":["m2"]}`, b.URL()),
	} {
		if got := r.call("POST", "/workers", body); got.Status != 200 {
			t.Fatalf("answer %d %s, want 200", got.Status, got.Body)
		}
	}
	for model, want := range map[string]string{"m1": `"a"`, "m1:l1": `"a"`, "m1:l2": `"a"`, "m2": `"b"`} {
		want200(t, r.forModel(model, 0), want)
	}
	wantProblem(t, r.forModel("x", 0), 404, "model_not_found")
	for _, models := range []string{`"model_id":"a\nb"`, `"models":["ok","` + strings.Repeat("x", 300) + `"]`, `"models":[` + strings.Repeat(`"m",`, 300) + `"m"]`} {
		if got := r.call("POST", "/workers", `{"url":"http://10.0.0.1:1",`+models+`}`); got.Status != 400 {
			t.Errorf("%.60s: answer %d %s, want 400", models, got.Status, got.Body)
		}
	}
}

// TestCompatModels: as in vllm-router an unknown model goes to any worker.
func TestCompatModels(t *testing.T) {
	a, b := newEngine(t, "a", "m1"), newEngine(t, "b", "m2")
	o := askOptions("round_robin")
	o.Compat = true
	r := startRouter(t, o, a.Worker, b.Worker)
	for i := range 4 {
		if got := r.forModel("mX", i); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
		want200(t, r.forModel("m1", i), `"a"`)
	}
}
