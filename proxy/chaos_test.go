package proxy

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy/proxytest"
)

var (
	chaosEvents = flag.Int("chaos.events", chaosDefault, "random events in TestChaos and in TestChaosPD, over all policies")
	chaosSeed   = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0 takes one from the clock")
)

// TestChaos throws random requests, departures, panics, faults and lies of workers,
// health flaps and changes of the fleet at a router, under every policy, and
// compares what it counts with what its workers see. One of the workers is a
// process of its own, which is killed, frozen and started again at its address.
//
//   - At every moment 0 <= load <= the requests that the driver has open.
//   - Whenever the driver pauses and the workers' sockets are quiet, each
//     worker's load equals what it sees.
//   - No lease is returned twice, and none is lost. At the end every load is 0,
//     and goroutines and descriptors are back where they were.
//   - Each panic is counted once, and is its own request's alone.
//   - No client gets what was meant for another one. While the fleet is well,
//     whoever stays gets the whole answer, whatever happens to others.
func TestChaos(t *testing.T) { runChaos(t, false) }

// TestChaosPD is TestChaos with prefill and decode workers.
func TestChaosPD(t *testing.T) { runChaos(t, true) }

func runChaos(t *testing.T, phases bool) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d; run again with: go test ./proxy -run '^%s$' -chaos.seed %d -chaos.events %d", seed, t.Name(), seed, *chaosEvents)
	goroutines, fds := runtime.NumGoroutine(), proxytest.FDs()
	names := policy.Names()
	var total chaosTally
	results := make(chan chaosTally, len(names))
	t.Run("policies", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newChaos(t, phases, name, rand.New(rand.NewPCG(seed, uint64(i))), i%2 == 0)
				c.run(*chaosEvents / len(names))
				results <- c.tally
			})
		}
	})
	for range names {
		select {
		case r := <-results:
			total.add(&r)
		default: // that policy has failed
		}
	}
	t.Logf("%d events, %d of them departures, %d panics, %d changes of the fleet; processes: %d killed, %d frozen, %d started again; %d whole answers compared, %d of them in calm rounds; %d barriers, %d of them with requests running; %d leases granted, %d returned, %d returns refused",
		total.events, total.departures, total.panics, total.changes, total.killed, total.frozen, total.restarted, total.compared, total.calm, total.barriers, total.busyBarriers,
		total.granted, total.returned, total.refused)
	if total.busyBarriers < total.barriers/2 {
		t.Errorf("only %d of %d barriers had requests running: the comparison shows little", total.busyBarriers, total.barriers)
	}
	if !t.Failed() && *chaosEvents >= 10_000 && (total.panics == 0 || total.killed == 0 || total.frozen == 0 || total.calm == 0) {
		t.Error("some kind of event has not happened at all")
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		g, f := runtime.NumGoroutine(), proxytest.FDs()
		// fasthttp keeps a few goroutines for good.
		if g <= goroutines+8 && f <= fds+8 {
			t.Logf("%d goroutines, before %d; %d descriptors, before %d", g, goroutines, f, fds)
			break
		}
		if time.Now().After(end) {
			t.Errorf("after %v: %d goroutines, before %d; %d descriptors, before %d", patience, g, goroutines, f, fds)
			buf := make([]byte, 1<<16)
			t.Logf("%s", buf[:runtime.Stack(buf, true)])
			break
		}
	}
}

// chaosTally is what has happened in a run.
type chaosTally struct {
	events, departures, panics, changes int
	killed, frozen, restarted           int
	compared, calm                      int
	barriers, busyBarriers              int
	granted, returned, refused          uint64
}

func (t *chaosTally) add(r *chaosTally) {
	t.events += r.events
	t.departures += r.departures
	t.panics += r.panics
	t.changes += r.changes
	t.killed += r.killed
	t.frozen += r.frozen
	t.restarted += r.restarted
	t.compared += r.compared
	t.calm += r.calm
	t.barriers += r.barriers
	t.busyBarriers += r.busyBarriers
	t.granted += r.granted
	t.returned += r.returned
	t.refused += r.refused
}

// chaos is one router under attack.
type chaos struct {
	t       *testing.T
	rng     *rand.Rand // of the driver; each event gets a generator of its own from it
	r       *router
	trap    *trap
	phases  bool // the first half of the workers prefill, the others decode
	workers []chaosWorker
	process *workerProcess // the last of them
	calm    bool           // the fleet is well, and stays so for a round
	push    bool           // in calm rounds prefill workers push
	removed map[int]bool   // are no members
	refuses map[int]bool   // don't listen
	faults  int            // of the process, so far

	mu    sync.Mutex
	begun int // requests
	ended int // of them, those known to be over; see finish
	held  []*proxytest.Client
	tally chaosTally
}

// chaosPatience is how long what is due at once may take here, where the machine is
// as busy as can be.
const chaosPatience = patience

const (
	perRound     = 100
	processEvery = 4      // rounds
	calmEvery    = 5      // rounds
	tellFrom     = 10_000 // events, from which a run tells how far it is
)

// newChaos starts a router. prefills says which phase the process is for.
func newChaos(t *testing.T, phases bool, name string, rng *rand.Rand, prefills bool) *chaos {
	c := &chaos{t: t, rng: rng, phases: phases, removed: map[int]bool{}, refuses: map[int]bool{}}
	o := testOptions(name)
	if phases {
		o = pdOptions(name)
		o.PD.RescueTimeout = 500 * time.Millisecond // some meet a worker that never answers
	}
	// Checks are rare, so that sockets are quiet at times; the driver makes
	// workers sick by the same message that a check would send.
	o.Router.Health.Interval, o.Router.Health.RetryInterval = 5*time.Second, 5*time.Millisecond
	o.Router.Health.Timeout = chaosPatience / 2
	o.Router.Health.FailureThreshold, o.Router.Health.SuccessThreshold = 1, 1
	o.Health.HealthOptions = o.Router.Health
	o.Router.Breaker.FailureThreshold, o.Router.Breaker.Timeout = 5, 20*time.Millisecond
	o.Router.Backlog = actors.BacklogOptions{Blocks: 1, Requests: 1, Patience: time.Second} // of two streams at a worker one waits, under the policies that know when
	o.leastWait = 0
	c.startWorkers(prefills)
	c.r, c.trap = startTrapped(t, o)
	var specs []WorkerSpec
	for i, w := range c.workers {
		specs = append(specs, WorkerSpec{URL: w.URL(), Roles: c.roles(i)})
	}
	if err := c.r.AddWorkers(specs); err != nil {
		t.Fatal(err)
	}
	c.awaitHealthy()
	return c
}

// await waits until cond holds of what the registry sees.
func (c *chaos) await(what string, cond func(v *actors.Snapshot) bool) {
	var v actors.Snapshot
	for end := time.Now().Add(chaosPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if v = c.r.snapshot(); cond(&v) {
			return
		}
	}
	c.t.Errorf("after %v still waiting for %s; workers: %s", chaosPatience, what, describe(&v))
}

func (c *chaos) awaitHealthy() {
	c.await("the whole fleet to be well", func(v *actors.Snapshot) bool {
		for i := range v.Workers {
			if !v.Workers[i].Healthy || !v.Workers[i].Member {
				return false
			}
		}
		return len(v.Workers) == len(c.workers)
	})
}

// run makes n events in rounds, with a barrier behind each.
func (c *chaos) run(n int) {
	stop := make(chan struct{})
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		c.watch(stop)
	}()
	for round := 1; c.tally.events < n && !c.t.Failed(); round++ {
		over := make(chan struct{})
		switch c.calm = round%calmEvery == 0; {
		case c.calm:
			c.mend()
			close(over)
		case round%processEvery == processEvery/2:
			rng := c.split()
			go func() {
				defer close(over)
				c.disturbProcess(rng)
			}()
		default:
			close(over)
		}
		c.round(min(perRound, n-c.tally.events))
		<-over
		c.barrier()
		c.letGo()
		for _, w := range c.workers {
			w.Forget()
		}
		if n >= tellFrom && c.tally.events*10/n > (c.tally.events-perRound)*10/n {
			c.t.Logf("%d of %d events", c.tally.events, n)
		}
	}
	close(stop)
	<-checked
	for _, h := range c.held {
		h.Close()
		c.finish(false)
	}
	for _, w := range c.workers {
		c.await("no load at "+w.URL(), func(v *actors.Snapshot) bool { return loadOf(v, w.URL()) == 0 })
	}
	v := c.r.snapshot()
	c.tally.granted, c.tally.returned, c.tally.refused = v.Granted, v.Returned, v.Refused
	if v.Live != 0 || v.Granted != v.Returned || v.Refused != 0 {
		c.t.Errorf("at the end: %d live, %d granted, %d returned, %d refused", v.Live, v.Granted, v.Returned, v.Refused)
	}
	c.tally.panics = c.trap.count()
	wantCounted(c.t, c.r, c.trap, c.tally.panics)
}

// split returns a generator for one event.
func (c *chaos) split() *rand.Rand { return rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64())) }

// round makes n events, several at a time, and waits until the requests among them
// are over or left open for later.
func (c *chaos) round(n int) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for range n {
		c.tally.events++
		rng := c.split()
		if rng.IntN(20) == 0 && !c.calm {
			c.disturb(rng)
			continue
		}
		slots <- struct{}{}
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.request(rng)
			<-slots
		}()
	}
	wg.Wait()
}

// begin counts a request as begun.
func (c *chaos) begin() {
	c.mu.Lock()
	c.begun++
	c.mu.Unlock()
}

// finish counts a request as over: at once if its answer came to a proper end,
// for the lease ends before the last byte goes out; when its end should have
// been noticed otherwise.
func (c *chaos) finish(proper bool) {
	end := func() {
		c.mu.Lock()
		c.ended++
		c.mu.Unlock()
	}
	if proper {
		end()
	} else {
		time.AfterFunc(chaosPatience, end)
	}
}

// watch checks all the time that no load is out of bounds.
func (c *chaos) watch(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(500 * time.Microsecond):
		}
		// What ends or begins while the snapshot is taken may be in it or not.
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		v := c.r.snapshot()
		c.mu.Lock()
		open := c.begun - ended
		c.mu.Unlock()
		sum := 0
		var phases [len(v.Workers[0].InPhase)]int
		for i := range v.Workers {
			if v.Workers[i].Load < 0 {
				c.t.Errorf("load %d at %s", v.Workers[i].Load, v.Workers[i].URL)
			}
			sum += v.Workers[i].Load
			for ph, n := range v.Workers[i].InPhase {
				phases[ph] += n
			}
		}
		if sum+phases[actors.Reserved]+phases[actors.Parked] != v.Live || v.Granted-v.Returned != uint64(v.Live) {
			c.t.Errorf("loads sum up to %d, %d leases are live, %d granted and %d returned", sum, v.Live, v.Granted, v.Returned)
		}
		if c.phases {
			// A request may run in both phases at a time, and leave a rescue behind.
			sum = max(phases[actors.Prefilling]+phases[actors.Parked]+phases[actors.Plain], phases[actors.Decoding]+phases[actors.Reserved]+phases[actors.Plain]-c.r.opts.PD.Rescues)
		}
		if sum > open {
			leases, err := c.r.router.Leases(c.r.now())
			c.t.Errorf("load %d, but the driver has only %d requests open; the phases were %v, the leases are %v, %v", sum, open, phases, leases, err)
		}
		if v.Refused != 0 {
			c.t.Errorf("%d releases refused", v.Refused)
		}
		if c.t.Failed() {
			return
		}
	}
}

// barrier waits until the workers' sockets are quiet, and compares.
func (c *chaos) barrier() {
	const quiet = 100 * time.Millisecond
	c.tally.barriers++
	for end := time.Now().Add(2 * chaosPatience); ; time.Sleep(5 * time.Millisecond) {
		last := time.Time{}
		for _, w := range c.workers {
			if q := w.QuietSince(); q.After(last) {
				last = q
			}
		}
		if time.Since(last) >= quiet {
			break
		}
		if time.Now().After(end) {
			c.t.Errorf("the workers' sockets were not quiet for %v", 2*chaosPatience)
			return
		}
	}
	if c.r.snapshot().Live > 0 {
		c.tally.busyBarriers++
	}
	for _, w := range c.workers {
		c.compare(w)
	}
}

// compare wants a worker's load to be what the worker sees. A process that was
// starved may have been silent without being at rest, so a difference counts if
// it stays.
func (c *chaos) compare(w chaosWorker) {
	got, want := 0, 0
	for end := time.Now().Add(chaosPatience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		v := c.r.snapshot()
		if got, want = loadOf(&v, w.URL()), w.InFlight(); got == want {
			return
		}
	}
	c.t.Errorf("barrier %d: load %d at %s, which sees %d: %s", c.tally.barriers, got, w.URL(), want, w.list())
	leases, err := c.r.router.Leases(c.r.now())
	c.t.Logf("the router has %v, %v", leases, err)
}

// letGo ends some of the requests that were left open.
func (c *chaos) letGo() {
	if c.rng.IntN(3) == 0 { // the workers answer them all
		// Behind a prefill that is let go the decode worker holds the request.
		over, released := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(released)
			for {
				for _, w := range c.workers {
					w.Release()
				}
				select {
				case <-over:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		}()
		defer func() { close(over); <-released }()
		for _, h := range c.held {
			_, err := h.ReadResponse(2 * chaosPatience)
			if errors.Is(err, proxytest.ErrTimeout) {
				c.t.Errorf("a request that its worker has answered: %v", err)
			}
			h.Close()
			c.finish(err == nil)
		}
		c.held = c.held[:0]
		return
	}
	kept := c.held[:0]
	for _, h := range c.held {
		if len(kept) < 20 && c.rng.IntN(2) == 0 {
			kept = append(kept, h)
			continue
		}
		c.tally.departures++
		if c.rng.IntN(2) == 0 {
			h.CloseFIN()
		} else {
			h.Reset()
		}
		h.Close()
		c.finish(false)
	}
	clear(c.held[len(kept):])
	c.held = kept
}
