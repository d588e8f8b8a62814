package actors

import "fmt"

// Foreign load is what other processes run at the workers: another router, or the
// one that this one takes over from. Each of these origins tells the whole of it
// every time, so that nothing lost or repeated can make it wrong for long. It
// weighs in choices, and is no part of any count of leases.

// MaxOrigins is how many origins may tell of foreign load.
const MaxOrigins = 16

// maxForeign keeps sums of what origins tell far from overflow.
const maxForeign = 1 << 24

// Elsewhere is what one origin runs at one worker.
type Elsewhere struct {
	URL string // the worker's; it needn't be known here
	N   int    // leases live there
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

func (s *state) setForeign(origin string, all []Elsewhere) error {
	before, known := s.foreign[origin]
	if len(all) > s.opts.MaxWorkers {
		return fmt.Errorf("%w: %s tells of %d workers, and there may be %d", ErrForeign, origin, len(all), s.opts.MaxWorkers)
	}
	if !known && len(all) > 0 && len(s.foreign) >= MaxOrigins {
		return fmt.Errorf("%w: %s is one more than the %d that may tell", ErrForeign, origin, MaxOrigins)
	}
	told := make(map[string]int, len(all))
	for _, e := range all {
		if e.N < 0 || e.N > maxForeign {
			return fmt.Errorf("%w: %s tells of %d at %s", ErrForeign, origin, e.N, e.URL)
		}
		told[e.URL] = e.N
	}
	if len(told) > 0 {
		s.foreign[origin] = told
	} else {
		delete(s.foreign, origin)
	}
	for url := range before {
		s.weigh(url)
	}
	for url := range told {
		s.weigh(url)
	}
	return nil
}

// weigh sums up what all origins run at a worker, if it is known here. It is the
// only place that writes a worker's foreign load.
func (s *state) weigh(url string) {
	id, ok := s.byURL[url]
	if !ok {
		return
	}
	sum := 0
	for _, told := range s.foreign {
		sum += told[url]
	}
	w := &s.workers[id]
	w.foreign = sum
	s.recount(w)
}

// weight is how busy a worker is taken to be when one is chosen, and when its
// limit is looked at: what is live there by this router's leases, with what
// others run there.
func (w *worker) weight() int { return w.leases() + w.foreign }
