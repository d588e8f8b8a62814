package continuation

import "loadstar/proxy/sse"

// State is how a stream stands behind what Feed has returned.
type State uint8

// The states of a stream.
const (
	Going State = iota
	Ended       // the end mark has come; what follows passes as it is
	Died        // an event tells that the worker has failed; it is held back with what follows
	Unfit       // it can't be continued any more: a first part passes as it is, a later one is over
)

// Budget is where a Follower gets memory from.
type Budget interface {
	// Cover reports whether size bytes in all may be held.
	Cover(size int) bool
}

// Follower follows the stream that answers one request, over all its parts. Reset
// prepares one.
type Follower struct {
	kind   Kind
	limit  int // bytes of text and of what is held back
	budget Budget

	lines sse.Lines
	held  []byte // of the stream, not passed on yet
	out   []byte
	state State

	text     []byte // generated so far, the insides of JSON strings
	part     int    // 0 for the first
	refusal  Refusal
	finished bool // the reason for the end has come

	like   pattern // of the events with text of the first part
	latest []byte  // text that was added last, raw; valid while its event is

	// Of the first event that has them, raw.
	known              bool
	id, created, model []byte

	announced bool   // the role has passed
	before    uint64 // tokens of the parts before
	chunks    uint64 // events of this part with text
	counted   uint64 // tokens of this part by its usage; 0 when it has told of none
	prompt    []byte // prompt_tokens of the first part, raw; empty when it has told of none
	details   []byte // prompt_tokens_details beside it
}

// keptBuffer is the largest buffer that is used for another stream.
const keptBuffer = 64 << 10

// Reset prepares a Follower for the answer to another request, of which at most
// limit bytes are held at a time, if the budget has as much.
func (f *Follower) Reset(kind Kind, limit int, budget Budget) {
	*f = Follower{
		kind: kind, limit: limit, budget: budget, held: kept(f.held), out: kept(f.out), text: kept(f.text),
		like: pattern{event: f.like.event[:0]},
		id:   f.id[:0], created: f.created[:0], model: f.model[:0], prompt: f.prompt[:0], details: f.details[:0],
	}
}

func kept(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// Text is what was generated so far: the inside of a JSON string, valid until the
// next call of Feed.
func (f *Follower) Text() []byte { return f.text }

// Tokens is how many tokens the text has; see the package's comment.
func (f *Follower) Tokens() uint64 {
	switch {
	case len(f.text) == 0:
		return 0
	case f.counted > 0:
		return f.before + f.counted
	default:
		return f.before + f.chunks
	}
}

// Finished reports whether the reason for the end of the answer has come.
func (f *Follower) Finished() bool { return f.finished }

// Refusal says why the stream can't be continued, if it can't.
func (f *Follower) Refusal() Refusal { return f.refusal }

// Rest takes what is held back. In a later part that is nothing but an event that
// tells of a failure, and what follows it: the beginning of an event would come
// with another id than those before.
func (f *Follower) Rest() []byte {
	rest := f.held
	f.held = nil
	if f.part > 0 && f.state != Died {
		return nil
	}
	return rest
}

// Next begins the next part.
func (f *Follower) Next() {
	f.before = f.Tokens()
	f.part++
	f.chunks, f.counted, f.lines, f.held, f.state = 0, 0, sse.Lines{}, f.held[:0], Going
}

// Feed takes the next piece of the present part and returns what of the stream may
// pass now: whole events. That is a part of piece itself if nothing changes, or
// else memory that is valid until the next call.
func (f *Follower) Feed(piece []byte) ([]byte, State) {
	switch f.state {
	case Ended, Unfit:
		return piece, f.state
	case Died:
		f.held = append(f.held, piece...)
		return nil, Died
	}
	out := f.out[:0]
	copied := 0 // what of piece is in out, or left out
	begin := 0  // where the present event begins
	for i := 0; ; begin = i {
		n := f.lines.EventEnd(piece[i:])
		if n < 0 {
			break
		}
		i += n
		event, held := piece[begin:i], len(f.held) > 0
		if held {
			f.held = append(f.held, event...)
			event = f.held
		}
		act := f.read(event)
		if act == die {
			out = append(out, piece[copied:begin]...)
			f.out, f.state = out, Died
			if held {
				begin = i
			}
			f.held = append(f.held, piece[begin:]...)
			return out, Died
		}
		if held || act != pass {
			out = append(out, piece[copied:begin]...)
			out = f.appendEvent(out, event, act)
			copied = i
		}
		f.held = f.held[:0]
		if f.state != Going {
			return f.flush(out, piece, copied), f.state
		}
	}
	f.held = append(f.held, piece[begin:]...)
	if isEndMark(f.held) {
		f.state = Ended // whether its event ends or not
	} else if !f.fits() && (f.part == 0 || !f.fits()) {
		// What is held back passes with all that follows. In a later part the text,
		// which is let go of, has made room; an event for which that is not enough
		// can't be changed, and ends what may pass.
		f.state = Unfit
		if f.part > 0 {
			f.held = nil
			f.out = append(out, piece[copied:begin]...)
			return f.out, Unfit
		}
	}
	if f.state != Going {
		held := f.held[:len(f.held)-(len(piece)-begin)]
		out = append(out, piece[copied:begin]...)
		out = append(out, held...)
		f.held = nil
		return f.flush(out, piece, begin), f.state
	}
	if copied == 0 && len(out) == 0 {
		return piece[:begin], Going
	}
	f.out = append(out, piece[copied:begin]...)
	return f.out, Going
}

// flush is what passes when all does: out, and what of piece is not in it.
func (f *Follower) flush(out, piece []byte, copied int) []byte {
	if copied == 0 && len(out) == 0 {
		return piece
	}
	f.out = append(out, piece[copied:]...)
	return f.out
}

// refuse notes why the stream can't be continued, the first reason there is. A
// first part passes unread from there on; the events of a later one still have to
// be changed.
func (f *Follower) refuse(r Refusal) {
	if f.refusal == None {
		f.refusal, f.text = r, nil
	}
	if f.part == 0 {
		f.state = Unfit
	}
}

// fits reports whether what is held may be held.
func (f *Follower) fits() bool {
	size := len(f.text) + len(f.held)
	switch {
	case size > f.limit:
		f.refuse(TooLong)
	case !f.budget.Cover(size):
		f.refuse(Memory)
	default:
		return true
	}
	return false
}
