package proxy

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy/proxytest"
)

var (
	chaosEvents = flag.Int("chaos.events", 10_000, "random events in TestChaos, over all policies")
	chaosSeed   = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0 takes one from the clock")
)

// TestChaos throws random requests, departures, worker faults, health flaps and
// changes of the fleet at a router, under every policy, and compares what it
// counts with what its workers see.
//
//   - At every moment 0 <= load <= the requests that the driver has open.
//   - Whenever the driver pauses and the workers' sockets are quiet, each
//     worker's load equals what it sees.
//   - No lease is returned twice. At the end every load is 0, and goroutines
//     and descriptors are back where they were.
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
				c := newChaos(t, phases, name, rand.New(rand.NewPCG(seed, uint64(i))))
				c.run(*chaosEvents / len(names))
				results <- c.tally
			})
		}
	})
	for range names {
		select {
		case r := <-results:
			total.events += r.events
			total.barriers += r.barriers
			total.busyBarriers += r.busyBarriers
			total.aborted += r.aborted
		default: // that policy has failed
		}
	}
	t.Logf("%d events, %d of them departures; %d barriers, %d of them with requests running", total.events, total.aborted, total.barriers, total.busyBarriers)
	if total.busyBarriers < total.barriers/2 {
		t.Errorf("only %d of %d barriers had requests running: the comparison shows little", total.busyBarriers, total.barriers)
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		g, f := runtime.NumGoroutine(), proxytest.FDs()
		// fasthttp keeps a few goroutines for good.
		if g <= goroutines+8 && f <= fds+8 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("after 15 s: %d goroutines, before %d; %d descriptors, before %d", g, goroutines, f, fds)
			buf := make([]byte, 1<<16)
			t.Logf("%s", buf[:runtime.Stack(buf, true)])
			break
		}
	}
}

type chaosTally struct{ events, aborted, barriers, busyBarriers int }

// chaos is one router under attack.
type chaos struct {
	t       *testing.T
	rng     *rand.Rand // of the driver; each event gets a generator of its own from it
	r       *router
	phases  bool // the first half of the workers prefill, the others decode
	workers []*proxytest.Worker

	mu      sync.Mutex
	open    int // requests begun and not yet known to be over; see finish
	held    []*proxytest.Client
	removed map[int]bool

	tally chaosTally
}

const chaosWorkers = 4

func newChaos(t *testing.T, phases bool, name string, rng *rand.Rand) *chaos {
	c := &chaos{t: t, rng: rng, phases: phases, removed: map[int]bool{}}
	o := testOptions(name)
	if phases {
		o = pdOptions(name)
		o.PD.RescueTimeout = patience / 4 // some meet a worker that never answers
	}
	// Checks are rare, so that sockets are quiet at times; the driver makes
	// workers sick by the same message that a check would send.
	o.Router.Health.Interval, o.Router.Health.RetryInterval = 5*time.Second, 5*time.Millisecond
	o.Router.Health.FailureThreshold, o.Router.Health.SuccessThreshold = 1, 1
	o.Health.HealthOptions = o.Router.Health
	o.Router.Breaker.FailureThreshold, o.Router.Breaker.Timeout = 5, 20*time.Millisecond
	o.Timeouts.FirstByte, o.Timeouts.Idle = 30*time.Second, 30*time.Second
	for i := range chaosWorkers {
		script := chaosScript
		if phases {
			script = controlCalls(chaosScript)
			if i < chaosWorkers/2 {
				script = controlCalls(chaosPrefill)
			}
		}
		c.workers = append(c.workers, proxytest.NewWorker(t, script))
	}
	if phases {
		c.r = startPD(t, o, c.workers[:chaosWorkers/2], c.workers[chaosWorkers/2:])
	} else {
		c.r = startRouter(t, o, c.workers...)
	}
	return c
}

// roles are those of the i-th worker.
func (c *chaos) roles(i int) actors.Roles {
	switch {
	case !c.phases:
		return 0
	case i < chaosWorkers/2:
		return actors.RolesOf(actors.Prefill)
	default:
		return actors.RolesOf(actors.Decode)
	}
}

// chaosPrefill answers as the request wants its prefill worker to. What has no
// phases is answered as by any worker.
func chaosPrefill(x *proxytest.Exchange) {
	switch x.Get("X-Chaos-Prefill") {
	case "ok":
		x.Reply(200, nixlReply, jsonType)
	case "slow":
		if x.Sleep(4 * time.Millisecond) {
			x.Reply(200, nixlReply, jsonType)
		}
	case "push":
		x.Reply(200, strings.Replace(nixlReply, `"kv_transfer_params":{`, `"kv_transfer_params":{"transfer_mode":"push",`, 1), jsonType)
	case "two writes":
		x.Head(200, jsonType, proxytest.H("Content-Length", fmt.Sprint(len(nixlReply))))
		x.Raw(nixlReply[:50])
		x.Sleep(time.Millisecond)
		x.Raw(nixlReply[50:])
	case "no params":
		x.Reply(200, `{"choices":[]}`, jsonType)
	case "no JSON":
		x.Reply(200, "hello")
	case "refused":
		x.Reply(400, `{"error":{"message":"no"}}`, jsonType)
	case "busy":
		x.Reply(503, `{"error":{"message":"busy"}}`, jsonType)
	case "broken":
		x.Reply(500, `{"error":{"message":"oops"}}`, jsonType)
	case "close":
		x.CloseFIN()
	case "reset":
		x.Reset()
	case "truncated":
		proxytest.Truncated(20_000, 5_000)(x)
	case "silent":
		x.Hold()
		x.Reply(200, nixlReply, jsonType)
	default:
		chaosScript(x)
	}
}

// chaosPrefills are the ways of a prefill worker, most of them well.
var chaosPrefills = []string{
	"ok", "ok", "ok", "ok", "slow", "slow", "push", "push", "push", "two writes", "no params",
	"no JSON", "refused", "busy", "broken", "close", "reset", "truncated",
}

// chaosScript does what the request asks for.
func chaosScript(x *proxytest.Exchange) {
	switch kind := x.Get("X-Chaos"); kind {
	case "plain":
		x.Reply(200, `{"ok":true}`, jsonType)
	case "slow plain":
		if x.Sleep(4 * time.Millisecond) {
			x.Reply(200, `{"ok":true}`, jsonType)
		}
	case "big plain":
		x.Reply(200, strings.Repeat("0123456789", 20_000), jsonType)
	case "two writes":
		x.Head(200, jsonType, proxytest.H("Content-Length", "11"))
		x.Sleep(time.Millisecond)
		x.Raw(`{"ok":true}`)
	case "stream":
		x.SSEHead()
		for i := range 8 {
			if !x.Event(proxytest.EventData(i)) || !x.Sleep(time.Millisecond) {
				return
			}
		}
		x.Done()
		x.EndChunks()
	case "burst":
		proxytest.SSE(30, 0)(x)
	case "no end mark":
		proxytest.SSENoDone(4, time.Millisecond)(x)
	case "linger":
		proxytest.LingerAfterDone(3, 0, 10*time.Millisecond)(x)
	case "until close":
		x.Head(200, proxytest.H("Content-Type", "text/plain"))
		x.Raw("some text")
		x.CloseFIN()
	case "interim":
		x.Head(103, proxytest.H("Link", "</a>; rel=preload"))
		x.Reply(200, `{"ok":true}`, jsonType)
	case "empty":
		x.Reply(204, "")
	case "busy":
		x.Reply(503, `{"error":{"message":"busy"}}`, jsonType)
	case "limited":
		x.Reply(429, `{"error":{"message":"slow down"}}`, jsonType, proxytest.H("Retry-After", "1"))
	case "broken":
		x.Reply(500, `{"error":{"message":"oops"}}`, jsonType)
	case "refused":
		x.Reply(400, `{"error":{"message":"no"}}`, jsonType)
	case "garbage":
		x.Raw("\x16\x03\x01 this is not HTTP\r\n\r\n")
		x.CloseFIN()
	case "close":
		x.CloseFIN()
	case "reset":
		x.Reset()
	case "truncated":
		proxytest.Truncated(20_000, 5_000)(x)
	case "cut":
		x.SSEHead()
		x.Event("one")
		x.Chunk("data: tw")
		x.Sleep(time.Millisecond)
		x.Reset()
	case "closing":
		x.KeepAlive(false)
		x.Reply(200, `{"ok":true}`, jsonType)
	case "idle close":
		x.CloseWhenIdle(3 * time.Millisecond)
		x.Reply(200, `{"ok":true}`, jsonType)
	case "silent":
		x.Hold()
		x.Reply(200, `{"ok":true}`, jsonType)
	case "stalled stream":
		x.SSEHead()
		x.Event("one")
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	case "flowing":
		x.SSEHead()
		for x.Sleep(3 * time.Millisecond) {
			x.Event("more")
		}
	default:
		x.Reply(404, fmt.Sprintf(`{"error":{"message":"no kind %q"}}`, kind), jsonType)
	}
}

var (
	// chaosEnding are kinds of answers that come to an end by themselves.
	chaosEnding = []string{
		"plain", "plain", "slow plain", "big plain", "two writes", "stream", "stream", "burst", "no end mark", "linger",
		"until close", "interim", "empty", "busy", "limited", "broken", "refused", "garbage", "close", "reset", "truncated",
		"cut", "closing", "idle close",
	}
	// chaosEndless are kinds that run until somebody leaves or lets them go.
	chaosEndless = []string{"silent", "stalled stream", "flowing"}
	chaosPaths   = []string{
		"/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize", "/v1/unknown?x=1",
	}
)

// run makes n events in rounds, with a barrier behind each.
func (c *chaos) run(n int) {
	const perRound = 40
	stop := make(chan struct{})
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		c.watch(stop)
	}()
	for c.tally.events < n && !c.t.Failed() {
		var wg sync.WaitGroup
		slots := make(chan struct{}, 16)
		for range min(perRound, n-c.tally.events) {
			c.tally.events++
			rng := rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))
			if rng.IntN(20) == 0 {
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
		c.barrier()
		c.letGo()
	}
	close(stop)
	<-checked
	for _, h := range c.held {
		h.Close()
		c.finish(false)
	}
	for _, w := range c.workers {
		c.r.waitLoad(w, 0)
	}
	v := c.r.snapshot()
	if v.Live != 0 || v.Granted != v.Returned || v.Refused != 0 {
		c.t.Errorf("at the end: %d live, %d granted, %d returned, %d refused", v.Live, v.Granted, v.Returned, v.Refused)
	}
}

// begin counts a request as open.
func (c *chaos) begin() {
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
}

// finish counts a request as over: at once if its answer came to a proper end,
// for the lease ends before the last byte goes out; when its end should have
// been noticed otherwise.
func (c *chaos) finish(proper bool) {
	end := func() {
		c.mu.Lock()
		c.open--
		c.mu.Unlock()
	}
	if proper {
		end()
	} else {
		time.AfterFunc(patience, end)
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
		v := c.r.snapshot()
		c.mu.Lock()
		open := c.open // read behind the snapshot: what began since only raises it
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
		if sum+phases[actors.Reserved] != v.Live || v.Granted-v.Returned != uint64(v.Live) {
			c.t.Errorf("loads sum up to %d, %d leases are live, %d granted and %d returned", sum, v.Live, v.Granted, v.Returned)
		}
		if c.phases {
			// A request may run in both phases at a time, and leave a rescue behind.
			sum = max(phases[actors.Prefilling]+phases[actors.Plain], phases[actors.Decoding]+phases[actors.Reserved]+phases[actors.Plain]-c.r.opts.PD.Rescues)
		}
		if sum > open {
			c.t.Errorf("load %d, but the driver has only %d requests open", sum, open)
		}
		if v.Refused != 0 {
			c.t.Errorf("%d releases refused", v.Refused)
		}
		if c.t.Failed() {
			return
		}
	}
}

// disturb changes the fleet.
func (c *chaos) disturb(rng *rand.Rand) {
	i := rng.IntN(len(c.workers))
	if c.phases { // the others keep each phase going
		i = []int{0, len(c.workers) - 1}[rng.IntN(2)]
	}
	w := c.workers[i]
	switch rng.IntN(4) {
	case 0:
		c.r.router.ReportHealth(w.URL(), errors.New("chaos"))
	case 1:
		c.r.router.ReportHealth(w.URL(), nil)
	case 2:
		w.DropConnections()
	case 3:
		if c.removed[i] {
			if _, err := c.r.AddWorker(WorkerSpec{URL: w.URL(), Roles: c.roles(i)}); err != nil {
				c.t.Errorf("AddWorker: %v", err)
			}
			delete(c.removed, i)
		} else if len(c.removed) < chaosWorkers-1 {
			if err := c.r.RemoveWorker(w.URL()); err != nil {
				c.t.Errorf("RemoveWorker: %v", err)
			}
			c.removed[i] = true
		}
	}
}

// request makes one request and ends it in some way, or leaves it open.
func (c *chaos) request(rng *rand.Rand) {
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	kind := pick(chaosEnding)
	endless := rng.IntN(4) == 0
	if endless {
		kind = pick(chaosEndless)
	}
	req := proxytest.Request{
		Target: pick(chaosPaths), Headers: []proxytest.Header{jsonType, proxytest.H("X-Chaos", kind)},
		Body: chat(fmt.Sprint("prompt ", rng.IntN(50), strings.Repeat(" word", rng.IntN(3000))), rng.IntN(2) == 0),
	}
	if c.phases {
		prefill := pick(chaosPrefills)
		if endless { // so that it is reached, or waits here
			prefill = pick([]string{"ok", "slow", "push", "two writes", "silent"})
		}
		req.Headers = append(req.Headers, proxytest.H("X-Chaos-Prefill", prefill))
	}
	switch rng.IntN(12) {
	case 0:
		req.Proto = "HTTP/1.0"
	case 1:
		req.ChunkSizes = []int{1 + rng.IntN(5000)}
	case 2:
		req.Method = "GET"
		req.Target, req.Body = "/v1/things", ""
	}
	cl, err := proxytest.Connect(c.r.addr, nil)
	if err != nil {
		c.t.Errorf("cannot connect: %v", err)
		return
	}
	defer func() {
		if cl != nil {
			cl.Close()
		}
	}()
	c.begin()
	leave := func() {
		c.mu.Lock()
		c.tally.aborted++
		c.mu.Unlock()
		switch rng.IntN(3) {
		case 0:
			cl.CloseFIN()
		case 1:
			cl.Reset()
		case 2:
			cl.HalfClose()
			// What stays open now is the router's to end.
			_, _ = cl.ReadResponse(patience)
		}
		c.finish(false)
	}
	if rng.IntN(12) == 0 { // it leaves while it sends
		head := req.Head(c.r.addr)
		_ = cl.Send(head + req.Body[:rng.IntN(len(req.Body)+1)])
		leave()
		return
	}
	if err := cl.SendRequest(req); err != nil {
		c.finish(false)
		return
	}
	how := rng.IntN(4)
	if kind == "flowing" {
		how %= 2
	}
	switch how {
	case 0: // it leaves at some moment
		time.Sleep(time.Duration(rng.IntN(6000)) * time.Microsecond)
		leave()
		return
	case 1: // it leaves behind the head, or some events
		if _, err := cl.ReadHead(50 * time.Millisecond); err == nil && rng.IntN(2) == 0 {
			_, _ = cl.ReadEvent(5 * time.Millisecond)
		}
		leave()
		return
	}
	if endless {
		c.mu.Lock()
		c.held = append(c.held, cl)
		c.mu.Unlock()
		cl = nil
		return
	}
	got, err := cl.ReadResponse(10 * time.Second)
	if got == nil && !errors.Is(err, proxytest.ErrNoAnswer) && !errors.Is(err, proxytest.ErrReset) {
		c.t.Errorf("%s %s: no answer: %v", kind, req.Target, err)
	}
	c.finish(err == nil)
}

// barrier waits until the workers' sockets are quiet, and compares.
func (c *chaos) barrier() {
	const quiet = 100 * time.Millisecond
	c.tally.barriers++
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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
			c.t.Errorf("the workers' sockets were not quiet for 10 s")
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
func (c *chaos) compare(w *proxytest.Worker) {
	got, want := 0, 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got, want = c.r.load(w), w.InFlight(); got == want {
			return
		}
	}
	c.t.Errorf("barrier %d: load %d at %s, which sees %d", c.tally.barriers, got, w.URL(), want)
	for _, x := range w.Seen() {
		if x.Outcome() == proxytest.InFlight {
			c.t.Logf("it sees %s %q, since %v, on connection %d (%d)", x.RequestLine, x.Get("X-Chaos"), time.Since(x.ArrivedAt), x.Conn, x.Seq)
		}
	}
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
			_, err := h.ReadResponse(10 * time.Second)
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
		c.tally.aborted++
		if c.rng.IntN(2) == 0 {
			h.CloseFIN()
		} else {
			h.Reset()
		}
		h.Close()
		c.finish(false)
	}
	c.held = kept
}
