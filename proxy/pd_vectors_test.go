package proxy

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/proxytest"
)

// liveVector is one request as vllm-router 0.1.17 handled it on the wire. Where
// other rules hold here, want says so.
type liveVector struct {
	ID              string
	Connector, Mode string
	Path            string
	Client          json.RawMessage `json:"client_request"`
	Prefill         json.RawMessage `json:"prefill_request_minimal"`
	PrefillHead     vectorHead      `json:"prefill_request_reference"`
	PrefillReply    vectorAnswer    `json:"prefill_reply"`
	Decode          json.RawMessage `json:"decode_request_minimal"`
	DecodeHead      *vectorHead     `json:"decode_request_reference"`
	DecodeReply     *vectorAnswer   `json:"decode_reply"`
	Dispatch        string
	Response        struct {
		Status      int
		ContentType string `json:"content_type"`
		Body        json.RawMessage
	} `json:"client_response"`
}

type vectorHead struct{ Headers map[string]string }

type vectorAnswer struct {
	Status int
	Body   json.RawMessage
	Stream []string
}

// want makes a vector say what is wanted here.
func (v *liveVector) want() {
	switch v.ID {
	case "chat_n2": // more than one choice needs no other blocks
		v.Prefill = bytes.Replace(v.Prefill, []byte(`"n": 2`), []byte(`"n": 1`), 1)
	case "prefill_503":
		v.Response.Status, v.Response.ContentType = 503, "application/json"
		v.Response.Body = json.RawMessage(`{"error":{"message":"The prefill worker answered 503: overloaded","type":"server_error","param":null,"code":"prefill_failed"}}`)
	}
	if v.Connector == "mooncake" {
		v.Dispatch = "concurrent" // the blocks are sent: there is nothing to wait for
	}
}

func liveVectors(t testing.TB) map[string]*liveVector {
	t.Helper()
	text, err := os.ReadFile("pd/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []*liveVector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]*liveVector{}
	for _, v := range file.Vectors {
		v.want()
		all[v.ID] = v
	}
	if len(all) != 20 {
		t.Fatalf("%d vectors, want 20", len(all))
	}
	return all
}

// vectorFleet is what vectors run against, one at a time.
type vectorFleet struct {
	r       *router
	p, d    *proxytest.Worker
	boot    *proxytest.Worker // nil but under Mooncake
	ranks   int               // that /metrics tells of; 0 for none
	replace *strings.Replacer // of the addresses in vectors
}

// newVectorFleet builds the fleet that a vector was captured on.
func newVectorFleet(t *testing.T, v *liveVector) *vectorFleet {
	t.Helper()
	f := &vectorFleet{}
	none := func(x *proxytest.Exchange) { x.Reply(500, "") }
	if v.Connector == "mooncake" {
		f.boot = newBootstrap(t, `{"0":{"engine_id":"mc-engine-a0"},"1":{"engine_id":"mc-engine-a1"}}`)
		f.ranks = 2
	}
	f.p, f.d = proxytest.NewWorker(t, f.serve(none)), proxytest.NewWorker(t, f.serve(none))
	pairs := []string{"127.0.0.1:41101", f.p.Addr(), "127.0.0.1:41201", f.d.Addr()}
	o := pdOptions("round_robin")
	o.PD.Rescues = 0 // whose requests no vector has
	switch v.Connector + v.Mode {
	case "mooncake":
		o.PD.Connector, o.Ranks = pd.Mooncake, f.ranks // so that rank 0 comes first
		pairs = append(pairs, "http://127.0.0.1:41301", f.boot.URL())
	case "moriioREAD", "moriioWRITE":
		o.PD.Connector = pd.MoRIRead
	}
	f.replace = strings.NewReplacer(pairs...)
	f.r = startRouter(t, o)
	switch {
	case v.Connector == "moriio":
		f.r.startDiscovery().ping(
			registration("P", f.p, "host:192.0.2.30,handshake:6301,notify:61005", "transfer_mode", v.Mode, "tp_size", 4, "dp_size", 2),
			registration("D", f.d, "host:192.0.2.31,handshake:6302,notify:61006", "transfer_mode", v.Mode, "tp_size", 8, "dp_size", 3))
		f.r.waitMembers(actors.Prefill, 2)
		f.r.waitMembers(actors.Decode, 3)
	case v.Mode == "discovery":
		f.r.startDiscovery().ping(registration("P", f.p, "192.0.2.40:21001"), registration("D", f.d, "192.0.2.41:22001"))
		f.r.waitMembers(actors.Prefill, 1)
		f.r.waitMembers(actors.Decode, 1)
	default:
		boot := 0
		if f.boot != nil {
			boot = portOf(t, f.boot)
		}
		f.r.enrollPair(WorkerSpec{URL: f.p.URL(), Bootstrap: boot}, WorkerSpec{URL: f.d.URL()})
		f.r.waitMembers(actors.Prefill, max(1, f.ranks))
		f.r.waitMembers(actors.Decode, max(1, f.ranks))
	}
	return f
}

func (f *vectorFleet) serve(script proxytest.Script) proxytest.Script {
	if f.ranks > 0 {
		return withEngines(f.ranks, script)
	}
	return controlCalls(script)
}

// answerAs answers as a vector says.
func answerAs(t testing.TB, a *vectorAnswer, more ...proxytest.Header) proxytest.Script {
	return func(x *proxytest.Exchange) {
		if a.Stream == nil {
			x.Reply(a.Status, string(squeeze(t, a.Body)), append(more, jsonType)...)
			return
		}
		x.Head(a.Status, append(more, proxytest.H("Content-Type", "text/event-stream; charset=utf-8"), proxytest.H("Transfer-Encoding", "chunked"))...)
		for _, frame := range a.Stream {
			x.Chunk(frame)
		}
		x.EndChunks()
	}
}

// squeeze takes the space out of JSON text.
func squeeze(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Members that clients may send and that nobody in between has to understand. A
// parser that keeps the values of numbers in floats, or orders names, can't
// write them back.
const (
	oddFirst = "\t\"aa_first\" :1.10e+0"
	oddLast  = `"zz_big":123456789012345678901234567890 ,"zz_null": null,"zz_text":"\u0065\/ü\ud83d\ude00<>&", "zz_list"  :[1.0,-0.0,1E5 ,0.7,{"b":1,"a":2}]`
)

// oddly writes a request body in a way that no encoder would, with members of
// its own.
func oddly(t testing.TB, body []byte) []byte {
	t.Helper()
	spaces := []string{" ", "", "\n\t", "  ", "\r\n"}
	n, quoted, escaped := 0, false, false
	space := func() string { n++; return spaces[n%len(spaces)] }
	var b strings.Builder
	for _, c := range string(squeeze(t, body)) {
		switch {
		case quoted:
			quoted = escaped || c != '"'
			escaped = c == '\\' && !escaped
			b.WriteRune(c)
		case strings.ContainsRune("{[,:", c):
			b.WriteString(space() + string(c) + space())
		case strings.ContainsRune("}]", c):
			b.WriteString(space() + string(c))
		default:
			quoted = c == '"'
			b.WriteRune(c)
		}
	}
	object := strings.TrimSpace(b.String())
	return []byte("\n {" + oddFirst + " ," + object[1:len(object)-1] + "," + oddLast + " \n}\t")
}

// withOddities adds oddly's own members to what a worker should get.
func withOddities(want []byte) []byte {
	want = bytes.TrimSpace(want)
	return []byte("{" + oddFirst + "," + string(want[1:len(want)-1]) + "," + oddLast + "}")
}

// checkHead checks what the router says to a worker besides the body, and returns
// the id of the pair.
func (f *vectorFleet) checkHead(t *testing.T, v *liveVector, x *proxytest.Exchange, want *vectorHead) (id string) {
	t.Helper()
	if line := "POST " + v.Path + " HTTP/1.1"; x.RequestLine != line {
		t.Errorf("request line %q, want %q", x.RequestLine, line)
	}
	pattern := regexp.QuoteMeta(f.replace.Replace(want.Headers["x-request-id"]))
	pattern = strings.Replace(pattern, regexp.QuoteMeta("{uuid32}"), "[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", 1)
	id = x.Get("X-Request-Id")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(id) {
		t.Errorf("request id %q, want %s", id, pattern)
	}
	wantValues(t, x, "X-Request-Id", id)
	if rank, ranked := want.Headers["x-data-parallel-rank"]; ranked {
		wantValues(t, x, "X-data-parallel-rank", rank)
	} else {
		wantValues(t, x, "X-data-parallel-rank")
	}
	// The client's own pass, but for its id and its rank.
	wantValues(t, x, "Authorization", "Bearer client-key")
	wantValues(t, x, "X-Tenant", "t1")
	wantValues(t, x, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	return id
}

// run sends a vector's request and checks everything that can be seen of it.
func (f *vectorFleet) run(t *testing.T, v *liveVector) {
	t.Helper()
	kind := pd.KindOf([]byte(v.Path))
	before := [2]int{len(generations(f.p)), len(generations(f.d))}
	prefillSeen, decodeSeen := make(chan struct{}), make(chan struct{})
	both := func(own, other chan struct{}, script proxytest.Script) proxytest.Script {
		return f.serve(func(x *proxytest.Exchange) {
			close(own) // a second request is a fault, and panics
			if v.Dispatch == "concurrent" {
				select {
				case <-other:
				case <-x.PeerClosed():
				}
			} else {
				x.Sleep(10 * time.Millisecond) // for a decode request that doesn't wait
				if own == prefillSeen && isClosed(decodeSeen) {
					t.Error("the decode request came before the prefill request was answered")
				}
			}
			script(x)
		})
	}
	f.p.SetScript(both(prefillSeen, decodeSeen, answerAs(t, &v.PrefillReply, proxytest.H("X-From", "prefill"), proxytest.H("Retry-After", "7"))))
	if v.DecodeReply != nil {
		f.d.SetScript(both(decodeSeen, prefillSeen, answerAs(t, v.DecodeReply, proxytest.H("X-From", "decode"))))
	}

	body := oddly(t, v.Client)
	c := proxytest.Dial(t, f.r.addr)
	err := c.Post(v.Path, string(body),
		proxytest.H("Content-Type", "application/json; charset=utf-8"), proxytest.H("Authorization", "Bearer client-key"), proxytest.H("X-Request-Id", "client-7"),
		proxytest.H("X-Data-Parallel-Rank", "31"), proxytest.H("X-Tenant", "t1"), proxytest.H("Accept-Encoding", "identity"),
		proxytest.H("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	if err != nil {
		t.Fatal(err)
	}
	got := finish(t, c)
	ps, ds := generations(f.p)[before[0]:], generations(f.d)[before[1]:]
	decodes := 0
	if v.DecodeReply != nil {
		decodes = 1
	}
	if len(ps) != 1 || len(ds) != decodes {
		t.Fatalf("%d prefill and %d decode requests, want 1 and %d", len(ps), len(ds), decodes)
	}

	// What the prefill worker got.
	id := f.checkHead(t, v, ps[0], &v.PrefillHead)
	wantValues(t, ps[0], "Content-Type", "application/json")
	wantValues(t, ps[0], "Accept-Encoding")
	hex := id[strings.LastIndexByte(id, '_')+1:]
	if len(hex) != 32 {
		t.Fatalf("request id %q has no id of the pair", id)
	}
	ids := strings.NewReplacer("{uuid32}", hex, "{uuid}", strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-"))
	text := func(b []byte) []byte { return []byte(ids.Replace(f.replace.Replace(string(b)))) }
	wantSameJSON(t, "prefill request", ps[0].Body(), withOddities(text(v.Prefill)))
	touched := []string{"max_tokens", "min_tokens", "max_completion_tokens", "n", "stream", "kv_transfer_params"}
	switch kind {
	case pd.TokensIn:
		touched = []string{"sampling_params", "stream", "kv_transfer_params"}
		wantUntouched(t, "prefill sampling_params", valueText(t, ps[0].Body(), "sampling_params"), valueText(t, body, "sampling_params"), []string{"max_tokens", "min_tokens"}, nil)
	case pd.Responses:
		touched = []string{"max_output_tokens", "stream", "kv_transfer_params"}
	}
	wantUntouched(t, "prefill request", ps[0].Body(), body, touched, []string{"stream_options"})

	// What the decode worker got.
	if v.DecodeReply != nil {
		if other := f.checkHead(t, v, ds[0], v.DecodeHead); other != id {
			t.Errorf("the decode request has id %q, the prefill request %q", other, id)
		}
		wantValues(t, ds[0], "Content-Type", "application/json; charset=utf-8")
		wantValues(t, ds[0], "Accept-Encoding")
		wantSameJSON(t, "decode request", ds[0].Body(), withOddities(text(v.Decode)))
		wantOneMore(t, ds[0].Body(), body, "kv_transfer_params")
	}

	// What the client got.
	if got.Status != v.Response.Status || got.Get("Content-Type") != v.Response.ContentType {
		t.Errorf("answer %d, %q, want %d, %q", got.Status, got.Get("Content-Type"), v.Response.Status, v.Response.ContentType)
	}
	wantValues(t, got, "X-Request-Id", "client-7")
	if v.DecodeReply != nil {
		wantValues(t, got, "X-From", "decode")
		wantValues(t, got, "Retry-After")
	} else {
		wantValues(t, got, "Retry-After", "7")
	}
	if stream := ""; json.Unmarshal(v.Response.Body, &stream) == nil {
		wantBytes(t, "stream", got.Body, text([]byte(stream)))
	} else {
		wantSameJSON(t, "answer", got.Body, text(v.Response.Body))
	}
	f.r.waitIdle()
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// valueText is the value of a member as it is written.
func valueText(t testing.TB, object []byte, name string) []byte {
	t.Helper()
	for _, m := range membersText(t, object) {
		if m.name == name {
			return []byte(m.text[strings.IndexByte(m.text, ':')+1:])
		}
	}
	t.Fatalf("no %s in %s", name, object)
	return nil
}

// wantOneMore fails the test unless got is client byte for byte, but for one
// member more, if that is there at all.
func wantOneMore(t testing.TB, got, client []byte, name string) {
	t.Helper()
	if i := bytes.Index(got, []byte(`,"`+name+`":`)); i >= 0 && len(got) > len(client) {
		end := i + len(got) - len(client)
		if !reflect.DeepEqual(membersText(t, []byte("{"+string(got[i+1:end])+"}"))[0].name, name) {
			t.Errorf("%q stands in place of %s", got[i:end], name)
		}
		got = append(got[:i:i], got[end:]...)
	}
	wantBytes(t, "the decode request without "+name, got, client)
}

// TestLiveVectors runs the vectors of vllm-router 0.1.17 through a router and
// scripted workers.
func TestLiveVectors(t *testing.T) {
	vectors := liveVectors(t)
	follows := map[string]string{"nixl_push_first": "nixl_push_next", "mooncake_dp": "mooncake_dp_next"}
	ran := 0
	for id, v := range vectors {
		if id == "nixl_push_next" || id == "mooncake_dp_next" {
			continue // runs behind the one it follows
		}
		ran++
		next := vectors[follows[id]]
		if next != nil {
			ran++
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			f := newVectorFleet(t, v)
			f.run(t, v)
			if next != nil {
				f.run(t, next)
			}
		})
	}
	if ran != 20 {
		t.Errorf("%d vectors run, want 20", ran)
	}
}

// TestClientsOwnParameters: transfer parameters that a client sends reach no
// worker, and neither do those in extra arguments.
func TestClientsOwnParameters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, reply, want string }{
		{"handed over", nixlReply, `"remote_engine_id":"e1"`},
		{"none to hand over", `{"choices":[]}`, ""},
		{"null to hand over", `{"choices":[],"kv_transfer_params":null}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, d := proxytest.NewWorker(t, prefillWith(tt.reply)), proxytest.NewWorker(t, decodeEither)
			r := startPD(t, pdOptions("round_robin"), []*proxytest.Worker{p}, []*proxytest.Worker{d})
			finish(t, r.post(`{"model":"m","kv_transfer_params":{"remote_engine_id":"evil"},"vllm_xargs":{"kv_transfer_params":{"remote_engine_id":"evil"},"a":1},"messages":[]}`))
			for _, w := range []*proxytest.Worker{p, d} {
				for _, x := range generations(w) {
					if bytes.Contains(x.Body(), []byte("evil")) {
						t.Errorf("a worker got the client's transfer parameters: %s", x.Body())
					}
				}
			}
			ds := generations(d)
			if len(ds) != 1 {
				t.Fatalf("%d decode requests, want 1", len(ds))
			}
			if has := bytes.Contains(ds[0].Body(), []byte(`"kv_transfer_params"`)); has != (tt.want != "") || !bytes.Contains(ds[0].Body(), []byte(tt.want)) {
				t.Errorf("decode request %s, want %q in it", ds[0].Body(), tt.want)
			}
			wantMissing := 0.0
			if tt.want == "" {
				wantMissing = 1
			}
			if n := r.missingHandoffs(); n != wantMissing {
				t.Errorf("%v handoffs are counted as missing, want %v", n, wantMissing)
			}
			r.waitIdle()
		})
	}
}
