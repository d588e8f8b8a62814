package load

import (
	"context"
	"time"
)

// Ended is what became of the N-th request.
type Ended struct {
	N      uint64
	Unsent bool          // too many were under way; nothing that follows is known
	OK     bool          // 2xx and whole
	TTFT   time.Duration // from when it was due to the first event, or byte of another body; only if OK
	Tail   []byte        // of the answer's body, as far as it came; good until the call returns
}

// end books the n-th request's result and tells of it, unless it ended because ctx
// did.
func (c *Config) end(ctx context.Context, rec *recorder, n uint64, r result) {
	rec.end(ctx, r)
	if c.Ended == nil || ctx.Err() != nil && r.fate != ok {
		return
	}
	e := Ended{N: n, OK: r.fate == ok, Tail: r.answer.tail.end()}
	if e.OK {
		e.TTFT = r.answer.begins().Sub(r.due)
	}
	c.Ended(e)
}

// unsent books that the n-th request was not sent and tells of it.
func (c *Config) unsent(rec *recorder, n uint64) {
	rec.unsent()
	if c.Ended != nil {
		c.Ended(Ended{N: n, Unsent: true})
	}
}

// tail is the last bytes of a body.
type tail struct {
	keep int
	text []byte // up to twice as many as are kept, so that they are seldom moved
}

func (t *tail) add(b []byte) {
	b = b[max(0, len(b)-t.keep):]
	if len(t.text)+len(b) > 2*t.keep {
		t.text = t.text[:copy(t.text, t.end())]
	}
	t.text = append(t.text, b...)
}

func (t *tail) end() []byte { return t.text[max(0, len(t.text)-t.keep):] }
