package continuation

// Refusal says why a stream can't be continued. The zero value says that it can.
type Refusal uint8

// Refusals.
const (
	None       Refusal = iota
	Form               // the answer is compressed, has a length, or its client knows no chunks
	Unreadable         // the body is no JSON object that could be read
	Prompt             // not one prompt of text
	Messages           // messages that can't be gone on from
	Tools              // tools or functions
	Guided             // output of a given structure
	Choices            // several answers
	Logprobs           // probabilities are asked for
	Echo               // the prompt is part of the answer, or the answer stands within it
	Tokens             // tokens or embeddings in place of text
	Limit              // the limit of tokens is not known
	Content            // other content than text: reasoning, tool calls
	Event              // an event that can't be read
	Rejected           // the worker says that the request is at fault
	Finished           // nothing is missing but the end
	TooLong            // more text than is remembered of one stream
	Memory             // more text than is remembered of all streams
	Spent              // continued as often as allowed
	Overdue            // no time is left
	Stopping           // the router stops
	numRefusals
)

var refusalNames = [numRefusals]string{
	"", "form", "body", "prompt", "messages", "tools", "guided", "choices", "logprobs", "echo", "tokens", "max_tokens",
	"content", "event", "rejected", "finished", "text_bytes", "memory", "spent", "total_timeout", "stopping",
}

// String returns the metric label of the refusal, "" for None.
func (r Refusal) String() string { return refusalNames[r] }

// Refusals lists every refusal but None, in order.
func Refusals() []Refusal {
	var all []Refusal
	for r := None + 1; r < numRefusals; r++ {
		all = append(all, r)
	}
	return all
}
