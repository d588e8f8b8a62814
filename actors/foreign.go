package actors

import "fmt"

// Foreign load is what other processes run at the workers: another router, or the
// one that this one takes over from. Each of these origins tells the whole of it
// every time, so that nothing lost or repeated can make it wrong for long. It
// weighs in choices, and is no part of any count of leases.

// MaxOrigins is how many origins may tell of foreign load.
const MaxOrigins = 16

// Peers is the origin that stands for all other routers together. What it tells is
// theirs to pass on, where what other origins tell is not.
const Peers = "peers"

// These keep sums of what origins tell far from overflow.
const (
	maxForeign        = 1 << 24
	maxForeignPending = 1 << 44
)

// Elsewhere is what one origin runs at one worker.
type Elsewhere struct {
	URL     string // the worker's; it needn't be known here
	N       int    // leases live there
	Pending int    // blocks of prompt granted there and not yet prefilled
	Decode  int    // of N, those in the decode phase; told to people only
}

type setForeign struct {
	origin string
	all    []Elsewhere
	reply  chan<- error
}

func (m setForeign) apply(s *state) { m.reply <- s.setForeign(m.origin, m.all) }

// SetForeign replaces all that an origin has told before; without anything it is
// forgotten. The caller sees to it that an origin that falls silent is. Errors:
// ErrForeign, ErrStopped.
func (r *Registry) SetForeign(origin string, all []Elsewhere) error {
	reply := make(chan error, 1)
	err, ok := ask(r, setForeign{origin, all, reply}, reply)
	if !ok {
		return ErrStopped
	}
	return err
}

type running struct {
	into  []Elsewhere
	reply chan<- []Elsewhere
}

func (m running) apply(s *state) { m.reply <- s.runningAt(m.into[:0]) }

// Running tells what runs at each worker where anything does: this router's leases,
// reserved places included, and what other origins than Peers have told. It is
// written into the slice that is given, which is the caller's again when it
// returns. It reports false once the registry has ended.
func (r *Registry) Running(into []Elsewhere) ([]Elsewhere, bool) {
	reply := make(chan []Elsewhere, 1)
	return ask(r, running{into, reply}, reply)
}

func (s *state) runningAt(all []Elsewhere) []Elsewhere {
	for i := range s.workers {
		w := &s.workers[i]
		e := Elsewhere{URL: w.spec.URL, N: w.leases(), Pending: w.pending, Decode: w.inPhase[Decoding]}
		if w.foreign > 0 || w.foreignPending > 0 {
			for origin, told := range s.foreign {
				if origin != Peers {
					e.N, e.Pending = e.N+told[e.URL].N, e.Pending+told[e.URL].Pending
				}
			}
		}
		if e.N > 0 || e.Pending > 0 {
			all = append(all, e)
		}
	}
	return all
}

func (s *state) setForeign(origin string, all []Elsewhere) error {
	before, known := s.foreign[origin]
	if len(all) > s.opts.MaxWorkers {
		return fmt.Errorf("%w: %s tells of %d workers, and there may be %d", ErrForeign, origin, len(all), s.opts.MaxWorkers)
	}
	if !known && len(all) > 0 && len(s.foreign) >= MaxOrigins {
		return fmt.Errorf("%w: %s is one more than the %d that may tell", ErrForeign, origin, MaxOrigins)
	}
	told := make(map[string]Elsewhere, len(all))
	for _, e := range all {
		if e.N < 0 || e.N > maxForeign {
			return fmt.Errorf("%w: %s tells of %d at %s", ErrForeign, origin, e.N, e.URL)
		}
		if e.Pending < 0 || e.Pending > maxForeignPending {
			return fmt.Errorf("%w: %s tells of %d blocks that are pending at %s", ErrForeign, origin, e.Pending, e.URL)
		}
		told[e.URL] = e
	}
	if len(told) > 0 {
		s.foreign[origin] = told
	} else {
		delete(s.foreign, origin)
	}
	for url := range before {
		if _, still := told[url]; !still {
			s.weigh(url)
		}
	}
	for url, e := range told {
		if was := before[url]; e.N != was.N || e.Pending != was.Pending {
			s.weigh(url)
		}
	}
	return nil
}

// weigh sums up what all origins run at a worker, if it is known here, unless the
// worker itself has said that it is more. It is the only place that writes a worker's
// foreign load.
func (s *state) weigh(url string) {
	id, ok := s.byURL[url]
	if !ok {
		return
	}
	sum, pending := 0, 0
	for _, told := range s.foreign {
		e := told[url]
		sum, pending = sum+e.N, pending+e.Pending
	}
	w := &s.workers[id]
	w.foreign, w.foreignPending = max(sum, w.said.beyond), pending
	s.recount(w)
}

// weight is how busy a worker is taken to be when one is chosen, and when its
// limit is looked at: what is live there by this router's leases, with what
// others run there.
func (w *worker) weight() int { return w.leases() + w.foreign }

// backlog is the prompt work that stands before a request at the worker, of this
// router and of others.
func (w *worker) backlog() int { return w.pending + w.foreignPending }
