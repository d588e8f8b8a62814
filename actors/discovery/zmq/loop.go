package zmq

import (
	"time"

	"loadstar/actors"
)

// ticks is how many ticks make an expiry.
const ticks = 15

// Stats are the listener's figures at one moment.
type Stats struct {
	Connections     int    // open, handshakes included
	Prefill, Decode int    // workers whose pings are fresh
	Mode            Mode   // that of the fleet; NoMode until a MoRI-IO worker was taken
	Pings           uint64 // taken so far
	Dropped         uint64 // pings not taken so far: unreadable, of another mode, or for want of room
}

// Stats returns the figures, which are zero once the listener has ended.
func (l *Listener) Stats() Stats {
	reply := make(chan Stats, 1)
	select {
	case l.asks <- reply:
		return <-reply
	case <-l.done:
		return Stats{}
	}
}

// run runs the loop beside the goroutines that call the fleet and write the log,
// and returns when all have ended.
func (l *Listener) run(fleet Fleet) {
	defer close(l.done)
	var (
		tasks   = make(chan task)
		answers = make(chan error, 1) // room for the last one when the loop has ended
		facts   = make(chan fact, factsSize)
		ended   = make(chan struct{}, 2)
	)
	go func() {
		call(fleet, tasks, answers)
		ended <- struct{}{}
	}()
	go func() {
		write(l.opts.Log, facts)
		ended <- struct{}{}
	}()
	l.loop(tasks, answers, facts)
	close(tasks)
	close(facts)
	<-ended
	<-ended
}

// call makes the calls to the fleet.
func call(fleet Fleet, tasks <-chan task, answers chan<- error) {
	for k := range tasks {
		var err error
		switch {
		case k.old == none:
			err = fleet.Register(k.changed)
		case k.changed == none:
			fleet.Expire(k.old)
		default:
			err = fleet.Replace(k.old, k.changed)
		}
		answers <- err
	}
}

// state belongs to the loop.
type state struct {
	table table
	stats Stats
	facts chan<- fact
	lost  [numNotes]int // facts for which there was no room
}

// loop owns all state until the inbox is closed. It gives the fleet a task when
// the last one is settled.
func (l *Listener) loop(tasks chan<- task, answers <-chan error, facts chan<- fact) {
	s := state{
		table: table{max: l.opts.MaxRegistrations, limit: ticks, entries: make(map[identity]*entry)},
		facts: facts,
	}
	clock := time.NewTicker(max(l.opts.Expiry/ticks, time.Millisecond))
	defer clock.Stop()
	var (
		work      task
		due, busy bool // work waits for the fleet, or is with it
	)
	for {
		if !due && !busy {
			work, due = s.table.next()
		}
		offer := tasks
		if !due {
			offer = nil // a send on it never happens
		}
		select {
		case e, open := <-l.inbox:
			if !open {
				return
			}
			s.take(&e)
		case offer <- work:
			due, busy = false, true
		case err := <-answers:
			busy = false
			s.settle(work, err)
		case <-clock.C:
			s.table.tick(func(r Registration) { s.tell(fact{note: noteExpired, who: r}) })
		case reply := <-l.asks:
			s.stats.Connections, s.stats.Mode = len(l.peers), s.table.mode
			s.stats.Prefill, s.stats.Decode = s.table.count(actors.Prefill), s.table.count(actors.Decode)
			reply <- s.stats
		}
	}
}

// take takes what a reader says.
func (s *state) take(e *event) {
	f := fact{note: e.note, peer: e.peer, who: e.ping, err: e.err}
	if e.note == noteNothing {
		f.note = s.table.ping(e.ping)
	}
	switch f.note {
	case noteBadPing, noteOtherMode, noteTableFull:
		s.stats.Dropped++
	case noteNothing, noteContested, noteChanged:
		s.stats.Pings++
	}
	if f.note != noteNothing {
		s.tell(f)
	}
}

func (s *state) settle(k task, err error) {
	s.table.settle(k, err)
	if err != nil {
		s.tell(fact{note: noteFleet, who: k.changed, err: err})
	}
}

// tell offers a fact to the log.
func (s *state) tell(f fact) {
	f.lost = s.lost[f.note]
	select {
	case s.facts <- f:
		s.lost[f.note] = 0
	default:
		s.lost[f.note]++
	}
}
