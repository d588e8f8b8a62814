package proxy

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"loadstar/actors/kvevents"
	"loadstar/actors/kvevents/kvtest"
	"loadstar/proxy/proxytest"

	"github.com/VictoriaMetrics/metrics"
)

// kvBlock is the tokens of a block in these tests.
const kvBlock = 4

// kvFleet is a router of two workers that publish what they hold.
type kvFleet struct {
	*router
	workers [2]*proxytest.Worker
	pubs    [2]*kvtest.Publisher
}

func startKV(t *testing.T) *kvFleet {
	t.Helper()
	f := &kvFleet{}
	o := testOptions("kv_aware")
	o.WorkerHeader = true
	o.KVEvents = &kvevents.Options{Sources: map[string][]string{}, BlockSize: kvBlock, Host: .8, External: .6, Disk: .3}
	for i := range f.workers {
		f.workers[i], f.pubs[i] = proxytest.NewWorker(t, proxytest.JSON(200, `{}`)), kvtest.New(t)
		o.KVEvents.Sources[f.workers[i].URL()] = []string{f.pubs[i].Endpoint()}
	}
	f.router = startRouter(t, o, f.workers[:]...)
	for i, p := range f.pubs {
		p.AwaitSubscriber()
		f.awaitKV(i, "loadstar_kv_source_up", "", 1)
	}
	return f
}

// awaitKV waits until a metric of a worker's source has a value.
func (f *kvFleet) awaitKV(worker int, name, label string, want float64) {
	f.t.Helper()
	series := fmt.Sprintf("%s{worker=%q,endpoint=%q%s}", name, f.workers[worker].URL(), f.pubs[worker].Endpoint(), label)
	f.until(fmt.Sprintf("%s is %v", series, want), func() bool { return f.scrape()[series] == want })
}

// awaitStored waits until a worker's source has told of so many blocks.
func (f *kvFleet) awaitStored(worker int, n float64) {
	f.t.Helper()
	f.awaitKV(worker, "loadstar_kv_events_total", `,kind="stored"`, n)
}

// send sends a completion and returns the number of the worker that it went to.
func (f *kvFleet) send(body string) int {
	f.t.Helper()
	resp := proxytest.Do(f.t, f.addr, proxytest.Request{
		Method: "POST", Target: "/v1/completions", Headers: []proxytest.Header{proxytest.H("Content-Type", "application/json")}, Body: body,
	})
	for i, w := range f.workers {
		if resp.Status == 200 && resp.Get("x-loadstar-worker") == w.URL() {
			return i
		}
	}
	f.t.Fatalf("status %d from %q, want 200 from a worker", resp.Status, resp.Get("x-loadstar-worker"))
	return -1
}

// wantLookups checks how many look-ups had a result.
func (f *kvFleet) wantLookups(result string, want float64) {
	f.t.Helper()
	if got := f.scrape()[fmt.Sprintf("vllm_router_kv_placement_lookups_total{result=%q}", result)]; got != want {
		f.t.Errorf("%v look-ups with result %s, want %v", got, result, want)
	}
}

// kvTokens are n token ids, of four digits.
func kvTokens(first, n int) (ids []uint32, array string) {
	texts := make([]string, n)
	for i := range n {
		ids = append(ids, uint32(first+i))
		texts[i] = fmt.Sprint(first + i)
	}
	return ids, "[" + strings.Join(texts, ",") + "]"
}

// kvStored is an event of a prompt's blocks, whose hashes are those from 100 on.
func kvStored(ids []uint32) []byte {
	var hashes []uint64
	for i := range len(ids) / kvBlock {
		hashes = append(hashes, uint64(100+i))
	}
	return kvtest.Event("BlockStored", kvtest.Stored(nil, kvBlock, ids, hashes...)...)
}

// A prompt of token ids goes where its blocks are, whatever was sent where; a block that
// was removed doesn't count, and of a worker that can't be heard there is the prediction.
func TestPlacementByKVEvents(t *testing.T) {
	t.Parallel()
	f := startKV(t)
	ids, array := kvTokens(1000, 200)
	body := `{"model":"m","prompt":` + array + `}`
	first := f.send(body)
	f.wantLookups("miss", 1)
	other := 1 - first
	if got := f.send(body); got != first {
		t.Errorf("worker %d, want %d: it was sent the prompt, and nobody has told of any", got, first)
	}

	unrelated, _ := kvTokens(5000, kvBlock)
	f.pubs[first].Publish(kvStored(unrelated))
	f.pubs[other].Publish(kvStored(ids))
	f.awaitStored(first, 1)
	f.awaitStored(other, float64(len(ids)/kvBlock))
	for range 5 {
		if got := f.send(body); got != other {
			t.Fatalf("worker %d, want %d: it holds the prompt, and the other doesn't", got, other)
		}
	}
	f.wantLookups("hit", 5)

	f.pubs[other].Publish(kvtest.Event("BlockRemoved", kvtest.Removed(100)...))
	f.awaitKV(other, "loadstar_kv_events_total", `,kind="removed"`, 1)
	before := f.scrape()["loadstar_prompt_blocks_matched_total"]
	f.send(body)
	f.wantLookups("miss", 3)
	if got := f.scrape()["loadstar_prompt_blocks_matched_total"]; got != before {
		t.Errorf("%v blocks matched, want none: the prompt's first block was removed", got-before)
	}

	f.pubs[first].Shut()
	f.awaitKV(first, "loadstar_kv_source_up", "", 0)
	if got := f.send(body); got != first {
		t.Errorf("worker %d, want %d: it was sent the prompt, and can't tell that it is gone", got, first)
	}

	if err := f.RemoveWorker(f.workers[other].URL()); err != nil {
		t.Fatal(err)
	}
	if all := f.kv.Stats(); len(all) != 1 || all[0].Worker != f.workers[first].URL() {
		t.Errorf("sources %+v, want that of the worker that is left", all)
	}
	f.send(body)
	f.wantLookups("index_unavailable", 1)
}

// What isn't a prompt of token ids, or has blocks of its own, is placed by prediction.
func TestPromptsWithoutTokens(t *testing.T) {
	t.Parallel()
	f := startKV(t)
	ids, array := kvTokens(1000, 200)
	f.pubs[1].Publish(kvStored(ids))
	f.awaitStored(1, 50)
	want := map[string]float64{}
	for _, tc := range []struct{ name, body, result string }{
		{"text", `{"prompt":"` + array + `"}`, "missing_tokens"},
		{"chat", `{"messages":[{"role":"user","content":"x"}]}`, "missing_tokens"},
		{"several prompts", `{"prompt":[` + array + `,` + array + `]}`, "missing_tokens"},
		{"several texts", `{"prompt":["a","b"]}`, "missing_tokens"},
		{"no JSON", `x`, "missing_tokens"},
		{"longer than any prompt", `{"prompt":[1` + strings.Repeat(",1", maxTokenBytes/2) + `]}`, "missing_tokens"},
		{"salt", `{"prompt":` + array + `,"cache_salt":"s"}`, "cache_salt"},
		{"tokens", `{"input_ids":` + array + `}`, "hit"},
		{"others", `{"token_ids":` + strings.ReplaceAll(array, "[1000", "[1001") + `}`, "miss"},
	} {
		f.send(tc.body)
		want[fmt.Sprintf("vllm_router_kv_placement_lookups_total{result=%q}", tc.result)]++
		got := f.scrape()
		maps.DeleteFunc(got, func(series string, n float64) bool {
			return n == 0 || !strings.HasPrefix(series, "vllm_router_kv_placement_lookups_total{")
		})
		if !maps.Equal(got, want) {
			t.Fatalf("%s: look-ups %v, want %v", tc.name, got, want)
		}
	}
}

// A worker that was drained, or removed and added again, is heard as long as it is a member.
func TestMembersAreHeard(t *testing.T) {
	t.Parallel()
	f := startKV(t)
	if _, err := f.DrainWorker(f.workers[0].URL(), 0); err != nil {
		t.Fatal(err)
	}
	f.until("the drained worker is heard no more", func() bool { return len(f.kv.Stats()) == 1 })
	if _, err := f.AddWorker(WorkerSpec{URL: f.workers[0].URL()}); err != nil {
		t.Fatal(err)
	}
	f.awaitKV(0, "loadstar_kv_source_up", "", 1)
}

// A request's memory for tokens is kept for another, unless it is large. Large memory
// for the ids goes before the request is answered, which may take long: it is no part
// of what bodies may take.
func TestTokensAreForgotten(t *testing.T) {
	for _, tc := range []struct {
		name    string
		size, n int
		last    string
		ids     bool // kept when their blocks are known
		blocks  bool // kept for another request
	}{
		{"few", 16, 1000, "1", true, true},
		{"many", 16, keptTokens + 1, "1", false, true},
		{"many, in small blocks", 1, keptTokens + 1, "1", false, false},
		{"many, and something else", 16, keptTokens + 1, `""`, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &exchange{leg: leg{p: &Proxy{kv: &kvEvents{block: tc.size, unknown: metrics.NewSet().NewCounter("u")}}}}
			x.scan.Body.Tokens = []byte("[" + strings.Repeat("1,", tc.n-1) + tc.last + "]")
			x.findTokens()
			if got := x.tokens != nil; got != tc.ids {
				t.Errorf("memory for the ids of %d tokens is kept: %v, want %v", tc.n, got, tc.ids)
			}
			if want := tc.n / tc.size; tc.last == "1" && len(x.query.Tokens) != want {
				t.Errorf("%d blocks, want %d", len(x.query.Tokens), want)
			}
			x.forgetTokens()
			if got := x.query.Tokens != nil; got != tc.blocks {
				t.Errorf("memory for their blocks is kept: %v, want %v", got, tc.blocks)
			}
		})
	}
}
