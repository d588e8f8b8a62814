package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors"
)

// bus is what routers are connected by, in one process and in fake time.
type bus struct {
	mu     sync.Mutex
	links  []*busLink
	random *rand.Rand
	loss   float64
	twice  float64
	delay  time.Duration // at most
}

// busLink is a router's connection to a bus.
type busLink struct {
	bus      *bus
	receiver Receiver
	down     bool
}

func (b *bus) open(r Receiver) Link {
	l := &busLink{bus: b, receiver: r}
	b.mu.Lock()
	b.links = append(b.links, l)
	b.mu.Unlock()
	go r.Changed(LinkState{Up: true, Server: "bus"})
	return l
}

// Publish implements Link.
func (l *busLink) Publish(k Kind, message []byte) error {
	b := l.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.down {
		return errors.New("down")
	}
	for _, to := range b.links {
		if to == l || to.down || b.random.Float64() < b.loss {
			continue
		}
		n := 1
		if b.random.Float64() < b.twice {
			n = 2
		}
		for range n {
			wait := time.Duration(b.random.Int64N(int64(b.delay) + 1))
			go func() {
				time.Sleep(wait)
				b.mu.Lock()
				open := !to.down
				b.mu.Unlock()
				if open {
					to.receiver.Hear(k, message)
				}
			}()
		}
	}
	return nil
}

// Close implements Link.
func (l *busLink) Close() { l.cut() }

// cut ends a connection without a word to anybody.
func (l *busLink) cut() {
	l.bus.mu.Lock()
	l.down = true
	l.bus.mu.Unlock()
}

// drop is the loss of a connection, and restore its return.
func (l *busLink) drop() {
	l.cut()
	l.receiver.Changed(LinkState{Err: errors.New("lost")})
}

func (l *busLink) restore() {
	l.bus.mu.Lock()
	l.down = false
	l.bus.mu.Unlock()
	l.receiver.Changed(LinkState{Up: true, Server: "bus"})
}

// testFleet is a router without requests: what runs there is said.
type testFleet struct {
	mu      sync.Mutex
	runs    []actors.Elsewhere
	foreign map[string]actors.Elsewhere
	places  []actors.Placement
	hinted  []actors.Placement
	full    bool // it takes no hints
	err     error
}

func (f *testFleet) Running(into []actors.Elsewhere) ([]actors.Elsewhere, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(into, f.runs...), true
}

func (f *testFleet) SetForeign(origin string, all []actors.Elsewhere) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if origin != actors.Peers {
		panic("origin " + origin)
	}
	if f.err != nil && len(all) > 0 {
		return f.err
	}
	f.foreign = map[string]actors.Elsewhere{}
	for _, e := range all {
		f.foreign[e.URL] = e
	}
	return nil
}

func (f *testFleet) Placed() []actors.Placement {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.places
	f.places = nil
	return all
}

func (f *testFleet) Hint(all []actors.Placement) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return 0
	}
	f.hinted = append(f.hinted, all...)
	return len(all)
}

func (f *testFleet) run(all ...actors.Elsewhere) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = slices.DeleteFunc(all, func(e actors.Elsewhere) bool { return e.N == 0 }) // as the registry does
}

// hears is what a fleet has heard of others, as text.
func (f *testFleet) hears() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text []string
	for _, e := range f.foreign {
		text = append(text, fmt.Sprintf("%s=%d/%d", e.URL, e.N, e.Pending))
	}
	slices.Sort(text)
	return fmt.Sprint(text)
}

// router is an Actor with all around it.
type router struct {
	*Actor
	fleet  *testFleet
	link   *busLink
	mu     sync.Mutex
	events []Event
}

func (r *router) told(k EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// join starts a router on a bus. It has ended with the test.
func join(t *testing.T, b *bus, name string, incarnation uint64) *router {
	t.Helper()
	began := time.Now()
	r := &router{fleet: &testFleet{}}
	r.Actor = Start(Options{
		Name: name, Incarnation: incarnation, MaxWorkers: 100, Now: func() int64 { return int64(time.Since(began)) },
		Tell: func(e Event) {
			r.mu.Lock()
			r.events = append(r.events, e)
			r.mu.Unlock()
		},
	}, r.fleet, func(rc Receiver) Link {
		l := b.open(rc)
		r.link = l.(*busLink)
		return l
	})
	t.Cleanup(func() { r.Close(); synctest.Wait() })
	return r
}

func newBus() *bus { return &bus{random: rand.New(rand.NewPCG(1, 2))} }

// after lets fake time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantHears(t *testing.T, r *router, want string) {
	t.Helper()
	if got := r.fleet.hears(); got != want {
		t.Errorf("%s hears of %s, want %s", r.opts.Name, got, want)
	}
}

func at(url string, n int) actors.Elsewhere {
	return actors.Elsewhere{URL: url, N: n, Pending: 10 * n}
}
