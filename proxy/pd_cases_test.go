package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// pdFixture is a router with n workers of each phase, and nobody else there.
func pdFixture(t testing.TB, o Options, n int, prefill, decode proxytest.Script) *pdFleet {
	t.Helper()
	return startFleet(t, o, n, prefill, decode, inPrefill, inDecode)
}

// fields are the members of a request's body, as raw JSON.
func fields(t testing.TB, x *proxytest.Exchange) map[string]string {
	t.Helper()
	var in map[string]json.RawMessage
	if err := json.Unmarshal(x.Body(), &in); err != nil {
		t.Fatalf("body %s: %v", x.Body(), err)
	}
	out := map[string]string{}
	for k, v := range in {
		out[k] = string(v)
	}
	return out
}

// TestCaseB40UsageOfTheRightPhase: cached_tokens is what the prefill worker found
// cached, though at the decode worker everything is.
func TestCaseB40UsageOfTheRightPhase(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":%d}}`
	reply := strings.Replace(nixlReply, `"cached_tokens":4`, `"cached_tokens":0`, 1)
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := pdFixture(t, pdOptions(policy), 1, prefillWith(reply), func(x *proxytest.Exchange) {
			if x.Get("Accept-Encoding") != "" {
				x.Reply(200, "what can't be put right", jsonType, proxytest.H("Content-Encoding", "gzip"))
				return
			}
			if !stream {
				x.Reply(200, decodeAnswer, jsonType)
				return
			}
			x.SSEHead()
			x.Event(`{"choices":[{"delta":{"content":"y"}}]}`)
			x.Event(`{"choices":[],` + fmt.Sprintf(usage, 9) + `}`)
			x.Done()
			x.EndChunks()
		})
		got := ask(t, f.router, chatPath, `{"model":"m","messages":[],"stream_options":{"include_usage":true},"x":"the case","stream":`+fmt.Sprint(stream)+`}`,
			proxytest.H("Accept-Encoding", "gzip, br"), proxytest.H("accept-encoding", "zstd"))
		if want := fmt.Sprintf(usage, 0); got.Status != 200 || !strings.Contains(string(got.Body), want) || strings.Contains(string(got.Body), fmt.Sprintf(usage, 9)) {
			t.Errorf("answer %d %s, want %s in it", got.Status, got.Body, want)
		}
	})
}

// TestCaseB42EachPhaseGetsItsOwn: the prefill worker is asked for one token and no
// stream, the decode worker for what the client wants, and neither gets what is
// meant for the other.
func TestCaseB42EachPhaseGetsItsOwn(t *testing.T) {
	const asked = `{"model":"m", "messages":[{"role":"user","content":"the case"}],"stream":true,"stream_options":{"include_usage":true},` +
		`"logprobs":true,"top_logprobs":3,"max_tokens":77,"max_completion_tokens":78,"min_tokens":5,"n":2,"best_of":4,"seed":18446744073709551615,"temperature":0.10}`
	eachWay(t, func(t *testing.T, policy string, _ bool) {
		f := pdFixture(t, pdOptions(policy), 1, nil, nil)
		if got := ask(t, f.router, chatPath, asked); got.Status != 200 {
			t.Fatalf("answer %d %s", got.Status, got.Body)
		}
		f.wantSeen(1, 1)
		body := f.decodes()[0].Body()
		plain, _, ok := strings.Cut(string(body), `,"kv_transfer_params":`)
		if !ok || plain+"}" != asked {
			t.Errorf("the decode worker got\n %s, want the client's own with transfer parameters behind\n %s", body, asked)
		}
		got := fields(t, f.prefills()[0])
		for name, want := range map[string]string{
			"stream": "false", "stream_options": "", "max_tokens": "1", "max_completion_tokens": "1", "min_tokens": "1", "n": "1", "best_of": "",
			"logprobs": "true", "top_logprobs": "3", "seed": "18446744073709551615", "temperature": "0.10", "model": `"m"`,
			"kv_transfer_params": `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`,
		} {
			if got[name] != want {
				t.Errorf("the prefill worker got %s: %s, want %s", name, got[name], want)
			}
		}
	})
}

// TestCaseB43PrefillHasALimitOfItsOwn: a prompt may take longer to prefill than an
// answer may take to begin, and an answer longer than either, while it flows.
func TestCaseB43PrefillHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	const limit, pieces = brief, 10
	flows := func(pause time.Duration) proxytest.Script {
		return func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
			for range pieces {
				if !x.Chunk(" ") || !x.Sleep(pause) {
					return
				}
			}
			x.EndChunks()
		}
	}
	for _, tc := range []struct {
		name            string
		limits          func(*Options)
		prefill, decode proxytest.Script
	}{
		{"slow prefill", func(o *Options) { o.Timeouts.FirstByte = limit }, proxytest.Slow(limit*5/4, proxytest.JSON(200, nixlReply)), flows(time.Millisecond)},
		{"long answer", func(o *Options) { o.Timeouts.FirstByte, o.PD.PrefillTimeout = limit, limit }, nil, flows(limit / 7)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := pdOptions("cache_aware")
			tc.limits(&o)
			f := pdFixture(t, o, 1, tc.prefill, tc.decode)
			if got, err := f.post(chat(theCase, true)).ReadResponse(loaded); err != nil || got.Status != 200 || len(got.Body) != pieces {
				t.Errorf("answer %+v, %v; want all of a 200", got, err)
			}
			f.wantSeen(1, 1)
		})
	}
}

// TestCaseB44SessionsInBothPhases: a session, and under cache_aware a prefix, stays
// with one prefill and one decode worker.
func TestCaseB44SessionsInBothPhases(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		prompt func(i int) string
		header []proxytest.Header
	}{
		{"consistent_hash", func(i int) string { return fmt.Sprint(i, " the case") }, []proxytest.Header{proxytest.H("X-Session-ID", "s")}},
		{"rendezvous_hash", func(i int) string { return fmt.Sprint(i, " the case") }, []proxytest.Header{proxytest.H("X-Session-ID", "s")}},
		{"sticky_least_loaded", func(i int) string { return fmt.Sprint(i, " the case") }, []proxytest.Header{proxytest.H("X-Session-ID", "s")}},
		{"cache_aware", func(i int) string { return strings.Repeat("the case once more ", 40) + fmt.Sprint(i) }, nil},
	} {
		t.Run(tc.policy, func(t *testing.T) {
			t.Parallel()
			const n = 20
			f := pdFixture(t, pdOptions(tc.policy), 3, nil, nil)
			for i := range n {
				if got := ask(t, f.router, chatPath, chat(tc.prompt(i), i%2 == 0), tc.header...); got.Status != 200 {
					t.Fatalf("answer %d", got.Status)
				}
			}
			for role, ws := range map[string][]*proxytest.Worker{"prefill": f.prefill, "decode": f.decode} {
				var counts []int
				for _, w := range ws {
					counts = append(counts, len(about(theCase, w)))
				}
				slices.Sort(counts)
				if !slices.Equal(counts, []int{0, 0, n}) {
					t.Errorf("the %s workers got %v requests, want all %d at one", role, counts, n)
				}
			}
		})
	}
}

// ownKV is what a client must not hand to an engine, in all places where one looks
// for it.
const ownKV = `"kv_transfer_params":{"remote_block_ids":[666]}`

// TestCaseB45EveryPathHasItsWorker: what generates goes through both phases, what
// only reads prompts to one prefill worker, and anything else to one decode worker.
// Nothing is handed over by half, and nothing that the client says of it.
func TestCaseB45EveryPathHasItsWorker(t *testing.T) {
	t.Parallel()
	const both, prefill, decode = "both", "prefill", "decode"
	where := map[string]string{
		"/v1/chat/completions": both, "/v1/completions": both, "/v1/responses": both, "/v1/messages": both, "/generate": both, "/inference/v1/generate": both,
		"/tokenize": prefill, "/detokenize": prefill, "/score": prefill, "/v1/score": prefill, "/rerank": prefill, "/v1/rerank": prefill, "/v2/rerank": prefill,
		"/v1/embeddings": prefill, "/pooling": prefill, "/classify": prefill, "/v1/audio/transcriptions": prefill,
		"/invocations": decode, "/some/path": decode, "/v1/responses/resp_1/cancel": decode,
	}
	const plain = `{"model":"m","prompt":"the case"}`
	const own = `{"model":"m",` + ownKV + `,"vllm_xargs":{` + ownKV + `},"prompt":"the case","extra_args":{` + ownKV + `}}`
	const tokens = `{"model":"m",` + ownKV + `,"token_ids":[1],"x":"the case","sampling_params":{"extra_args":{` + ownKV + `}}}`
	for path, want := range where {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f := pdFixture(t, pdOptions("cache_aware"), 1, nil, nil)
			if got := ask(t, f.router, path+"?a=b", plain); got.Status != 200 {
				t.Errorf("answer %d %s", got.Status, got.Body)
			}
			seen := [2]int{}
			switch want {
			case both:
				seen = [2]int{1, 1}
			case prefill:
				seen = [2]int{1, 0}
			case decode:
				seen = [2]int{0, 1}
			}
			f.wantSeen(seen[0], seen[1])
			for _, x := range append(f.prefills(), f.decodes()...) {
				if x.Target != path+"?a=b" {
					t.Errorf("target %s, want the client's", x.Target)
				}
				if hands := strings.Contains(string(x.Body()), "kv_transfer_params"); hands != (want == both) {
					t.Errorf("body %s, hands over: %v", x.Body(), hands)
				}
				if want != both && string(x.Body()) != plain {
					t.Errorf("body %s, want the client's", x.Body())
				}
			}
			asked := own
			if path == "/inference/v1/generate" {
				asked = tokens
			}
			if got := ask(t, f.router, path, asked); got.Status != 200 {
				t.Errorf("answer %d %s", got.Status, got.Body)
			}
			f.wantSeen(2*seen[0], 2*seen[1])
			for _, x := range append(f.prefills(), f.decodes()...) {
				if strings.Contains(string(x.Body()), "666") {
					t.Errorf("the client's own transfer parameters pass: %s", x.Body())
				}
			}
			f.idle()
		})
	}
	t.Run("GET", func(t *testing.T) {
		t.Parallel()
		f := pdFixture(t, pdOptions("cache_aware"), 1, nil, nil)
		for _, path := range []string{"/v1/responses/resp_1", "/some/path"} {
			if got := f.call("GET", path, ""); got.Status != 200 {
				t.Errorf("answer %d", got.Status)
			}
		}
		if p, d := len(generations(f.prefill[0])), len(generations(f.decode[0])); p != 0 || d != 2 {
			t.Errorf("%d and %d requests, want none at the prefill worker and 2 at the decode worker", p, d)
		}
	})
}

// TestCaseB46WhoIsMissing: while there is no worker of a phase the client is told
// which, and when to come back, and no worker of the other phase is bothered. Of one
// that nobody knows to be gone TestPairNobodyListens tells.
func TestCaseB46WhoIsMissing(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		t.Run(role, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				f := pdFixture(t, often(policy), 1, nil, nil)
				missing := map[string]*proxytest.Worker{"prefill": f.prefill[0], "decode": f.decode[0]}[role]
				for _, lose := range []func(){
					func() { f.sick(missing) },
					func() { _ = f.RemoveWorker(missing.URL()) },
				} {
					lose()
					got := ask(t, f.router, chatPath, chat(theCase, stream))
					wantRole(t, got, 503, "no_available_workers", role)
					wantValues(t, got, "Retry-After", "1")
				}
				f.wantSeen(0, 0)
				f.idle()
			})
		})
	}
}

// TestCaseB47NoMigration: a stream that breaks off isn't taken up by another
// worker, which would begin its structured output anew.
func TestCaseB47NoMigration(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, _ bool) {
		f := pdFixture(t, pdOptions(policy), 2, nil, proxytest.Sequence(func(x *proxytest.Exchange) {
			x.SSEHead()
			for i := range 3 {
				x.Event(proxytest.EventData(i))
			}
			x.Hold() // until the client has them
			x.Reset()
		}, decodeEither))
		c := f.post(`{"model":"m","messages":[],"x":"the case","n":2,"stream":true,"response_format":{"type":"json_schema","json_schema":{}}}`)
		for i := range 3 {
			if e, err := c.ReadEvent(loaded); err != nil || e.Data != proxytest.EventData(i) {
				t.Fatalf("event %+v, %v", e, err)
			}
		}
		release(f.decode...)
		e, err := c.ReadEvent(loaded)
		if err != nil || !strings.Contains(e.Data, `"code":"upstream_truncated"`) {
			t.Errorf("event %s, %v; want an error", e.Data, err)
		}
		if got, err := c.ReadResponse(loaded); err == nil || got.Clean {
			t.Errorf("the stream ended well: %+v", got)
		}
		f.wantSeen(1, 1)
		f.ended(actors.UpstreamTruncated)
		f.idle()
	})
}
