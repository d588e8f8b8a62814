package proxy

import (
	"io"
	"time"

	"loadstar/actors"
)

// heartbeat is a comment, which readers of events pass over. It keeps whoever
// stands between this router and the client from taking silence for an end.
const heartbeat = ": heartbeat\n\n"

// next is the next piece of the worker's body. While it doesn't come, the client
// gets heartbeats, where they are asked for and change nothing.
func (s *stream) next(w io.Writer) ([]byte, error) {
	idle := s.p.opts.Timeouts.Idle
	if s.beat <= 0 || s.fixed || !s.leased {
		return s.coming.next(&s.link, idle)
	}
	silent := time.Now()
	for beat := silent; ; {
		wait := s.beat
		if idle > 0 {
			wait = max(min(wait, idle-time.Since(silent)), time.Nanosecond)
		}
		piece, err := s.coming.next(&s.link, wait)
		if !isTimeout(err) {
			return piece, err
		}
		now := time.Now()
		if idle > 0 && now.Sub(silent) >= idle || s.overdue() {
			return nil, err
		}
		if now.Sub(beat) < s.beat*3/4 || !s.between() {
			continue // it was the end of silence that came near
		}
		if beat = now; s.write(w, []byte(heartbeat)) != nil {
			return nil, errClientGone
		}
	}
}

// between reports whether the client's stream stands between two events.
func (s *stream) between() bool {
	if s.rewriting != nil {
		return s.rewriting.events.Between() // it holds back what is not whole
	}
	return s.events.Between()
}

// beatOf is how often an answer's client gets heartbeats; 0 is never.
func (x *exchange) beatOf() time.Duration {
	if !x.sse || !x.ctx.Request.Header.IsHTTP11() {
		return 0
	}
	return x.p.opts.Heartbeat
}

// noteFailure has a stream that tells of an error end as one that has failed,
// though the worker goes on to end it well.
func (s *stream) noteFailure() {
	if s.final == actors.Completed && s.events.Failed() {
		s.final = actors.StreamFailed
	}
}
