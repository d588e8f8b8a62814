package proxy

import (
	"bytes"
	"slices"

	"loadstar/actors"
	"loadstar/actors/policy"
)

// The Responses API lets a worker store what it answered. Only that worker can
// show it, cancel it, or go on from it, so the router remembers which one it
// was; see actors.Lease.Pin.

const responsesPath = "/v1/responses"

// responsePin returns the pin of the stored response that a request is about,
// or 0: one named in the path, or in the body of a request that goes on from it.
func (x *exchange) responsePin() uint64 {
	if rest, ok := bytes.CutPrefix(x.path, []byte(responsesPath+"/")); ok {
		id, _, _ := bytes.Cut(rest, []byte("/"))
		return pinOf(id)
	}
	if x.record.class == pathResponses {
		return pinOf(x.scan.Body.PreviousResponse)
	}
	return 0
}

func pinOf(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return policy.Hash(string(id))
}

// wanders reports whether a request about a stored response should go on to
// another worker: nobody knows which one holds it, and this one says that it
// doesn't. Each worker is asked once.
func (x *exchange) wanders(lease *actors.Lease) bool {
	others := lease.Decision.Candidates > 1 ||
		x.query.Beside && x.query.Served() != actors.Regular && !slices.Contains(x.exclude, lease.Worker) // regular workers, perhaps
	return x.answer.Status == 404 && others && lease.Decision.Reason != policy.Pinned && bytes.HasPrefix(x.path, []byte(responsesPath+"/"))
}

// stores reports whether the answer is that of a response which its worker may
// store.
func (x *exchange) stores() bool {
	return x.record.class == pathResponses && x.answer.Status < 300
}

// pinAnswer notes where the response is stored whose answer begins so.
func (x *exchange) pinAnswer(lease *actors.Lease, begin []byte) {
	if x.stores() {
		pinAnswer(lease, begin)
	}
}

func pinAnswer(lease *actors.Lease, begin []byte) {
	if pin := pinOf(storedID(begin)); pin != 0 {
		lease.Pin(pin)
	}
}

// storedID finds the id of a response at the beginning of an answer: the first
// member named id, which in a plain answer is the response's and in a stream
// that of the response in the first event.
func storedID(begin []byte) []byte {
	const name = `"id":`
	i := bytes.Index(begin, []byte(name))
	if i < 0 {
		return nil
	}
	v := bytes.TrimLeft(begin[i+len(name):], " ")
	if len(v) == 0 || v[0] != '"' {
		return nil
	}
	id, _, ok := bytes.Cut(v[1:], []byte(`"`))
	if !ok {
		return nil
	}
	return id
}
