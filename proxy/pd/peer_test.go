package pd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

const (
	hexID  = "0123456789ab4def8123456789abcdef"
	uuidID = "01234567-89ab-4def-8123-456789abcdef"
)

// testPair is an attempt between workers that differ in everything.
func testPair(c Connector) *Pair {
	return &Pair{
		Connector: c, ID: vectorID,
		Prefill: Peer{Base: "http://p:1@1", Rank: 1, DPSize: 2, TPSize: 4},
		Decode:  Peer{Base: "https://d:2/", Rank: 2, DPSize: 3, TPSize: 8},
	}
}

func mustReply(t testing.TB, kv string) *Reply {
	t.Helper()
	r, err := ReadReply([]byte(`{"kv_transfer_params":` + kv + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

const pushReply = `{"transfer_mode":"push","remote_engine_id":"e","remote_host":"h","remote_port":5,"tp_size":4}`

func TestAppendPrefillKV(t *testing.T) {
	const nixl = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`
	for _, tt := range []struct {
		name string
		p    *Pair
		want string
	}{
		{"NIXL", testPair(NIXL), nixl},
		{"Mooncake", testPair(Mooncake), `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-` + uuidID + `"}`},
		{"MoRI reads", testPair(MoRIRead), `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"tx-` + hexID + `","remote_dp_size":3}`},
		{"MoRI writes", testPair(MoRIWrite), `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"tx-` + hexID + `","remote_dp_size":3,"remote_tp_size":8,"remote_dp_rank":2}`},
		{"MoRI writes to one rank", &Pair{Connector: MoRIWrite, ID: vectorID}, `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"tx-` + hexID + `","remote_dp_size":1,"remote_tp_size":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.p.AppendPrefillKV(nil)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAppendDecodeKV(t *testing.T) {
	bootstrapped := testPair(Mooncake)
	bootstrapped.Prefill.Bootstrap = "http://b:9"
	bootstrapped.Prefill.Engines = Engines{{0, `"e0"`}, {1, `"e1"`}}
	noEngines := testPair(Mooncake)
	noEngines.Prefill.Bootstrap = "http://b:9"
	noAddress := testPair(Mooncake)
	noAddress.Prefill.Engines = bootstrapped.Prefill.Engines
	named := testPair(NIXL)
	named.Prefill.ZMQ, named.Decode.ZMQ = "p:11", "d:12"
	pushed := testPair(NIXL)
	pushed.Push = Identity{`"old"`, `"h"`, "5", "4"}
	const (
		mooncake = `{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-` + uuidID + `","remote_bootstrap_addr":"http://b:9","remote_engine_id":"e1"}`
		write    = `{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":null,"remote_block_ids":null,"transfer_id":"tx-` + hexID + `","remote_dp_size":2,"remote_tp_size":4,"remote_dp_rank":1}`
		push     = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"ID","remote_host":"h","remote_port":5,"tp_size":4,"remote_request_id":"___prefill_addr_p:1___decode_addr_d:2_` + hexID + `"}`
	)
	for _, tt := range []struct {
		name   string
		p      *Pair
		reply  string
		early  string // what is known before the reply; "" if nothing
		want   string
		wantOK bool
	}{
		{"NIXL", testPair(NIXL), `{ "x":[1.0], "y":null}`, "", `{ "x":[1.0], "y":null}`, true},
		{"NIXL, null", testPair(NIXL), `null`, "", "", false},
		{"NIXL, of another type", testPair(NIXL), `"x"`, "", "", false},
		{"NIXL, first push", testPair(NIXL), pushReply, "", strings.Replace(push, "ID", "e", 1), true},
		{"NIXL, later push of another engine", pushed, pushReply, strings.Replace(push, "ID", "old", 1), strings.Replace(push, "ID", "e", 1), true},
		{"NIXL, push that says too little", testPair(NIXL), `{"transfer_mode":"push"}`, "", `{"transfer_mode":"push"}`, true},
		{"named by the request id", named, `null`, "", "", true},
		{"named by the request id, with parameters", named, `{"x":1}`, "", `{"x":1}`, true},
		{"Mooncake", bootstrapped, `null`, mooncake, mooncake, true},
		{"Mooncake without engines", noEngines, `{"x":1}`, "", "", false},
		{"Mooncake without an address", noAddress, `{"x":1}`, "", "", false},
		{"MoRI reads", testPair(MoRIRead), `{"x":1,"remote_dp_size":7}`, "", `{"x":1,"remote_dp_size":2}`, true},
		{"MoRI reads, null", testPair(MoRIRead), `null`, "", "", false},
		{"MoRI writes", testPair(MoRIWrite), `{"x":1}`, write, write, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustReply(t, tt.reply)
			early, concurrent := tt.p.AppendEarlyKV([]byte("before"))
			if want := "before" + tt.early; string(early) != want || concurrent != (tt.early != "") {
				t.Errorf("early %s, %v, want %s", early, concurrent, want)
			}
			got, ok := tt.p.AppendDecodeKV([]byte("before"), r)
			if want := "before" + tt.want; string(got) != want || ok != tt.wantOK {
				t.Errorf("got  %s, %v\nwant %s, %v", got, ok, want, tt.wantOK)
			}
		})
	}
}

func TestMayMove(t *testing.T) {
	named := testPair(NIXL)
	named.Prefill.ZMQ, named.Decode.ZMQ = "p:11", "d:12"
	half := testPair(NIXL)
	half.Prefill.ZMQ = "p:11"
	like := Peer{Base: "http://other:3", DPSize: 3, TPSize: 8}
	for _, tt := range []struct {
		name  string
		p     *Pair
		reply string
		to    Peer
		want  bool
	}{
		{"NIXL fetches", testPair(NIXL), `{"x":1}`, Peer{}, true},
		{"NIXL without parameters", testPair(NIXL), `null`, Peer{}, true},
		{"NIXL sends", testPair(NIXL), pushReply, Peer{}, false},
		{"both named by the request id", named, `null`, Peer{}, false},
		{"one named by the request id", half, `null`, Peer{}, true},
		{"Mooncake", testPair(Mooncake), `{"x":1}`, like, false},
		{"MoRI writes", testPair(MoRIWrite), `{"x":1}`, like, false},
		{"MoRI reads, same sizes", testPair(MoRIRead), `{"x":1}`, like, true},
		{"MoRI reads, other ranks", testPair(MoRIRead), `{"x":1}`, Peer{DPSize: 1, TPSize: 8}, false},
		{"MoRI reads, other shards", testPair(MoRIRead), `{"x":1}`, Peer{DPSize: 3}, false},
		{"MoRI reads, unsaid sizes", &Pair{Connector: MoRIRead}, `{"x":1}`, Peer{DPSize: 1, TPSize: 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.MayMove(mustReply(t, tt.reply), &tt.to); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestRequestIDForEngines reads request ids as the engines' connectors do.
func TestRequestIDForEngines(t *testing.T) {
	p := testPair(NIXL)
	p.Prefill.ZMQ = "host:192.0.2.1,handshake:6301,notify:61005"
	id := string(p.AppendRequestID(nil))
	m := regexp.MustCompile(`^___prefill_addr_(.*?)___decode_addr_(.*)_[0-9a-f]{32}$`).FindStringSubmatch(id)
	if m == nil || m[1] != p.Prefill.ZMQ || m[2] != "d:2" {
		t.Errorf("%q is read as %q", id, m)
	}
}

func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID()
		if text := string(id.appendUUID(nil)); !form.MatchString(text) || strings.ReplaceAll(text, "-", "") != string(id.appendHex(nil)) {
			t.Fatalf("%q is not a random UUID", text)
		}
		if seen[id] {
			t.Fatalf("%v twice", id)
		}
		seen[id] = true
	}
}

func TestAddress(t *testing.T) {
	for base, want := range map[string]string{
		"http://127.0.0.1:41101":    "127.0.0.1:41101",
		"https://h:1/":              "h:1",
		"http://h:1@3":              "h:1",
		"http://h:1/@12":            "h:1",
		"http://[2001:db8::1]:80@0": "[2001:db8::1]:80",
		"h:1":                       "h:1",
		"http://user@h:1":           "user@h:1",
		"http://h:1@":               "h:1@",
		"http://h:1@x":              "h:1@x",
		"http://h:1@1@2":            "h:1@1@2",
		"":                          "",
	} {
		if got := Address(base); got != want {
			t.Errorf("Address(%q) is %q, want %q", base, got, want)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", `"\`, "\x00\x1f\n\u2028\U0001f600é", "\xff"} {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("%q is written as %s", s, appendString(nil, s))
		}
	}
}
