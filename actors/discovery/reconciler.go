package discovery

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Fleet is what the Reconciler changes. One goroutine calls it.
type Fleet interface {
	// Bring makes w a member, or what is known of it what w says now. If it drains, it
	// gets requests again. The error is ErrTaken if no source brought the member of
	// that URL; after any error the worker is brought again later.
	Bring(w Worker) error

	// Drain lets w get no more requests and has it leave when those it has are over,
	// unless no source brought it.
	Drain(w Worker)
}

// ErrTaken says that a worker belongs to the command line or to the admin API.
var ErrTaken = errors.New("the worker was added by hand")

// Options bounds a Reconciler. The zero value of a field stands for its default.
type Options struct {
	MaxWorkers int           // of one source; 4096 by default
	Retry      time.Duration // between attempts to bring what the fleet refused; 5 s by default
	Log        *slog.Logger  // of errors; none by default
}

func (o Options) withDefaults() Options {
	if o.MaxWorkers <= 0 {
		o.MaxWorkers = 4096
	}
	if o.Retry <= 0 {
		o.Retry = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Reconciler turns what sources say into changes of a fleet. Close ends it.
type Reconciler struct {
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	inbox  chan message  // of room for none: who says something waits until it is taken
	done   chan struct{} // closed when the loop and all sources have ended
}

// kind says which fields of a message mean something.
type kind uint8

const (
	kindAdd kind = iota
	kindRun      // kindAdd, of a source with a goroutine that kindEnded ends
	kindEnded
	kindSay
	kindAlive
	kindFail
	kindView
)

// message is one thing that the loop is told or asked.
type message struct {
	kind   kind
	source *Source             // of all but kindView
	said   []Worker            // kindSay
	now    time.Time           // kindSay, kindAlive
	err    error               // kindFail; nil if it is logged elsewhere
	view   chan<- []SourceView // kindView; capacity one
}

// Source is one source's way to say what it knows. Its methods return when the loop
// has taken that, or when the Reconciler ends; any goroutine may call them.
type Source struct {
	r    *Reconciler
	name string
}

// SourceView is how a source fares.
type SourceView struct {
	Name    string
	Workers int       // that it said last, and may say
	Errors  uint64    // since the start
	Last    time.Time // when it last got an answer; zero if it never did
}

// New starts a Reconciler without sources.
func New(fleet Fleet, o Options) *Reconciler {
	r := &Reconciler{opts: o.withDefaults(), inbox: make(chan message), done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	go r.loop(newState(fleet, r.opts))
	return r
}

// Add adds a source that somebody else runs. Those added before come first where
// several name a worker.
func (r *Reconciler) Add(name string) *Source {
	s := &Source{r: r, name: name}
	r.send(message{kind: kindAdd, source: s})
	return s
}

// Run adds a source and runs it on a goroutine of its own until ctx ends, which Close
// sees to and waits for.
func (r *Reconciler) Run(name string, run func(ctx context.Context, s *Source)) {
	s := &Source{r: r, name: name}
	if !r.send(message{kind: kindRun, source: s}) {
		return
	}
	go func() {
		defer func() { r.inbox <- message{kind: kindEnded, source: s} }()
		run(r.ctx, s)
	}()
}

// Close ends all sources and the loop, and waits for them. The fleet keeps its
// workers. It may be called again.
func (r *Reconciler) Close() {
	r.cancel()
	<-r.done
}

// View tells how the sources fare, in the order in which they were added; nil once
// the Reconciler has ended.
func (r *Reconciler) View() []SourceView {
	reply := make(chan []SourceView, 1)
	if !r.send(message{kind: kindView, view: reply}) {
		return nil
	}
	return <-reply
}

func (r *Reconciler) send(m message) bool {
	select {
	case r.inbox <- m:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// Say says which workers there are, all of them. A worker that is named twice counts
// once, as it was named first.
func (s *Source) Say(workers []Worker) {
	s.r.send(message{kind: kindSay, source: s, said: workers, now: time.Now()})
}

// Alive says that the source has got an answer that changed nothing.
func (s *Source) Alive() { s.r.send(message{kind: kindAlive, source: s, now: time.Now()}) }

// Fail counts an error, and logs it if it is not the one before. What was said last
// goes on to hold.
func (s *Source) Fail(err error) { s.r.send(message{kind: kindFail, source: s, err: err}) }

// Failed counts an error that is logged elsewhere.
func (s *Source) Failed() { s.r.send(message{kind: kindFail, source: s}) }

// loop owns st. Close has it take what sources still say and ends it with the last of
// them.
func (r *Reconciler) loop(st *state) {
	defer close(r.done)
	running := 0
	closing := r.ctx.Done()
	var retry <-chan time.Time // nil while nothing waits for another attempt
	for closing != nil || running > 0 {
		select {
		case <-closing:
			closing = nil
		case <-retry:
			retry = nil
			st.again()
		case m := <-r.inbox:
			switch {
			case m.kind == kindEnded:
				running--
			case m.kind == kindView:
				m.view <- st.view()
			case m.kind == kindRun:
				running++
				st.add(m.source)
			case closing == nil: // the fleet stays as it is
			case m.kind == kindAdd:
				st.add(m.source)
			case m.kind == kindSay:
				st.say(m.source, m.said, m.now)
			case m.kind == kindAlive:
				st.alive(m.source, m.now)
			case m.kind == kindFail:
				st.fail(m.source, m.err)
			}
		}
		if retry == nil && len(st.pending) > 0 {
			retry = time.After(r.opts.Retry)
		}
	}
}
