package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/proxytest"
)

// moonPair is a router in front of a Mooncake pair.
type moonPair struct {
	r          *router
	p, d, boot *proxytest.Worker
}

const moonReply = `{"id":"p","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}`

func newMoonPair(t *testing.T, o Options, prefill, decode proxytest.Script) *moonPair {
	t.Helper()
	f := &moonPair{p: proxytest.NewWorker(t, prefill), d: proxytest.NewWorker(t, decode), boot: newBootstrap(t, `{"0":{"engine_id":"m1"}}`)}
	o.PD.Connector = pd.Mooncake
	f.r = startRouter(t, o)
	f.r.enrollPair(WorkerSpec{URL: f.p.URL(), Bootstrap: portOf(t, f.boot)}, WorkerSpec{URL: f.d.URL()})
	f.r.waitMembers(actors.Prefill, 1)
	f.r.waitMembers(actors.Decode, 1)
	return f
}

func (f *moonPair) wantKV(t *testing.T, p, d *proxytest.Exchange, engine string) {
	t.Helper()
	id := strings.ReplaceAll(strings.TrimPrefix(fmt.Sprint(kvOf(t, p)["transfer_id"]), "xfer-"), "-", "")
	if !strings.HasSuffix(p.Get("X-Request-Id"), "_"+id) || len(id) != 32 {
		t.Errorf("transfer %q of request %q", id, p.Get("X-Request-Id"))
	}
	transfer := fmt.Sprint(kvOf(t, p)["transfer_id"])
	wantKV(t, "prefill", kvOf(t, p), `{"do_remote_decode":true,"do_remote_prefill":false}`)
	wantKV(t, "decode", kvOf(t, d), fmt.Sprintf(`{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":%q,"remote_bootstrap_addr":%q,"remote_engine_id":%q}`,
		transfer, f.boot.URL(), engine))
}

// TestMooncakeDispatch: both requests are sent at once, or one after the other if
// that is asked for.
func TestMooncakeDispatch(t *testing.T) {
	t.Parallel()
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprint("sequential ", sequential), func(t *testing.T) {
			t.Parallel()
			o := pdOptions("round_robin")
			o.PD.Sequential = sequential
			f := newMoonPair(t, o, held(reply(200, moonReply)), held(decodeEither))
			c := f.r.post(chat("hi", false))
			p := nthGeneration(t, f.p, 0)
			if sequential {
				wantNoMore(t, f.d, 0)
				p.Release()
			}
			d := nthGeneration(t, f.d, 0)
			f.wantKV(t, p, d, "m1")
			f.p.Release()
			f.d.Release()
			want200(t, finish(t, c), strings.Replace(decodeAnswer, `"cached_tokens":9`, `"cached_tokens":4`, 1))
			f.r.waitIdle()
			if n := f.r.missingHandoffs(); n != 0 {
				t.Errorf("%v handoffs are counted as missing, want 0", n)
			}
		})
	}
}

// TestMooncakeBootstrap: a prefill worker of whose bootstrap server nothing is
// known gets no requests; what that says holds until it says something else.
func TestMooncakeBootstrap(t *testing.T) {
	t.Parallel()
	f := newMoonPair(t, pdOptions("round_robin"), prefillWith(moonReply), decodeEither)
	n := 0
	ask := func(engine string) {
		t.Helper()
		finish(t, f.r.post(chat("hi", false)))
		f.wantKV(t, nthGeneration(t, f.p, n), nthGeneration(t, f.d, n), engine)
		n++
		f.r.waitIdle()
	}
	ask("m1")
	for _, tt := range []struct {
		name   string
		script proxytest.Script
	}{
		{"an error", bootstrapAnswer(503, "")},
		{"no JSON", bootstrapAnswer(200, "<html>")},
		{"no engine", bootstrapAnswer(200, "{}")},
	} {
		f.boot.SetScript(tt.script)
		f.r.waitUnusable(actors.Prefill)
		if got := finish(t, f.r.post(chat("hi", false))); got.Status != 503 {
			t.Errorf("%s: status %d while the bootstrap server is down, want 503", tt.name, got.Status)
		}
		f.boot.SetScript(bootstrapAnswer(200, `{"0":{"engine_id":"`+tt.name+`"}}`))
		f.r.waitMembers(actors.Prefill, 1)
		ask(tt.name)
	}
	// Another process, of which no check has failed, and which answers as older
	// ones do.
	asked := f.boot.Requests()
	f.boot.SetScript(bootstrapAnswer(200, `{"m9":{"0":{}}}`))
	eventually(t, "two more questions", func() bool { return f.boot.Requests() > asked+2 })
	ask("m9")
	if got := n; len(generations(f.p)) != got || len(generations(f.d)) != got {
		t.Errorf("%d prefill and %d decode requests, want %d each", len(generations(f.p)), len(generations(f.d)), got)
	}
}

// TestMooncakeWithoutBootstrap: blocks that nobody can fetch are not made. The
// decode worker does all, and it is counted.
func TestMooncakeWithoutBootstrap(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			const usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":9}}}`
			p := proxytest.NewWorker(t, prefillWith(moonReply))
			d := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
				if !stream {
					decodeEither(x)
					return
				}
				if x.Path() == "/metrics" {
					x.Reply(404, "")
					return
				}
				x.SSEHead()
				x.Event(usage)
				x.Done()
				x.EndChunks()
			})
			o := pdOptions("round_robin")
			o.PD.Connector = pd.Mooncake
			r := startPD(t, o, []*proxytest.Worker{p}, []*proxytest.Worker{d})
			got := finish(t, r.post(chat("hi", stream)))
			// Its usage is the truth: nothing was fetched.
			want := decodeAnswer
			if stream {
				want = "data: " + usage + "\n\ndata: [DONE]\n\n"
			}
			want200(t, got, want)
			if n := len(generations(p)); n != 0 {
				t.Errorf("%d prefill requests, want none", n)
			}
			if kv := kvOf(t, nthGeneration(t, d, 0)); kv != nil {
				t.Errorf("the decode request has transfer parameters %v, want none", kv)
			}
			if n := r.missingHandoffs(); n != 1 {
				t.Errorf("%v handoffs are counted as missing, want 1", n)
			}
			r.waitIdle()
		})
	}
}

// TestMooncakePinnedRanks: ranks that are named one by one share their server's
// checks, and what its bootstrap server says.
func TestMooncakePinnedRanks(t *testing.T) {
	t.Parallel()
	p, d := proxytest.NewWorker(t, prefillWith(moonReply)), proxytest.NewWorker(t, decodeEither)
	boot := newBootstrap(t, `{"0":{"engine_id":"m0"},"1":{"engine_id":"m1"}}`)
	o := pdOptions("round_robin")
	o.PD.Connector = pd.Mooncake
	r := startRouter(t, o)
	roles := actors.RolesOf(actors.Prefill)
	err := r.AddWorkers([]WorkerSpec{
		{URL: p.URL() + "@0", Roles: roles, Bootstrap: portOf(t, boot)},
		{URL: p.URL() + "@1", Roles: roles, Bootstrap: portOf(t, boot)},
		{URL: d.URL(), Roles: actors.RolesOf(actors.Decode)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.waitMembers(actors.Prefill, 2)
	r.waitMembers(actors.Decode, 1)
	for i := range 4 {
		finish(t, r.post(chat("hi", false)))
		rank := nthGeneration(t, p, i).Get("X-data-parallel-rank")
		wantKV(t, "decode", kvOf(t, nthGeneration(t, d, i)), fmt.Sprintf(`{"remote_engine_id":"m%s"}`, rank))
		r.waitIdle()
	}
}

// TestMooncakeDecodeDown: a decode worker that can't be reached says nothing of
// the prefill worker, of which nothing is forgotten.
func TestMooncakeDecodeDown(t *testing.T) {
	t.Parallel()
	o := pdOptions("round_robin")
	o.Health.Interval, o.Router.Health.Interval = time.Minute, time.Minute // no check helps
	f := newMoonPair(t, o, prefillWith(moonReply), decodeEither)
	d2 := proxytest.NewWorker(t, decodeEither)
	if _, err := f.r.AddWorker(WorkerSpec{URL: d2.URL(), Roles: actors.RolesOf(actors.Decode)}); err != nil {
		t.Fatal(err)
	}
	f.r.waitMembers(actors.Decode, 2)
	f.d.Kill()
	for range 4 {
		if got := finish(t, f.r.post(chat("hi", false))); got.Status != 200 {
			t.Errorf("status %d, want 200: %s", got.Status, got.Body)
		}
	}
	f.r.waitIdle()
	if n := f.r.missingHandoffs(); n != 0 {
		t.Errorf("%v requests were not split, want 0", n)
	}
	for _, x := range generations(d2) {
		wantKV(t, "decode", kvOf(t, x), `{"remote_engine_id":"m1"}`)
	}
}
