package proxy

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

const (
	toldUsage = `"usage":{"prompt_tokens":1200,"total_tokens":1203,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}`
	toldInput = `"usage":{"input_tokens":1200,"input_tokens_details":{"cached_tokens":0},"output_tokens":3}`
)

// lesson is a prompt from which there is something to learn.
var lesson = strings.Repeat("a prompt of many words. ", 200)

// learntTokens is the bytes of a model's tokens that the tree has learnt, 0 if none.
func (r *router) learntTokens() float64 {
	v, _ := r.router.TreeStats()
	if len(v.Tokens) == 0 {
		return 0
	}
	return v.Tokens[0].Bytes
}

// What answers tell of their tokens reaches the tree, whatever their shape and
// however they come, and not a byte of them changes. What isn't the whole of a good
// answer that can be read teaches nothing.
func TestLearnsFromUsage(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("x", 100_000)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{` + toldUsage + `}`))
	_ = z.Close()
	chunks := func(pieces ...string) proxytest.Script {
		return func(x *proxytest.Exchange) {
			x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
			for _, p := range pieces {
				x.Chunk(p)
			}
			x.EndChunks()
		}
	}
	events := func(done bool, pieces ...string) proxytest.Script {
		return func(x *proxytest.Exchange) {
			x.SSEHead()
			for _, p := range pieces {
				x.Chunk(p)
			}
			if done {
				x.Done()
			}
			x.EndChunks()
		}
	}
	for _, tc := range []struct {
		name, policy, path string
		script             proxytest.Script
		body               string // of the answer; without it, it isn't looked at
		learns             bool
	}{
		{"small", "least_work", "", proxytest.JSON(200, `{"choices":[],`+toldUsage+`}`), `{"choices":[],` + toldUsage + `}`, true},
		{"large", "least_work", "", proxytest.JSON(200, `{"x":"`+filler+`",`+toldUsage+`}`), `{"x":"` + filler + `",` + toldUsage + `}`, true},
		{"in chunks", "least_work", "", chunks(`{"choices":[],"usa`, `ge":{"prompt_tok`, `ens":1200}}`), `{"choices":[],"usage":{"prompt_tokens":1200}}`, true},
		{"a response", "least_work", "/v1/responses", proxytest.JSON(200, `{`+toldInput+`}`), `{` + toldInput + `}`, true},
		{
			"events", "least_work", "", events(true, "data: {\"usage\":null}\n\n", "data: {\"choices\":[],", toldUsage, "}\n\n"),
			"data: {\"usage\":null}\n\ndata: {\"choices\":[]," + toldUsage + "}\n\ndata: [DONE]\n\n", true,
		},
		{"events without an end mark", "least_work", "/v1/responses", events(false, "data: {\"response\":{"+toldInput+"}}\n\n"), "data: {\"response\":{" + toldInput + "}}\n\n", true},
		{"events that fail", "least_work", "", events(true, "data: {"+toldUsage+"}\n\n", "data: {\"error\":{}}\n\n"), "", false},
		{"no usage", "least_work", "", proxytest.JSON(200, `{"choices":[]}`), `{"choices":[]}`, false},
		{"a refusal", "least_work", "", proxytest.JSON(400, `{`+toldUsage+`}`), "", false},
		{
			"packed", "least_work", "", func(x *proxytest.Exchange) {
				x.Reply(200, packed.String(), jsonType, proxytest.H("Content-Encoding", "gzip"))
			}, packed.String(), false,
		},
		{"cut", "least_work", "", func(x *proxytest.Exchange) {
			x.SSEHead()
			x.Event(`{` + toldUsage + `}`)
			x.Reset()
		}, "", false},
		{"another policy", "cache_aware", "", proxytest.JSON(200, `{`+toldUsage+`}`), `{` + toldUsage + `}`, true},
		{"one that reads no prompts", "round_robin", "", proxytest.JSON(200, `{`+toldUsage+`}`), `{` + toldUsage + `}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, tc.script)
			r := startRouter(t, testOptions(tc.policy), w)
			if tc.path == "" {
				tc.path = "/v1/chat/completions"
			}
			c := proxytest.Dial(t, r.addr)
			if err := c.Post(tc.path, `{"model":"m","input":"`+lesson+`"}`, jsonType); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err == nil && tc.body != "" {
				want200(t, got, tc.body)
			}
			r.waitIdle()
			if learnt := r.learntTokens(); (learnt > 0) != tc.learns || tc.learns && (learnt < 3.9 || learnt > 4.2) {
				t.Errorf("%v bytes a token learnt, want some: %v", learnt, tc.learns)
			}
		})
	}
}

// A short prompt teaches nothing, and costs no message.
func TestLearnsNothingFromShortPrompts(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{"usage":{"prompt_tokens":10}}`))
	r := startRouter(t, testOptions("least_work"), w)
	finish(t, r.post(chat("short", false)))
	r.waitIdle()
	if got := r.learntTokens(); got != 0 {
		t.Errorf("%v bytes a token learnt, want nothing", got)
	}
}

// Where a request has two phases, the prefill worker teaches, and the decode worker,
// which has the prompt from there, doesn't.
func TestLearnsFromPrefill(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		prefill, decode string
		learns          bool
	}{
		{"prefill", strings.Replace(nixlReply, `"prompt_tokens":9`, `"prompt_tokens":1200`, 1), decodeAnswer, true},
		{"decode", strings.Replace(nixlReply, `"usage"`, `"other"`, 1), `{` + toldUsage + `}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, d := proxytest.NewWorker(t, prefillWith(tc.prefill)), proxytest.NewWorker(t, proxytest.JSON(200, tc.decode))
			r := startPD(t, pdOptions("least_work"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
			if got := finish(t, r.post(chat(lesson, false))); got.Status != 200 {
				t.Fatalf("answer %d %s, want 200", got.Status, got.Body)
			}
			r.waitIdle()
			if got := r.learntTokens(); (got > 0) != tc.learns {
				t.Errorf("%v bytes a token learnt, want some: %v", got, tc.learns)
			}
		})
	}
}

// Engines send the head of a stream before they look at the prompt, so the prompt
// stands before its worker until the first event; a whole answer's head comes when
// all is done.
func TestFirstEventEndsPending(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.SSEHead()
		if x.Hold() {
			x.Event("{}")
		}
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	})
	r := startRouter(t, testOptions("least_work"), w)
	pending := func(v *actors.Snapshot) int { return v.Workers[0].Pending }
	c := r.post(chat(lesson, true))
	if _, err := c.ReadHead(patience); err != nil {
		t.Fatal(err)
	}
	if v := r.snapshot(); pending(&v) < 70 {
		t.Errorf("%d blocks pending when the head has come, want the prompt's", pending(&v))
	}
	w.Release()
	r.wait("the prompt to be worked off", func(v *actors.Snapshot) bool { return pending(v) == 0 })
	r.waitLoad(w, 1)
	w.Release()
	if got := finish(t, c); got.Status != 200 {
		t.Errorf("answer %d, want 200", got.Status)
	}
	r.waitIdle()
}
