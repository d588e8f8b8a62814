package pd

// maxUsage is the size in bytes from which on a usage object passes as it is.
const maxUsage = 64 << 10

// Answer puts right the decode worker's answer when it is one JSON object that
// comes in pieces. It holds back a usage object, up to 64 KiB, and nothing else.
// What is not an object passes as it is, as does the rest from a fault on.
type Answer struct {
	rule    rule
	members members
	fate    fate   // of the present value
	held    []byte // of the usage
	out     []byte
}

// fate is what becomes of a value.
type fate uint8

const (
	pass fate = iota
	hide      // null stands for it
	mend      // it is held and put right when it is whole
)

// NewAnswer is for the answer to a request of kind, given the prefill worker's
// reply, which is not referred to later.
func NewAnswer(kind Kind, r *Reply) *Answer {
	return &Answer{rule: rule{kind, append([]byte(nil), r.usage...)}}
}

// Rewrite takes the next piece of the answer and returns what the client gets
// next. That is piece itself if nothing in it changes, or else memory that is
// valid until the next call.
func (a *Answer) Rewrite(piece []byte) []byte {
	out := a.out[:0]
	from := 0 // what is before it in piece is in out, held, or gone
	for i := 0; i < len(piece); {
		n, what := a.members.next(piece[i:])
		i += n
		switch a.fate {
		case hide:
			from = i
		case mend:
			if len(a.held)+i-from > maxUsage {
				out, a.held, a.fate = append(out, a.held...), nil, pass
				break
			}
			a.held, from = append(a.held, piece[from:i]...), i
		}
		switch {
		case what == valueBegins:
			a.fate = a.fateOf(piece[i])
			if a.fate != pass {
				out, from = append(out, piece[from:i]...), i
			}
		case what == valueEnds && a.fate != pass:
			if a.fate == mend {
				out = a.rule.appendUsage(out, a.held)
			} else {
				out = append(out, literal.null...)
			}
			a.held, a.fate = a.held[:0], pass
		}
	}
	if from == 0 && len(out) == 0 {
		return piece
	}
	if a.fate == pass {
		out = append(out, piece[from:]...)
	}
	a.out = out
	return out
}

// Close returns what is held back when the answer has ended, before its time.
func (a *Answer) Close() []byte {
	held := a.held
	a.held = nil
	return held
}

// fateOf is the fate of the present member's value, which begins with c.
func (a *Answer) fateOf(c byte) fate {
	switch {
	case a.rule.kind.hasUsage() && c == '{' && a.members.is("usage"):
		return mend
	case (c == '{' || c == '[') && a.members.is(kvField):
		return hide
	}
	return pass
}
