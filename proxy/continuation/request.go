package continuation

import (
	"bytes"

	"loadstar/proxy/rawjson"
)

// Kind is the API of a request.
type Kind uint8

// The APIs whose streams can be continued.
const (
	Completions Kind = iota // /v1/completions
	Chat                    // /v1/chat/completions
)

// Request is what the body of a request says about continuing its answer. It
// doesn't refer to the body.
type Request struct {
	Kind    Kind
	Limit   uint64 // of tokens, the least one given; 0 for none
	extends bool   // the last message is one of the assistant that the client has continued
}

// Check reads the body of a request whose answer is a stream. A refusal says why
// that stream can't be continued.
func Check(kind Kind, body []byte) (Request, Refusal) {
	c := checker{Request: Request{Kind: kind}, kind: kind}
	o, ok := rawjson.OpenObject(body)
	if !ok {
		return Request{}, Unreadable
	}
	for {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		if rawjson.HasEscape(name) && len(name) <= 6*rawjson.MaxName {
			name = rawjson.Unescape(nil, name)
		}
		if r := c.member(name, value); r != None {
			return Request{}, r
		}
	}
	if !o.Ended() {
		return Request{}, Unreadable
	}
	r := c.settle()
	return c.Request, r
}

// checker gathers what the members of a body say.
type checker struct {
	Request
	kind      Kind
	prompt    bool   // there is one, of text
	messages  []byte // raw
	limited   bool   // max_tokens is there, if perhaps null
	continues []byte // raw continue_final_message
	generates []byte // raw add_generation_prompt
}

// given reports whether a value asks for anything.
func given(v []byte) bool {
	switch string(v) {
	case "", "null", "false", "[]", "{}", `""`:
		return false
	}
	return true
}

func (c *checker) member(name, v []byte) Refusal {
	switch string(name) {
	case "prompt":
		if c.prompt = v[0] == '"'; !c.prompt && c.kind == Completions {
			return Prompt
		}
	case "messages":
		c.messages = v
	case "tools", "tool_choice", "functions", "function_call":
		return ifGiven(v, Tools)
	case "response_format":
		if string(rawjson.Member(v, "type")) != `"text"` {
			return ifGiven(v, Guided)
		}
	case "structured_outputs", "grammar", "regex", "ebnf", "json_schema":
		return ifGiven(v, Guided)
	case "n", "best_of":
		if string(v) != "1" {
			return ifGiven(v, Choices)
		}
	case "use_beam_search":
		return ifGiven(v, Choices)
	case "logprobs", "prompt_logprobs":
		return ifGiven(v, Logprobs) // 0 is one, the token itself
	case "top_logprobs":
		if string(v) != "0" {
			return ifGiven(v, Logprobs)
		}
	case "echo", "suffix":
		return ifGiven(v, Echo)
	case "prompt_embeds", "prompt_token_ids", "return_token_ids", "return_tokens_as_token_ids", "kv_transfer_params":
		return ifGiven(v, Tokens)
	case "max_tokens", "max_completion_tokens":
		c.limited = true
		return c.limit(v)
	case "min_tokens":
		if _, ok := rawjson.Count(v); !ok {
			return ifGiven(v, Limit)
		}
	case "continue_final_message":
		c.continues = v
	case "add_generation_prompt":
		c.generates = v
	default:
		if bytes.HasPrefix(name, []byte("guided_")) {
			return ifGiven(v, Guided)
		}
	}
	return None
}

func ifGiven(v []byte, r Refusal) Refusal {
	if given(v) {
		return r
	}
	return None
}

// limit notes a limit of tokens. A null is none.
func (c *checker) limit(v []byte) Refusal {
	n, ok := rawjson.Count(v)
	switch {
	case string(v) == "null":
	case !ok || n == 0:
		return Limit
	case c.Limit == 0 || n < c.Limit:
		c.Limit = n
	}
	return None
}

// settle judges the members together.
func (c *checker) settle() Refusal {
	if c.kind == Completions {
		switch {
		case !c.prompt:
			return Prompt
		case !c.limited:
			return Limit // engines have one of their own, of which nothing would be taken off
		}
		return None
	}
	last, _, _ := lastOf(c.messages)
	if last == nil {
		return Messages
	}
	if !given(c.continues) {
		if string(c.generates) == "false" {
			return Messages
		}
		return None
	}
	var m [2][]byte
	rawjson.Members(last, []string{"role", "content"}, m[:])
	if string(c.continues) != "true" || string(m[0]) != `"assistant"` || len(m[1]) == 0 || m[1][0] != '"' {
		return Messages
	}
	c.extends = true
	return None
}

// lastOf is the last element of an array, which is an object, and where it stands;
// nil if it isn't one or there is none.
func lastOf(array []byte) (element []byte, start, end int) {
	a, ok := rawjson.OpenArray(array)
	if !ok {
		return nil, 0, 0
	}
	for {
		v, ok := a.Next()
		if !ok {
			break
		}
		element, start, end = v, a.End()-len(v), a.End()
	}
	if !a.Ended() || len(element) == 0 || element[0] != '{' {
		return nil, 0, 0
	}
	return element, start, end
}

// isString reports whether a raw value is a string.
func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// inside is what stands between the quotes of a string.
func inside(v []byte) []byte { return v[1 : len(v)-1] }
