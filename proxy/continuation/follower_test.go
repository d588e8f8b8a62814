package continuation

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// plenty is a budget of so many bytes.
type plenty int

func (p plenty) Cover(size int) bool { return size <= int(p) }

// feed feeds a stream in pieces of step bytes and returns what passes, up to the
// first state that is not Going, and behind it if all does.
func feed(f *Follower, stream string, step int) (string, State) {
	var out []byte
	state := Going
	for p := []byte(stream); len(p) > 0; p = p[min(step, len(p)):] {
		// A piece is in a buffer that is used again.
		piece := bytes.Clone(p[:min(step, len(p))])
		passed, s := f.Feed(piece)
		out = append(out, passed...)
		clear(piece)
		state = s
	}
	return string(out), state
}

func newFollower(kind Kind) *Follower {
	f := new(Follower)
	f.Reset(kind, 1<<20, plenty(1<<20))
	return f
}

const (
	role  = `data: {"id":"1","created":5,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	hello = `data: {"id":"1","created":5,"model":"m","choices":[{"index":0,"delta":{"content":"hello\n"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	plain = `data: {"id":"1","created":5,"model":"m","choices":[{"index":0,"delta":{"content":"plain"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	died  = `data: {"error": {"message":"x","code":500}}` + "\n\n"
	end   = "data: [DONE]\n\n"
)

// TestFirstPart: what a first part tells, however it is cut.
func TestFirstPart(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		kind         Kind
		text         string
		tokens       uint64
		state        State
		refusal      Refusal
		passes       string // of the stream; all if empty
		finished     bool
	}{
		{name: "chat", kind: Chat, stream: role + hello + hello, text: `hello\nhello\n`, tokens: 2},
		{name: "half an event", kind: Chat, stream: hello + hello[:40], text: `hello\n`, tokens: 1, passes: hello},
		{name: "ended", kind: Chat, stream: hello + end + hello + "x", text: `hello\n`, tokens: 1, state: Ended},
		{name: "end mark without an empty line", kind: Chat, stream: hello + "data:[DONE]\r", text: `hello\n`, tokens: 1, state: Ended},
		{name: "end mark that is not whole", kind: Chat, stream: hello + "data: [DONE]", text: `hello\n`, tokens: 1, passes: hello},
		{name: "died", kind: Chat, stream: hello + died + end, text: `hello\n`, tokens: 1, state: Died, passes: hello},
		{name: "died at once", kind: Chat, stream: died, state: Died, passes: " "},
		{name: "the request's fault", kind: Chat, stream: hello + strings.Replace(died, "500", "400", 1) + end, state: Unfit, refusal: Rejected},
		{name: "died when it was finished", kind: Chat, stream: `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + died, state: Unfit, refusal: Finished, finished: true},
		{name: "comments and lone fields", kind: Chat, stream: ": data\n\nevent: x\n\nretry: 1\r\n\r\n" + hello, state: Unfit, refusal: Event},
		{name: "comments", kind: Chat, stream: ": ping\n\nretry: 1\r\n\r\n\n\n" + hello, text: `hello\n`, tokens: 1},
		{name: "usage", kind: Chat, stream: hello + `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}` + "\n\n", text: `hello\n`, tokens: 7},
		{name: "null", kind: Chat, stream: `data: {"choices":[{"index":0,"delta":{"content":null,"tool_calls":null,"reasoning":""},"finish_reason":null}],"usage":null}` + "\n\n" + hello, text: `hello\n`, tokens: 1},
		{name: "a token without text", kind: Chat, stream: strings.Replace(hello, `hello\n`, "", 1) + hello, text: `hello\n`, tokens: 2},
		{name: "names in escapes", kind: Chat, stream: strings.Replace(hello, "content", `\u0063ontent`, 1), text: `hello\n`, tokens: 1},
		{name: "reasoning", kind: Chat, stream: hello + strings.Replace(hello, "content", "reasoning", 1) + hello, state: Unfit, refusal: Content},
		{name: "content in parts", kind: Chat, stream: `data: {"choices":[{"delta":{"content":[{}]}}]}` + "\n\n", state: Unfit, refusal: Content},
		{name: "like the one before", kind: Chat, stream: hello + plain + hello + plain, text: `hello\nplainhello\nplain`, tokens: 4},
		{name: "alike up to the text", kind: Chat, stream: hello + plain + strings.Replace(plain, `"finish_reason":null`, `"finish_reason":""  `, 1) + strings.Replace(plain, "null}]", `"x"}]`, 1), text: `hello\nplainplainplain`, tokens: 4, finished: true},
		{name: "alike behind the text", kind: Chat, stream: hello + plain + strings.Replace(plain, `"index":0`, `"index":1`, 1) + plain, state: Unfit, refusal: Choices},
		{name: "alike with a string that doesn't end", kind: Chat, stream: hello + strings.Replace(plain, "plain", `plain\`, 1) + plain, state: Unfit, refusal: Event},
		{name: "alike with a line end", kind: Chat, stream: hello + strings.Replace(plain, "plain", "pla\ndata:in", 1) + plain, state: Unfit, refusal: Event},
		{name: "alike with another member", kind: Chat, stream: hello + strings.Replace(plain, "plain", `a","tool_calls":"b`, 1) + plain, state: Unfit, refusal: Content},
		{name: "completion", kind: Completions, stream: `data: {"choices":[{"index":0,"text":"a\ud83d"}]}` + "\n\n" + `data: {"choices":[{"index":0,"text":"\ude00\""}]}` + "\n\n", text: `a\ud83d\ude00\"`, tokens: 2},
		{name: "finished", kind: Completions, stream: `data: {"choices":[{"index":0,"text":"a"}]}` + "\n\n" + `data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}` + "\n\n", text: "a", tokens: 1, finished: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= len(tc.stream); step++ {
				f := newFollower(tc.kind)
				out, state := feed(f, tc.stream, step)
				want := strings.TrimPrefix(tc.passes, " ")
				if tc.passes == "" {
					want = tc.stream
				}
				if out != want {
					t.Errorf("by %d passes %q, want %q", step, out, want)
				}
				if state != tc.state || f.Refusal() != tc.refusal || f.Finished() != tc.finished {
					t.Errorf("by %d: state %d, refusal %q, finished %v; want %d, %q, %v", step, state, f.Refusal(), f.Finished(), tc.state, tc.refusal, tc.finished)
				}
				if string(f.Text()) != tc.text || f.Tokens() != tc.tokens {
					t.Errorf("by %d: %d tokens %q, want %d %q", step, f.Tokens(), f.Text(), tc.tokens, tc.text)
				}
				if out += string(f.Rest()); out != tc.stream {
					t.Errorf("by %d with the rest: %q, want %q", step, out, tc.stream)
				}
			}
		})
	}
}

// TestLaterPart: what becomes of the events of a second part.
func TestLaterPart(t *testing.T) {
	const (
		first = role + hello
		usage = `data: {"id":"1","choices":[],"usage":{"prompt_tokens":10,"total_tokens":11,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	)
	for _, tc := range []struct{ name, first, stream, want string }{
		{
			"id, created and model", first,
			`data:  { "id" : "2","created":6, "model":"n","choices":[{"index":0,"delta":{"content":"x"}}],"y":1.0}` + "\r\n\r\n",
			`data:  { "id" : "1","created":5, "model":"m","choices":[{"index":0,"delta":{"content":"x"}}],"y":1.0}` + "\r\n\r\n",
		},
		{"the role", first, role + hello, hello},
		{"the role that didn't come", hello, role + hello, role + hello},
		{"comments and the end", first, ": x\n\n" + end, ": x\n\n" + end},
		{
			"a role with text", first,
			`data: {"id":"2","choices":[{"index":0,"delta":{"role":"assistant","content":"x"}}]}` + "\n\n",
			`data: {"id":"1","choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n",
		},
		{
			"usage without that of the first part", first,
			`data: {"id":"2","choices":[],"usage":{"prompt_tokens":12,"total_tokens":15,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n",
			`data: {"id":"1","choices":[],"usage":{"prompt_tokens":11,"total_tokens":15,"completion_tokens":4,"prompt_tokens_details":null}}` + "\n\n",
		},
		{
			"usage with that of the first part", first + usage,
			`data: {"id":"2","choices":[],"usage":{"prompt_tokens":13,"total_tokens":16,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n",
			`data: {"id":"1","choices":[],"usage":{"prompt_tokens":10,"total_tokens":14,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n",
		},
		{
			"usage that is none", first,
			`data: {"id":"2","choices":[],"usage":{"prompt_tokens":-1}}` + "\n\n" + `data: {"usage":null}` + "\n\n",
			`data: {"id":"1","choices":[],"usage":{"prompt_tokens":-1}}` + "\n\n" + `data: {"usage":null}` + "\n\n",
		},
		{
			"reasoning", first,
			`data: {"id":"2","choices":[{"index":0,"delta":{"role":"assistant","reasoning":"x"}}]}` + "\n\n" + `data: {"id":"2","choices":[]}` + "\n\n",
			`data: {"id":"1","choices":[{"index":0,"delta":{"reasoning":"x"}}]}` + "\n\n" + `data: {"id":"1","choices":[]}` + "\n\n",
		},
		{"no JSON", first, "data: x\n\n", ""},
		{"data over several lines", first, "data: {\"id\":\"2\",\ndata: \"choices\":[]}\n\n: c\n\n", ": c\n\n"},
		{"half an event", first, hello + hello[:50], hello},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= len(tc.stream); step++ {
				f := newFollower(Chat)
				feed(f, tc.first+hello[:30], 1000)
				f.Rest()
				f.Next()
				got, _ := feed(f, tc.stream, step)
				if got += string(f.Rest()); got != tc.want {
					t.Errorf("by %d: %q, want %q", step, got, tc.want)
				}
			}
		})
	}
}

// TestParts: text and tokens are those of all parts.
func TestParts(t *testing.T) {
	f := newFollower(Chat)
	feed(f, role+hello+hello, 1000)
	f.Next()
	feed(f, role+hello, 1000)
	if got, want := string(f.Text()), `hello\nhello\nhello\n`; got != want || f.Tokens() != 3 {
		t.Errorf("%d tokens %q, want 3 %q", f.Tokens(), got, want)
	}
	f.Next()
	feed(f, `data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}`+"\n\n", 1000)
	if f.Tokens() != 7 {
		t.Errorf("%d tokens, want 7", f.Tokens())
	}
	if _, state := feed(f, died, 1000); state != Died {
		t.Errorf("state %d, want Died", state)
	}
	if got := string(f.Rest()); got != died {
		t.Errorf("Rest() = %q, want the error", got)
	}
	f.Reset(Chat, 100, plenty(100))
	feed(f, hello, 1000)
	if got := string(f.Text()); got != `hello\n` || f.Tokens() != 1 {
		t.Errorf("behind Reset %d tokens %q, want 1", f.Tokens(), got)
	}
}

// TestBounds: no more is held than is allowed.
func TestBounds(t *testing.T) {
	many := strings.Repeat(hello, 100)
	for _, tc := range []struct {
		name   string
		stream string
		limit  int
		budget plenty
		want   Refusal
	}{
		{"text", many, 500, 1000, TooLong},
		{"text of all", many, 1000, 500, Memory},
		{"an event", hello[:100], 50, 1000, TooLong},
		{"an event of all", hello[:100], 1000, 50, Memory},
		{"enough", many, 1000, 1000, None},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, step := range []int{1, 7, 1000, 100000} {
				f := new(Follower)
				f.Reset(Chat, tc.limit, tc.budget)
				got, state := feed(f, tc.stream, step)
				if f.Refusal() != tc.want || (state == Unfit) != (tc.want != None) {
					t.Errorf("by %d: state %d, refusal %q; want %q", step, state, f.Refusal(), tc.want)
				}
				if got != tc.stream {
					t.Errorf("by %d: %d bytes pass, want all %d", step, len(got), len(tc.stream))
				}
				if size := cap(f.text) + cap(f.held); step == 1 && size > 4*tc.limit {
					t.Errorf("%d bytes held, want about %d", size, tc.limit)
				}
			}
		})
	}
	t.Run("a later part goes on", func(t *testing.T) {
		f := new(Follower)
		f.Reset(Chat, 200, plenty(1000))
		feed(f, hello, 1000)
		f.Next()
		other := strings.ReplaceAll(many, `"id":"1"`, `"id":"2"`)
		if got, state := feed(f, other, 50); got != many || state != Going || f.Refusal() != TooLong {
			t.Errorf("state %d, refusal %q, %d bytes; want Going, TooLong and the first part's id in all %d", state, f.Refusal(), len(got), len(many))
		}
	})
}

// slow is the obvious way to read the text of a whole first part. It reports false
// if it can't be told, or ends otherwise than by half an event.
func slow(kind Kind, stream string) (text string, ok bool) {
	events := strings.Split(stream, "\n\n")
	raw := ""
	for _, e := range events[:len(events)-1] {
		data, one := strings.CutPrefix(e, "data:")
		if !one || strings.ContainsAny(e, "\r\n") {
			return "", false
		}
		var m map[string]json.RawMessage
		var choices []map[string]json.RawMessage
		if json.Unmarshal([]byte(data), &m) != nil || m["error"] != nil || m["choices"] != nil && json.Unmarshal(m["choices"], &choices) != nil || len(choices) > 1 {
			return "", false
		}
		for _, c := range choices {
			s := c["text"]
			if kind == Chat {
				var delta map[string]json.RawMessage
				if c["delta"] != nil && json.Unmarshal(c["delta"], &delta) != nil {
					return "", false
				}
				s = delta["content"]
			}
			if len(s) > 1 && s[0] == '"' {
				raw += string(s[1 : len(s)-1])
			}
		}
	}
	err := json.Unmarshal([]byte(`"`+raw+`"`), &text)
	return text, err == nil
}

// FuzzFirstPart: every byte passes, and the text is what encoding/json reads.
func FuzzFirstPart(f *testing.F) {
	f.Add(role+hello+died+end, uint8(3), true)
	f.Add(role+hello+hello[:50], uint8(1), true)
	f.Add(`data: {"choices":[{"text":"a\ud83d"}]}`+"\n\n"+`data: {"choices":[{"text":"\ude00\"\\"}]}`+"\n\n", uint8(7), false)
	f.Add(": x\r\n\r\ndata: {}\rdata:[DONE]\r\r", uint8(2), true)
	f.Fuzz(func(t *testing.T, stream string, step uint8, chat bool) {
		kind := Completions
		if chat {
			kind = Chat
		}
		fo := newFollower(kind)
		out, _ := feed(fo, stream, 1+int(step)%32)
		if out += string(fo.Rest()); out != stream {
			t.Fatalf("by %d passes %q of %q", step, out, stream)
		}
		whole := newFollower(kind)
		feed(whole, stream, len(stream)+1)
		if whole.Refusal() != fo.Refusal() || whole.Finished() != fo.Finished() || !bytes.Equal(whole.Text(), fo.Text()) || whole.Tokens() != fo.Tokens() {
			t.Errorf("%q by %d is read in another way than whole", stream, step)
		}
		if strings.Contains(stream, "[DONE]") || strings.ContainsRune(stream, '\r') || fo.Refusal() != None || whole.state != Going {
			return
		}
		want, ok := slow(kind, stream)
		if !ok {
			return
		}
		var got string
		if err := json.Unmarshal([]byte(`"`+string(fo.Text())+`"`), &got); err != nil || got != want {
			t.Errorf("the text of %q is %q, %v; want %q", stream, got, err, want)
		}
	})
}

// FuzzLaterPart: events stay JSON, with the first part's id, however they are cut.
func FuzzLaterPart(f *testing.F) {
	f.Add(strings.ReplaceAll(role+hello, `"1"`, `"2"`)+end, uint8(3))
	f.Add(`data: {"id":"2","usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`+"\n\n", uint8(3))
	f.Fuzz(func(t *testing.T, stream string, step uint8) {
		run := func(step int) string {
			fo := newFollower(Chat)
			feed(fo, role+hello, 1000)
			fo.Next()
			out, _ := feed(fo, stream, step)
			return out
		}
		out := run(1 + int(step)%32)
		if whole := run(len(stream) + 1); out != whole {
			t.Fatalf("%q by %d becomes %q, and whole %q", stream, step, out, whole)
		}
		for e := range strings.SplitSeq(out, "\n\n") {
			if strings.ContainsAny(e, "\r\n") || strings.Contains(stream, "[DONE]") {
				return
			}
			data, ok := strings.CutPrefix(e, "data:")
			var m map[string]json.RawMessage
			if !ok || json.Unmarshal([]byte(data), &m) != nil || m["error"] != nil || m["object"] != nil || m["type"] != nil {
				continue
			}
			if id := m["id"]; id != nil && string(id) != `"1"` {
				t.Errorf("%q becomes %q, with the id %s", stream, out, id)
			}
		}
	})
}

func BenchmarkFollow(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	for _, bc := range []struct {
		name  string
		parts int
	}{{"first part", 0}, {"later part", 1}} {
		b.Run(bc.name, func(b *testing.B) {
			f := newFollower(Chat)
			for range bc.parts {
				f.Feed(bytes.Replace(event, []byte("0123456789"), []byte("123456"), 1))
				f.Next()
			}
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				if _, s := f.Feed(event); s != Going {
					b.Fatal(s)
				}
				f.text = f.text[:0]
			}
		})
	}
}
