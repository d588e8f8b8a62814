package pd

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// vector is one request as vllm-router 0.1.17 handled it. testdata/vectors.json
// has them all; where other rules hold here, overrides says so.
type vector struct {
	ID                      string
	Connector, Mode, Path   string
	Client                  json.RawMessage `json:"client_request"`
	PrefillRequest          json.RawMessage `json:"prefill_request_minimal"`
	PrefillRequestReference struct {
		Headers map[string]string
	} `json:"prefill_request_reference"`
	PrefillReply  vectorReply     `json:"prefill_reply"`
	DecodeRequest json.RawMessage `json:"decode_request_minimal"`
	DecodeReply   *vectorReply    `json:"decode_reply"`
	Dispatch      string
	Response      struct {
		Status int
		Body   json.RawMessage
	} `json:"client_response"`
}

type vectorReply struct {
	Status int
	Body   json.RawMessage
	Stream []string
}

// vectorID is what stands for {uuid32} and {uuid}.
var vectorID = ID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x4d, 0xef, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}

func readVectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("{uuid32}"), []byte(hex.EncodeToString(vectorID[:])))
	text = bytes.ReplaceAll(text, []byte("{uuid}"), []byte("01234567-89ab-4def-8123-456789abcdef"))
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if got, want := len(file.Vectors), 20; got != want {
		t.Fatalf("%d vectors, want %d", got, want)
	}
	return file.Vectors
}

func vectorNamed(t testing.TB, id string) vector {
	t.Helper()
	for _, v := range readVectors(t) {
		if v.ID == id {
			return v
		}
	}
	t.Fatalf("no vector %q", id)
	panic("unreachable")
}

// pair is the attempt of a vector. What the fleet told the router beforehand is
// in the vectors' notes and descriptions only.
func (v *vector) pair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{
		ID:      vectorID,
		Prefill: Peer{Base: "http://127.0.0.1:41101"},
		Decode:  Peer{Base: "http://127.0.0.1:41201"},
	}
	switch v.Connector {
	case "mooncake":
		p.Connector = Mooncake
		p.Prefill.Bootstrap = "http://127.0.0.1:41301"
		engines, err := ParseEngines([]byte(`{"0":{"engine_id":"mc-engine-a0"},"1":{"engine_id":"mc-engine-a1"}}`))
		if err != nil {
			t.Fatal(err)
		}
		p.Prefill.Engines = engines
		if v.PrefillRequestReference.Headers["x-data-parallel-rank"] == "1" {
			p.Prefill.Rank, p.Decode.Rank = 1, 1
		}
		p.Prefill.Base += "@" + v.PrefillRequestReference.Headers["x-data-parallel-rank"]
	case "moriio":
		p.Connector = map[string]Connector{"READ": MoRIRead, "WRITE": MoRIWrite}[v.Mode]
		p.Prefill.ZMQ, p.Prefill.DPSize, p.Prefill.TPSize = "host:192.0.2.30,handshake:6301,notify:61005", 2, 4
		p.Decode.ZMQ, p.Decode.DPSize, p.Decode.TPSize = "host:192.0.2.31,handshake:6302,notify:61006", 3, 8
	}
	switch v.Mode {
	case "discovery":
		p.Prefill.ZMQ, p.Decode.ZMQ = "192.0.2.40:21001", "192.0.2.41:22001"
	case "push":
		first := vectorNamed(t, "nixl_push_first")
		r, err := ReadReply(first.PrefillReply.Body)
		if err != nil {
			t.Fatal(err)
		}
		p.Push, _ = r.Identity()
	}
	return p
}

// override makes a vector say what is wanted here.
func (v *vector) override(t testing.TB) {
	t.Helper()
	switch {
	case v.ID == "chat_n2": // more than one choice needs no other blocks
		wanted := bytes.Replace(v.PrefillRequest, []byte(`"n": 2`), []byte(`"n": 1`), 1)
		if bytes.Equal(wanted, v.PrefillRequest) {
			t.Fatal("the prefill request has no n that could be 1")
		}
		v.PrefillRequest = wanted
	case v.Connector == "mooncake": // whose blocks are sent, not fetched
		v.Dispatch = "concurrent"
	}
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			v.override(t)
			kind, p := KindOf([]byte(v.Path)), v.pair(t)
			if got, want := string(p.AppendRequestID(nil)), v.PrefillRequestReference.Headers["x-request-id"]; got != want {
				t.Errorf("request id %q, want %q", got, want)
			}
			early, concurrent := p.AppendEarlyKV(nil)
			if got, want := concurrent, v.Dispatch == "concurrent"; got != want {
				t.Errorf("concurrent is %v, want %v", got, want)
			}

			got, ok := AppendPrefill(nil, v.Client, kind, p.AppendPrefillKV(nil))
			if !ok {
				t.Fatal("the client's body is not an object")
			}
			checkSameJSON(t, "prefill request", got, v.PrefillRequest)
			checkUntouched(t, got, v.Client, "max_tokens", "min_tokens", "max_completion_tokens", "max_output_tokens", "sampling_params", "stream", "stream_options", "n")

			if v.DecodeReply == nil {
				if string(v.DecodeRequest) != "" && string(v.DecodeRequest) != "null" {
					t.Fatal("the vector has a decode request but no reply")
				}
				return // an error of the prefill worker, whose bytes the client gets
			}
			r, err := ReadReply(compact(t, v.PrefillReply.Body))
			if err != nil {
				t.Fatal(err)
			}
			kv, _ := p.AppendDecodeKV(nil, &r)
			if concurrent && !bytes.Equal(kv, early) {
				t.Errorf("the reply makes the transfer parameters %s, want %s", kv, early)
			}
			got, _ = AppendDecode(nil, v.Client, kind, kv)
			checkSameJSON(t, "decode request", got, v.DecodeRequest)
			checkUntouched(t, got, v.Client)
			v.checkResponse(t, kind, &r)
		})
	}
}

// checkResponse checks what the client gets, byte for byte.
func (v *vector) checkResponse(t *testing.T, kind Kind, r *Reply) {
	t.Helper()
	if v.DecodeReply.Stream != nil {
		var want string
		if err := json.Unmarshal(v.Response.Body, &want); err != nil {
			t.Fatal(err)
		}
		e := NewEvents(kind, r)
		got := string(e.Rewrite([]byte(strings.Join(v.DecodeReply.Stream, ""))))
		if got += string(e.Close()); got != want {
			t.Errorf("the client gets\n%s\nwant\n%s", got, want)
		}
		return
	}
	q, _ := ReadRequest(v.Client, kind)
	answer, want := compact(t, v.DecodeReply.Body), compact(t, v.Response.Body)
	whole := answer
	if q.Merge {
		whole = r.AppendMerged(nil, whole, q)
	} else {
		a := NewAnswer(kind, r)
		got := string(a.Rewrite(answer)) + string(a.Close())
		if got != string(want) {
			t.Errorf("in pieces the client gets\n%s\nwant\n%s", got, want)
		}
	}
	if got := AppendAnswer(nil, whole, kind, r); !bytes.Equal(got, want) {
		t.Errorf("the client gets\n%s\nwant\n%s", got, want)
	}
}

func compact(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func checkSameJSON(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !reflect.DeepEqual(jsonValue(t, got), jsonValue(t, want)) {
		t.Errorf("%s\n%s\nwant\n%s", what, compact(t, got), compact(t, want))
	}
}

// jsonValue is the value of b with numbers as they are written.
func jsonValue(t testing.TB, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || !json.Valid(b) {
		t.Fatalf("%s is not JSON: %v", b, err)
	}
	return v
}

// checkUntouched checks that the members of body but for those called names,
// and transfer parameters, are in got in order and byte for byte, with nothing
// between them but what may have changed.
func checkUntouched(t *testing.T, got, body []byte, names ...string) {
	t.Helper()
	names = append(names, kvField)
	touched := func(m member) bool { return slices.Contains(names, m.name) }
	g := slices.DeleteFunc(rawMembers(t, got), touched)
	w := slices.DeleteFunc(rawMembers(t, body), touched)
	if !slices.Equal(g, w) {
		t.Errorf("untouched members are\n%q\nwant\n%q", g, w)
	}
}

type member struct{ name, value string }

// rawMembers is the members of an object as encoding/json finds them.
func rawMembers(t testing.TB, object []byte) []member {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		all = append(all, member{name.(string), string(value)})
	}
	return all
}
