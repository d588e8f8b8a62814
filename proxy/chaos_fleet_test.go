package proxy

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// chaosWorker is a worker in this process or in one of its own.
type chaosWorker interface {
	URL() string
	InFlight() int
	QuietSince() time.Time
	Release()
	DropConnections()
	Forget()
	list() string // of what is in flight
}

// scripted is a worker in this process.
type scripted struct{ *proxytest.Worker }

func (w scripted) list() string { return inFlight(w.Worker) }

const chaosScripted = 4 // workers in this process

// startWorkers starts the scripted workers and the process.
func (c *chaos) startWorkers(prefills bool) {
	for i := range chaosScripted {
		script := controlCalls(chaosScript)
		if c.phases && i < chaosScripted/2 {
			script = controlCalls(chaosPrefill)
		}
		c.workers = append(c.workers, scripted{proxytest.NewWorkerAt(c.t, proxytest.Reserve(c.t), script)})
	}
	c.process = newWorkerProcess(c.t, c.phases && prefills)
	c.workers = append(c.workers, c.process)
}

// roles are those of the i-th worker.
func (c *chaos) roles(i int) actors.Roles {
	prefills := i < chaosScripted/2
	if i == chaosScripted {
		prefills = c.process.prefill
	}
	switch {
	case !c.phases:
		return 0
	case prefills:
		return actors.RolesOf(actors.Prefill)
	default:
		return actors.RolesOf(actors.Decode)
	}
}

// disturb changes the fleet.
func (c *chaos) disturb(rng *rand.Rand) {
	c.tally.changes++
	i := rng.IntN(len(c.workers))
	if c.phases { // the others keep each phase going
		i = []int{0, chaosScripted - 1, chaosScripted}[rng.IntN(3)]
	}
	w := c.workers[i]
	local, isLocal := w.(scripted)
	out := len(c.removed) + len(c.refuses) // at most: one may be both
	most := len(c.workers) - 2
	switch rng.IntN(7) {
	case 0:
		c.r.router.ReportHealth(w.URL(), errors.New("chaos"))
	case 1:
		c.r.router.ReportHealth(w.URL(), nil)
	case 2:
		if isLocal { // a process is not asked while it may be frozen
			w.DropConnections()
		}
	case 3:
		if c.removed[i] {
			c.join(i)
		} else if out < most {
			if err := c.r.RemoveWorker(w.URL()); err != nil {
				c.t.Errorf("RemoveWorker: %v", err)
			}
			c.removed[i] = true
		}
	case 4, 5:
		switch {
		case !isLocal:
		case c.refuses[i]:
			c.listen(i)
		case out < most:
			if rng.IntN(2) == 0 {
				local.Stop() // what runs there goes on
			} else {
				local.Kill()
			}
			c.refuses[i] = true
		}
	case 6:
		for _, w := range c.workers {
			c.tellModels(w, rng.IntN(4))
		}
	}
}

// tellModels has a worker tell that it serves the requests' model, and so many others
// less one; or nothing.
func (c *chaos) tellModels(w chaosWorker, n int) {
	_, _ = c.r.router.SetModels(w.URL(), []string{"m", "m1", "m2"}[:n]) // it may be no member
}

// join makes a worker a member again.
func (c *chaos) join(i int) {
	if _, err := c.r.AddWorker(WorkerSpec{URL: c.workers[i].URL(), Roles: c.roles(i)}); err != nil {
		c.t.Errorf("AddWorker: %v", err)
	}
	delete(c.removed, i)
}

// listen has a worker take connections again.
func (c *chaos) listen(i int) {
	// A process that is being started has our sockets for a moment, also those that
	// were closed meanwhile.
	for end := time.Now().Add(chaosPatience); ; time.Sleep(time.Millisecond) {
		err := c.workers[i].(scripted).Resume()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			c.t.Errorf("a worker can't come back: %v", err)
			return
		}
	}
	delete(c.refuses, i)
}

// mend brings the whole fleet back.
func (c *chaos) mend() {
	c.process.start()
	for i := range c.workers {
		if c.refuses[i] {
			c.listen(i)
		}
		if c.removed[i] {
			c.join(i)
		}
		c.r.router.ReportHealth(c.workers[i].URL(), nil)
	}
	for _, w := range c.workers {
		c.tellModels(w, 0)
	}
	c.awaitHealthy()
	c.forgetPush()
	time.Sleep(2 * c.r.opts.Router.Breaker.Timeout) // so that none is open
}

// forgetPush has the router forget which prefill workers push: in a calm round all
// of them do, or none, and what they did before would be another process's way.
func (c *chaos) forgetPush() {
	c.push = !c.push
	if !c.phases {
		return
	}
	var seen []actors.WorkerID
	for i := range c.workers {
		if c.roles(i) != actors.RolesOf(actors.Prefill) {
			continue
		}
		c.begin()
		l, err := c.r.router.Acquire(&actors.Request{Role: actors.Prefill, Whole: true, Exclude: seen, Now: c.r.now()})
		if err != nil {
			c.t.Errorf("no prefill worker for the test: %v", err)
			return
		}
		l.Handle.(*backend).site.forget()
		l.Release(actors.Moved, c.r.now())
		c.finish(true)
		seen = append(seen, l.Worker)
	}
}

// disturbProcess kills the process, freezes it or both, in the middle of a round.
// Of every other round it stays dead over the barrier.
func (c *chaos) disturbProcess(rng *rand.Rand) {
	p := c.process
	wait := func(most int) { time.Sleep(time.Duration(rng.IntN(most)) * time.Millisecond) }
	start := func() {
		wait(50)
		p.start()
		c.tally.restarted++
	}
	kill := func() {
		p.kill()
		c.tally.killed++
	}
	freeze := func() {
		p.signal(syscall.SIGSTOP)
		wait(400)
		c.tally.frozen++
	}
	c.faults++
	if p.dead() { // since the last time
		start()
	}
	wait(30)
	switch c.faults % 4 {
	case 1:
		kill()
		start()
	case 2:
		freeze()
		p.signal(syscall.SIGCONT)
	case 3:
		freeze()
		kill()
		start()
	case 0:
		kill()
	}
}
