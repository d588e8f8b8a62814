package pd

import (
	"loadstar/proxy/rawjson"
	"loadstar/proxy/sse"
)

// maxEvent is the size in bytes from which on an event passes as it is.
const maxEvent = 8 << 20

// Events puts right the decode worker's answer when it is a stream of events. It
// holds back an event that has not come whole yet, up to 8 MiB, and changes in
// it what has to be changed and nothing else.
type Events struct {
	rule    rule
	known   bool // the prefill worker's reply is
	waiting bool // for it: held begins with an event that needs it
	passing bool // the present event is too large and is passed on as it comes
	lines   sse.Lines
	held    []byte // of the stream, not passed on yet
	out     []byte
}

// NewEvents is for the answer to a request of kind. r is the prefill worker's
// reply, which is not referred to later, or nil if it is not there yet.
func NewEvents(kind Kind, r *Reply) *Events {
	e := &Events{rule: rule{kind: kind}, known: !kind.hasUsage()}
	if r != nil {
		e.Know(r)
	}
	return e
}

// Know tells of the prefill worker's reply. If Waiting, what was held back comes
// with the next call of Rewrite, which may be one without a piece.
func (e *Events) Know(r *Reply) {
	e.rule.prefill = append(e.rule.prefill[:0], r.usage...)
	e.known = true
}

// Waiting reports whether nothing passes until Know is called. No more should be
// read from the decode worker meanwhile: with more than 8 MiB held back the
// stream goes on as if the reply had no usage.
func (e *Events) Waiting() bool { return e.waiting && !e.known }

// Between reports whether what was returned so far ends between two events.
func (e *Events) Between() bool { return !e.passing }

// Rewrite takes the next piece of the stream and returns what the client gets
// next. That is a part of piece itself if nothing in it changes, or else memory
// that is valid until the next call.
func (e *Events) Rewrite(piece []byte) []byte {
	if e.waiting {
		piece = append(e.held, piece...)
		e.held = nil
		if !e.known && len(piece) <= maxEvent {
			e.held = piece
			return nil
		}
		e.waiting, e.known = false, true
	}
	out := e.out[:0]
	copied := 0 // what of piece is in out
	begin := 0  // where the present event begins
	for i := 0; ; begin = i {
		n := e.lines.EventEnd(piece[i:])
		if n < 0 {
			break
		}
		i += n
		if e.passing {
			e.passing = false
			continue
		}
		event := piece[begin:i]
		held := len(e.held) > 0
		if held {
			e.held = append(e.held, event...)
			event = e.held
		}
		change := e.rule.mayChange(event)
		if change && !e.known && e.rule.needsReply(event) {
			e.waiting = true
			out = append(out, piece[copied:begin]...)
			e.held = append(append([]byte(nil), event...), piece[i:]...)
			e.out = out
			return out
		}
		if change || held {
			out = append(out, piece[copied:begin]...)
			out = e.rule.appendEvent(out, event)
			copied = i
		}
		e.held = e.held[:0]
	}
	switch rest := piece[begin:]; {
	case e.passing:
		begin = len(piece)
	case len(e.held)+len(rest) > maxEvent:
		e.passing = true
		out = append(out, piece[copied:begin]...)
		out = append(append(out, e.held...), rest...)
		begin, copied, e.held = len(piece), len(piece), nil
	default:
		e.held = append(e.held, rest...)
	}
	if copied == 0 && len(out) == 0 {
		return piece[:begin]
	}
	e.out = append(out, piece[copied:begin]...)
	return e.out
}

// Close returns what is held back when the stream has ended.
func (e *Events) Close() []byte {
	e.known = true
	out := e.rule.appendEvent(e.Rewrite(nil), e.held)
	e.held = nil
	return out
}

// needsReply reports whether an event has a usage to put right.
func (r rule) needsReply(event []byte) bool {
	start, end, ok := sse.DataLine(event)
	if !ok {
		return false
	}
	data := event[start:end]
	return rawjson.IsObject(rawjson.Member(data, "usage")) ||
		r.kind == Responses && rawjson.IsObject(rawjson.Member(rawjson.Member(data, "response"), "usage"))
}

// appendEvent appends an event, put right.
func (r rule) appendEvent(dst, event []byte) []byte {
	start, end, ok := sse.DataLine(event)
	if !ok || !r.mayChange(event[start:end]) {
		return append(dst, event...)
	}
	dst = append(dst, event[:start]...)
	dst = r.appendAnswer(dst, event[start:end], true)
	return append(dst, event[end:]...)
}
