package proxy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// loaded is how long these tests wait for what is due at once, on a machine that
// does other things too.
const loaded = patience

// theCase is in the prompt of every request that a test is about; what else runs
// is a bystander.
const theCase = "the case"

// pdFleet is a router with workers of both phases. Two requests of other clients
// stay there, one in each phase, and must not feel what is done to a third.
type pdFleet struct {
	*router
	prefill, decode []*proxytest.Worker
	bystanders      []*proxytest.Client
	clients         []*proxytest.Client // these and others
	before          map[string]loadJSON // with the bystanders alone
}

// loadJSON is what GET /workers tells of a worker's load.
type loadJSON struct {
	running, prefilling, reserved, decoding, plain int
}

const (
	inPrefill = "bystander in prefill"
	inDecode  = "bystander in decode"
)

// prefillBeside is a prefill worker's script beside those of the bystanders.
func prefillBeside(script proxytest.Script) proxytest.Script {
	return controlCalls(func(x *proxytest.Exchange) {
		switch body := string(x.Body()); {
		case strings.Contains(body, inPrefill):
			if x.Hold() {
				x.Reply(200, nixlReply, jsonType)
			}
		case strings.Contains(body, inDecode):
			x.Reply(200, nixlReply, jsonType)
		default:
			script(x)
		}
	})
}

// decodeBeside is a decode worker's script beside those of the bystanders.
func decodeBeside(script proxytest.Script) proxytest.Script {
	return controlCalls(func(x *proxytest.Exchange) {
		switch body := string(x.Body()); {
		case strings.Contains(body, inPrefill):
			decodeEither(x)
		case strings.Contains(body, inDecode):
			heldStream(x)
		default:
			script(x)
		}
	})
}

// workers starts n workers that share a script.
func workers(t testing.TB, n int, script proxytest.Script) []*proxytest.Worker {
	var all []*proxytest.Worker
	for range n {
		all = append(all, proxytest.NewWorker(t, script))
	}
	return all
}

// startFleet starts n workers of each phase and the bystanders, but for one that
// is absent, for tests of limits that it would run into. Workers of one phase share
// a script; nil is one that does well.
func startFleet(t testing.TB, o Options, n int, prefill, decode proxytest.Script, absent ...string) *pdFleet {
	t.Helper()
	if prefill == nil {
		prefill = prefillWith(nixlReply)
	}
	if decode == nil {
		decode = decodeEither
	}
	f := &pdFleet{prefill: workers(t, n, prefillBeside(prefill)), decode: workers(t, n, decodeBeside(decode))}
	f.router = startRouter(t, o)
	t.Cleanup(f.part)
	var specs []WorkerSpec
	for role, ws := range map[actors.Role][]*proxytest.Worker{actors.Prefill: f.prefill, actors.Decode: f.decode} {
		for _, w := range ws {
			specs = append(specs, WorkerSpec{URL: w.URL(), Roles: actors.RolesOf(role)})
		}
	}
	if err := f.AddWorkers(specs); err != nil {
		t.Fatal(err)
	}
	f.until("all to be healthy", func() bool {
		h := f.Proxy.router.Health(f.now())
		return h.Usable[actors.Prefill] == n && h.Usable[actors.Decode] == n
	})
	f.bystand(absent)
	return f
}

// bystand starts the bystanders and waits until they are where they stay.
func (f *pdFleet) bystand(absent []string) {
	f.t.Helper()
	want := loadJSON{}
	if !slices.Contains(absent, inDecode) {
		c := f.post(chat(inDecode, true))
		if _, err := c.ReadEvent(loaded); err != nil {
			f.t.Fatal(err)
		}
		f.bystanders = append(f.bystanders, c)
		want.running, want.decoding = want.running+1, 1
	}
	if !slices.Contains(absent, inPrefill) {
		f.bystanders = append(f.bystanders, f.post(chat(inPrefill, false)))
		f.until("the bystander to be in prefill", func() bool { return len(about(inPrefill, f.prefill...)) == 1 })
		want.running, want.prefilling, want.reserved = want.running+1, 1, 1
	}
	f.before = f.loads()
	if f.sum() != want {
		f.t.Errorf("load of the bystanders %+v, want %+v", f.sum(), want)
	}
}

// post is router.post for a client that hangs up when the test ends.
func (f *pdFleet) post(body string) *proxytest.Client {
	f.t.Helper()
	c := f.router.post(body)
	f.clients = append(f.clients, c)
	return c
}

// part hangs up for all clients and lets the router notice, whose shutdown looks
// for them only every now and then.
func (f *pdFleet) part() {
	for _, c := range f.clients {
		c.Close()
	}
	for range 100 {
		if f.server.GetOpenConnectionsCount() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// until waits until cond holds.
func (r *router) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(loaded); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("after %v still waiting for %s", loaded, what)
		}
	}
}

// loads is what GET /workers tells of every worker, those included that have left
// the fleet.
func (r *router) loads() map[string]loadJSON {
	r.t.Helper()
	var in struct{ Workers, Leaving []workerJSON }
	if err := json.Unmarshal(r.call("GET", "/workers", "").Body, &in); err != nil {
		r.t.Fatal(err)
	}
	all := map[string]loadJSON{}
	for _, w := range append(in.Workers, in.Leaving...) {
		l := loadJSON{w.Load, w.Phases["prefill"], w.Phases["reserved"], w.Phases["decode"], w.Phases["plain"]}
		if l.running != l.prefilling+l.decoding+l.plain {
			r.t.Errorf("%s has load %d and phases %v", w.URL, w.Load, w.Phases)
		}
		all[w.URL] = l
	}
	return all
}

// sum is the load of the whole fleet.
func (r *router) sum() (s loadJSON) {
	r.t.Helper()
	for _, l := range r.loads() {
		s.running += l.running
		s.prefilling += l.prefilling
		s.reserved += l.reserved
		s.decoding += l.decoding
		s.plain += l.plain
	}
	return s
}

// about are the requests, other than control calls, that some of the workers have
// seen and whose bodies contain text.
func about(text string, ws ...*proxytest.Worker) []*proxytest.Exchange {
	var all []*proxytest.Exchange
	for _, w := range ws {
		for _, x := range generations(w) {
			if strings.Contains(string(x.Body()), text) {
				all = append(all, x)
			}
		}
	}
	return all
}

// prefills are the prefill requests of the case.
func (f *pdFleet) prefills() []*proxytest.Exchange { return about(theCase, f.prefill...) }

// decodes are the decode requests of the case, rescues included.
func (f *pdFleet) decodes() []*proxytest.Exchange { return about(theCase, f.decode...) }

// waitSeen waits until n requests of the case are at each phase.
func (f *pdFleet) waitSeen(prefills, decodes int) {
	f.t.Helper()
	f.until("the requests of the case", func() bool { return len(f.prefills()) == prefills && len(f.decodes()) == decodes })
}

// wantSeen fails the test unless the case took so many requests.
func (f *pdFleet) wantSeen(prefills, decodes int) {
	f.t.Helper()
	if p, d := len(f.prefills()), len(f.decodes()); p != prefills || d != decodes {
		f.t.Fatalf("the case took %d prefill and %d decode requests, want %d and %d", p, d, prefills, decodes)
	}
}

// wantEnded waits until all these requests have ended at their workers, and wants
// the last of them to have ended so.
func (f *pdFleet) wantEnded(xs []*proxytest.Exchange, want proxytest.Outcome) {
	f.t.Helper()
	for i, x := range xs {
		f.until("the end of a request at its worker", func() bool { return x.Outcome() != proxytest.InFlight })
		if got := x.Outcome(); i == len(xs)-1 && got != want {
			f.t.Errorf("the request ended as %v at its worker, want %v", got, want)
		}
	}
}

// untouched waits until nothing but the bystanders counts, exactly as before.
func (f *pdFleet) untouched() {
	f.t.Helper()
	var now map[string]loadJSON
	for end := time.Now().Add(loaded); ; time.Sleep(time.Millisecond) {
		if now = f.loads(); maps.Equal(now, f.before) {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("after %v the loads are\n %v, want those before\n %v", loaded, now, f.before)
		}
	}
}

// idle waits until nothing runs and nothing is reserved anywhere.
func (r *router) idle() {
	r.t.Helper()
	r.until("no lease at all", func() bool { v := r.snapshot(); return v.Live == 0 })
}

// finish wants the case to have left no trace, and the bystanders to end well.
func (f *pdFleet) finish() {
	f.t.Helper()
	f.untouched()
	for _, w := range append(f.prefill, f.decode...) {
		w.Release()
	}
	for _, c := range f.bystanders {
		if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
			f.t.Errorf("the answer to a bystander is %+v, %v; want a whole 200", got, err)
		}
	}
	f.idle()
	for url, l := range f.loads() {
		if l != (loadJSON{}) {
			f.t.Errorf("%s has %+v at the end, want nothing", url, l)
		}
	}
}

// release lets the requests of the case go on that wait at these workers.
func release(ws ...*proxytest.Worker) {
	for _, x := range about(theCase, ws...) {
		x.Release()
	}
}

// ended waits until one lease has ended with a cause.
func (r *router) ended(c actors.Cause) {
	r.t.Helper()
	r.until("a lease that ends as "+c.String(), func() bool { return r.outcome(c) == 1 })
}

// metric is the value of a series, 0 without it.
func (r *router) metric(series string) float64 {
	r.t.Helper()
	return r.scrape()[series]
}

// wantBlocks fails the test unless so many requests' blocks were freed by a
// rescue, or given up.
func (r *router) wantBlocks(rescued, stranded float64) {
	r.t.Helper()
	m := r.scrape()
	if got := m["loadstar_pd_kv_rescued_total"]; got != rescued {
		r.t.Errorf("%v requests rescued, want %v", got, rescued)
	}
	if got := m["loadstar_pd_kv_stranded_total"]; got != stranded {
		r.t.Errorf("%v requests stranded, want %v", got, stranded)
	}
}

// wantRole wants an error in OpenAI's shape that names the phase it comes from.
func wantRole(t testing.TB, got *proxytest.Response, status int, code, role string) {
	t.Helper()
	wantProblem(t, got, status, code)
	if !strings.Contains(string(got.Body), role+" worker") {
		t.Errorf("answer %s doesn't name the %s worker", got.Body, role)
	}
}

// eachWay runs a test for streams and plain answers, under two policies.
func eachWay(t *testing.T, test func(t *testing.T, policy string, stream bool)) {
	t.Parallel()
	for _, policy := range []string{"round_robin", "cache_aware"} {
		for _, stream := range []bool{true, false} {
			name := policy + " plain"
			if stream {
				name = policy + " stream"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, policy, stream)
			})
		}
	}
}
