package proxy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestPairBatchesStayWhole: several prompts would share one set of blocks, so they
// go to one decode worker, and so does what is answered before it is run.
func TestPairBatchesStayWhole(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path, body string
		whole            bool
	}{
		{"strings", "/v1/completions", `{"prompt":["a","b"],` + ownKV + `,"x":"the case"}`, true},
		{"lists of tokens", "/v1/completions", `{"prompt":[[1],[2]],` + ownKV + `,"x":"the case"}`, true},
		{"texts", "/generate", `{"text":["a","b"],` + ownKV + `,"x":"the case"}`, true},
		{"in the background", "/v1/responses", `{"input":"a","background":true,` + ownKV + `,"x":"the case"}`, true},
		{"one string", "/v1/completions", `{"prompt":["a"],` + ownKV + `,"x":"the case"}`, false},
		{"one list of tokens", "/v1/completions", `{"prompt":[1,2],` + ownKV + `,"x":"the case"}`, false},
		{"two choices", "/v1/completions", `{"prompt":"a","n":2,"best_of":3,` + ownKV + `,"x":"the case"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := pdFixture(t, pdOptions("cache_aware"), 1, nil, func(x *proxytest.Exchange) {
				if x.Hold() {
					x.Reply(200, decodeAnswer, jsonType)
				}
			})
			c := proxytest.Dial(t, f.addr)
			if err := c.Post(tc.path, tc.body, jsonType); err != nil {
				t.Fatal(err)
			}
			want, seen := loadJSON{running: 1, plain: 1}, 0
			if !tc.whole {
				want, seen = loadJSON{running: 1, decoding: 1}, 1
			}
			f.waitSeen(seen, 1)
			if got := f.loads()[f.decode[0].URL()]; got != want {
				t.Errorf("load %+v, want %+v", got, want)
			}
			if body := string(f.decodes()[0].Body()); strings.Contains(body, "666") || strings.Contains(body, "kv_transfer_params") == tc.whole {
				t.Errorf("the decode worker got %s", body)
			}
			release(f.decode...)
			if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
				t.Errorf("answer %+v, %v", got, err)
			}
			f.finish()
		})
	}
}

// TestPairShortPrompts: a prompt that is short, or known to be cached at the decode
// worker, isn't split. One whose prefill failed isn't cached anywhere.
func TestPairShortPrompts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a prompt of many blocks of sixty-four bytes, the case; ", 20)
	for _, tc := range []struct {
		name    string
		prompts []string
		prefill proxytest.Script // for the first request
		seen    [2]int
	}{
		{"short", []string{theCase}, nil, [2]int{0, 1}},
		{"long", []string{long}, nil, [2]int{1, 1}},
		{"long, twice", []string{long, long}, nil, [2]int{1, 2}},
		{"long, and some more of it", []string{long, long + "more"}, nil, [2]int{1, 2}},
		{"two that are long", []string{long, "another: " + long}, nil, [2]int{2, 2}},
		{"long, and its prefill fails", []string{long}, pdStatus(503), [2]int{2, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := pdOptions("cache_aware")
			o.PD.ShortBlocks = 8
			prefill := prefillWith(nixlReply)
			if tc.prefill != nil {
				prefill = proxytest.Sequence(tc.prefill, prefill)
			}
			f := pdFixture(t, o, 1, prefill, nil)
			f.enlist(actors.Prefill, proxytest.NewWorker(t, prefillBeside(prefill))) // who is asked when the other fails
			for _, p := range tc.prompts {
				c := f.post(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],%s}`, p, ownKV))
				got, err := c.ReadResponse(loaded)
				if err != nil || got.Status != 200 {
					t.Fatalf("answer %+v, %v", got, err)
				}
				split := len(f.decodes()) == 1 && tc.seen[0] > 0 || tc.name == "two that are long"
				if kept := strings.Contains(string(got.Body), `"cached_tokens":9`); kept == split {
					t.Errorf("split %v, and the decode worker's usage kept %v: %s", split, kept, got.Body)
				}
			}
			for i, x := range f.decodes() {
				if strings.Contains(string(x.Body()), "666") {
					t.Errorf("decode request %d has the client's own parameters: %s", i, x.Body())
				}
			}
			if got := len(f.decodes()); got != tc.seen[1] {
				t.Errorf("%d decode requests, want %d", got, tc.seen[1])
			}
			v, prefills := f.snapshot(), 0
			for i := range v.Workers {
				if w := &v.Workers[i]; w.Roles.Has(actors.Prefill) {
					prefills += int(w.Granted)
				}
			}
			if prefills != tc.seen[0] {
				t.Errorf("%d prefill requests, want %d", prefills, tc.seen[0])
			}
			f.idle()
		})
	}
}

// TestPairLogprobsOfThePrompt: the prompt's logprobs are the prefill worker's, and
// offsets go on behind them, in characters.
func TestPairLogprobsOfThePrompt(t *testing.T) {
	t.Parallel()
	const reply = `{"choices":[{"index":0,"text":"x","prompt_logprobs":[null,{"1":{"logprob":-1}}],"logprobs":{"tokens":["rée"," green"," blue"],"token_logprobs":[null,-1,-2],"text_offset":[0,3,9]}}],` +
		`"kv_transfer_params":{"remote_engine_id":"e"}}`
	const answer = `{"choices":[{"index":0,"text":"y","logprobs":{"tokens":[" blue"," cyan"],"token_logprobs":[-3,-4],"text_offset":[0,5]}}],"kv_transfer_params":{"secret":1}}`
	f := pdFixture(t, pdOptions("cache_aware"), 1, prefillWith(reply), proxytest.JSON(200, answer))
	got := ask(t, f.router, "/v1/completions", `{"model":"m","prompt":"the case","echo":true,"logprobs":1}`)
	var in struct {
		Choices []struct {
			Logprobs struct {
				Tokens []string
				Offset []int `json:"text_offset"`
			}
		}
		KV any `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(got.Body, &in); err != nil || got.Status != 200 || len(in.Choices) != 1 {
		t.Fatalf("answer %d %s, %v", got.Status, got.Body, err)
	}
	if l, want := in.Choices[0].Logprobs, []string{"rée", " green", " blue", " cyan"}; !reflect.DeepEqual(l.Tokens, want) || !reflect.DeepEqual(l.Offset, []int{0, 3, 9, 14}) {
		t.Errorf("logprobs %+v, want of %q at 0, 3, 9, 14", l, want)
	}
	if in.KV != nil {
		t.Errorf("the client sees transfer parameters: %s", got.Body)
	}
}

// TestPairSecrets: clients see no transfer parameters, redirects are not followed,
// and workers get the client's own credentials or the configured ones, or none.
func TestPairSecrets(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := pdFixture(t, pdOptions(policy), 1, nil, func(x *proxytest.Exchange) {
			if !stream {
				x.Reply(200, `{"choices":[],"kv_transfer_params":{"secret":1}}`, jsonType)
				return
			}
			x.SSEHead()
			x.Event(`{"choices":[],"kv_transfer_params":{"secret":1}}`)
			x.Done()
			x.EndChunks()
		})
		got := ask(t, f.router, chatPath, chat(theCase, stream))
		if body := string(got.Body); !strings.Contains(body, `"kv_transfer_params":null`) || strings.Contains(body, "secret") {
			t.Errorf("answer %s, want null for the parameters", body)
		}
		ask(t, f.router, chatPath, chat(theCase, stream), proxytest.H("Authorization", "Bearer c"), proxytest.H("X-Request-Id", "mine"), proxytest.H("Accept-Encoding", "gzip"))
		f.wantSeen(2, 2)
		for i, want := range [][]string{nil, {"Bearer c"}} {
			for _, xs := range [][]*proxytest.Exchange{f.prefills(), f.decodes()} {
				wantValues(t, xs[i], "Authorization", want...)
				if ids := xs[i].Values("X-Request-Id"); len(ids) != 1 || !strings.HasPrefix(ids[0], "___prefill_addr_") {
					t.Errorf("request ids %q", ids)
				}
			}
		}
		wantValues(t, f.prefills()[1], "Accept-Encoding")
		wantValues(t, f.decodes()[1], "Accept-Encoding")
	})
	t.Run("key of the workers", func(t *testing.T) {
		o := pdOptions("cache_aware")
		o.WorkerKey = "k"
		f := pdFixture(t, o, 1, nil, rescuing(proxytest.JSON(200, "{}"), pdStatus(422)))
		ask(t, f.router, chatPath, chat(theCase, true), proxytest.H("Authorization", "Bearer c"))
		f.waitSeen(1, 2)
		for _, x := range append(f.prefills(), f.decodes()...) {
			wantValues(t, x, "Authorization", "Bearer k")
		}
	})
	for _, role := range []string{"prefill", "decode"} {
		t.Run("redirect of "+role, func(t *testing.T) {
			t.Parallel()
			trap := proxytest.NewWorker(t, proxytest.JSON(200, nixlReply))
			scripts := map[string]proxytest.Script{role: func(x *proxytest.Exchange) { x.Reply(302, "", proxytest.H("Location", trap.URL()+"/x")) }}
			f := pdFixture(t, pdOptions("cache_aware"), 1, scripts["prefill"], scripts["decode"])
			if got := ask(t, f.router, chatPath, chat(theCase, false)); got.Status/100 == 2 || trap.Requests() != 0 {
				t.Errorf("answer %d after %d requests at the target", got.Status, trap.Requests())
			}
			if role == "prefill" {
				f.wantSeen(1, 0)
			}
			f.idle()
		})
	}
}

// TestPairStatusTellsTheTruth: the router's own paths say of each phase what is
// there and what runs.
func TestPairStatusTellsTheTruth(t *testing.T) {
	t.Parallel()
	r := startRouter(t, often("cache_aware"))
	status := func(path string) string {
		got := r.call("GET", path, "")
		return fmt.Sprint(got.Status, " ", string(got.Body))
	}
	want := func(path, answer string) {
		t.Helper()
		if got := status(path); got != answer {
			t.Errorf("GET %s: %s, want %s", path, got, answer)
		}
	}
	want("/readiness", `503 {"status":"not_ready","reason":"no healthy prefill workers, no healthy decode workers","prefill":{"healthy":0,"total":0},"decode":{"healthy":0,"total":0}}`)
	want("/health", "503 No workers")
	f := &pdFleet{router: r, prefill: workers(t, 1, prefillBeside(prefillWith(nixlReply))), decode: workers(t, 2, decodeBeside(decodeEither))}
	r.enlist(actors.Prefill, f.prefill[0])
	want("/readiness", `503 {"status":"not_ready","reason":"no healthy decode workers","prefill":{"healthy":1,"total":1},"decode":{"healthy":0,"total":0}}`)
	if got := status("/health"); !strings.HasPrefix(got, "503 ") {
		t.Errorf("without decode workers GET /health is %s", got)
	}
	for _, w := range f.decode {
		r.enlist(actors.Decode, w)
	}
	want("/readiness", `200 {"status":"ready","prefill":{"healthy":1,"total":1},"decode":{"healthy":2,"total":2}}`)
	want("/health", "200 All servers healthy")
	f.bystand(nil)
	loads := f.loads()
	var in struct {
		Loads  map[string]int
		Errors []string
	}
	if got := r.call("GET", "/get_loads", ""); json.Unmarshal(got.Body, &in) != nil || got.Status != 200 || in.Errors == nil || len(in.Errors) != 0 {
		t.Errorf("GET /get_loads: %d %s", got.Status, got.Body)
	}
	m := r.scrape()
	seen := map[string]int{}
	for role, ws := range map[string][]*proxytest.Worker{"prefill": f.prefill, "decode": f.decode} {
		for _, w := range ws {
			l := loads[w.URL()]
			seen[role+"_"+w.URL()] = l.running
			if got := m[fmt.Sprintf("vllm_router_worker_load{worker=%q}", w.URL())]; got != float64(l.running) {
				t.Errorf("the gauge of load of %s is %v, want %d", w.URL(), got, l.running)
			}
			if role == "decode" {
				rank := fmt.Sprintf(`{worker=%q,rank="aggregate"}`, w.URL())
				if p, a := m["vllm_router_pd_pending_decode_requests"+rank], m["vllm_router_pd_active_decode_requests"+rank]; p != float64(l.reserved) || a != float64(l.decoding) {
					t.Errorf("%v pending and %v active at %s, want %+v", p, a, w.URL(), l)
				}
			}
		}
	}
	if !reflect.DeepEqual(in.Loads, seen) {
		t.Errorf("GET /get_loads: %v, want %v", in.Loads, seen)
	}
	var list struct {
		Workers []prefillJSON
		Total   int
		Stats   map[string]int
	}
	if err := json.Unmarshal(r.call("GET", "/workers", "").Body, &list); err != nil || list.Total != 3 ||
		!reflect.DeepEqual(list.Stats, map[string]int{"prefill_count": 1, "decode_count": 2, "regular_count": 0}) {
		t.Errorf("GET /workers: %+v, %v", list, err)
	}
	for _, w := range list.Workers {
		if want := map[bool]string{true: "prefill", false: "decode"}[w.URL == f.prefill[0].URL()]; w.Type != want {
			t.Errorf("%s is of type %s, want %s", w.URL, w.Type, want)
		}
	}
	f.finish()
	m = r.scrape()
	for series, want := range map[string]float64{
		`vllm_router_pd_requests_total{route="/v1/chat/completions"}`:                       2,
		fmt.Sprintf("vllm_router_pd_prefill_requests_total{worker=%q}", f.prefill[0].URL()): 2,
		"loadstar_leases_live":                  0,
		"loadstar_lease_releases_refused_total": 0,
		"loadstar_leases_acquired_total":        4,
		"loadstar_leases_released_total":        4,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
		}
	}
	r.sick(f.decode[0])
	want("/readiness", `200 {"status":"ready","prefill":{"healthy":1,"total":1},"decode":{"healthy":1,"total":2}}`)
	r.sick(f.decode[1])
	want("/readiness", `503 {"status":"not_ready","reason":"no healthy decode workers","prefill":{"healthy":1,"total":1},"decode":{"healthy":0,"total":2}}`)
	if got := status("/health"); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, f.decode[0].URL()) || strings.Contains(got, f.prefill[0].URL()) {
		t.Errorf("without healthy decode workers GET /health is %s", got)
	}
	want("/liveness", "200 OK")
}

// TestPairClientLeavesAsPrefillReplies: a client that leaves in the moment in which
// the prefill worker replies leaves no lease behind, and blocks that the router was
// told of are fetched or counted.
func TestPairClientLeavesAsPrefillReplies(t *testing.T) {
	t.Parallel()
	const n = 40
	o := pdOptions("cache_aware")
	o.PD.Rescues = n
	f := startFleet(t, o, 1, heldPrefill, nil)
	for i := range n {
		c := f.post(chat(theCase, i%2 == 0))
		f.until("the prefill request", func() bool { return len(f.prefills()) == i+1 })
		x := f.prefills()[i]
		together(2, func(k int) {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			if k == 0 {
				c.CloseFIN()
			} else {
				x.Release()
			}
		})
	}
	f.untouched()
	told := 0.0
	v := f.snapshot()
	for i := range v.Workers {
		if w := &v.Workers[i]; w.Roles.Has(actors.Prefill) {
			told = float64(w.Outcomes[actors.Completed]) - 1 // that of a bystander
		}
	}
	m := f.scrape()
	rescued, stranded := m["loadstar_pd_kv_rescued_total"], m["loadstar_pd_kv_stranded_total"]
	if decodes := float64(len(f.decodes())); decodes+stranded != told {
		t.Errorf("%v replies came, and %v decode requests went out, with %v rescues; %v are counted as stranded", told, decodes, rescued, stranded)
	}
	f.finish()
}

// TestPairClientLeftBetweenThePhases: nothing is sent to a decode worker for a client
// that has left while the prefill worker replied, but what frees the blocks.
func TestPairClientLeftBetweenThePhases(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		o := pdOptions(policy)
		o.Timeouts.PoolIdle = time.Minute
		f := startFleet(t, o, 1, heldPrefill, nil)
		warm := f.post(chat("warm up", false)) // so that there is a connection to decode worker
		f.until("prefill", func() bool { return len(about("warm up", f.prefill...)) == 1 })
		about("warm up", f.prefill...)[0].Release()
		if got, err := warm.ReadResponse(loaded); err != nil || got.Status != 200 {
			t.Fatalf("answer %+v, %v", got, err)
		}
		f.untouched()
		const seen = "loadstar_client_gone_close_seconds_count"
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		before := f.metric(seen)
		time.Sleep(brief) // from a moment on the client is watched
		f.logs.mu.Lock()  // what is logged waits, and who logs: the decode worker's choice is logged
		unlock := sync.OnceFunc(f.logs.mu.Unlock)
		defer unlock()
		release(f.prefill...)
		f.until("the choice of the decode worker", func() bool { return f.sum().decoding == 2 })
		c.CloseFIN()
		f.until("the client's leaving to be noticed", func() bool { return f.metric(seen) == before+1 })
		unlock()
		f.waitSeen(1, 1)
		f.wantRescue(f.decodes()[0])
		f.finish()
		f.wantBlocks(1, 0)
	})
}
