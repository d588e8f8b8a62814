package peers

import (
	"context"
	"errors"
	"time"

	"loadstar/actors"
)

// How often figures are looked at, and told if they have changed: while something
// runs here, and while nothing does. Two routers that choose within that time of each
// other may choose the same worker.
const (
	busyEvery = 5 * time.Millisecond
	idleEvery = 20 * time.Millisecond
)

// What the others run is handed to the registry when it has changed, but not sooner
// behind the last time than sumsEvery, nor sooner than what takes it 3 % of its time.
const (
	sumsEvery     = 5 * time.Millisecond
	sumsPerWorker = 10 * time.Microsecond
)

// Fleet is whose requests are told of, and who hears of those of others:
// actors.Router.
type Fleet interface {
	Running(into []actors.Elsewhere) ([]actors.Elsewhere, bool)
	SetForeign(origin string, all []actors.Elsewhere) error
	Placed() []actors.Placement
	Hint(all []actors.Placement) (taken int)
}

// Link is a connection to the other routers.
type Link interface {
	// Publish sends a message to all of them, or to nobody. It is called by one
	// goroutine, and may block for a short time.
	Publish(k Kind, message []byte) error
	// Close ends the connection when what was published has been sent, or after a
	// short time. The receiver hears nothing behind it.
	Close()
}

// Receiver is told what comes by a Link. Its methods may be called by any goroutine,
// and keep nothing of what they are given.
type Receiver interface {
	Hear(k Kind, message []byte)
	Lost(n int) // messages that came too fast
	Changed(s LinkState)
}

// EventKind says what an Event is about.
type EventKind uint8

// Kinds of events.
const (
	PeerCame EventKind = iota
	PeerGone
	LinkUp         // Name is the server
	LinkLost       // or never had
	NamesakeHeard  // another router has this router's name, so each hears nothing of the other
	ForeignRefused // the registry did not take what the others run
)

// Event is a fact worth logging.
type Event struct {
	Kind EventKind
	Name string
	Err  error
}

// Options configures an Actor.
type Options struct {
	Name        string       // of this router, which no other of the group has; see IsName
	Incarnation uint64       // of two processes of that name the later has the higher
	MaxWorkers  int          // of which others may tell
	Now         func() int64 // monotonic, in nanoseconds; never below zero
	Tell        func(Event)  // called by one goroutine
}

// Actor is this router's place among the others. Its methods are safe for concurrent
// use.
type Actor struct {
	opts  Options
	fleet Fleet
	inbox chan event
	hints chan hints
	news  chan struct{} // capacity one: the sums have changed
	stop  chan struct{} // capacity one: Close was called
	done  chan struct{} // closed when the loop has ended
	over  chan struct{} // closed when every goroutine has
}

// Start joins the routers that open connects to. Call Close to leave them.
func Start(o Options, fleet Fleet, open func(Receiver) Link) *Actor {
	a := &Actor{
		opts: o, fleet: fleet, inbox: make(chan event, inboxSize), hints: make(chan hints, hintsSize), news: make(chan struct{}, 1),
		stop: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{}),
	}
	own := head{name: o.Name, incarnation: o.Incarnation}
	go a.loop(&state{
		table: table{own: own, workers: o.MaxWorkers}, teller: teller{head: own, full: -int64(fullEvery)}, hints: a.hints, changed: a.news,
	})
	go a.run(open(a))
	return a
}

// Close tells the others that nothing runs here any more, forgets what they run, and
// returns when every goroutine has ended. It may be called again.
func (a *Actor) Close() {
	select {
	case a.stop <- struct{}{}:
	default:
	}
	<-a.over
}

// View tells what is known now. It reports false once the Actor was closed.
func (a *Actor) View() (View, bool) {
	reply := make(chan View, 1)
	return ask(a, viewRequest{a.opts.Now(), reply}, reply)
}

// Hear implements Receiver.
func (a *Actor) Hear(k Kind, message []byte) {
	now := a.opts.Now()
	err := errMessage
	switch {
	case len(message) > MaxMessage:
	case k == Figures:
		var m figures
		if m, err = parseFigures(message); err == nil {
			a.send(heardFigures{m, now})
		}
	case k == Placed:
		var m heardPlaced
		if m.head, m.hints.all, m.hints.blocks, err = parsePlaced(message); err == nil {
			a.send(m)
		}
	}
	if err != nil {
		a.send(dropped{Unreadable, 1})
	}
}

// Lost implements Receiver.
func (a *Actor) Lost(n int) { a.send(dropped{Slow, uint64(n)}) }

// Changed implements Receiver.
func (a *Actor) Changed(s LinkState) { a.send(linkChanged{s}) }

// send brings an event to the loop, and waits for room. It reports false if the loop
// has ended.
func (a *Actor) send(e event) bool {
	select {
	case a.inbox <- e:
		return true
	case <-a.done:
		return false
	}
}

// ask sends an event and waits for the answer.
func ask[T any](a *Actor, e event, reply <-chan T) (v T, ok bool) {
	if !a.send(e) {
		return v, false
	}
	select {
	case v = <-reply:
		return v, true
	case <-a.done:
		select {
		case v = <-reply: // the last one
			return v, true
		default:
			return v, false
		}
	}
}

// run drives the Actor: it is the goroutine that may block, on the registry, on the
// tree and on the link.
func (a *Actor) run(link Link) {
	defer close(a.over)
	ctx, cancel := context.WithCancel(context.Background())
	hinted := make(chan struct{})
	go func() {
		defer close(hinted)
		a.giveHints(ctx)
	}()
	d := driver{Actor: a, link: link}
	every := idleEvery
	clock := time.NewTicker(every)
	defer clock.Stop()
	for running := true; running; {
		select {
		case <-clock.C:
			if next := d.tick(); next != every {
				every = next
				clock.Reset(every)
			}
		case <-a.news:
			d.stale = true
			d.sum()
		case <-a.stop:
			running = false
		}
	}
	d.leave()
	cancel()
	<-hinted
}

// driver belongs to run.
type driver struct {
	*Actor
	link     Link
	all      []actors.Elsewhere
	gathered int64 // when prompts were collected last
	stale    bool  // the registry is to be told other sums
	nextSum  int64 // when it may be, at the earliest
	refused  bool  // by the registry, which was told of
}

// gatherEvery is how often prompts are told of.
const gatherEvery = 500 * time.Millisecond

// tick looks at the figures, and says when to do so next.
func (d *driver) tick() time.Duration {
	all, ok := d.fleet.Running(d.all[:0])
	if !ok {
		return idleEvery // the registry has ended, and Close will come
	}
	d.all = all
	now := d.opts.Now()
	var placed []actors.Placement
	if now-d.gathered >= int64(gatherEvery) {
		d.gathered = now
		placed = d.fleet.Placed()
	}
	reply := make(chan due, 1)
	due, _ := ask(d.Actor, tick{now, all, placed, reply}, reply)
	d.publish(Figures, due.figures)
	d.publish(Placed, due.placed)
	d.sum()
	for _, e := range due.news {
		d.opts.Tell(e)
	}
	if len(all) == 0 {
		return idleEvery
	}
	return busyEvery
}

// sum hands what the others run to the registry, if that is due.
func (d *driver) sum() {
	now := d.opts.Now()
	if !d.stale || now < d.nextSum {
		return
	}
	reply := make(chan []actors.Elsewhere, 1)
	all, ok := ask(d.Actor, sumsRequest{reply}, reply)
	if !ok {
		return
	}
	d.stale, d.nextSum = false, now+int64(max(sumsEvery, time.Duration(len(all))*sumsPerWorker))
	d.setForeign(all)
}

// publish sends messages. What those said that can't be sent is said again.
func (d *driver) publish(k Kind, messages [][]byte) {
	var n sent
	n.kind = k
	for _, m := range messages {
		if d.link.Publish(k, m) != nil {
			n.failed++
		} else {
			n.ok++
		}
	}
	if len(messages) > 0 {
		d.send(n)
	}
}

func (d *driver) setForeign(all []actors.Elsewhere) {
	err := d.fleet.SetForeign(actors.Peers, all)
	refused := err != nil && !errors.Is(err, actors.ErrStopped)
	if refused {
		_ = d.fleet.SetForeign(actors.Peers, nil) // rather nothing than what isn't so any more
		if !d.refused {
			d.opts.Tell(Event{Kind: ForeignRefused, Err: err})
		}
	}
	d.refused = refused
}

// leave ends the loop and the link.
func (d *driver) leave() {
	reply := make(chan []byte, 1)
	if last, ok := ask(d.Actor, halt{d.opts.Now(), reply}, reply); ok {
		d.publish(Figures, [][]byte{last})
	}
	d.link.Close()
	d.setForeign(nil)
}
