package routekey

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// identityOf is what a session is known by.
func identityOf(body, session, agent string) string {
	s := Scanner{Identities: true}
	s.Scan([]byte(body))
	return string(s.AppendIdentity(nil, IdentityHeaders{[]byte(session), []byte(agent)}))
}

func TestIdentity(t *testing.T) {
	const all = `"agent_hint":{"session_id":"h"},"session_params":{"session_id":"p"},"session_id":"b"`
	context := func(c string) string { return `{"vllm_xargs":{"agentic_context":` + c + `},` + all + `}` }
	big := strings.Repeat("x", 300)
	for _, tc := range []struct{ name, body, session, agent, want string }{
		{"nothing", `{"model":"m","user":"u","user_id":"v"}`, "", "", ""},
		{"not JSON", `hello`, "", "", ""},
		{"not JSON, a header", `hello`, "s", "", "framework_header:s:lead"},
		{"a body that is cut", `{"session_id":"b",`, "", "", ""},

		{"program", context(`{"program_id":"pr","task_id":"t"}`), "s", "a", "agentic_context:pr"},
		{"task", context(`{"task_id":"t","session_id":"c"}`), "s", "", "agentic_context:t:lead"},
		{"task and agent", context(`{"task_id":"t","agent_id":"a"}`), "s", "b", "agentic_context:t:a"},
		{"task and agent with the task in front", context(`{"task_id":"t","agent_id":"t:a"}`), "", "", "agentic_context:t:a"},
		{"task and its name for an agent", context(`{"task_id":"t","agent_id":"t:"}`), "s", "", ""},
		{"session of a context", context(`{"session_id":"c"}`), "s", "a", "agentic_context:c:a"},
		{"context with nothing, a header", context(`{}`), "s", "a", "agentic_context:s:a"},
		{"context with nothing and no header", context(`{"step_id":1}`), "", "", "body_session:p"},
		{"context of nulls", context(`{"program_id":null,"task_id":null,"session_id":null,"agent_id":null}`), "", "", "body_session:p"},
		{"context in a string", context(`"{\"program_id\": \"pr\"}"`), "s", "", "agentic_context:pr"},
		{"context in a string with space", context(`" {\"task_id\":7} "`), "s", "", "agentic_context:7:lead"},
		{"escapes", context(`{"program_\u0069d":"p\u0072"}`), "", "", "agentic_context:pr"},
		{"numbers", context(`{"task_id":12,"agent_id":-3}`), "", "", "agentic_context:12:-3"},
		{"space round it", context(`{"program_id":" pr\n"}`), "", "", "agentic_context:pr"},
		{"the last of two", context(`{"program_id":"a","program_id":"pr"}`), "", "", "agentic_context:pr"},

		{"context that is null", context(`null`), "s", "", "agent_hint:h"},
		{"no context", `{"vllm_xargs":{},` + all + `}`, "s", "", "agent_hint:h"},
		{"arguments that are null", `{"vllm_xargs":null,` + all + `}`, "s", "", "agent_hint:h"},
		{"hint", `{` + all + `}`, "s", "a", "agent_hint:h"},
		{"hint that is null", `{"agent_hint":null,"session_id":"b"}`, "s", "a", "framework_header:s:a"},
		{"header", `{"session_params":{"session_id":"p"}}`, "s", "", "framework_header:s:lead"},
		{"header and agent", `{}`, "s", "s:a", "framework_header:s:a"},
		{"agent alone", `{"session_id":"b"}`, "", "a", "body_session:b"},
		{"session_params", `{"session_params":{"session_id":"p"},"session_id":"b"}`, "", "", "body_session:p"},
		{"session_params without one", `{"session_params":{"id":"p"},"session_id":"b"}`, "", "", "body_session:b"},
		{"session_params that are null", `{"session_params":null,"session_id":5}`, "", "", "body_session:5"},

		// What can't be understood is no session, rather than another one.
		{"context that is a number", context(`5`), "s", "", ""},
		{"context in a string that is no object", context(`"x"`), "s", "", ""},
		{"context in a string that is cut", context(`"{\"task_id\":1"`), "s", "", ""},
		{"context that is too long", context(`{"task_id":1,"x":"` + strings.Repeat("x", 17<<10) + `"}`), "s", "", ""},
		{"arguments that are no object", `{"vllm_xargs":[],` + all + `}`, "s", "", ""},
		{"program that is empty", context(`{"program_id":""}`), "s", "", ""},
		{"program of space", context(`{"program_id":" "}`), "s", "", ""},
		{"program that is a list", context(`{"program_id":["pr"]}`), "s", "", ""},
		{"task with a fraction", context(`{"task_id":1.5}`), "s", "", ""},
		{"task with an exponent", context(`{"task_id":1e3}`), "s", "", ""},
		{"program that is long", context(`{"program_id":"` + big + `"}`), "s", "", ""},
		{"hint without a session", `{"agent_hint":{},"session_id":"b"}`, "s", "", ""},
		{"hint that is a string", `{"agent_hint":"h","session_id":"b"}`, "s", "", ""},
		{"header that is long", `{"session_id":"b"}`, big, "", ""},
		{"header and agent of the longest", `{}`, big[:200], big[:55], "framework_header:" + big[:200] + ":" + big[:55]},
		{"header and agent that are long together", `{}`, big[:200], big[:56], ""},
		{"agent that is long", `{"session_id":"b"}`, "s", big, ""},
		{"session_params that are a list", `{"session_params":[],"session_id":"b"}`, "", "", ""},
		{"session that is true", `{"session_id":true}`, "", "", ""},
		{"session that is long", `{"session_id":"` + big + `"}`, "", "", "body_session:" + big},

		{"salt", `{"session_id":"b","cache_salt":"s"}`, "", "", "body_session:b\x00\x00s"},
		{"adapter", `{"session_id":"b","lora_name":"l"}`, "", "", "body_session:b\x00l\x00"},
		{"adapter's path", `{"session_id":"b","lora_name":"","lora_path":"l"}`, "", "", "body_session:b\x00l\x00"},
		{"both", `{"cache_salt":"s","lora_name":"l"}`, "x", "", "framework_header:x:lead\x00l\x00s"},
		{"neither", `{"session_id":"b","cache_salt":"","lora_name":null}`, "", "", "body_session:b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := identityOf(tc.body, tc.session, tc.agent); got != tc.want {
				t.Errorf("%.300s with %q, %q: %q, want %q", tc.body, tc.session, tc.agent, got, tc.want)
			}
		})
	}
}

// A session that is told to be over is one of these.
func TestIdentitiesOf(t *testing.T) {
	want := []string{
		identityOf(`{"vllm_xargs":{"agentic_context":{"program_id":"s"}}}`, "", ""), identityOf(`{"vllm_xargs":{"agentic_context":{"session_id":"s"}}}`, "", ""),
		identityOf(`{"agent_hint":{"session_id":"s"}}`, "", ""), identityOf(`{}`, "s", ""), identityOf(`{"session_id":"s"}`, "", ""),
	}
	if got := IdentitiesOf("s"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A Scanner that isn't to know of identities keeps nothing of a body for them, and one
// that is forgets one body with the next.
func TestIdentityIsOfOneBody(t *testing.T) {
	var s Scanner
	s.Scan([]byte(`{"session_id":"b"}`))
	if got := s.AppendIdentity(nil, IdentityHeaders{}); len(got) > 0 {
		t.Errorf("%q, want nothing, as nothing was asked for", got)
	}
	s.Identities = true
	s.Scan([]byte(`{"session_id":"b","cache_salt":"x"}`))
	s.Raw([]byte("raw"))
	if got, want := string(s.AppendIdentity([]byte("+"), IdentityHeaders{Session: []byte("s")})), "+framework_header:s:lead"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// slowIdentity is AppendIdentity for bodies that are JSON, on maps and with an error at
// each turn.
func slowIdentity(body []byte, session, agent string) string {
	var top map[string]json.RawMessage
	_ = json.Unmarshal(body, &top)
	source, id, err := slowSource(top, session, agent)
	if err != nil || id == "" || source != "body_session" && len(id) > maxIdentity {
		return ""
	}
	text := func(name string) string {
		v := top[name]
		var s string
		switch {
		case json.Unmarshal(v, &s) == nil:
			return s
		case strings.Trim(string(v), "[]{} \t\r\n") == "":
			return ""
		}
		return string(v)
	}
	adapter := text("lora_name")
	if adapter == "" {
		adapter = text("lora_path")
	}
	if salt := text("cache_salt"); salt+adapter != "" {
		id += "\x00" + adapter + "\x00" + salt
	}
	return source + ":" + id
}

func slowSource(top map[string]json.RawMessage, session, agent string) (source, id string, err error) {
	if args := slowObject(top["vllm_xargs"], &err); err == nil && slowGiven(args["agentic_context"]) {
		raw := args["agentic_context"]
		if len(raw) > maxContext {
			return "", "", fmt.Errorf("too long")
		}
		var inner string
		if json.Unmarshal(raw, &inner) == nil {
			raw = json.RawMessage(inner)
		}
		c := slowObject(raw, &err)
		if c == nil {
			return "", "", fmt.Errorf("no object")
		}
		program, task, own, as := slowID(c["program_id"], &err), "", "", ""
		if program != "" {
			return "agentic_context", program, err
		}
		if task = slowID(c["task_id"], &err); task == "" {
			own = slowID(c["session_id"], &err)
		}
		for _, s := range []string{own, session} {
			if task == "" {
				task = s
			}
		}
		if task != "" {
			if as = slowID(c["agent_id"], &err); as == "" {
				as = agent
			}
			return "agentic_context", slowAgent(task, as, &err), err
		}
	} else if slowGiven(top["agent_hint"]) {
		hint := slowObject(top["agent_hint"], &err)
		id := slowID(hint["session_id"], &err)
		if id == "" {
			err = fmt.Errorf("no session")
		}
		return "agent_hint", id, err
	} else if session != "" {
		return "framework_header", slowAgent(session, agent, &err), err
	}
	if id = slowID(slowObject(top["session_params"], &err)["session_id"], &err); id == "" {
		id = slowID(top["session_id"], &err)
	}
	return "body_session", id, err
}

func slowGiven(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

func slowObject(v json.RawMessage, err *error) (m map[string]json.RawMessage) {
	if slowGiven(v) {
		if e := json.Unmarshal(v, &m); e != nil {
			*err = e
		}
	}
	return m
}

func slowID(v json.RawMessage, err *error) string {
	if !slowGiven(v) || *err != nil {
		return ""
	}
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(v, &s) == nil && strings.TrimSpace(s) != "":
		return strings.TrimSpace(s)
	case v[0] != '"' && json.Unmarshal(v, &n) == nil && !strings.ContainsAny(string(n), ".eE"):
		return string(n)
	}
	*err = fmt.Errorf("%s is no id", v)
	return ""
}

func slowAgent(task, agent string, err *error) string {
	if agent == "" {
		agent = "lead"
	}
	rest := strings.TrimPrefix(agent, task+":")
	if rest == "" {
		*err = fmt.Errorf("no agent")
	}
	return task + ":" + rest
}

func FuzzIdentity(f *testing.F) {
	for _, body := range []string{
		`{"vllm_xargs":{"agentic_context":{"task_id":"t","agent_id":"t:a"}},"cache_salt":"s"}`, `{"vllm_xargs":{"agentic_context":"{\"program_id\":1}"}}`,
		`{"agent_hint":{"session_id":" h "},"session_id":1.5}`, `{"session_params":{"session_id":-7},"lora_path":["l"]}`, `{"session_params":[],"session_id":"b"}`,
		`{"vllm_xargs":{"agentic_context":{}},"session_params":{"session_id":""}}`, `{"vllm_xargs":3}`, `[]`, ``,
	} {
		f.Add([]byte(body), "", "")
		f.Add([]byte(body), "s", "s:a")
	}
	s := Scanner{Identities: true}
	f.Fuzz(func(t *testing.T, body []byte, session, agent string) {
		s.Scan(body)
		got := string(s.AppendIdentity(nil, IdentityHeaders{[]byte(session), []byte(agent)}))
		if !json.Valid(body) || !utf8.Valid(body) || strings.Contains(strings.ToLower(string(body)), `\ud`) {
			return // which is read in other ways elsewhere
		}
		if want := slowIdentity(body, session, agent); got != want {
			t.Fatalf("%q with %q, %q: %q, want %q", body, session, agent, got, want)
		}
	})
}

// TestIdentityAgainstSlow puts the values that matter together at random.
func TestIdentityAgainstSlow(t *testing.T) {
	ids := []string{`"a"`, `" a "`, `""`, `7`, `-7`, `1.5`, `null`, `true`, `[]`, `{}`, `"a:b"`, `"` + strings.Repeat("x", 200) + `"`}
	r := rand.New(rand.NewPCG(13, 14))
	draw := r.IntN
	object := func(names ...string) string {
		var members []string
		for _, n := range names {
			if draw(2) == 0 {
				members = append(members, fmt.Sprintf("%q:%s", n, ids[draw(len(ids))]))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	s := Scanner{Identities: true}
	named := 0
	for range 5000 {
		context := object("program_id", "task_id", "session_id", "agent_id")
		switch draw(6) {
		case 0:
			context = quoted(context)
		case 1:
			context = ids[draw(len(ids))]
		}
		parts := []string{object("session_id", "cache_salt", "lora_name", "lora_path")}
		if draw(2) == 0 {
			parts = append(parts, `{"vllm_xargs":{"agentic_context":`+context+`}}`)
		}
		if draw(3) == 0 {
			parts = append(parts, `{"agent_hint":`+object("session_id")+`}`)
		}
		if draw(3) == 0 {
			parts = append(parts, `{"session_params":`+object("session_id")+`}`)
		}
		var members []string
		for _, p := range parts {
			if inner := p[1 : len(p)-1]; inner != "" {
				members = append(members, inner)
			}
		}
		body := []byte("{" + strings.Join(members, ",") + "}")
		session, agent := []string{"", "s"}[draw(2)], []string{"", "a", "s:a", "a:", "s:"}[draw(5)]
		s.Scan(body)
		got := string(s.AppendIdentity(nil, IdentityHeaders{[]byte(session), []byte(agent)}))
		if want := slowIdentity(body, session, agent); got != want {
			t.Fatalf("%s with %q, %q: %q, want %q", body, session, agent, got, want)
		}
		if got != "" {
			named++
		}
	}
	if named < 1000 || named > 4000 {
		t.Errorf("%d of 5000 have an identity, want many and not all", named)
	}
}
