package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/proxytest"
)

// shownWorker is a worker as /workers shows it.
type shownWorker struct {
	URL     string         `json:"url"`
	Type    string         `json:"worker_type"`
	Healthy bool           `json:"is_healthy"`
	Load    int            `json:"load"`
	Phases  map[string]int `json:"phases"`
}

// shown is what /workers answers.
type shown struct {
	Workers []shownWorker `json:"workers"`
	Leaving []shownWorker `json:"leaving"`
	Stats   struct {
		Prefill int `json:"prefill_count"`
		Decode  int `json:"decode_count"`
	} `json:"stats"`
}

func (r *router) shown() (s shown) {
	r.t.Helper()
	got := r.call("GET", "/workers", "")
	if err := json.Unmarshal(got.Body, &s); err != nil {
		r.t.Fatalf("/workers: %v: %s", err, got.Body)
	}
	return s
}

// wantReadiness waits until /readiness answers so.
func (r *router) wantReadiness(status int, body string) {
	r.t.Helper()
	eventually(r.t, "/readiness: "+body, func() bool {
		got := r.call("GET", "/readiness", "")
		return got.Status == status && strings.TrimSpace(string(got.Body)) == body
	})
}

// TestDiscoverShows: workers that register are shown, checked, and counted as
// ready like all others.
func TestDiscoverShows(t *testing.T) {
	t.Parallel()
	p, d := proxytest.NewWorker(t, prefillWith(nixlReply)), proxytest.NewWorker(t, decodeEither)
	d.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") }) // its engine still loads
	r := startRouter(t, pdOptions("round_robin"))
	if got := r.call("GET", "/readiness", ""); got.Status != 503 {
		t.Errorf("/readiness without a worker: status %d, want 503", got.Status)
	}
	q := r.startDiscovery()
	if got := r.call("GET", "/health", ""); got.Status != 503 || string(got.Body) != "Waiting for discovered workers: 0 prefill, 0 decode" {
		t.Errorf("/health without a worker: %d %q", got.Status, got.Body)
	}
	q.ping(registration("P", p, "192.0.2.40:21001"))
	r.wantReadiness(503, `{"status":"not_ready","reason":"no healthy decode workers","prefill":{"healthy":1,"total":1},"decode":{"healthy":0,"total":0}}`)
	q.ping(registration("D", d, "192.0.2.41:22001"))
	r.wantReadiness(503, `{"status":"not_ready","reason":"no healthy decode workers","prefill":{"healthy":1,"total":1},"decode":{"healthy":0,"total":1}}`)
	if got := finish(t, r.post(chat("early", false))); got.Status != 503 {
		t.Errorf("status %d without a healthy decode worker, want 503", got.Status)
	}
	d.SetHealth(func(x *proxytest.Exchange) { x.Reply(200, "") })
	r.wantReadiness(200, `{"status":"ready","prefill":{"healthy":1,"total":1},"decode":{"healthy":1,"total":1}}`)
	got := r.shown()
	if want := []shownWorker{{p.URL(), "prefill", true, 0, map[string]int{}}, {d.URL(), "decode", true, 0, map[string]int{}}}; fmt.Sprint(got.Workers) != fmt.Sprint(want) {
		t.Errorf("/workers shows %v, want %v", got.Workers, want)
	}
	if got.Stats.Prefill != 1 || got.Stats.Decode != 1 {
		t.Errorf("/workers counts %+v, want one each", got.Stats)
	}
	finish(t, r.post(chat("hi", false)))
	wantValues(t, nthGeneration(t, d, 0), "X-Request-Id", nthGeneration(t, p, 0).Get("X-Request-Id"))
	if id := generations(p)[0].Get("X-Request-Id"); !strings.HasPrefix(id, "___prefill_addr_192.0.2.40:21001___decode_addr_192.0.2.41:22001_") {
		t.Errorf("request id %q doesn't name the addresses that were registered", id)
	}
	// A worker that fails its checks gets nothing, though it pings.
	p.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
	r.waitUnusable(actors.Prefill)
	q.ping(registration("P", p, "192.0.2.40:21001"))
	if got := finish(t, r.post(chat("ill", false))); got.Status != 503 {
		t.Errorf("status %d without a healthy prefill worker, want 503", got.Status)
	}
	r.waitIdle()
}

// TestDiscoverBothRoles: one address that registers in both roles is one worker,
// and stays one in the other role when one registration expires.
func TestDiscoverBothRoles(t *testing.T) {
	t.Parallel()
	both := func(x *proxytest.Exchange) {
		switch {
		case x.Path() == "/metrics":
			x.Reply(404, "")
		case strings.Contains(string(x.Body()), `"do_remote_decode":true`):
			x.Reply(200, nixlReply, jsonType)
		default:
			decodeEither(x)
		}
	}
	w := proxytest.NewWorker(t, both)
	o := pdOptions("round_robin")
	o.PD.Expiry = brief
	r := startRouter(t, o)
	q := r.startDiscovery()
	stopP := q.keep(registration("P", w, "192.0.2.40:21001"))
	r.waitMembers(actors.Prefill, 1)
	stopD := r.newDealer().keep(registration("D", w, "192.0.2.40:21001"))
	r.waitMembers(actors.Decode, 1)
	r.waitMembers(actors.Prefill, 1)
	if got := r.shown().Workers; len(got) != 1 || got[0].URL != w.URL() || got[0].Type != "prefill+decode" {
		t.Errorf("/workers shows %v, want one worker in both roles", got)
	}
	finish(t, r.post(chat("hi", false)))
	if n := len(generations(w)); n != 2 {
		t.Errorf("%d requests at the worker, want a prefill and a decode", n)
	}
	stopP()
	eventually(t, "the end of the role for prefill", func() bool { return r.router.Health(r.now()).Members[actors.Prefill] == 0 })
	if got := r.shown().Workers; len(got) != 1 || got[0].Type != "decode" || !got[0].Healthy {
		t.Errorf("/workers shows %v, want a healthy worker for decode", got)
	}
	stopD()
	eventually(t, "the end of the worker", func() bool { return len(r.shown().Workers) == 0 })
	r.wantReadiness(503, `{"status":"not_ready","reason":"no healthy prefill workers, no healthy decode workers","prefill":{"healthy":0,"total":0},"decode":{"healthy":0,"total":0}}`)
	// It comes back.
	r.newDealer().ping(registration("P", w, "192.0.2.40:21001"), registration("D", w, "192.0.2.40:21001"))
	r.waitMembers(actors.Prefill, 1)
	r.waitMembers(actors.Decode, 1)
	r.waitIdle()
}

// TestDiscoverExpires: a worker that stops to register gets no more requests;
// those that run there end as they would have, and are counted until then.
func TestDiscoverExpires(t *testing.T) {
	t.Parallel()
	p, d := proxytest.NewWorker(t, prefillWith(nixlReply)), proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
		x.SSEHead()
		x.Event("one")
		if x.Hold() {
			x.Done()
			x.EndChunks()
		}
	}))
	o := pdOptions("round_robin")
	o.PD.Expiry = brief
	r := startRouter(t, o)
	q := r.startDiscovery()
	q.keep(registration("P", p, "192.0.2.40:21001"))
	stop := r.newDealer().keep(registration("D", d, "192.0.2.41:22001"))
	r.waitMembers(actors.Prefill, 1)
	r.waitMembers(actors.Decode, 1)
	c := r.post(chat("hi", true))
	if _, err := c.ReadEvent(livePatience); err != nil {
		t.Fatal(err)
	}
	stop()
	eventually(t, "the decode worker's expiry", func() bool { return r.router.Health(r.now()).Members[actors.Decode] == 0 })
	if got := r.shown(); len(got.Leaving) != 1 || got.Leaving[0].URL != d.URL() || got.Leaving[0].Load != 1 {
		t.Errorf("/workers shows %+v, want one request at the worker that leaves", got)
	}
	if got := finish(t, r.post(chat("late", true))); got.Status != 503 {
		t.Errorf("status %d without a decode worker, want 503", got.Status)
	}
	d.Release()
	if got := finish(t, c); !strings.Contains(string(got.Body), "[DONE]") {
		t.Errorf("the stream that ran ends with %.200q", got.Body)
	}
	r.waitIdle()
	eventually(t, "the worker to be forgotten", func() bool { return len(r.shown().Leaving) == 0 })
	if n := r.snapshot().Refused; n != 0 {
		t.Errorf("%d releases were refused", n)
	}
}

// TestDiscoverAgain: a worker that registers with other sizes is another worker at
// once; requests at its former self stay counted.
func TestDiscoverAgain(t *testing.T) {
	t.Parallel()
	p, d := proxytest.NewWorker(t, held(reply(200, moonReply))), proxytest.NewWorker(t, held(decodeEither))
	o := pdOptions("round_robin")
	o.PD.Connector = pd.MoRIWrite
	r := startRouter(t, o)
	q := r.startDiscovery()
	was := registration("P", p, "host:192.0.2.30,handshake:6301,notify:61005", "transfer_mode", "WRITE", "tp_size", 4, "dp_size", 2)
	is := registration("P", p, "host:192.0.2.30,handshake:6309,notify:61009", "transfer_mode", "WRITE", "tp_size", 2, "dp_size", 3)
	q.ping(was, registration("D", d, "host:192.0.2.31,handshake:6302,notify:61006", "transfer_mode", "WRITE"))
	r.waitMembers(actors.Prefill, 2)
	r.waitMembers(actors.Decode, 1)
	c := r.post(chat("hi", false))
	first := nthGeneration(t, p, 0)
	nthGeneration(t, d, 0)
	q.ping(is)
	q.ping(was) // a rival's single word counts for nothing
	q.ping(is)
	time.Sleep(20 * time.Millisecond)
	if n := r.router.Health(r.now()).Members[actors.Prefill]; n != 2 {
		t.Errorf("%d prefill workers, want 2 until it is said again", n)
	}
	q.ping(is)
	r.waitMembers(actors.Prefill, 3)
	got, prefills := r.shown(), 0
	for _, w := range append(got.Workers, got.Leaving...) {
		prefills += w.Phases["prefill"]
	}
	if prefills != 1 {
		t.Errorf("/workers shows %+v, want the prefill that runs", got)
	}
	d.Release()
	first.Release()
	if got := finish(t, c); got.Status != 200 {
		t.Errorf("status %d of the request that ran, want 200", got.Status)
	}
	c = r.post(chat("hi", false))
	x, y := nthGeneration(t, p, 1), nthGeneration(t, d, 1)
	if id := x.Get("X-Request-Id"); !strings.HasPrefix(id, "___prefill_addr_host:192.0.2.30,handshake:6309,notify:61009___") {
		t.Errorf("request id %q, want the new address", id)
	}
	wantKV(t, "decode", kvOf(t, y), `{"remote_dp_size":3,"remote_tp_size":2}`)
	wantValues(t, y, "X-data-parallel-rank")
	p.Release()
	d.Release()
	finish(t, c)
	r.waitIdle()
	// Another mode than the fleet's is refused.
	other := proxytest.NewWorker(t, decodeEither)
	q.ping(registration("D", other, "host:192.0.2.32,handshake:1,notify:2", "transfer_mode", "READ"), was)
	eventually(t, "the ping of another mode", func() bool { return r.discovery.Stats().Dropped == 1 })
	if n := r.router.Health(r.now()).Members[actors.Decode]; n != 1 {
		t.Errorf("%d decode workers, want 1", n)
	}
}

// TestDiscoverRefuses: an address that can.t be listened at is an error at once.
func TestDiscoverRefuses(t *testing.T) {
	t.Parallel()
	r := startRouter(t, pdOptions("round_robin"))
	r.startDiscovery()
	taken := r.discovery.Addr().String()
	p, err := New(pdOptions("round_robin"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	for _, addr := range []string{taken, "127.0.0.1", "nowhere"} {
		if err := p.Discover(addr); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Discover(%q): %v, want an error that names it", addr, err)
		}
	}
}
