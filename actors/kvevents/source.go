package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-zeromq/zmq4"
)

const (
	// How long to wait before a source is tried again.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second

	// replayLimit is how long a worker may take for one batch of a replay. vLLM
	// answers between two steps.
	replayLimit = 5 * time.Second

	// endOfReplay is the number that ends a replay.
	endOfReplay = 1<<64 - 1
)

var (
	errHole  = errors.New("the replay has a hole")
	errBack  = errors.New("the numbers of its batches went back: another process speaks there")
	errOther = errors.New("the worker does not know what it published last: it was started again")
	errEnded = errors.New("the source is to end")
)

// reader follows one source. It belongs to its goroutine.
type reader struct {
	source
	stream *stream
	opts   *Options
	out    chan<- event
	ctx    context.Context

	decoder decoder
	begun   bool   // next is meaningful
	next    uint64 // number of the next batch
	last    uint64 // hash of the one before
	heard   uint64 // number of the last batch that was published on this connection
	up      bool
	told    bool // that it is cut off
}

// run follows the source until ctx ends, however often it is cut off.
func (r *reader) run(ctx context.Context) {
	defer func() { r.out <- event{from: r.stream, op: opEnded} }()
	r.ctx = ctx
	r.decoder = decoder{size: r.opts.BlockSize, send: r.tell}
	pause := firstPause
	for {
		began := time.Now()
		err := r.follow()
		if ctx.Err() != nil {
			return
		}
		if r.up {
			r.tell(event{op: opDown})
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		if r.up || !r.told {
			r.opts.Log.Warn("a source of KV-cache events is cut off: it is tried again, and its worker placed by prediction meanwhile",
				"worker", r.worker, "endpoint", r.endpoint, "error", err)
		}
		r.up, r.told = false, true
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause/2)): // workers come back together
		}
		pause = min(2*pause, lastPause)
	}
}

// tell sends a message to the index. It reports false if the source is to end.
func (r *reader) tell(e event) bool {
	e.from = r.stream
	select {
	case r.out <- e:
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *reader) count(k kind) { r.tell(event{op: opCount, count: k}) }

// follow connects, catches up and reads until something breaks.
func (r *reader) follow() (err error) {
	defer func() {
		// One peer's bytes must not end the process, whatever they are.
		if p := recover(); p != nil {
			err = fmt.Errorf("a bug: reading KV-cache events panicked: %v", p)
		}
	}()
	w, err := dial(r.ctx, r.endpoint, zmq4.Sub)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.SendMsg(zmq4.NewMsg([]byte{1})); err != nil { // subscribes to all topics
		return err
	}
	r.heard = 0
	if err := r.catchUp(); err != nil {
		return err
	}
	if !r.tell(event{op: opUp}) {
		return errEnded
	}
	r.up = true
	if r.told {
		r.opts.Log.Info("a source of KV-cache events is listened to again", "worker", r.worker, "endpoint", r.endpoint)
	}
	r.told = false
	for {
		seq, payload, err := w.receive(0)
		if err == nil {
			err = r.live(seq, payload)
		}
		if err != nil {
			return err
		}
	}
}

// catchUp brings what is known up to date after a connection was made: by what was
// missed if the worker is the same process as before, else from its beginning.
func (r *reader) catchUp() error {
	if r.replay == "" {
		return r.forget(false)
	}
	if r.begun && r.next > 0 {
		err := r.replayFrom(r.next - 1)
		if !errors.Is(err, errOther) && !errors.Is(err, errHole) {
			return err
		}
	}
	if err := r.forget(true); err != nil {
		return err
	}
	r.begun, r.next = true, 0
	err := r.replayFrom(0)
	if errors.Is(err, errHole) {
		r.begun = false
		return r.forget(false)
	}
	return err
}

// replayFrom asks for all batches from a number on. The one before next, if that is
// asked for, is compared with what was read then.
func (r *reader) replayFrom(from uint64) error {
	w, err := dial(r.ctx, r.replay, zmq4.Dealer)
	if err != nil {
		return fmt.Errorf("cannot ask %s for events that were missed: %w", r.replay, err)
	}
	defer w.close()
	if err := w.SendMsg(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, from))); err != nil {
		return err
	}
	same := from >= r.next
	for {
		seq, payload, err := w.receive(replayLimit)
		switch {
		case err != nil:
			return fmt.Errorf("cannot read the replay of %s: %w", r.replay, err)
		case seq == endOfReplay && !same:
			return errOther
		case seq == endOfReplay:
			return nil
		case !same:
			if seq != from || xxhash.Sum64(payload) != r.last {
				return errOther
			}
			same = true
			continue
		case seq == r.next:
		case from == 0 && r.next == 0: // its oldest are gone
			if err := r.forget(false); err != nil {
				return err
			}
		default:
			return errHole
		}
		if err := r.apply(seq, payload); err != nil {
			return err
		}
	}
}

// live takes a batch that was published just now. The numbers on one connection rise:
// who starts again below would be taken for one whose batches were replayed before,
// and what is known of the other would stand until his numbers have come as far.
func (r *reader) live(seq uint64, payload []byte) error {
	if seq < r.heard {
		return errBack
	}
	r.heard = seq
	switch {
	case !r.begun:
		if seq == 0 {
			if err := r.forget(true); err != nil {
				return err
			}
		}
	case seq < r.next:
		return nil // replayed before
	case seq > r.next:
		if err := r.fill(seq); err != nil || r.next > seq {
			return err
		}
	}
	return r.apply(seq, payload)
}

// fill closes the gap before a batch: by a replay, or by forgetting all.
func (r *reader) fill(seq uint64) error {
	if r.replay != "" {
		err := r.replayFrom(r.next)
		if r.ctx.Err() != nil {
			return errEnded
		}
		if err == nil && r.next >= seq {
			r.count(kindGap)
			return nil
		}
	}
	return r.forget(false)
}

// forget has what is known of the worker forgotten. What follows is all there is, or
// all but what the worker holds already.
func (r *reader) forget(whole bool) error {
	if r.begun && !whole {
		r.count(kindLost)
	}
	r.begun = false
	r.decoder.windows = nil
	if !r.tell(event{op: opRenew, whole: whole}) {
		return errEnded
	}
	return nil
}

// apply passes a batch on.
func (r *reader) apply(seq uint64, payload []byte) error {
	r.begun, r.next, r.last = true, seq+1, xxhash.Sum64(payload)
	ok, err := r.decoder.batch(payload)
	switch {
	case !ok:
		return errEnded
	case err != nil: // it may have told of something that is gone
		r.count(kindUnreadable)
		return r.forgetButNumber()
	}
	return nil
}

// forgetButNumber is forget, with the numbers going on.
func (r *reader) forgetButNumber() error {
	err := r.forget(false)
	r.begun = true
	return err
}
