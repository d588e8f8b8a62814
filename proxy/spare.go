package proxy

import (
	"loadstar/actors"
	"loadstar/proxy/continuation"
)

// FailoverOptions says which streams of text are continued at another worker when
// theirs dies.
type FailoverOptions struct {
	Continuations int // of one stream at most; 0 continues none
	TextBytes     int // generated text that is remembered of one stream; what has more is not continued
	MemoryBytes   int // request bodies and text that are held for all streams; what comes above is not continued
}

// spareUnit is the unit in bytes of the memory for streams that may be continued.
const spareUnit = 4 << 10

// spare is what is kept of a request whose stream may have to be continued.
type spare struct {
	share    bodyShare
	size     int // of the bodies, in bytes
	request  continuation.Request
	follower continuation.Follower
	target   []byte // of the request, with its query
	body     []byte // for the worker that goes on
	left     int    // how often it may be continued yet
}

// Cover reports whether so many bytes may be held beside the request's body.
func (s *spare) Cover(size int) bool {
	return s.share.take((s.size + size + spareUnit - 1) / spareUnit)
}

// free gives back the memory of what can't be continued any more.
func (x *exchange) free() {
	x.spare.share.giveBack()
	if cap(x.body) > keptBody {
		x.body = nil
	}
}

// failoverKinds are the APIs whose streams can be continued, by path.
var failoverKinds = map[pathClass]continuation.Kind{
	pathChat:        continuation.Chat,
	pathCompletions: continuation.Completions,
}

// lend leaves the exchange to the stream of its answer if that may be continued
// when its worker dies, and notes why not if not.
func (x *exchange) lend(s *stream) {
	o := &x.p.opts.Failover
	kind, ok := failoverKinds[x.record.class]
	if o.Continuations == 0 || !ok || !x.sse || s.final != actors.Completed || x.p.opts.PD != nil {
		return
	}
	sp := &x.spare
	var r continuation.Refusal
	switch sp.request, r = continuation.Check(kind, x.body); {
	case r != continuation.None:
	case x.encoded || s.fixed || !x.ctx.Request.Header.IsHTTP11():
		r = continuation.Form
	default:
		sp.share, sp.size = bodyShare{of: x.p.spares}, cap(x.body)
		if !sp.Cover(0) {
			sp.share.giveBack()
			r = continuation.Memory
		}
	}
	if r != continuation.None {
		s.failover.refusal = r
		return
	}
	sp.follower.Reset(kind, o.TextBytes, sp)
	sp.target, sp.left = append(sp.target[:0], x.target...), o.Continuations
	s.failover.from, s.failover.follows = x, true
	x.lent = true
}
