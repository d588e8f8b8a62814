package actors

import "fmt"

// A worker that drains stays a member, goes on to be checked, keeps what it has,
// reserved leases too, and is chosen for nothing more. With its last lease its
// membership ends. A drain decides who may be chosen and when a membership ends,
// and reaches no counter.

// emptying is a worker's drain. The zero value is none.
type emptying struct {
	nth  uint32      // which drain this is, of all there were
	over chan<- bool // capacity one; see Drain.Over
}

func (e *emptying) on() bool { return e.over != nil }

// end ends a drain; whoever waits for it learns that the worker wasn't emptied,
// unless it was told that it was.
func (e *emptying) end() {
	if e.over != nil {
		close(e.over)
		*e = emptying{}
	}
}

// Drain is one worker that drains.
type Drain struct {
	ID     WorkerID
	URL    string
	Base   string
	Handle any
	Leases int // live there when the drain began, reserved ones included

	nth  uint32
	over <-chan bool
}

// Over gives true when the worker's last lease has ended, and with it the
// membership. It is closed without that when the drain ends otherwise: it was
// taken back or begun anew, or the worker was removed. When the registry ends, it
// gives nothing.
func (d *Drain) Over() <-chan bool { return d.over }

type drainWorkers struct {
	url   string
	reply chan<- drainReply
}

type drainReply struct {
	drains []Drain
	err    error
}

func (m drainWorkers) apply(s *state) {
	drains, err := s.drainWorkers(m.url)
	m.reply <- drainReply{drains, err}
}

type undrainWorkers struct {
	url   string
	reply chan<- error
}

func (m undrainWorkers) apply(s *state) { m.reply <- s.undrainWorkers(m.url) }

// endDrain removes a worker, if it still drains as it did when this was asked for.
type endDrain struct {
	id    WorkerID
	nth   uint32
	reply chan<- bool
}

func (m endDrain) apply(s *state) { m.reply <- s.endDrain(m.id, m.nth) }

// DrainWorkers has the worker with this URL, or all ranks at it, get no further
// requests and lose their membership with their last lease. One that drains begins
// anew. Errors: ErrUnknownWorker, ErrStopped.
func (r *Registry) DrainWorkers(url string) ([]Drain, error) {
	reply := make(chan drainReply, 1)
	v, ok := ask(r, drainWorkers{url, reply}, reply)
	if !ok {
		return nil, ErrStopped
	}
	return v.drains, v.err
}

// UndrainWorkers has the worker with this URL, or all ranks at it, get requests
// again, if they drain. Errors: ErrUnknownWorker, ErrStopped.
func (r *Registry) UndrainWorkers(url string) error {
	reply := make(chan error, 1)
	err, ok := ask(r, undrainWorkers{url, reply}, reply)
	if !ok {
		return ErrStopped
	}
	return err
}

// EndDrain removes a worker that drains, whatever still runs there and stays
// counted. It reports false if that drain is over.
func (r *Registry) EndDrain(d *Drain) bool {
	reply := make(chan bool, 1)
	ended, _ := ask(r, endDrain{d.ID, d.nth, reply}, reply)
	return ended
}

// membersAt lists the member with this URL, or all ranks when it is the base URL
// of data-parallel ranks.
func (s *state) membersAt(url string) ([]WorkerID, error) {
	if id, ok := s.byURL[url]; ok && s.workers[id].member {
		return []WorkerID{id}, nil
	}
	if len(s.byBase[url]) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnknownWorker, url)
	}
	return append([]WorkerID(nil), s.byBase[url]...), nil
}

func (s *state) drainWorkers(url string) ([]Drain, error) {
	ids, err := s.membersAt(url)
	if err != nil {
		return nil, err
	}
	drains := make([]Drain, len(ids))
	for i, id := range ids {
		w := &s.workers[id]
		again := w.emptying.on()
		w.emptying.end()
		s.drains++
		over := make(chan bool, 1)
		w.emptying = emptying{s.drains, over}
		drains[i] = Drain{
			ID: id, URL: w.spec.URL, Base: w.spec.Base, Handle: w.spec.Handle, Leases: w.leases(),
			nth: s.drains, over: over,
		}
		s.disturb(w)
		if !again {
			s.emit(Event{Kind: WorkerDraining, URL: w.spec.URL, Load: w.load()})
		}
		if w.leases() == 0 {
			s.vacate(id)
		}
	}
	s.keepFloor()
	return drains, nil
}

func (s *state) undrainWorkers(url string) error {
	ids, err := s.membersAt(url)
	if err != nil {
		return err
	}
	for _, id := range ids {
		w := &s.workers[id]
		if !w.emptying.on() {
			continue
		}
		w.emptying.end()
		s.disturb(w)
		s.emit(Event{Kind: WorkerUndrained, URL: w.spec.URL, Load: w.load()})
	}
	s.keepFloor()
	return nil
}

func (s *state) endDrain(id WorkerID, nth uint32) bool {
	if int(id) >= len(s.workers) || !s.workers[id].emptying.on() || s.workers[id].emptying.nth != nth {
		return false
	}
	s.discharge(id)
	s.membershipChanged()
	s.keepFloor()
	return true
}

// vacate ends the membership of a draining worker that holds nothing any more.
func (s *state) vacate(id WorkerID) {
	s.workers[id].emptying.over <- true // the only value it ever gets
	s.discharge(id)
	s.membershipChanged()
	s.keepFloor()
}
