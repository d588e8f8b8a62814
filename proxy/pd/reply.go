package pd

import (
	"encoding/json"
	"fmt"

	"loadstar/proxy/rawjson"
)

// Handoff says what a prefill worker's reply has for transfer parameters.
type Handoff uint8

// What can be there. Only HandoffGiven reaches a decode worker.
const (
	HandoffMissing Handoff = iota
	HandoffNull
	HandoffIllTyped // neither an object nor null
	HandoffGiven
)

// Reply is a prefill worker's reply. It refers to the bytes it was read from.
type Reply struct {
	Handoff Handoff
	KV      []byte // the transfer parameters, raw, if Handoff is HandoffGiven

	usage          []byte // raw; nil if it is no object
	choices        []byte
	promptLogprobs []byte
}

var replyFields = [...]string{kvField, "usage", "choices", "prompt_logprobs"}

// ReadReply reads the body of a successful reply. The error says that it is not
// a JSON object.
func ReadReply(body []byte) (Reply, error) {
	var v [len(replyFields)][]byte
	if !json.Valid(body) || !rawjson.Members(body, replyFields[:], v[:]) {
		return Reply{}, fmt.Errorf("the prefill worker's reply %.100q is not a JSON object: check what serves at its address", body)
	}
	r := Reply{choices: v[2], promptLogprobs: v[3]}
	switch {
	case v[0] == nil:
		r.Handoff = HandoffMissing
	case rawjson.IsObject(v[0]):
		r.Handoff, r.KV = HandoffGiven, v[0]
	case string(v[0]) == "null":
		r.Handoff = HandoffNull
	default:
		r.Handoff = HandoffIllTyped
	}
	if rawjson.IsObject(v[1]) {
		r.usage = v[1]
	}
	return r, nil
}

// Identity is how decode workers reach a prefill worker in NIXL's push mode. The
// values are raw JSON.
//
// It belongs to one base URL and rank, and holds as long as that engine lives.
// So it is forgotten when the worker was unhealthy, when a decode request that
// used it fails, and when a later reply has none or another. A request that was
// sent with one that differs from its own reply's waits for blocks that don't
// come: both requests have to be made again.
type Identity struct {
	EngineID, Host, Port, TPSize string
}

// maxIdentity is the number of bytes that each value may have.
const maxIdentity = 256

var identityFields = [...]string{"remote_engine_id", "remote_host", "remote_port", "tp_size"}

// Identity is what the reply says of its worker, if that is in push mode and
// says enough.
func (r *Reply) Identity() (Identity, bool) {
	if !r.push() {
		return Identity{}, false
	}
	var v [len(identityFields)][]byte
	rawjson.Members(r.KV, identityFields[:], v[:])
	if len(v[3]) == 0 || string(v[3]) == "null" {
		v[3] = one
	}
	for _, value := range v {
		if len(value) == 0 || len(value) > maxIdentity || string(value) == "null" {
			return Identity{}, false
		}
	}
	return Identity{string(v[0]), string(v[1]), string(v[2]), string(v[3])}, true
}

// push reports whether the worker sends its blocks.
func (r *Reply) push() bool {
	mode := rawjson.Member(r.KV, "transfer_mode")
	return len(mode) > 1 && mode[0] == '"' && rawjson.Is(mode[1:len(mode)-1], "push")
}
