package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"

	"github.com/valyala/fasthttp"
)

// TestCaseB84ValidRequestsPass: what an engine accepts is not refused here for
// want of a field that the router's author thought of.
func TestCaseB84ValidRequestsPass(t *testing.T) {
	t.Parallel()
	sameBodies(t, chatPath, map[string]string{
		"tool without parameters": `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"x"}]}`,
		"null stop":               `{"model":"m","stop":null,"messages":[{"role":"user","content":"x"}]}`,
		"null option":             `{"model":"m","stream_options":{"include_usage":null},"messages":[{"role":"user","content":"x"}]}`,
		"unknown field":           `{"model":"m","x_unknown":{"a":[1,{"b":null}]},"messages":[{"role":"user","content":"x"}]}`,
		"tool calls, no content": `{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
			`"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}]}`,
		"no model":               `{"messages":[{"role":"user","content":"x"}]}`,
		"model of another type":  `{"model":7,"messages":[{"role":"user","content":"x"}]}`,
		"stream of another type": `{"model":"m","stream":"yes","messages":[{"role":"user","content":"x"}]}`,
		"null model":             `{"model":null,"messages":null,"stream":null}`,
	})
}

// TestCaseB85NothingIsDropped: what the router doesn't know, at whatever depth,
// is still there at the worker.
func TestCaseB85NothingIsDropped(t *testing.T) {
	t.Parallel()
	sameBodies(t, chatPath, map[string]string{
		"options": `{"model":"m","messages":[{"role":"user","content":"hi","x":{"y":{"z":1}}}],"stream":true,` +
			`"stream_options":{"include_usage":true,"step_usage_chunks":true},"extra_body":{"a":{"b":{"c":1}}}}`,
		"many names": `{"model":"m",` + strings.Repeat(`"x":1,"y":{"x":[{"x":2}]},`, 500) + `"messages":[]}`,
	})
}

// TestCaseB86NothingIsRewritten: the order of keys, the text of numbers, escapes
// and white space are the client's.
func TestCaseB86NothingIsRewritten(t *testing.T) {
	t.Parallel()
	sameBodies(t, chatPath, map[string]string{
		"order, numbers, escapes": `{"z":1.0,"model":"m","seed":9007199254740993,"big":1e400,"neg":-0.0,"a":"<b&c>\u00e9\/","messages":[{"role":"user","content":"x"}],` +
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"string"}}}}}]}` + "\n",
		"the same key twice": `{"model":"a","model":"b","messages":[],"messages":[{"role":"user","content":"x"}]}`,
		"white space":        "\r\n\t { \"model\" :\t\"m\" , \"messages\" : [ ] }  \r\n\r\n",
	})
}

// sameBodies posts bodies to a worker and fails the test for each that isn't
// there byte for byte.
func sameBodies(t *testing.T, path string, bodies map[string]string) {
	t.Helper()
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	r := startRouter(t, once(), w)
	for name, body := range bodies {
		before := w.Requests()
		want200(t, ask(t, r, path, body), `{}`)
		seen := w.Seen()[before:]
		if len(seen) != 1 {
			t.Errorf("%s: the worker got %d requests, want 1", name, len(seen))
			continue
		}
		wantBytes(t, name, seen[0].Body(), []byte(body))
	}
}

// TestCaseB87PromptsOfTokenIDs: a prompt may be numbers, lists of numbers or of
// texts. It passes, and it has a key like any other: the same prompt goes to the
// same worker, and different ones spread.
func TestCaseB87PromptsOfTokenIDs(t *testing.T) {
	t.Parallel()
	ids := func(from int) string {
		all := make([]string, 200)
		for i := range all {
			all[i] = fmt.Sprint(from*1000 + i)
		}
		return strings.Join(all, ",")
	}
	for _, tc := range []struct{ name, format string }{
		{"numbers", "[%s]"},
		{"lists of numbers", "[[%s],[104]]"},
		{"texts", `["%s","b"]`},
		{"text", `"%s"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := proxytest.NewWorker(t, proxytest.JSON(200, `{}`)), proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
			r := startRouter(t, once(), a, b)
			const n = 64
			for i := range n {
				body := `{"model":"m","prompt":` + fmt.Sprintf(tc.format, ids(i)) + `,"max_tokens":1}`
				var used []string
				for range 2 {
					before := a.Requests()
					want200(t, ask(t, r, "/v1/completions", body), `{}`)
					w := b
					if a.Requests() > before {
						w = a
					}
					used = append(used, w.URL())
					seen := w.Seen()
					wantBytes(t, "the body", seen[len(seen)-1].Body(), []byte(body))
				}
				if used[0] != used[1] {
					t.Errorf("prompt %d went to %s and then to %s, want one worker", i, used[0], used[1])
				}
			}
			if most := max(a.Requests(), b.Requests()); most > 2*n*3/4 {
				t.Errorf("the busier worker got %d of %d requests, want at most %d", most, 2*n, 2*n*3/4)
			}
		})
	}
	t.Run("odd", func(t *testing.T) {
		t.Parallel()
		sameBodies(t, "/v1/completions", map[string]string{
			"empty text": `{"prompt":""}`, "empty list": `{"prompt":[]}`, "empty lists": `{"prompt":[[],[]]}`, "null": `{"prompt":null}`,
			"number": `{"prompt":7}`, "object": `{"prompt":{"prompt_token_ids":[1]}}`, "mixed": `{"prompt":[1,"a",[2]]}`,
		})
	})
}

// TestCaseB88OddMessages: what is wrong with a conversation is the worker's to
// say, and the client hears it in the worker's words.
func TestCaseB88OddMessages(t *testing.T) {
	t.Parallel()
	const verdict = `{"error":{"message":"empty messages","type":"BadRequestError","code":400}}`
	w := proxytest.NewWorker(t, proxytest.JSON(400, verdict))
	r := startRouter(t, once(), w)
	for _, messages := range []string{
		`[]`, `null`, `{}`, `""`, `0`, `[null]`, `[[]]`, `[{}]`, `[{"role":"user"}]`, `[{"role":"user","content":""}]`, `[{"role":"user","content":[]}]`,
		`[{"role":"user","content":[{}]}]`, `[{"role":"user","content":[{"type":"text"}]}]`, `["hi"]`,
	} {
		for _, body := range []string{`{"model":"m","messages":` + messages + `}`, `{"messages":` + messages + `,"tools":[]}`} {
			resp := ask(t, r, chatPath, body)
			if resp.Status != 400 || string(resp.Body) != verdict {
				t.Errorf("%s: answer %d %q, want the worker's", body, resp.Status, resp.Body)
			}
			seen := w.Seen()
			wantBytes(t, body, seen[len(seen)-1].Body(), []byte(body))
		}
	}
	if resp := ask(t, r, chatPath, `{"model":"m"}`); resp.Status != 400 || string(resp.Body) != verdict {
		t.Errorf("without messages: answer %d %q, want the worker's", resp.Status, resp.Body)
	}
	r.waitLoad(w, 0)
}

// TestCaseB90InvalidJSON: what isn't a JSON object is forwarded, at once, and
// never an error of the router's own.
func TestCaseB90InvalidJSON(t *testing.T) {
	t.Parallel()
	const deep = 100_000
	bodies := map[string]string{
		"empty": "", "array": "[]", "open": "{", "text": "hello", "number": "1", "null": "null", "cut text": `{"model":"m","messages":[{"role":"user","content":"un`,
		"cut escape": `{"model":"m\`, "cut character": "{\"model\":\"m\xe4\xbd", "not UTF-8": "{\"messages\":\"\xff\xfe\"}", "deep arrays": strings.Repeat("[", deep),
		"deep objects": strings.Repeat(`{"a":`, deep), "deep in messages": `{"messages":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`,
		"NUL": "{\x00}", "form": "a=b&c=d", "two objects": `{"model":"m"}{"model":"n"}`, "trailing comma": `{"model":"m",}`, "single quotes": `{'model':'m'}`,
		"closed too often": `{"model":"m"}}}]`,
	}
	for _, policy := range []string{"cache_aware", "consistent_hash"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(400, `{"error":{"message":"bad json"}}`))
			r := startRouter(t, testOptions(policy), w)
			for name, body := range bodies {
				for _, contentType := range []string{"application/json", "text/plain"} {
					resp, err := proxytest.Try(r.addr, proxytest.Request{
						Method: "POST", Target: chatPath, Body: body, Headers: []proxytest.Header{proxytest.H("Content-Type", contentType)},
					}, patience)
					if err != nil || resp.Status != 400 || string(resp.Body) != `{"error":{"message":"bad json"}}` {
						t.Errorf("%s as %s: answer %v, %v; want the worker's", name, contentType, resp, err)
						continue
					}
					seen := w.Seen()
					wantBytes(t, name, seen[len(seen)-1].Body(), []byte(body))
				}
			}
		})
	}
}

// TestCaseB91LargeBodies: a body passes up to the limit that the operator has
// set, and no hidden one; a byte more is a 413 that the client gets to read.
func TestCaseB91LargeBodies(t *testing.T) {
	t.Parallel()
	const prefix, suffix = `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
	sized := func(n int) string { return prefix + strings.Repeat("x", n-len(prefix)-len(suffix)) + suffix }
	t.Run("30 MB", func(t *testing.T) {
		t.Parallel()
		body := sized(30 << 20)
		w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, once(), w)
		for i, sizes := range [][]int{nil, {1 << 20}} {
			resp := proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: body, ChunkSizes: sizes})
			want200(t, resp, `{}`)
			wantBytes(t, "the body", w.Seen()[i].Body(), []byte(body))
		}
	})
	for _, limit := range []int{1000, 8 << 10, 100_000, 1 << 20} {
		for _, over := range []int{0, 1, 2, 300_000, 3 << 20} {
			for _, sizes := range [][]int{nil, {10_000}} {
				t.Run(fmt.Sprintf("%d over %d, chunks %v", over, limit, sizes), func(t *testing.T) {
					t.Parallel()
					o := once()
					o.Limits.BodyBytes = limit
					w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
					r := startRouter(t, o, w)
					// Many clients read no answer when they could not send all of the body.
					c := proxytest.Dial(t, r.addr)
					if err := c.SendRequest(proxytest.Request{Method: "POST", Target: chatPath, Body: sized(limit + over), ChunkSizes: sizes}); err != nil {
						t.Errorf("the client could not send its body: %v", err)
					}
					resp, err := c.ReadResponse(patience)
					if err != nil {
						t.Fatalf("no answer that can be read: %v", err)
					}
					if over == 0 {
						want200(t, resp, `{}`)
						return
					}
					wantProblem(t, resp, 413, "payload_too_large")
					if got := w.Requests(); got != 0 {
						t.Errorf("the worker got %d requests, want 0", got)
					}
				})
			}
		}
	}
}

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestCaseB93LimitCountsBytes: the limit is on what comes, not on what was
// announced, and what is held for a body never exceeds it by much.
func TestCaseB93LimitCountsBytes(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	t.Run("chunked", func(t *testing.T) {
		t.Parallel()
		o := once()
		o.Limits.BodyBytes = limit
		w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
		r := startRouter(t, o, w)
		for _, size := range []int{1 << 10, 100_000, 2 * limit} { // of a chunk
			resp, err := proxytest.Try(r.addr, proxytest.Request{
				Method: "POST", Target: chatPath, Body: strings.Repeat("x", 2*limit), ChunkSizes: []int{size},
			}, patience)
			if err != nil {
				t.Fatalf("chunks of %d: no answer that can be read: %v", size, err)
			}
			wantProblem(t, resp, 413, "payload_too_large")
		}
		if got := w.Requests(); got != 0 {
			t.Errorf("the worker got %d requests, want 0", got)
		}
	})
	for _, length := range []int{-1, 1 << 40} {
		t.Run(fmt.Sprint("memory, announced ", length), func(t *testing.T) {
			t.Parallel()
			var q fasthttp.Request
			body := &endless{}
			q.SetBodyStream(body, length)
			got, err := readBody(nil, &q, nil, limit, 0, nil)
			if err == nil || cap(got) > 2*limit || body.read > 2*limit {
				t.Errorf("readBody of an endless body: %v with %d bytes held of %d read; want an error and at most %d", err, cap(got), body.read, 2*limit)
			}
		})
	}
	t.Run("memory, announced and not sent", func(t *testing.T) {
		t.Parallel()
		var q fasthttp.Request
		q.SetBodyStream(strings.NewReader("a few bytes"), 60<<20)
		got, err := readBody(nil, &q, nil, 64<<20, 0, nil)
		if err == nil || cap(got) > limit {
			t.Errorf("readBody of a body cut short: %v with %d bytes held, want an error and less than %d", err, cap(got), limit)
		}
	})
}

// TestCaseB94MultipartPasses: a form with a file is bytes like any other body.
func TestCaseB94MultipartPasses(t *testing.T) {
	t.Parallel()
	const boundary = "multipart/form-data; boundary=XbX"
	random := rand.NewChaCha8([32]byte{94})
	file := make([]byte, 800_000)
	if _, err := random.Read(file); err != nil {
		t.Fatal(err)
	}
	body := "preamble\r\n--XbX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + string(file) +
		"\r\n--XbX\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n1\r\n--XbX\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XbX--\r\nepilogue"
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{"text":"hi"}`))
	r := startRouter(t, once(), w)
	for i, sizes := range [][]int{nil, {50_000, 1}} {
		resp := proxytest.Do(t, r.addr, proxytest.Request{
			Method: "POST", Target: "/v1/audio/transcriptions", Body: body, ChunkSizes: sizes, Headers: []proxytest.Header{proxytest.H("Content-Type", boundary)},
		})
		want200(t, resp, `{"text":"hi"}`)
		x := w.Seen()[i]
		wantBytes(t, "the form", x.Body(), []byte(body))
		wantValues(t, x, "Content-Type", boundary)
	}
}

// TestCaseB96MemoryOfItsOwn: with many requests at once, some retried and some
// given up, each gets its own answer and each worker the bodies as sent: no
// buffer serves two of them.
func TestCaseB96MemoryOfItsOwn(t *testing.T) {
	t.Parallel()
	const clients, rounds = 100, 4
	echo := func(x *proxytest.Exchange) {
		sum := sha256.Sum256(x.Body())
		answer := x.Get("X-Name") + " " + hex.EncodeToString(sum[:])
		if strings.HasSuffix(x.Get("X-Name"), "s") {
			x.SSEHead(proxytest.H("X-Name", x.Get("X-Name")))
			for _, piece := range strings.SplitAfter(answer, "a") {
				x.Chunk(piece)
			}
			x.EndChunks()
			return
		}
		x.Reply(200, answer, proxytest.H("X-Name", x.Get("X-Name")))
	}
	busy := func(x *proxytest.Exchange) {
		if rand.IntN(5) == 0 {
			x.Reply(503, "busy with "+x.Get("X-Name"))
			return
		}
		echo(x)
	}
	a, b := proxytest.NewWorker(t, busy), proxytest.NewWorker(t, echo)
	o := testOptions("cache_aware")
	o.AccessLog = true
	o.Router.Breaker.FailureThreshold = 1 << 30
	r := startRouter(t, o, a, b)
	together(clients, func(k int) {
		random := rand.New(rand.NewPCG(96, uint64(k)))
		c := proxytest.Dial(t, r.addr)
		for i := range rounds {
			name := fmt.Sprintf("%d-%d-%s", k, i, []string{"s", "p"}[random.IntN(2)])
			pad := strings.Repeat(fmt.Sprintf("%d/%d ", k, i), 100+random.IntN(20_000))
			body := chat(name+pad, false)
			if err := c.Post(chatPath, body, proxytest.H("X-Name", name)); err != nil {
				t.Error(err)
				return
			}
			if random.IntN(10) == 0 {
				c.CloseFIN()
				c = proxytest.Dial(t, r.addr)
				continue
			}
			resp, err := c.ReadResponse(farOff) // one of many
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			sum := sha256.Sum256([]byte(body))
			want200(t, resp, name+" "+hex.EncodeToString(sum[:]))
			wantValues(t, resp, "X-Name", name)
		}
	})
	r.waitLoad(a, 0)
	r.waitLoad(b, 0)
}
