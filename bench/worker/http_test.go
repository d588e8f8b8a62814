package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// start serves a fast worker on loopback for the test's duration.
func start(t testing.TB, cfg Config) (*Worker, string) {
	t.Helper()
	if cfg.TimeScale == 0 {
		cfg.TimeScale = 1000
	}
	w := New(cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(ln) }()
	t.Cleanup(func() {
		w.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
	})
	return w, "http://" + ln.Addr().String()
}

// answer is what came back of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

// ask sends a request; headers are pairs of name and value.
func ask(t testing.TB, method, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	return answer{status: got.StatusCode, header: got.Header, body: b, err: err}
}

// at is the value at a path of keys and indexes like "choices.0.text".
func at(t testing.TB, body []byte, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%q is not JSON: %v", body, err)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// expect checks values of a JSON body; the pairs are path and want.
func expect(t testing.TB, body []byte, pairs ...any) {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got, want := at(t, body, pairs[i].(string)), pairs[i+1]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v, in %s", pairs[i], got, want, body)
		}
	}
}

// event is one server-sent event.
type event struct {
	name string
	data []byte
}

// parseEvents reads a stream strictly: each event is an optional name, one line
// of data and an empty line, and nothing else is there.
func parseEvents(t testing.TB, body []byte) []event {
	t.Helper()
	var events []event
	var now event
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name, isName := strings.CutPrefix(line, "event: ")
		data, isData := strings.CutPrefix(line, "data: ")
		switch {
		case isName && now.name == "" && now.data == nil:
			now.name = name
		case isData && now.data == nil && data != "":
			now.data = []byte(data)
		case line == "" && now.data != nil:
			events = append(events, now)
			now = event{}
		default:
			t.Fatalf("line %q doesn't belong after event %q in\n%s", line, now.name, body)
		}
	}
	if now.name != "" || now.data != nil || !bytes.HasSuffix(body, []byte("\n\n")) {
		t.Fatalf("the stream ends inside an event:\n%s", body)
	}
	return events
}

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

// eventually waits until the worker's stats satisfy ok.
func eventually(t testing.TB, w *Worker, what string, ok func(Stats) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for s := w.Stats(); !ok(s); s = w.Stats() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v: %+v", what, patience, s)
		}
		time.Sleep(time.Millisecond)
	}
}

const hello = `"messages":[{"role":"user","content":"hello there"}]`

func TestInfo(t *testing.T) {
	w, url := start(t, Config{Model: "m"})
	tests := []struct {
		method, path string
		want         []any
	}{
		{"GET", "/v1/models", []any{"object", "list", "data.0.id", "m", "data.0.object", "model"}},
		{"GET", "/version", []any{"version", versionText}},
		{"GET", "/load", []any{"server_load", 0}},
		{"GET", "/get_server_info", []any{"served_model_name", "m", "block_size", 16, "num_gpu_blocks", 4000}},
		{"GET", "/get_model_info", []any{"model_path", "m", "is_generation", true}},
		{"POST", "/flush_cache", []any{"success", true, "cached_blocks", 0}},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			got := ask(t, tt.method, url+tt.path, "")
			if got.status != 200 || got.header.Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, type %q, want 200 and JSON", got.status, got.header.Get("Content-Type"))
			}
			expect(t, got.body, tt.want...)
		})
	}
	for _, path := range []string{"/health", "/health_generate"} {
		if got := ask(t, "GET", url+path, ""); got.status != 200 || len(got.body) != 0 {
			t.Errorf("%s answered %d %q, want 200 and nothing", path, got.status, got.body)
		}
	}
	eventually(t, w, "health check booked", func(s Stats) bool { return s.Completed == 1 })
	for path, want := range map[string]int{"/nope": 404, "/v1/chat/completions": 405} {
		if got := ask(t, "GET", url+path, ""); got.status != want {
			t.Errorf("GET %s answered %d, want %d", path, got.status, want)
		}
	}
}

func TestRequestIDAndRank(t *testing.T) {
	w, url := start(t, Config{})
	for _, rank := range []string{"1", "1", "0", "64", "-2", "x"} {
		got := ask(t, "POST", url+"/v1/chat/completions", `{`+hello+`}`, "X-Request-Id", "abc-1", "X-data-parallel-rank", rank)
		if id := got.header.Get("X-Request-Id"); id != "abc-1" {
			t.Errorf("request id %q came back, want abc-1", id)
		}
		expect(t, got.body, "id", "chatcmpl-abc-1")
	}
	if got, want := fmt.Sprint(w.Stats().Ranks), "map[0:1 1:2]"; got != want {
		t.Errorf("ranks are %s, want %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	w, url := start(t, Config{Model: "m"})
	tests := []struct {
		name, path, body string
		status           int
		kind, param      string
	}{
		{"unknown model", "/v1/chat/completions", `{"model":"nope",` + hello + `}`, 404, "NotFoundError", "model"},
		{"unknown model of an embedding", "/v1/embeddings", `{"model":"nope","input":"x"}`, 404, "NotFoundError", "model"},
		{"bad JSON", "/v1/chat/completions", `{"model":`, 400, "BadRequestError", "<nil>"},
		{"nothing", "/v1/completions", ``, 400, "BadRequestError", "<nil>"},
		{"wrong type", "/v1/chat/completions", `{"messages":"hello"}`, 400, "BadRequestError", "<nil>"},
		{"no messages", "/v1/chat/completions", `{"model":"m"}`, 400, "BadRequestError", "messages"},
		{"no prompt", "/v1/completions", `{"model":"m"}`, 400, "BadRequestError", "prompt"},
		{"empty list of prompts", "/v1/completions", `{"prompt":[]}`, 400, "BadRequestError", "prompt"},
		{"mixed prompts", "/v1/completions", `{"prompt":["a",{}]}`, 400, "BadRequestError", "prompt"},
		{"negative token", "/v1/completions", `{"prompt":[1,-1]}`, 400, "BadRequestError", "prompt"},
		{"null input", "/v1/embeddings", `{"input":null}`, 400, "BadRequestError", "input"},
		{"max_tokens 0", "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, "BadRequestError", "max_tokens"},
		{"max_completion_tokens too large", "/v1/chat/completions", `{"max_completion_tokens":1000000,"ignore_eos":true,` + hello + `}`, 400, "BadRequestError", "max_completion_tokens"},
		{"min_tokens too large", "/v1/completions", `{"prompt":"x","n":2,"min_tokens":9223372036854775807}`, 400, "BadRequestError", "max_tokens"},
		{"too many tokens together", "/v1/completions", `{"prompt":"x","n":256,"max_tokens":2000,"ignore_eos":true}`, 400, "BadRequestError", "max_tokens"},
		{"n 0", "/v1/completions", `{"prompt":"x","n":0}`, 400, "BadRequestError", "n"},
		{"too many streams", "/v1/completions", `{"prompt":["x","y"],"n":129}`, 400, "BadRequestError", "n"},
		{"huge n", "/v1/completions", `{"prompt":["x","y"],"n":9223372036854775807}`, 400, "BadRequestError", "n"},
		{"response without input", "/v1/responses", `{}`, 400, "BadRequestError", "input"},
		{"blank query", "/v1/rerank", `{"query":" ","documents":["x"]}`, 400, "BadRequestError", "query"},
		{"no documents", "/v1/rerank", `{"query":"x","documents":[]}`, 400, "BadRequestError", "documents"},
		{"nothing to tokenize", "/tokenize", `{}`, 400, "BadRequestError", "prompt"},
		{"nothing to detokenize", "/detokenize", `{}`, 400, "BadRequestError", "tokens"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, "POST", url+tt.path, tt.body)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			expect(t, got.body, "error.type", tt.kind, "error.param", tt.param, "error.code", tt.status)
			eventually(t, w, "refusal", func(s Stats) bool { return s.Refused == int64(i+1) && s.Open == 0 })
		})
	}
	got := ask(t, "POST", url+"/v1/messages", `{"model":"nope",`+hello+`}`)
	if got.status != 404 {
		t.Errorf("status %d, want 404", got.status)
	}
	expect(t, got.body, "type", "error", "error.type", "not_found_error")
}

func TestBodyLimit(t *testing.T) {
	w, _ := start(t, Config{})
	tests := []struct {
		name   string
		body   io.Reader
		length int64 // −1 for a chunked body
		status int
	}{
		{"announced", strings.NewReader("{}"), maxBody + 1, 413},
		{"chunked", io.LimitReader(zeros{}, maxBody+1), -1, 413},
		{"at the limit, though no JSON", strings.NewReader("\x00"), maxBody, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", tt.body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = tt.length
			rw := &recorder{header: http.Header{}}
			w.Handler().ServeHTTP(rw, r)
			if rw.status != tt.status {
				t.Errorf("status %d, want %d", rw.status, tt.status)
			}
			expect(t, rw.body.Bytes(), "error.code", tt.status)
		})
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestOverload(t *testing.T) {
	for _, status := range []int{503, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w, url := start(t, Config{MaxRunning: 1, MaxQueue: -1, OverloadStatus: status, AllowFaults: true, TimeScale: 1, DecodeBase: time.Hour})
			first := make(chan answer, 1)
			go func() { first <- ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`) }()
			eventually(t, w, "running request", func(s Stats) bool { return s.Running == 1 })
			got := ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`)
			if got.status != status || got.header.Get("Retry-After") == "" {
				t.Errorf("status %d, Retry-After %q, want %d and some", got.status, got.header.Get("Retry-After"), status)
			}
			expect(t, got.body, "error.code", status)
			w.Close()
			if a := <-first; a.err == nil {
				t.Errorf("the request that ran at Close was answered %d, want its connection dropped", a.status)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	_, url := start(t, Config{Model: "m"})
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":3}`, strings.Repeat("x", 2*BlockBytes+1))
	ask(t, "POST", url+"/v1/completions", body)
	ask(t, "POST", url+"/v1/completions", body)
	ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`)
	got := string(ask(t, "GET", url+"/metrics", "").body)
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="m"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0`,
		`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0`,
		`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 64`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 32`,
		`vllm:prompt_tokens_total{engine="0",model_name="m"} 67`,
		`vllm:generation_tokens_total{engine="0",model_name="m"} 70`,
		`vllm:request_success_total{engine="0",model_name="m",finished_reason="length"} 2`,
		`vllm:request_success_total{engine="0",model_name="m",finished_reason="stop"} 1`,
		`vllm:request_success_total{engine="0",model_name="m",finished_reason="abort"} 0`,
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("metrics lack %s in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		var name string
		var v float64
		if _, err := fmt.Sscanf(line, "%s %g\n", &name, &v); err != nil && !strings.HasPrefix(line, "# TYPE vllm:") && !strings.HasPrefix(line, "# TYPE sim:") {
			t.Errorf("line %q is neither a type nor a sample", line)
		}
	}
}

func TestKVCacheUsage(t *testing.T) {
	var out strings.Builder
	for _, blocks := range []int{100, 10, 0} {
		writeMetrics(&out, Config{CacheBlocks: blocks}, []Stats{{HeldBlocks: 25}})
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "vllm:kv_cache_usage_perc") {
			got = append(got, strings.Fields(line)[1])
		}
	}
	if want := "[0.25 1 0]"; fmt.Sprint(got) != want {
		t.Errorf("usage is %v, want %s", got, want)
	}
}

// FuzzHandler sends any body to every path for work: each gets an answer in JSON
// or a stream, and the books balance.
func FuzzHandler(f *testing.F) {
	paths := []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings",
		"/v1/rerank", "/tokenize", "/detokenize",
	}
	for i, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}],"stream":true}`,
		`{"prompt":[[1,2],[3]],"n":2,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"input":[{"role":"user","content":"a"},{"type":"reasoning"}],"stream":true}`,
		`{"system":[{"text":"a"}],"messages":[{"role":"user","content":null}],"max_tokens":2}`,
		`{"input":["a","b"],"encoding_format":"base64"}`,
		`{"query":"a","documents":["a b"],"top_n":1}`,
		`{"messages":[{"content":"x"}]}`,
		`{"tokens":[1,2,4294967295]}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	w := New(Config{TimeScale: 1e9, OutputTokens: 3})
	f.Cleanup(w.Close)
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		rw := &recorder{header: http.Header{}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, paths[int(path)%len(paths)], bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		w.Handler().ServeHTTP(rw, r)
		if strings.HasPrefix(rw.header.Get("Content-Type"), "text/event-stream") {
			parseEvents(t, rw.body.Bytes())
		} else if rw.status != 200 && rw.status != 400 && rw.status != 404 || !json.Valid(rw.body.Bytes()) {
			t.Errorf("%d %q, want 200, 400 or 404 and JSON", rw.status, rw.body.Bytes())
		}
		if s := w.Stats(); s.Open != 0 || s.Entered != s.Completed+s.Refused {
			t.Errorf("the books don't balance: %+v", s)
		}
	})
}

// recorder is a ResponseWriter that keeps what is written.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }
func (r *recorder) Flush()                 {}
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.body.Write(b)
}
