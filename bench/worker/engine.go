package worker

import (
	"errors"
	"time"

	"loadstar/bench/alarm"
)

var (
	// errFull says that a job found no place in the queue.
	errFull = errors.New("the queue is full")
	// errClosed says that the worker has been closed.
	errClosed = errors.New("the worker is closed")
)

// engine is the goroutine that owns a state. Its inbox is first in, first out,
// so a caller's own messages take effect in order.
type engine struct {
	id    string        // what other workers call it; may be empty
	inbox chan message  // capacity: enough that handlers rarely wait for a busy loop
	done  chan struct{} // closed when the loop has ended
	last  Stats         // written before done is closed, read after
}

type messageKind uint8

const (
	messageEnter messageKind = iota
	messageSubmit
	messageLeave
	messageFlush
	messageLoad
	messageTake
	messageRenew
	messageRelease
	messageStats
	messageClose
)

type message struct {
	kind     messageKind
	rank     int          // messageEnter
	job      *job         // messageSubmit, messageLeave, messageLoad
	outcome  outcome      // messageLeave
	taken    chan<- bool  // messageSubmit; capacity one
	stats    chan<- Stats // messageStats; capacity one
	transfer *transfer    // messageLoad, messageTake, messageRenew, messageRelease
}

// transfer is a message about KV cache that moves between workers. A claim comes
// to where the cache is, a grant to where it goes.
type transfer struct {
	claim claim        // only its key, except for messageTake
	grant grant        // messageLoad
	reply chan<- grant // messageTake; capacity one
}

// newAlarm is what engines wake by; tests have one that follows the clock of package
// synctest.
var newAlarm = alarm.New

func newEngine(cfg Config) *engine {
	e := &engine{inbox: make(chan message, 256), done: make(chan struct{})}
	go e.loop(newState(cfg))
	return e
}

func (e *engine) loop(s *state) {
	defer close(e.done)
	wake := newAlarm()
	defer wake.Close()
	for {
		var due <-chan struct{}
		if at, ok := s.next(); ok {
			wake.Set(time.Until(at))
			due = wake.C
		}
		select {
		case <-due:
			s.advance(time.Now())
		case m := <-e.inbox:
			if m.kind == messageClose {
				e.last = s.snapshot(time.Now())
				return
			}
			apply(s, m, time.Now())
		}
	}
}

func apply(s *state, m message, now time.Time) {
	switch m.kind {
	case messageEnter:
		s.enter(m.rank)
	case messageSubmit:
		m.taken <- s.submit(m.job, now)
	case messageLeave:
		s.leave(m.job, m.outcome, now)
	case messageFlush:
		s.flush(now)
	case messageLoad:
		s.load(m.job, m.transfer.grant, now)
	case messageTake:
		s.take(m.transfer.claim, m.transfer.reply, now)
	case messageRenew:
		s.renew(m.transfer.claim.Key, now)
	case messageRelease:
		s.release(m.transfer.claim.Key, now)
	case messageStats:
		m.stats <- s.snapshot(now)
	}
}

// send puts m in the inbox, or drops it if the loop has ended.
func (e *engine) send(m message) {
	select {
	case e.inbox <- m:
	case <-e.done:
	}
}

// enter books a request's arrival. Each enter needs one leave.
func (e *engine) enter(rank int) { e.send(message{kind: messageEnter, rank: rank}) }

// leave books a request's end and drops its job, nil if there is none.
func (e *engine) leave(j *job, o outcome) {
	e.send(message{kind: messageLeave, job: j, outcome: o})
}

// submit hands j over. Its progress channel then tells how it goes, until it is
// finished or the engine is done. The errors are errFull and errClosed.
func (e *engine) submit(j *job) error {
	taken := make(chan bool, 1)
	e.send(message{kind: messageSubmit, job: j, taken: taken})
	select {
	case ok := <-taken:
		if !ok {
			return errFull
		}
		return nil
	case <-e.done:
		return errClosed
	}
}

// flush empties the prefix cache.
func (e *engine) flush() { e.send(message{kind: messageFlush}) }

// stats is the state as this message finds it, or the last one if the engine is closed.
func (e *engine) stats() Stats {
	reply := make(chan Stats, 1)
	e.send(message{kind: messageStats, stats: reply})
	select {
	case s := <-reply:
		return s
	case <-e.done:
		return e.last
	}
}

// close ends the loop and waits for it. It may be called again.
func (e *engine) close() {
	e.send(message{kind: messageClose})
	<-e.done
}
