package pd

import "loadstar/proxy/rawjson"

// Request is what has to be known of a request before it is split.
type Request struct {
	// Stream says that the answer is a stream of events.
	Stream bool

	// Whole says that the request must not be split: it holds several prompts,
	// which would share one set of blocks, or is answered before it is run.
	Whole bool

	// Merge says that the answer has to be gathered for Reply.AppendMerged.
	Merge bool

	// Echo says that logprobs are asked for from the prompt on.
	Echo bool
}

var requestFields = [...]string{
	"stream", "background", "echo", "logprobs", "top_logprobs", "prompt_logprobs", "sampling_params",
	"prompt", "prompt_embeds", "text", "input_ids",
}

// ReadRequest reads a request of kind. It reports false if body is not a JSON
// object that could be read to its end.
func ReadRequest(body []byte, kind Kind) (Request, bool) {
	var v [len(requestFields)][]byte
	if !rawjson.Members(body, requestFields[:], v[:]) {
		return Request{}, false
	}
	q := Request{Stream: isTrue(v[0])}
	logprobs, promptLogprobs := asksFor(v[3]) || asksFor(v[4]), v[5]
	switch kind {
	case Responses:
		q.Whole = isTrue(v[1])
		return q, true
	case Completions, Generate:
		prompts := 0
		for _, p := range v[7:] {
			prompts += countPrompts(p)
		}
		q.Whole = prompts > 1
	case TokensIn:
		promptLogprobs = rawjson.Member(v[6], "prompt_logprobs")
	}
	q.Echo = isTrue(v[2]) && logprobs
	q.Merge = !q.Stream && (q.Echo || asksFor(promptLogprobs))
	return q, true
}

// countPrompts is the number of prompts in the value of a prompt, 2 standing for
// all above: a list of numbers is one prompt, a list of anything else several.
func countPrompts(value []byte) int {
	if len(value) == 0 || string(value) == "null" {
		return 0
	}
	a, ok := rawjson.OpenArray(value)
	if !ok {
		return 1
	}
	first, ok := a.Next()
	if !ok || first[0] != '"' && first[0] != '[' && first[0] != '{' {
		return 1
	}
	if _, ok = a.Next(); ok {
		return 2
	}
	return 1
}

// asksFor reports whether value asks for logprobs: 0 does, of the tokens alone.
func asksFor(value []byte) bool {
	return len(value) > 0 && string(value) != "null" && string(value) != "false"
}

func isTrue(value []byte) bool { return string(value) == "true" }

func isArray(value []byte) bool { return len(value) > 0 && value[0] == '[' }
