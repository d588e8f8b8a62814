package routekey

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scanKey is a copy of the key of body.
func scanKey(t *testing.T, body string) Key {
	t.Helper()
	var s Scanner
	if !s.Scan([]byte(body)) {
		t.Fatalf("%s was not read", body)
	}
	return s.Key
}

func sameKey(a, b Key) bool {
	return a.Head == b.Head && a.Bytes == b.Bytes && slices.Equal(a.Blocks, b.Blocks)
}

var long = strings.Repeat("0123456789abcde ", 70) // 1120 bytes

func TestSameKey(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b string
		want bool
	}{
		{"order of members", `{"model":"m","messages":[1],"tools":[2]}`, `{"tools":[2],"messages":[1],"model":"m"}`, true},
		{"parameters", `{"prompt":"x","temperature":1,"stream":true}`, `{"prompt":"x","max_tokens":5}`, true},
		{"user", `{"prompt":"x","user":"a"}`, `{"prompt":"x","user":"b"}`, true},
		{"null segment", `{"messages":[1],"tools":null}`, `{"messages":[1]}`, true},
		{"empty segments", `{"messages":[1],"tools":[ ],"prompt":"","input":{}}`, `{"messages":[1]}`, true},
		{"space round an array's contents", `{"messages":[ 1,2 ]}`, `{"messages":[1,2]}`, true},
		{"last duplicate", `{"prompt":"a","prompt":"b"}`, `{"prompt":"b"}`, true},
		{"model written with escapes", `{"model":"\u006d","prompt":"x"}`, `{"model":"m","prompt":"x"}`, true},
		{"salt and adapters null", `{"prompt":"x","cache_salt":null,"lora_name":null,"lora_path":null}`, `{"prompt":"x"}`, true},
		{"salt and adapters empty", `{"prompt":"x","cache_salt":"","lora_name":"","lora_path":[]}`, `{"prompt":"x"}`, true},
		{"lora name before path", `{"prompt":"x","lora_name":"l","lora_path":"p"}`, `{"prompt":"x","lora_name":"l"}`, true},
		{"lora path if the name is empty", `{"prompt":"x","lora_name":null,"lora_path":"l"}`, `{"prompt":"x","lora_name":"l"}`, true},

		{"prompt", `{"prompt":"x"}`, `{"prompt":"y"}`, false},
		{"space in a prompt", `{"prompt":" x"}`, `{"prompt":"x"}`, false},
		{"model", `{"model":"m","prompt":"x"}`, `{"model":"n","prompt":"x"}`, false},
		{"salt", `{"prompt":"x","cache_salt":"a"}`, `{"prompt":"x","cache_salt":"b"}`, false},
		{"salt or none", `{"prompt":"x","cache_salt":"a"}`, `{"prompt":"x"}`, false},
		{"salt or model", `{"prompt":"x","cache_salt":"a"}`, `{"prompt":"x","model":"a"}`, false},
		{"salt or adapter", `{"prompt":"x","cache_salt":"a"}`, `{"prompt":"x","lora_name":"a"}`, false},
		{"model and salt run together", `{"prompt":"x","model":"ab","cache_salt":"c"}`, `{"prompt":"x","model":"a","cache_salt":"bc"}`, false},
		{"adapter", `{"prompt":"x","lora_name":"a"}`, `{"prompt":"x","lora_name":"b"}`, false},
		{"list of adapters", `{"prompt":"x","lora_path":["a"]}`, `{"prompt":"x","lora_path":["b"]}`, false},
		{"segment", `{"prompt":"x"}`, `{"text":"x"}`, false},
		{"border between segments", `{"messages":"ab","prompt":"c"}`, `{"messages":"a","prompt":"bc"}`, false},
		{"tools or messages", `{"tools":[1],"messages":[2]}`, `{"messages":[1,2]}`, false},
		{"token ids", `{"prompt":[1,2,3]}`, `{"prompt":[1,2,4]}`, false},
		{"lists of token ids", `{"prompt":[[1,2],[3]]}`, `{"prompt":[[1],[2,3]]}`, false},
		{"strings", `{"prompt":["a","b"]}`, `{"prompt":["ab"]}`, false},
		{"image", `{"messages":[{"image_url":"data:AAAA"}]}`, `{"messages":[{"image_url":"data:AAAB"}]}`, false},
		{"inside a character", `{"prompt":"é"}`, `{"prompt":"è"}`, false},
		{"trailing zero bytes", `{"prompt":"x"}`, "{\"prompt\":\"x\x00\"}", false},
		{"without a prompt", `{"text_1":"a"}`, `{"text_1":"b"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameKey(scanKey(t, tt.a), scanKey(t, tt.b)); got != tt.want {
				t.Errorf("%s and %s: same key is %v, want %v", tt.a, tt.b, got, tt.want)
			}
		})
	}
}

// TestEverySegmentCounts guards the list of names.
func TestEverySegmentCounts(t *testing.T) {
	heads := make(map[uint64]string)
	for _, name := range slowSegments {
		for _, value := range []string{`"` + long + `"`, `["` + long + `"]`, `{"a":"` + long + `"}`} {
			body := fmt.Sprintf(`{"model":"m",%q:%s}`, name, value)
			k := scanKey(t, body)
			if got, want := len(k.Blocks), (k.Bytes+1)/64; got != want || k.Bytes < len(long) {
				t.Errorf("%.20s: %d blocks of %d bytes, want %d", body, got, k.Bytes, want)
			}
			if other, ok := heads[k.Head]; ok {
				t.Errorf("%.30s and %.30s have the same Head", body, other)
			}
			heads[k.Head] = body
		}
	}
}

// TestHead checks which prompts have one place among equal workers.
func TestHead(t *testing.T) {
	prompt := func(s string) string { return `{"model":"m","prompt":"` + s + `"}` }
	for _, tt := range []struct {
		name string
		a, b string
		want bool
	}{
		{"short and equal", prompt("hi"), prompt("hi"), true},
		{"short and different", prompt("hi"), prompt("ho"), false},
		{"different in the last byte of 1 KiB", prompt(long[:1022] + "x"), prompt(long[:1022] + "y"), false},
		{"different just after 1 KiB", prompt(long[:1023] + "x"), prompt(long[:1023] + "y"), true},
		{"grown beyond 1 KiB", prompt(long), prompt(long + "more"), true},
		{"grown below 1 KiB", prompt(long[:500]), prompt(long[:501]), false},
		{"a whole number of blocks", prompt(long[:63]), prompt(long[:63] + "x"), false},
		{"beginning in common", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"b"}]}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := scanKey(t, tt.a).Head == scanKey(t, tt.b).Head; got != tt.want {
				t.Errorf("same Head is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	body := []byte(`{"tools":["` + long + `"],"prompt":"` + long + `"}`)
	for _, tt := range []struct {
		limit, want int
	}{
		{0, 35}, {1, 0}, {63, 0}, {64, 1}, {1000, 15}, {1024, 16}, {1124, 17}, {1125, 17}, {2000, 31}, {1 << 30, 35},
	} {
		t.Run(fmt.Sprint(tt.limit), func(t *testing.T) {
			s := Scanner{Limit: tt.limit}
			checkScan(t, &s, body)
			if got := len(s.Key.Blocks); got != tt.want {
				t.Errorf("%d blocks, want %d", got, tt.want)
			}
			if got, want := s.Key.Bytes, 2*len(long)+2; got != want {
				t.Errorf("Bytes is %d, want %d", got, want)
			}
		})
	}
}

func TestRaw(t *testing.T) {
	var s Scanner
	raw := func(body string) uint64 {
		s.Scan(toolsBody())
		s.Raw([]byte(body))
		if len(s.Key.Blocks) != 0 || s.Key.Bytes != 0 {
			t.Errorf("Key is %+v, want a Head only", s.Key)
		}
		if s.Body.Model != nil || s.Body.Stream {
			t.Errorf("Body is %+v, want zero", s.Body)
		}
		return s.Key.Head
	}
	x := raw("--b\r\nx")
	if again := raw("--b\r\nx"); again != x {
		t.Errorf("Head of an equal body is %x, want %x", again, x)
	}
	if x == raw("--b\r\ny") {
		t.Error("different bodies have the same Head")
	}
	if raw(long[:1024]+"x") != raw(long[:1024]+"y") {
		t.Error("what comes after 1 KiB matters")
	}
	if raw(long[:1023]+"x") == raw(long[:1023]+"y") {
		t.Error("the last byte of 1 KiB doesn't matter")
	}
	if raw("") == 0 {
		t.Error("Head of nothing is 0")
	}
}

// TestKeyIsFixed pins the key: routers of different builds must agree. A change
// here is a change that users have to be told about.
func TestKeyIsFixed(t *testing.T) {
	k := scanKey(t, `{"model":"m","cache_salt":"s","lora_name":"l","tools":[{"a":1}],"messages":[{"role":"user","content":"`+long+`"}]}`)
	got := fmt.Sprintf("%d %d %016x %016x %016x", k.Bytes, len(k.Blocks), k.Head, k.Blocks[0], k.Blocks[17])
	if want := "1155 18 7836b431022a3373 17d7176ca9f42e9a fdc66209e31aa602"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	k = scanKey(t, `{"prompt":"hi"}`)
	if got, want := fmt.Sprintf("%016x", k.Head), "21cb4250e76bd6ed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var s Scanner
	s.Raw([]byte("hi"))
	if got, want := fmt.Sprintf("%016x", s.Key.Head), "3d25b53ff37ec79e"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
