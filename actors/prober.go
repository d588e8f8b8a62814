package actors

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A Check asks the workers at one base URL whether they are well; nil means they
// are, and an error that wraps ErrNoVerdict that they could not be asked. It must
// return soon after ctx ends, and is never called twice at a time.
type Check func(ctx context.Context) error

// ErrNoVerdict is what a check returns that has found out nothing, for reasons that
// are not the worker's. It leaves the worker's health as it is.
var ErrNoVerdict = errors.New("the worker could not be asked")

// Prober checks the health of workers, each base URL on a goroutine of its own,
// so that a slow one delays no other. It sends verdicts to the registry and can
// reach nothing else of it.
type Prober struct {
	registry *Registry
	opts     HealthOptions
	inbox    chan proberMessage
	done     chan struct{} // closed when every check has ended
}

type proberKind uint8

const (
	proberWatch proberKind = iota
	proberUnwatch
	proberEnded
	proberStop
)

type proberMessage struct {
	kind  proberKind
	base  string
	check Check // proberWatch
}

// watched is what the prober knows of one base URL.
type watched struct {
	users  int                // workers that live there: one, or one for each rank; below 0 while an Unwatch is ahead of its Watch
	cancel context.CancelFunc // nil until checks run
}

// NewProber starts a prober that checks nothing yet. Call Stop to end it.
func NewProber(r *Registry, o HealthOptions) *Prober {
	p := &Prober{registry: r, opts: o, inbox: make(chan proberMessage, 64), done: make(chan struct{})}
	go p.loop()
	return p
}

// Watch starts checks of a base URL, unless they run already. Each call needs an
// Unwatch of its own; the two may come in either order.
func (p *Prober) Watch(base string, check Check) { p.send(proberMessage{proberWatch, base, check}) }

// Unwatch ends the checks of a base URL that nobody else watches.
func (p *Prober) Unwatch(base string) { p.send(proberMessage{kind: proberUnwatch, base: base}) }

// Stop ends all checks and waits for them.
func (p *Prober) Stop() {
	p.send(proberMessage{kind: proberStop})
	<-p.done
}

func (p *Prober) send(m proberMessage) {
	select {
	case p.inbox <- m:
	case <-p.done:
	}
}

// loop owns which base URLs are checked.
func (p *Prober) loop() {
	defer close(p.done)
	all := make(map[string]*watched)
	count := func(base string, by int) *watched {
		w := all[base]
		if w == nil {
			w = new(watched)
			all[base] = w
		}
		w.users += by
		return w
	}
	running, stopping := 0, false
	for !stopping || running > 0 {
		m := <-p.inbox
		switch m.kind {
		case proberWatch:
			if stopping {
				continue
			}
			switch w := count(m.base, 1); {
			case w.users == 0: // its Unwatch overtook it
				delete(all, m.base)
			case w.users > 0 && w.cancel == nil:
				ctx, cancel := context.WithCancel(context.Background())
				w.cancel = cancel
				running++
				go p.run(ctx, m.base, m.check)
			}
		case proberUnwatch:
			if w := count(m.base, -1); w.users == 0 {
				w.cancel()
				delete(all, m.base)
			}
		case proberEnded:
			running--
		case proberStop:
			stopping = true
			for _, w := range all {
				if w.cancel != nil {
					w.cancel()
				}
			}
		}
	}
}

// run checks one base URL until ctx ends.
func (p *Prober) run(ctx context.Context, base string, check Check) {
	defer func() { p.inbox <- proberMessage{kind: proberEnded} }()
	proven := false
	for {
		limit, cancel := context.WithTimeout(ctx, p.opts.Timeout)
		err := check(limit)
		cancel()
		if ctx.Err() != nil {
			return // what a check says that was called off counts for nothing
		}
		if !errors.Is(err, ErrNoVerdict) {
			proven = p.registry.ReportHealth(base, err) || proven
		}
		pause := p.opts.Interval
		if !proven {
			pause = min(pause, p.opts.RetryInterval)
		}
		// A tenth more or less, so that the checks of a fleet don't march in step.
		pause += time.Duration((rand.Float64() - 0.5) * 0.2 * float64(pause))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
