package proxy

import (
	"errors"
	"io"
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
)

// rewriter puts a decode worker's answer right as it passes; see package pd.
type rewriter struct {
	events *pd.Events // of a stream of events
	answer *pd.Answer // or else of one JSON object
	run    *prefillRun
}

// rewrite returns what the client gets of a piece, valid until the next call.
func (w *rewriter) rewrite(piece []byte) []byte {
	if w.answer != nil {
		return w.answer.Rewrite(piece)
	}
	return w.events.Rewrite(piece)
}

// waiting reports whether what comes next has to wait for a prefill that still
// runs.
func (w *rewriter) waiting() bool { return w.events != nil && w.events.Waiting() }

// rest waits for that prefill, and returns what was held back, valid until the
// next call. The error is why the prefill has failed.
func (w *rewriter) rest() ([]byte, error) {
	if err := w.run.wait(); err != nil {
		return nil, err
	}
	w.events.Know(&w.run.reply)
	return w.events.Rewrite(nil), nil
}

// whole returns what the client gets of an answer in one piece.
func (w *rewriter) whole(answer []byte) ([]byte, error) {
	out := append([]byte(nil), w.rewrite(answer)...)
	if w.waiting() {
		rest, err := w.rest()
		if err != nil {
			return nil, err
		}
		out = append(out, rest...)
	}
	return append(out, w.close()...), nil
}

// close returns what is held back when the answer has ended.
func (w *rewriter) close() []byte {
	if w.answer != nil {
		return w.answer.Close()
	}
	return w.events.Close()
}

// rewriter returns what the decode worker's answer passes through, or nil if it
// passes as it is. Unless the answer is a stream it waits for the prefill, whose
// failure is the error.
func (x *exchange) rewriter() (*rewriter, error) {
	s := &x.split
	if s.pair.ID == (pd.ID{}) || x.answer.Status >= 300 || x.encoded {
		return nil, nil
	}
	if x.sse {
		if s.run != nil {
			return &rewriter{events: pd.NewEvents(s.kind, nil), run: s.run}, nil
		}
		return &rewriter{events: pd.NewEvents(s.kind, &s.reply)}, nil
	}
	if s.run != nil {
		if err := x.awaitPrefill(); err != nil {
			return nil, err
		}
		s.reply = s.run.reply
		s.run.end()
		s.run = nil
	}
	return &rewriter{answer: pd.NewAnswer(s.kind, &s.reply)}, nil
}

// lookEvery is how often the decode worker is looked at while its answer waits for
// the prefill.
const lookEvery = 20 * time.Millisecond

// awaitPrefill waits for the prefill that runs beside the decode request, whose
// answer has begun. It ends early if the decode worker breaks that off: its place
// must not be held for a prefill that may take its time. The error is that of the
// prefill, or a *failure.
func (x *exchange) awaitPrefill() error {
	run, tick := x.split.run, time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-run.over:
			return run.wait()
		case <-tick.C:
			if err := x.brokenOff(); err != nil {
				return &failure{cause: causeOf(err, true), err: err}
			}
		}
	}
}

// brokenOff returns why the answer can't come to its end, nil if it may. It takes
// nothing of it.
func (x *exchange) brokenOff() error {
	b, br := &x.coming, x.link.conn.Reader()
	if b.ended || br.Buffered() == br.Size() || b.left >= 0 && int64(br.Buffered()) >= b.left || x.link.conn.Quiet() {
		return nil
	}
	_, err := x.link.poll(time.Now().Add(armAfter)) // something is there to be read
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case b.left >= 0:
		return io.ErrUnexpectedEOF
	default:
		return nil // it may be the end: the reader of the body will say
	}
}

// relayMerged gathers the decode worker's answer, and answers with what the
// prefill worker knows of the prompt added to it.
func (x *exchange) relayMerged(lease *actors.Lease) (reuse bool, err error) {
	body, err := x.readWhole(nil, func() time.Duration { return x.p.opts.Timeouts.Idle })
	if err != nil {
		return false, err
	}
	s := &x.split
	merged := s.reply.AppendMerged(nil, body, s.asked)
	body = pd.AppendAnswer(body[:0], merged, s.kind, &s.reply)
	x.pinAnswer(lease, body)
	if x.counts() {
		x.record.countTokens(body)
	}
	x.setWorkerHead()
	x.ctx.Response.SetBodyRaw(body)
	x.record.bytes += int64(len(body))
	return x.answer.KeepAlive, nil
}
