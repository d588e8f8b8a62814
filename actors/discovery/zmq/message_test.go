package zmq

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"loadstar/actors"
)

const addr, zaddr = "192.0.2.40:8000", "192.0.2.40:21001"

// fields gives the fields of a good P2P ping, changed by pairs of key and value;
// a nil value takes the key out.
func fields(changes ...any) map[string]any {
	m := map[string]any{"type": "P", "http_address": addr, "zmq_address": zaddr}
	for i := 0; i < len(changes); i += 2 {
		m[changes[i].(string)] = changes[i+1]
		if changes[i+1] == nil {
			delete(m, changes[i].(string))
		}
	}
	return m
}

// mori gives the fields of a good MoRI-IO ping, likewise.
func mori(changes ...any) map[string]any {
	m := fields("transfer_mode", "READ", "tp_size", 4, "dp_size", 2)
	maps.Copy(m, fields(changes...))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == nil {
			delete(m, changes[i].(string))
		}
	}
	return m
}

func pack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgp.AppendIntf(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseTakes(t *testing.T) {
	p2p := Registration{Role: actors.Prefill, HTTPAddress: addr, ZMQAddress: zaddr, TPSize: 1, DPSize: 1}
	with := func(change func(*Registration)) Registration {
		r := p2p
		change(&r)
		return r
	}
	tests := []struct {
		name   string
		moriio bool
		ping   map[string]any
		want   Registration
	}{
		{name: "prefill", ping: fields(), want: p2p},
		{name: "decode", ping: fields("type", "D"), want: with(func(r *Registration) { r.Role = actors.Decode })},
		{name: "unknown keys", ping: fields("node_hosts", []any{"a", "b"}, "x", map[string]any{"y": []any{nil, 1.5}}), want: p2p},
		{name: "a host name", ping: fields("http_address", "Node-1.example_net:80"), want: with(func(r *Registration) { r.HTTPAddress = "node-1.example_net:80" })},
		{name: "IPv6", ping: fields("http_address", "[2001:DB8::0:1]:8000"), want: with(func(r *Registration) { r.HTTPAddress = "[2001:db8::1]:8000" })},
		{name: "sizes mean nothing without MoRI-IO", ping: fields("tp_size", "many", "dp_size", 0), want: p2p},
		{name: "READ", moriio: true, ping: mori(), want: with(func(r *Registration) { r.Mode, r.TPSize, r.DPSize = Read, 4, 2 })},
		{name: "WRITE", moriio: true, ping: mori("transfer_mode", "WRITE"), want: with(func(r *Registration) { r.Mode, r.TPSize, r.DPSize = Write, 4, 2 })},
		{name: "sizes left out", moriio: true, ping: mori("tp_size", nil, "dp_size", nil), want: with(func(r *Registration) { r.Mode = Read })},
		{name: "largest sizes", moriio: true, ping: mori("tp_size", uint16(1024), "dp_size", int64(1024)), want: with(func(r *Registration) { r.Mode, r.TPSize, r.DPSize = Read, 1024, 1024 })},
		{
			name: "three addresses in one", moriio: true, ping: mori("zmq_address", "host:2001:db8::1,handshake:6301,notify:61005"),
			want: with(func(r *Registration) {
				r.Mode, r.TPSize, r.DPSize, r.ZMQAddress = Read, 4, 2, "host:2001:db8::1,handshake:6301,notify:61005"
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(pack(t, tt.ping), tt.moriio)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("a", maxText)
	tests := []struct {
		name   string
		moriio bool
		ping   any
		want   string // part of the error
	}{
		{name: "a list", ping: []any{"type", "P"}, want: "not one whole msgpack map"},
		{name: "no type", ping: fields("type", nil), want: "type is missing"},
		{name: "no http_address", ping: fields("http_address", nil), want: "http_address is missing"},
		{name: "no zmq_address", ping: fields("zmq_address", nil), want: "zmq_address is missing"},
		{name: "another type", ping: fields("type", "E"), want: `type is "E": a worker says P or D`},
		{name: "lower case", ping: fields("type", "p"), want: "type is"},
		{name: "a number for a type", ping: fields("type", 1), want: "type is of type int"},
		{name: "bytes for an address", ping: fields("http_address", []byte(addr)), want: "http_address is of type bin"},
		{name: "nothing for an address", ping: map[string]any{"http_address": nil}, want: "http_address is of type nil"},
		{name: "a list for an address", ping: fields("zmq_address", []any{zaddr}), want: "zmq_address is of type array"},
		{name: "no port", ping: fields("http_address", "192.0.2.40"), want: "host:port"},
		{name: "an empty port", ping: fields("http_address", "192.0.2.40:"), want: "host:port"},
		{name: "port 0", ping: fields("http_address", "192.0.2.40:0"), want: "1 to 65535"},
		{name: "a port too many", ping: fields("http_address", "192.0.2.40:65536"), want: "1 to 65535"},
		{name: "a port in words", ping: fields("http_address", "192.0.2.40:http"), want: "is not a URL"},
		{name: "a signed port", ping: fields("http_address", "192.0.2.40:+80"), want: "is not a URL"},
		{name: "no host", ping: fields("http_address", ":8000"), want: "host:port"},
		{name: "IPv6 without brackets", ping: fields("http_address", "2001:db8::1:8000"), want: "brackets"},
		{name: "brackets around nothing", ping: fields("http_address", "[]:8000"), want: "host:port"},
		{name: "a scheme", ping: fields("http_address", "http://192.0.2.40:8000"), want: "host:port"},
		{name: "user info", ping: fields("http_address", "a@192.0.2.40:8000"), want: "host:port"},
		{name: "a path", ping: fields("http_address", "192.0.2.40:8000/v1"), want: "host:port"},
		{name: "a path before the port", ping: fields("http_address", "192.0.2.40/v1:8000"), want: "host:port"},
		{name: "a query", ping: fields("http_address", "h?x:8000"), want: "host:port"},
		{name: "a fragment", ping: fields("http_address", "h#x:8000"), want: "host:port"},
		{name: "a space", ping: fields("http_address", "a b:8000"), want: "http_address"},
		{name: "a line break", ping: fields("http_address", "a\r\nb:8000"), want: "http_address"},
		{name: "a percent sign", ping: fields("http_address", "a%2fb:8000"), want: "http_address"},
		{name: "a backslash", ping: fields("http_address", `a\b:8000`), want: "http_address"},
		{name: "a letter that is not ASCII", ping: fields("http_address", "å:8000"), want: "http_address"},
		{name: "a rank", ping: fields("http_address", "192.0.2.40:8000@1"), want: "host:port"},
		{name: "a long address", ping: fields("http_address", long+":8000"), want: "http_address has 305 bytes"},
		{name: "a long ZMQ address", ping: fields("zmq_address", long+"a"), want: "zmq_address has 301 bytes"},
		{name: "an empty ZMQ address", ping: fields("zmq_address", ""), want: "zmq_address is empty"},
		{name: "a header's end in a ZMQ address", ping: fields("zmq_address", "a\r\nHost: b"), want: "visible ASCII"},
		{name: "DEL in a ZMQ address", ping: fields("zmq_address", "a\x7f"), want: "visible ASCII"},
		{name: "a space in a ZMQ address", ping: fields("zmq_address", "a b"), want: "visible ASCII"},
		{name: "a request id's mark", ping: fields("zmq_address", "a___decode_addr_b"), want: "three underscores"},
		{name: "a mode without MoRI-IO", ping: mori(), want: "start the router with --kv-connector moriio"},
		{name: "no mode with MoRI-IO", moriio: true, ping: fields(), want: "transfer_mode is missing"},
		{name: "another mode", moriio: true, ping: mori("transfer_mode", "read"), want: `transfer_mode is "read"`},
		{name: "no ranks", moriio: true, ping: mori("dp_size", 0), want: "dp_size is 0"},
		{name: "fewer than no ranks", moriio: true, ping: mori("tp_size", -1), want: "tp_size is -1"},
		{name: "too many ranks", moriio: true, ping: mori("dp_size", 1025), want: "dp_size is 1025"},
		{name: "far too many ranks", moriio: true, ping: mori("dp_size", uint64(math.MaxUint64)), want: "dp_size"},
		{name: "half a rank", moriio: true, ping: mori("tp_size", 1.5), want: "tp_size is of type float64"},
		{name: "true ranks", moriio: true, ping: mori("tp_size", true), want: "tp_size is of type bool"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(pack(t, tt.ping), tt.moriio)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

// Bytes that no library would write.
func TestParseRefusesByHand(t *testing.T) {
	good := pack(t, fields())
	tests := []struct {
		name string
		ping []byte
	}{
		{"nothing", nil},
		{"a reserved byte", []byte{0xC1}},
		{"a map of four billion", append([]byte{0xDF, 0xFF, 0xFF, 0xFF, 0xFF}, good[1:]...)},
		{"a map of one too many", append([]byte{good[0] + 1}, good[1:]...)},
		{"something behind the map", append(good[:len(good):len(good)], 0xC0)},
		{"a string of four billion", []byte{0x81, 0xA4, 't', 'y', 'p', 'e', 0xDB, 0xFF, 0xFF, 0xFF, 0xFF, 'P'}},
		{"a key of four billion", []byte{0x81, 0xDB, 0xFF, 0xFF, 0xFF, 0xFF, 'P'}},
		{"a list of four billion", []byte{0x81, 0xA1, 'x', 0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3}},
		{"as deep as a frame", append([]byte{0x81, 0xA1, 'x'}, []byte(strings.Repeat("\x91", maxFrame-3))...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parse(tt.ping, false); !errors.Is(err, errBroken) {
				t.Errorf("got %+v, %v, want %v", got, err, errBroken)
			}
		})
	}
}

// A ping cut anywhere is refused as a whole.
func TestParseCut(t *testing.T) {
	ping := pack(t, mori("x", []any{1, "y"}))
	for n := range ping {
		if got, err := parse(ping[:n], true); err == nil {
			t.Fatalf("the first %d of %d bytes gave %+v, want an error", n, len(ping), got)
		}
	}
}

// Keys of any type are skipped, and nesting as deep as a frame can hold is read.
func TestParseSkips(t *testing.T) {
	deep := append([]byte{0x84, 0x07}, []byte(strings.Repeat("\x91", 8000)+"\xC0")...)
	ping := append(deep, pack(t, fields())[1:]...)
	if got, err := parse(ping, false); err != nil || got.HTTPAddress != addr {
		t.Errorf("got %+v, %v, want the worker at %s", got, err, addr)
	}
}

// slowParse looks at the fields of a ping that was read into a map.
func slowParse(v any, moriio bool) (r Registration, ok bool) {
	m, isMap := v.(map[string]any)
	if !isMap {
		return none, false
	}
	text := func(key string) string {
		s, _ := m[key].(string)
		if len(s) > maxText {
			return ""
		}
		return s
	}
	size := func(key string) int {
		switch n := m[key].(type) {
		case nil:
			if _, named := m[key]; named {
				return 0
			}
			return 1
		case int64:
			return int(max(0, min(n, maxRanks+1)))
		case uint64:
			return int(min(n, maxRanks+1))
		}
		return 0
	}
	r = Registration{ZMQAddress: text("zmq_address"), TPSize: 1, DPSize: 1}
	r.Role = map[string]actors.Role{"P": actors.Prefill, "D": actors.Decode}[text("type")]
	var err error
	r.HTTPAddress, err = httpAddress(text("http_address"))
	ok = err == nil && r.Role != actors.Regular && checkZMQAddress(r.ZMQAddress) == nil
	if moriio {
		r.Mode = map[string]Mode{"READ": Read, "WRITE": Write}[text("transfer_mode")]
		r.TPSize, r.DPSize = size("tp_size"), size("dp_size")
		ok = ok && r.Mode != NoMode && r.TPSize >= 1 && r.TPSize <= maxRanks && r.DPSize >= 1 && r.DPSize <= maxRanks
	} else if _, named := m["transfer_mode"]; named {
		ok = false
	}
	return r, ok
}

// The decoder agrees with the slow one on every ping that the library reads into
// a map of different keys; on all others it must only end.
func FuzzParse(f *testing.F) {
	for _, m := range []map[string]any{fields(), mori(), mori("tp_size", 1.5), fields("x", []any{1, nil}), fields("http_address", "[::1]:1")} {
		f.Add(pack(f, m), true)
		f.Add(pack(f, m), false)
	}
	f.Fuzz(func(t *testing.T, ping []byte, moriio bool) {
		got, err := parse(ping, moriio)
		if err == nil {
			if again, err := parse(pack(t, packed(got)), moriio); err != nil || again != got {
				t.Fatalf("%+v packed again gave %+v, %v, want the same", got, again, err)
			}
		}
		v, rest, libraryErr := msgp.ReadIntfBytes(ping)
		if libraryErr != nil || len(rest) > 0 || repeats(ping) {
			return
		}
		want, ok := slowParse(v, moriio)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("got %+v, %v, want %+v, %v", got, err, want, ok)
		}
	})
}

func packed(r Registration) map[string]any {
	m := fields("http_address", r.HTTPAddress, "zmq_address", r.ZMQAddress)
	if r.Role == actors.Decode {
		m["type"] = "D"
	}
	if r.Mode != NoMode {
		m["transfer_mode"], m["tp_size"], m["dp_size"] = r.Mode.String(), r.TPSize, r.DPSize
	}
	return m
}

// repeats reports whether a key of a good map stands twice.
func repeats(ping []byte) bool {
	n, b, err := msgp.ReadMapHeaderBytes(ping)
	if err != nil {
		return false
	}
	seen := make(map[string]bool)
	for range n {
		var key string
		key, b, _ = msgp.ReadStringBytes(b)
		b, _ = msgp.Skip(b)
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}
