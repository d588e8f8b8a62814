package continuation

import (
	"bytes"

	"loadstar/proxy/rawjson"
	"loadstar/proxy/sse"
)

// action is what becomes of an event.
type action uint8

const (
	pass   action = iota // as it is
	change               // with the first part's id, and usage summed
	shift                // likewise, without the role
	drop
	die // it tells that the worker has failed
)

// isEndMark reports whether what may be the beginning of an event has the end mark
// for its first line, which ends the stream whatever follows.
func isEndMark(event []byte) bool {
	value, ok := bytes.CutPrefix(event, []byte("data:"))
	if !ok {
		return false
	}
	rest, ok := bytes.CutPrefix(bytes.TrimPrefix(value, []byte(" ")), []byte(sse.EndMark))
	return ok && len(rest) > 0 && (rest[0] == '\n' || rest[0] == '\r')
}

// longestHead bounds the bytes of an id, and of what is remembered beside it.
const longestHead = 1 << 10

var eventNames = []string{"id", "created", "model", "choices", "usage"}

// read looks at one whole event, and notes what it says.
func (f *Follower) read(event []byte) action {
	if f.like.matches(event) {
		f.add(event[f.like.from-1:len(event)-f.like.behind+1], false)
		return pass
	}
	if isEndMark(event) {
		f.state = Ended
		return pass
	}
	start, end, ok := sse.DataLine(event)
	if !ok {
		if bytes.Contains(event, []byte("data")) {
			return f.unread() // over several lines
		}
		return pass
	}
	data := bytes.TrimPrefix(event[start:end], []byte(" "))
	if string(data) == sse.EndMark {
		f.state = Ended
		return pass
	}
	if sse.Failure(data) {
		return f.failed(data)
	}
	var m [5][]byte
	if !rawjson.Members(data, eventNames, m[:]) {
		return f.unread()
	}
	f.noteHead(m[0], m[1], m[2])
	f.noteUsage(m[4])
	chunks := f.chunks
	act := f.choices(m[3])
	if f.part > 0 {
		return act
	}
	if f.chunks > chunks && act == change && !f.finished && !rawjson.IsObject(m[4]) {
		f.like.learn(event, f.latest)
	}
	return pass
}

// unread has an event pass that can't be read, with all that follows. In a later
// part it may have the id of its own, and is left out.
func (f *Follower) unread() action {
	f.refuse(Event)
	if f.part > 0 {
		return drop
	}
	return pass
}

// failed judges an event that tells of an error.
func (f *Follower) failed(data []byte) action {
	switch {
	case f.finished:
		f.refuse(Finished)
		return pass
	case rejects(data):
		f.refuse(Rejected)
		return pass
	}
	return die
}

// rejects reports whether an error is the request's own fault, by its code.
func rejects(data []byte) bool {
	code := rawjson.Member(rawjson.Member(data, "error"), "code")
	if code == nil {
		code = rawjson.Member(data, "code")
	}
	n, ok := rawjson.Count(code)
	return ok && n >= 400 && n < 500
}

// noteHead remembers what identifies the answer.
func (f *Follower) noteHead(id, created, model []byte) {
	if f.known || id == nil {
		return
	}
	if len(id)+len(created)+len(model) > longestHead {
		f.refuse(Event)
		return
	}
	f.known = true
	f.id, f.created, f.model = append(f.id, id...), append(f.created, created...), append(f.model, model...)
}

// noteUsage notes the tokens so far, where an event tells of them.
func (f *Follower) noteUsage(usage []byte) {
	if !rawjson.IsObject(usage) {
		return
	}
	var m [3][]byte
	rawjson.Members(usage, usageNames[:3], m[:])
	if n, ok := rawjson.Count(m[1]); ok {
		f.counted = n
	}
	if _, ok := rawjson.Count(m[0]); ok && f.part == 0 {
		f.prompt = append(f.prompt[:0], m[0]...)
		if f.details = f.details[:0]; len(m[2]) <= longestHead {
			f.details = append(f.details, m[2]...)
		}
	}
}

var choiceNames = []string{"index", "text", "delta", "finish_reason", "logprobs"}

// choices reads the choices of an event, of which there is one at most.
func (f *Follower) choices(raw []byte) action {
	a, ok := rawjson.OpenArray(raw)
	if !ok {
		return change
	}
	choice, ok := a.Next()
	if !ok {
		return change
	}
	var m [5][]byte
	if _, more := a.Next(); more || !rawjson.Members(choice, choiceNames, m[:]) || given(m[0]) && string(m[0]) != "0" {
		f.refuse(Choices)
		return change
	}
	if given(m[4]) {
		f.refuse(Logprobs)
	}
	last := given(m[3])
	f.finished = f.finished || last
	if f.kind == Completions {
		f.add(m[1], last)
		return change
	}
	return f.delta(m[2], last)
}

// delta reads what an event adds to a message. last tells that none follows.
func (f *Follower) delta(raw []byte, last bool) action {
	o, ok := rawjson.OpenObject(raw)
	if !ok {
		return change
	}
	var content []byte
	role, other := false, false
	for {
		name, value, ok := o.Next()
		if !ok {
			break
		}
		switch {
		case rawjson.Is(name, "role"):
			role = given(value)
		case rawjson.Is(name, "content"):
			content = value
		default:
			other = other || given(value)
		}
	}
	if other || given(content) && !isString(content) {
		f.refuse(Content)
	}
	empty := !isString(content) || len(content) == len(`""`)
	if !role || !empty {
		f.add(content, last)
	}
	again := role && f.announced
	f.announced = f.announced || role
	switch {
	case again && empty && !other && !last:
		return drop
	case role && (again || f.part == 0): // a first part passes as it is
		return shift
	}
	return change
}

// add remembers a piece of text. An empty one counts too: the token is a part of a
// character whose other parts have yet to come.
func (f *Follower) add(raw []byte, last bool) {
	if !isString(raw) || last && len(raw) == len(`""`) {
		return
	}
	f.chunks++
	f.latest = raw
	if f.refusal != None {
		return
	}
	f.text = append(f.text, inside(raw)...)
	f.fits()
}
