package usage

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// of returns the usage of an answer that is fed in two pieces.
func of(answer string, cut int) Usage {
	var s Scanner
	s.Feed([]byte(answer[:cut]))
	s.Feed([]byte(answer[cut:]))
	return s.Usage()
}

func TestUsage(t *testing.T) {
	prompt := func(p, completion uint64) Usage { return Usage{Prompt: p, HasPrompt: true, Completion: completion} }
	with := func(u Usage, cached uint64) Usage { u.Cached, u.HasCached = cached, true; return u }
	for _, tc := range []struct {
		name, answer string
		want         Usage
	}{
		{"chat", `{"id":"1","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":93,"total_tokens":99,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":80}}}`, with(prompt(93, 6), 80)},
		{"no details", `{"usage":{"prompt_tokens":93,"completion_tokens":6}}`, prompt(93, 6)},
		{"details that are null", `{"usage":{"prompt_tokens":93,"completion_tokens":6,"prompt_tokens_details":null}}`, prompt(93, 6)},
		{"cached that is null", `{"usage":{"prompt_tokens":93,"prompt_tokens_details":{"cached_tokens":null},"completion_tokens":6}}`, prompt(93, 6)},
		{"nothing cached", `{"usage":{"prompt_tokens_details":{"audio_tokens":3,"cached_tokens":0},"prompt_tokens":93}}`, with(prompt(93, 0), 0)},
		{"pretty", "{\n  \"usage\" : {\n    \"prompt_tokens\" : 93 ,\n    \"completion_tokens\" :\t6\n  }\n}\n", prompt(93, 6)},
		{"response", `{"object":"response","usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":32},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":5,"cached_tokens":9},"total_tokens":123}}`, with(prompt(36, 87), 32)},
		{"message", `{"type":"message","usage":{"input_tokens":13,"cache_creation_input_tokens":7,"cache_read_input_tokens":80,"output_tokens":9}}`, with(prompt(100, 9), 80)},
		{"message without a cache", `{"usage":{"input_tokens":13,"cache_read_input_tokens":null,"output_tokens":9}}`, prompt(13, 9)},
		{"chat in events", "data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", prompt(5, 2)},
		{"counts that go on", `data: {"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\r\n\r\n" + `data: {"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\r\n\r\n", prompt(5, 2)},
		{"response in events", "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":36,\"output_tokens\":87}}}\n\n", prompt(36, 87)},
		{"message in events", "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":13,\"cache_read_input_tokens\":80,\"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n", with(prompt(93, 15), 80)},
		{"said by the model", `{"choices":[{"text":"\"usage\":{\"prompt_tokens\":1}, {\"usage\": {\"prompt_tokens\": 1}}"}]}`, Usage{}},
		{"a name that ends so", `{"\"usage":{"prompt_tokens":1},"my usage":{"prompt_tokens":1},"x\\\"usage":{"prompt_tokens":1}}`, Usage{}},
		{"a value", `{"a":"usage","b":["usage","usage"],"usage":"usage","usage":{"prompt_tokens":1}}`, prompt(1, 0)},
		{"a schema", `{"tools":[{"properties":{"usage":{"type":"object","prompt_tokens":{"type":"integer"}}}}]}`, Usage{}},
		{"deeper", `{"usage":{"other":{"prompt_tokens":1},"list":[2,{"prompt_tokens":3}],"prompt_tokens_details":[{"cached_tokens":4}]}}`, Usage{}},
		{"names as values", `{"usage":{"a":"prompt_tokens","b":7,"c":["prompt_tokens",7]}}`, Usage{}},
		{"behind arrays and objects", `{"usage":{"c":[1,2],"prompt_tokens":2,"d":[[3],{"e":4}],"prompt_tokens_details":{"x":{"y":1},"cached_tokens":4,"z":[5,6]},"completion_tokens":7}}`, with(prompt(2, 7), 4)},
		{"no counts", `{"usage":{"prompt_tokens":1.5,"completion_tokens":-2,"cache_read_input_tokens":1e3}}`, Usage{}},
		{"as text", `{"usage":{"prompt_tokens":"12","completion_tokens":6}}`, Usage{Completion: 6}},
		{"long numbers", `{"usage":{"prompt_tokens":999999999999999,"completion_tokens":1000000000000000}}`, prompt(999999999999999, 0)},
		{"a long name", `{"usage":{"cache_creation_input_tokens_and_more":1,"prompt_tokens":2}}`, prompt(2, 0)},
		{"braces in strings", `{"usage":{"a":"}{\"}","b\\":"\\","prompt_tokens":2},"x":{"usage":{"prompt_tokens":3}}}`, prompt(3, 0)},
		{"wrong brackets", `{"usage":{"a":[1},"prompt_tokens":2}}`, Usage{}},
		{"two in a row", `{"usage""usage":{"prompt_tokens":2}}`, Usage{}},
		{"two data lines", "data: {\"usage\":\ndata: {\"prompt_tokens\":2}}\n\n", Usage{}},
		{"none", `{"choices":[]}`, Usage{}},
		{"empty", ``, Usage{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for cut := range len(tc.answer) + 1 {
				if got := of(tc.answer, cut); got != tc.want {
					t.Fatalf("cut at %d: %+v, want %+v", cut, got, tc.want)
				}
			}
			var s Scanner
			for _, c := range []byte(tc.answer) {
				s.Feed([]byte{c})
			}
			if got := s.Usage(); got != tc.want {
				t.Errorf("byte by byte: %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestFeedAllocatesNothing(t *testing.T) {
	event := []byte(`data: {"id":"1","choices":[{"delta":{"content":" word"}}],"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}` + "\n\n")
	var s Scanner
	if got := testing.AllocsPerRun(1000, func() { s.Feed(event) }); got != 0 {
		t.Errorf("%v allocations for an event, want 0", got)
	}
}

// slow reads the usage of JSON text the obvious way. Names in escapes don't count,
// so they are looked at as they are written.
type slow struct {
	u Scanner // only tokens and told are used
}

func (s *slow) value(raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '[':
		var all []json.RawMessage
		_ = json.Unmarshal(raw, &all)
		for _, v := range all {
			s.value(v)
		}
	case '{':
		for _, m := range members(raw) {
			if m.name == `"usage"` && m.value[0] == '{' {
				s.usage(m.value)
				continue
			}
			s.value(m.value)
		}
	}
}

func (s *slow) usage(raw json.RawMessage) {
	for _, m := range members(raw) {
		name := strings.Trim(m.name, `"`)
		s.count(name, m.value, false)
		if m.value[0] == '{' && isDetails(name) {
			for _, d := range members(m.value) {
				s.count(strings.Trim(d.name, `"`), d.value, true)
			}
		}
	}
}

func (s *slow) count(name string, value json.RawMessage, details bool) {
	n := countNamed(name, details)
	var v uint64
	if n != other && len(value) <= maxDigits && json.Unmarshal(value, &v) == nil && string(value) != "null" {
		s.u.tokens[n] = v
		s.u.told |= 1 << n
	}
}

type member struct {
	name  string // as it is written
	value json.RawMessage
}

func members(object json.RawMessage) (all []member) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token()
	for d.More() {
		before := d.InputOffset()
		_, _ = d.Token()
		name := bytes.TrimLeft(object[before:d.InputOffset()], ", \t\r\n")
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return all
		}
		all = append(all, member{string(name), v})
	}
	return all
}

// deepest is how deep the brackets of valid JSON go.
func deepest(text []byte) (most int) {
	depth := 0
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := d.Token()
		if err != nil {
			return most
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			most = max(most, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// FuzzUsage compares the scanner, whatever the cuts, with encoding/json on what is
// JSON, and with itself on anything else.
func FuzzUsage(f *testing.F) {
	for i, text := range []string{
		`{"usage":{"prompt_tokens":93,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":80}}}`,
		`{"response":{"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":32},"output_tokens":87}}}`,
		`{"a":"\"usage\":{","b":[{"usage":{"input_tokens":1,"cache_read_input_tokens":2,"cache_creation_input_tokens":3}}]}`,
		`[{"usage":null},{"usage":[{"usage":{"prompt_tokens":0}}]},"usage",{"us\u0061ge":{"prompt_tokens":1}}]`,
		`{"usage":{"usage":{"prompt_tokens":1},"x":[[{"y":"]}"}]],"prompt_tokens":20 , "completion_tokens" : 1e2}}`,
		"data: {\"usage\":{\"prompt_tokens\":5}}\n\ndata: [DONE]\n\n",
	} {
		f.Add([]byte(text), uint8(i*3+1))
	}
	f.Fuzz(func(t *testing.T, text []byte, step uint8) {
		var whole, pieces Scanner
		whole.Feed(text)
		for p := text; len(p) > 0; {
			n := min(1+int(step)%16, len(p))
			pieces.Feed(p[:n])
			p = p[n:]
		}
		if whole.Usage() != pieces.Usage() {
			t.Fatalf("%q by %d has %+v, in one piece %+v", text, 1+step%16, pieces.Usage(), whole.Usage())
		}
		if !json.Valid(text) || deepest(text) > maxDepth {
			return
		}
		var want slow
		want.value(text)
		if got := whole.Usage(); got != want.u.Usage() {
			t.Fatalf("%q has %+v, want %+v", text, got, want.u.Usage())
		}
	})
}
