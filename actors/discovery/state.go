package discovery

import (
	"errors"
	"slices"
	"time"
)

// state is what was said and what the fleet was told. It belongs to the loop.
type state struct {
	fleet   Fleet
	opts    Options
	sources []*Source // in the order in which they were added
	known   map[*Source]*known
	claims  map[string]*claim // by URL
	pending map[string]bool   // URLs that the fleet refused
}

// known is what the loop knows of a source.
type known struct {
	said    map[string]Worker // by URL
	errors  uint64
	last    time.Time
	fault   string // the error that was logged last, since the last answer
	crowded bool   // it was logged that there are too many workers
}

// claim is a worker that some source says, or that the fleet has from one.
type claim struct {
	by     []*Source // that say it
	holder *Source   // that decides what it is like; nil if none says it
	told   Worker    // what the fleet took last
	has    bool      // the fleet has it, from here
	fault  string    // why the fleet refused it last
}

func newState(fleet Fleet, o Options) *state {
	return &state{
		fleet: fleet, opts: o, known: make(map[*Source]*known), claims: make(map[string]*claim), pending: make(map[string]bool),
	}
}

func (st *state) add(s *Source) {
	st.sources = append(st.sources, s)
	st.known[s] = &known{}
}

// say takes the whole of what a source says.
func (st *state) say(s *Source, workers []Worker, now time.Time) {
	k := st.known[s]
	st.alive(s, now)
	said := make(map[string]Worker, min(len(workers), st.opts.MaxWorkers))
	var more []Worker // that weren't said before
	for _, w := range workers {
		w.Source = s.name
		if _, twice := said[w.URL]; twice {
			continue
		}
		if _, before := k.said[w.URL]; before {
			said[w.URL] = w
		} else {
			more = append(more, w)
		}
	}
	left := 0
	for _, w := range more {
		_, twice := said[w.URL]
		switch {
		case twice:
		case len(said) < st.opts.MaxWorkers:
			said[w.URL] = w
		default:
			left++
		}
	}
	if left > 0 && !k.crowded {
		st.opts.Log.Error("a source has more workers than are taken of one", "source", s.name, "taken", len(said), "left_out", left)
	}
	k.crowded = left > 0
	before := k.said
	k.said = said
	var gone []string
	for url := range before {
		if _, still := said[url]; !still {
			gone = append(gone, url)
		}
	}
	slices.Sort(gone)
	for _, url := range gone {
		st.claims[url].drop(s)
		st.settle(url)
	}
	for i := range workers { // in the order in which they were said
		url := workers[i].URL
		if _, taken := said[url]; !taken {
			continue
		}
		if c := st.claim(url); !slices.Contains(c.by, s) {
			c.by = append(c.by, s)
		}
		st.settle(url)
	}
}

// claim returns the claim to a URL, a new one if there is none.
func (st *state) claim(url string) *claim {
	c := st.claims[url]
	if c == nil {
		c = &claim{}
		st.claims[url] = c
	}
	return c
}

func (c *claim) drop(s *Source) {
	c.by = slices.DeleteFunc(c.by, func(o *Source) bool { return o == s })
}

// settle has the fleet agree with what is said of a URL.
func (st *state) settle(url string) {
	c := st.claims[url]
	if len(c.by) == 0 {
		if c.has {
			st.fleet.Drain(c.told)
		}
		delete(st.claims, url)
		delete(st.pending, url)
		return
	}
	if !slices.Contains(c.by, c.holder) {
		c.holder = slices.MinFunc(c.by, func(a, b *Source) int { return slices.Index(st.sources, a) - slices.Index(st.sources, b) })
	}
	w := st.known[c.holder].said[url]
	if c.has && c.told.same(&w) && !st.pending[url] {
		return
	}
	err := st.fleet.Bring(w)
	if err != nil {
		st.refused(url, c, err)
		return
	}
	c.told, c.has, c.fault = w, true, ""
	delete(st.pending, url)
}

// refused notes that the fleet did not take what is said of a URL.
func (st *state) refused(url string, c *claim, err error) {
	st.pending[url] = true
	if text := err.Error(); text != c.fault {
		c.fault = text
		if !errors.Is(err, ErrTaken) {
			st.known[c.holder].errors++
			st.opts.Log.Error("a worker that was discovered is not taken; it is tried again", "worker", url, "source", c.holder.name, "error", err)
		}
	}
}

// again brings what the fleet has refused.
func (st *state) again() {
	for url := range st.pending {
		st.settle(url)
	}
}

func (st *state) alive(s *Source, now time.Time) {
	k := st.known[s]
	if k.fault != "" {
		st.opts.Log.Info("a source of workers answers again", "source", s.name)
	}
	k.last, k.fault = now, ""
}

func (st *state) fail(s *Source, err error) {
	k := st.known[s]
	k.errors++
	if err == nil || err.Error() == k.fault {
		return
	}
	k.fault = err.Error()
	st.opts.Log.Error("a source of workers fails; those it named stay", "source", s.name, "workers", len(k.said), "error", err)
}

func (st *state) view() []SourceView {
	all := make([]SourceView, len(st.sources))
	for i, s := range st.sources {
		k := st.known[s]
		all[i] = SourceView{Name: s.name, Workers: len(k.said), Errors: k.errors, Last: k.last}
	}
	return all
}
