package routekey

import (
	"strings"
	"testing"
	"time"
)

func TestBody(t *testing.T) {
	type want struct {
		model, session, previous string
		kind                     SessionKind
		stream                   bool
	}
	for _, tt := range []struct {
		name string
		body string
		want want
	}{
		{"empty object", `{}`, want{}},
		{"model and stream", `{"model":"m","stream":true}`, want{model: "m", stream: true}},
		{"stream false", `{"stream":false}`, want{}},
		{"stream as a string", `{"stream":"true"}`, want{}},
		{"stream as a number", `{"stream":1}`, want{}},
		{"stream null", `{"stream":null}`, want{}},
		{"space everywhere", " \t\r\n{ \"model\" \n:\t\"m\" , \"stream\"\r: true \n}\n ", want{model: "m", stream: true}},
		{"byte order mark", "\xef\xbb\xbf" + `{"model":"m"}`, want{model: "m"}},
		{"model is a number", `{"model":5}`, want{}},
		{"model null", `{"model":null}`, want{}},
		{"model empty", `{"model":""}`, want{}},
		{"model with escapes", `{"model":"a\/b\u00e9\ud83d\ude00\"\\\n"}`, want{model: "a/bé😀\"\\\n"}},
		{"every escape", `{"model":"\"\\\/\b\f\n\r\t\u00E9\u00e9"}`, want{model: "\"\\/\b\f\n\r\téé"}},
		{"model with half a surrogate", `{"model":"a\ud83dx\ude00"}`, want{model: "a\ufffdx\ufffd"}},
		{"model ends in a backslash", `{"model":"a\\","stream":true}`, want{model: `a\`, stream: true}},
		{"model in Unicode", `{"model":"模型👨‍👩‍👧"}`, want{model: "模型👨‍👩‍👧"}},
		{"name with escapes", `{"mod\u0065l":"m","\u0073tream":true}`, want{model: "m", stream: true}},
		{"name all escapes", `{"\u006d\u006F\u0064\u0065\u006c":"m"}`, want{model: "m"}},
		{"name in capitals", `{"Model":"m","STREAM":true}`, want{}},
		{"name with more after it", `{"model ":"x","models":"y"}`, want{}},
		{"name inside a string", `{"a":"\"model\":\"evil\"","model":"m"}`, want{model: "m"}},
		{"last duplicate wins", `{"model":"a","stream":true,"model":"b","stream":false}`, want{model: "b"}},
		{"last duplicate of another kind wins", `{"model":"a","model":null}`, want{}},
		{"last duplicate wins, written differently", `{"model":"a","m\u006fdel":"b"}`, want{model: "b"}},
		{"decoys in messages", `{"messages":[{"model":"evil","stream":true,"user":"evil"}],"model":"m"}`, want{model: "m"}},
		{"decoys in objects", `{"a":{"b":{"model":"evil"},"stream":true},"metadata":{"user_id":"evil"}}`, want{}},
		{"decoy after brackets in strings", `{"a":["]","}","\"]",{"x":"{["}],"model":"m"}`, want{model: "m"}},
		{"big integers and floats", `{"seed":9007199254740993,"n":1e400,"t":-0.0E-7,"u":1e+5,"model":"m"}`, want{model: "m"}},
		{"Python's constants", `{"a":NaN,"b":-Infinity,"c":[Infinity],"model":"m"}`, want{model: "m"}},
		{"nulls", `{"messages":null,"tools":null,"user":null,"session_params":null}`, want{}},
		{"previous response", `{"previous_response_id":"resp_1"}`, want{previous: "resp_1"}},
		{"previous response null", `{"previous_response_id":null}`, want{}},

		{"session in params", `{"user":"u","session_id":"s","user_id":"i","session_params":{"session_id":"p"}}`, want{session: "p", kind: BySession}},
		{"user before session id", `{"session_id":"s","user_id":"i","user":"u"}`, want{session: "u", kind: ByUser}},
		{"session id before user id", `{"user_id":"i","session_id":"s"}`, want{session: "s", kind: BySession}},
		{"user id", `{"user_id":"i"}`, want{session: "i", kind: ByUser}},
		{"user is a number", `{"user":9007199254740993}`, want{session: "9007199254740993", kind: ByUser}},
		{"user is a negative float", `{"user":-1.50}`, want{session: "-1.50", kind: ByUser}},
		{"user is a bool", `{"user":true,"user_id":"i"}`, want{session: "i", kind: ByUser}},
		{"user is an object", `{"user":{"id":"x"},"session_id":7}`, want{session: "7", kind: BySession}},
		{"empty ids are passed over", `{"session_params":{"session_id":""},"user":"","session_id":"","user_id":"i"}`, want{session: "i", kind: ByUser}},
		{"params without an id", `{"session_params":{"x":{"session_id":"evil"}},"user":"u"}`, want{session: "u", kind: ByUser}},
		{"params not an object", `{"session_params":["session_id","evil"],"user":"u"}`, want{session: "u", kind: ByUser}},
		{"params that are not JSON", `{"session_params":{"session_id":"x" "y"},"user":"u"}`, want{session: "u", kind: ByUser}},
		{"last duplicate in params wins", `{"session_params":{"session_id":"a","session_id":"b"}}`, want{session: "b", kind: BySession}},
		{"last params win", `{"session_params":{"session_id":"a"},"session_params":{}}`, want{}},
		{"escapes in params", `{"session_params":{"session\u005fid":"\u0070\n"}}`, want{session: "p\n", kind: BySession}},
		{"escapes in model and session", `{"model":"\u006d","user":"\u0075"}`, want{model: "m", session: "u", kind: ByUser}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			if !s.Scan([]byte(tt.body)) {
				t.Fatalf("%s was not read", tt.body)
			}
			got := want{
				string(s.Body.Model), string(s.Body.Session), string(s.Body.PreviousResponse),
				s.Body.SessionKind, s.Body.Stream,
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			checkScan(t, &s, []byte(tt.body))
		})
	}
}

// unreadable holds bodies that are no JSON object, each behind a name.
var unreadable = map[string]string{
	"empty":                   ``,
	"space":                   " \n\t",
	"array":                   `[]`,
	"array of objects":        `[{"model":"m"}]`,
	"string":                  `"model"`,
	"number":                  `5`,
	"null":                    `null`,
	"text":                    `hello`,
	"binary":                  "\x00\xff\xfe{\x80",
	"UTF-16":                  "\xff\xfe{\x00}\x00",
	"cut byte order mark":     "\xef\xbb",
	"brace":                   `{`,
	"cut in a name":           `{"mod`,
	"cut after a name":        `{"model"`,
	"cut after a colon":       `{"model":`,
	"cut in a string":         `{"model":"m","messages":[{"role":"user","content":"un`,
	"cut in a long string":    `{"model":"m","prompt":"` + strings.Repeat("x", 500),
	"cut after a backslash":   `{"model":"m\`,
	"cut in an array":         `{"model":"m","messages":[{}`,
	"cut after a value":       `{"model":"m"`,
	"cut in a literal":        `{"stream":tru`,
	"escaped closing quote":   `{"model":"m\"}`,
	"no colon":                `{"model" "m"}`,
	"no value":                `{"model":}`,
	"no comma":                `{"model":"m" "stream":true}`,
	"comma at the end":        `{"model":"m",}`,
	"comma at the start":      `{,"model":"m"}`,
	"comma alone":             `{,}`,
	"name without quotes":     `{model:"m"}`,
	"name is a number":        `{1:2}`,
	"single quotes":           `{'model':'m'}`,
	"more after the end":      `{"model":"m"}{"model":"x"}`,
	"closed twice":            `{"model":"m"}}`,
	"comment":                 `{"model":"m"/**/}`,
	"array closed by a brace": `{"messages":[}`,
	"deep and cut":            `{"messages":` + strings.Repeat(`[`, 100_000),
	"deep in objects, cut":    strings.Repeat(`{"a":`, 100_000),
}

func TestUnreadable(t *testing.T) {
	var s Scanner
	for name, body := range unreadable {
		t.Run(name, func(t *testing.T) {
			s.Scan(toolsBody()) // leaves something that must go
			if s.Scan([]byte(body)) {
				t.Errorf("%.100q was read", body)
			}
			checkZero(t, &s)
		})
	}
}

// oddBodies are starting points for the fuzzer.
func oddBodies() [][]byte {
	var bodies [][]byte
	for _, b := range unreadable {
		if len(b) < 1000 {
			bodies = append(bodies, []byte(b))
		}
	}
	for _, b := range []string{
		`{"mod\u0065l":"\ud83d\ude00\ud83d","stream":true,"user":1e5,"messages":[{"content":"\\\""},{}]}`,
		`{"session_params":{"session_id":"a"},"user":"u","session_id":"s","user_id":"i","previous_response_id":"r"}`,
		`{"cache_salt":"s","lora_name":"","lora_path":["p"],"tools":[ ],"prompt":[[1,2],[3]],"text":"","input":{ }}`,
		`{"functions":[1],"instructions":"i","system":[{"type":"text"}],"input":["a","b"],"input_ids":[1],"token_ids":[2],"query":"q","documents":["d"]}`,
	} {
		bodies = append(bodies, []byte(b))
	}
	return bodies
}

// TestEveryCut reads every beginning of some bodies, so that each kind of token
// is cut at each place, and each place in a block is the end.
func TestEveryCut(t *testing.T) {
	var s Scanner
	for _, body := range [][]byte{tinyBody(), shortMessagesBody(4), escapedBody(400), escapedStringsBody(400), toolsBody()[:2000]} {
		for n := range body {
			checkScan(t, &s, body[:n])
		}
		checkScan(t, &s, body)
	}
}

// TestBackslashesEverywhere ends strings behind runs of backslashes of every
// length that begin at every place of a block.
func TestBackslashesEverywhere(t *testing.T) {
	var s Scanner
	for at := range 160 {
		for run := range 9 {
			text := strings.Repeat("x", at) + strings.Repeat(`\`, run) + `"`
			for _, body := range []string{
				`{"prompt":"` + text + `}`,
				`{"prompt":"` + text + `x"}`,
				`{"prompt":"` + text + `,"model":"` + strings.Repeat("y", 70) + `"}`,
				`{"prompt":["` + text + `]}`,
				`{"prompt":["` + text + `]"]}`,
				`{"prompt":["` + text + `,"]` + strings.Repeat("y", 70) + `"]}`,
			} {
				checkScan(t, &s, []byte(body))
			}
		}
	}
}

func TestDeepNesting(t *testing.T) {
	var s Scanner
	for name, body := range map[string]string{
		"arrays":  `{"a":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `,"model":"m"}`,
		"objects": `{"a":` + strings.Repeat(`{"a":`, 100_000) + `1` + strings.Repeat(`}`, 100_000) + `,"model":"m"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if !s.Scan([]byte(body)) || string(s.Body.Model) != "m" {
				t.Errorf("Model is %q, want m", s.Body.Model)
			}
		})
	}
}

// TestHugeBodies gives Scan megabytes of everything that could be read more than
// once. A quadratic step would take minutes to hours.
func TestHugeBodies(t *testing.T) {
	const size = 8_000_000
	many := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, tt := range []struct {
		name string
		body string
	}{
		{"prose", string(proseBody(20_000_000))},
		{"escapes", `{"prompt":"` + many(`ab\\cde\"`) + `"}`},
		{"short strings", `{"prompt":[""` + many(`,"a\\","b"`) + `]}`},
		{"token ids", `{"prompt":[1` + many(`,12345`) + `]}`},
		{"members", `{"a":1` + many(`,"k1":1`) + `}`},
		{"space between members", `{"a":1` + many(" \n") + `}`},
		{"objects", `{"messages":[{}` + many(`,{}`) + `]}`},
		{"arrays", `{"messages":[[]` + many(`,[]`) + `]}`},
		{"depth", `{"messages":` + many(`[`) + many(`]`) + `}`},
		{"backslashes", `{"prompt":"` + many(`\\`) + `"}`},
		{"backslashes in an array", `{"prompt":["` + many(`\\`) + `"]}`},
		{"runs of backslashes", `{"prompt":"` + many(strings.Repeat(`\`, 1001)+`"`) + `"}`},
		{"runs of backslashes in an array", `{"prompt":["` + many(strings.Repeat(`\`, 1001)+`"`) + `"]}`},
		{"space in an array", `{"prompt":[` + many(" ") + `]}`},
		{"model in escapes", `{"model":"` + many(`\u0061`) + `"}`},
		{"name in escapes", `{"` + many(`\u0061`) + `":1}`},
		{"session params", `{"session_params":{"a":1` + many(`,"session_id":1`) + `}}`},
		{"many session params", `{"a":1` + many(`,"session_params":{"session_id":1}`) + `}`},
		{"cut string", `{"prompt":"` + many(`\"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			start := time.Now()
			if ok := s.Scan([]byte(tt.body)); ok != strings.HasSuffix(tt.body, "}") {
				t.Errorf("Scan says %v", ok)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v, want less than 20 s", d)
			}
			if got, want := len(s.Key.Blocks), DefaultLimit/blockSize; got > want {
				t.Errorf("%d blocks, want at most %d", got, want)
			}
			s.Reset()
			if got := cap(s.scratch); got > scratchKept {
				t.Errorf("keeps %d bytes of scratch, want at most %d", got, scratchKept)
			}
		})
	}
}

func TestAppendSession(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind SessionKind
		id   string
		want string
	}{
		{"session", BySession, "s1", "key=session:s1"},
		{"user", ByUser, "u1", "key=user:u1"},
		{"none", NoSession, "", "key="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendSession([]byte("key="), tt.kind, []byte(tt.id))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
