package proxy

import (
	"fmt"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/proxytest"
)

// pushReply is a prefill worker's reply in NIXL's push mode.
func pushReply(engine string) string {
	return fmt.Sprintf(`{"id":"p","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}},`+
		`"kv_transfer_params":{"transfer_mode":"push","do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":%q,"remote_host":"10.0.0.1","remote_port":5600,"tp_size":2}}`, engine)
}

// held serves generations once they are released.
func held(script proxytest.Script) proxytest.Script {
	return controlCalls(func(x *proxytest.Exchange) {
		if x.Hold() {
			script(x)
		}
	})
}

func reply(status int, body string, headers ...proxytest.Header) proxytest.Script {
	return func(x *proxytest.Exchange) { x.Reply(status, body, append(headers, jsonType)...) }
}

// pushPair is a router in front of a pair in push mode.
type pushPair struct {
	r    *router
	p, d *proxytest.Worker
}

// newPushPair starts a pair whose prefill worker has been met by one request.
func newPushPair(t *testing.T, o Options) *pushPair {
	t.Helper()
	f := &pushPair{p: proxytest.NewWorker(t, prefillWith(pushReply("e1"))), d: proxytest.NewWorker(t, decodeEither)}
	f.r = startPD(t, o, []*proxytest.Worker{f.p}, []*proxytest.Worker{f.d})
	want200(t, finish(t, f.r.post(chat("first", false))), strings.Replace(decodeAnswer, `"cached_tokens":9`, `"cached_tokens":4`, 1))
	f.r.waitIdle()
	return f
}

// wantSequential sends a request of which the decode worker hears when the
// prefill worker has replied.
func (f *pushPair) wantSequential(t *testing.T, engine string) {
	t.Helper()
	np, nd := len(generations(f.p)), len(generations(f.d))
	f.p.SetScript(held(reply(200, pushReply(engine))))
	f.d.SetScript(decodeEither)
	c := f.r.post(chat("sequential", false))
	nthGeneration(t, f.p, np)
	wantNoMore(t, f.d, nd)
	f.p.Release()
	f.wantAnswer(t, c, engine)
}

// wantConcurrent sends a request of which both workers hear before either
// answers.
func (f *pushPair) wantConcurrent(t *testing.T, engine string) {
	t.Helper()
	np, nd := len(generations(f.p)), len(generations(f.d))
	f.p.SetScript(held(reply(200, pushReply(engine))))
	f.d.SetScript(held(decodeEither))
	c := f.r.post(chat("concurrent", false))
	nthGeneration(t, f.p, np)
	nthGeneration(t, f.d, nd)
	f.d.Release()
	f.p.Release()
	f.wantAnswer(t, c, engine)
}

// wantAnswer reads an answer, which is put right by the prefill worker's reply,
// and checks what the last decode request says of the engine.
func (f *pushPair) wantAnswer(t *testing.T, c *proxytest.Client, engine string) {
	t.Helper()
	want200(t, finish(t, c), strings.Replace(decodeAnswer, `"cached_tokens":9`, `"cached_tokens":4`, 1))
	ds := generations(f.d)
	last := ds[len(ds)-1]
	wantKV(t, "decode", kvOf(t, last), fmt.Sprintf(`{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":%q,"remote_host":"10.0.0.1","remote_port":5600,"tp_size":2,"remote_request_id":%q}`,
		engine, last.Get("X-Request-Id")))
	f.r.waitIdle()
}

// TestPushDispatch: the first request to a prefill worker in push mode tells who
// it is, and then both requests are sent at once, unless that is forbidden.
func TestPushDispatch(t *testing.T) {
	t.Parallel()
	f := newPushPair(t, pdOptions("round_robin"))
	f.wantConcurrent(t, "e1")
	f.wantConcurrent(t, "e1")
	o := pdOptions("round_robin")
	o.PD.Sequential = true
	f = newPushPair(t, o)
	f.wantSequential(t, "e1")
}

// TestPushForgets: what is known of a prefill worker is dropped as soon as it may
// be wrong. The request that finds out gets its answer all the same.
func TestPushForgets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pooled bool // connections are used again
		f      func(t *testing.T, f *pushPair)
	}{
		{"a decode request is reset", false, func(t *testing.T, f *pushPair) {
			np := len(generations(f.p))
			f.d.SetScript(controlCalls(proxytest.Sequence(held(proxytest.ResetBeforeHead), decodeEither)))
			f.p.SetScript(held(reply(200, pushReply("e1"))))
			c := f.r.post(chat("reset", false))
			nthGeneration(t, f.p, np)
			nthGeneration(t, f.d, 1).Release()
			nthGeneration(t, f.p, np+1) // of the second attempt, which is sequential
			wantNoMore(t, f.d, 2)
			f.p.Release()
			f.wantAnswer(t, c, "e1")
			wantNewID(t, generations(f.d)[1:])
			f.wantConcurrent(t, "e1")
		}},
		{"a decode worker fails", true, func(t *testing.T, f *pushPair) {
			np := len(generations(f.p))
			f.d.SetScript(controlCalls(proxytest.Sequence(held(reply(500, `{}`)), decodeEither)))
			f.p.SetScript(held(reply(200, pushReply("e1"))))
			c := f.r.post(chat("500", false))
			nthGeneration(t, f.p, np)
			nthGeneration(t, f.d, 1).Release()
			nthGeneration(t, f.p, np+1)
			wantNoMore(t, f.d, 2)
			f.p.Release()
			f.wantAnswer(t, c, "e1")
			wantNewID(t, generations(f.d)[1:])
		}},
		{"the prefill worker was ill", true, func(t *testing.T, f *pushPair) {
			f.p.SetHealth(func(x *proxytest.Exchange) { x.Reply(503, "") })
			f.r.waitUnusable(actors.Prefill)
			f.p.SetHealth(func(x *proxytest.Exchange) { x.Reply(200, "") })
			f.r.waitMembers(actors.Prefill, 1)
			f.wantSequential(t, "e1")
			f.wantConcurrent(t, "e1")
		}},
		{"another engine replies", true, func(t *testing.T, f *pushPair) {
			np, nd := len(generations(f.p)), len(generations(f.d))
			f.p.SetScript(held(reply(200, pushReply("e2"))))
			f.d.SetScript(held(decodeEither))
			c := f.r.post(chat("restarted", false))
			nthGeneration(t, f.p, np)
			d := nthGeneration(t, f.d, nd)
			f.p.Release()
			wantClosed(t, "the decode request that waits for another engine", d)
			nthGeneration(t, f.p, np+1) // both at once again
			nthGeneration(t, f.d, nd+1)
			f.p.Release()
			f.d.Release()
			f.wantAnswer(t, c, "e2")
			wantNewID(t, generations(f.d)[nd:])
			f.wantConcurrent(t, "e2")
		}},
		{"the engine has left push mode", true, func(t *testing.T, f *pushPair) {
			np, nd := len(generations(f.p)), len(generations(f.d))
			f.p.SetScript(held(reply(200, nixlReply)))
			f.d.SetScript(held(decodeEither))
			c := f.r.post(chat("pull", false))
			nthGeneration(t, f.p, np)
			d := nthGeneration(t, f.d, nd)
			f.p.Release()
			wantClosed(t, "the decode request that waits for blocks", d)
			nthGeneration(t, f.p, np+1)
			wantNoMore(t, f.d, nd+1)
			f.p.Release()
			x := nthGeneration(t, f.d, nd+1)
			f.d.Release()
			want200(t, finish(t, c), strings.Replace(decodeAnswer, `"cached_tokens":9`, `"cached_tokens":4`, 1))
			wantKV(t, "decode", kvOf(t, x), `{"remote_block_ids":[[1,2]],"remote_engine_id":"e1"}`)
			if _, push := kvOf(t, x)["remote_request_id"]; push {
				t.Errorf("the decode request is one of push mode: %s", x.Body())
			}
			f.r.waitIdle()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := withRetries()
			if tt.pooled {
				o = pdOptions("round_robin")
			}
			tt.f(t, newPushPair(t, o))
		})
	}
}

// wantNewID fails the test unless two requests are of different attempts.
func wantNewID(t *testing.T, two []*proxytest.Exchange) {
	t.Helper()
	if len(two) != 2 {
		t.Fatalf("%d requests, want 2", len(two))
	}
	if a, b := two[0].Get("X-Request-Id"), two[1].Get("X-Request-Id"); a == b {
		t.Errorf("both attempts have the id %q", a)
	}
}

// TestPushRanks: each data-parallel rank is an engine of its own.
func TestPushRanks(t *testing.T) {
	t.Parallel()
	p := proxytest.NewWorker(t, withEngines(2, func(x *proxytest.Exchange) { x.Reply(200, pushReply("rank "+x.Get("X-data-parallel-rank")), jsonType) }))
	d := proxytest.NewWorker(t, decodeEither)
	r := startRouter(t, pdOptions("round_robin"))
	r.enrollPair(WorkerSpec{URL: p.URL()}, WorkerSpec{URL: d.URL()})
	r.waitMembers(actors.Prefill, 2)
	r.waitMembers(actors.Decode, 1)
	ranks := map[string]int{}
	for i := range 4 {
		finish(t, r.post(chat("hi", false)))
		r.waitIdle()
		rank := generations(p)[i].Get("X-data-parallel-rank")
		ranks[rank]++
		wantKV(t, "decode", kvOf(t, generations(d)[i]), fmt.Sprintf(`{"remote_engine_id":"rank %s"}`, rank))
	}
	if ranks["0"] != 2 || ranks["1"] != 2 {
		t.Errorf("requests by rank: %v, want two each", ranks)
	}
	// Both are known, each by its own name.
	d.SetScript(held(decodeEither))
	p.SetScript(held(func(x *proxytest.Exchange) { x.Reply(200, pushReply("rank "+x.Get("X-data-parallel-rank")), jsonType) }))
	for i := 4; i < 6; i++ {
		c := r.post(chat("hi", false))
		rank := nthGeneration(t, p, i).Get("X-data-parallel-rank")
		wantKV(t, "decode", kvOf(t, nthGeneration(t, d, i)), fmt.Sprintf(`{"remote_engine_id":"rank %s"}`, rank))
		p.Release()
		d.Release()
		finish(t, c)
	}
	r.waitIdle()
}

// moriPair is a router in front of a pair that has registered itself.
func moriPair(t *testing.T, mode string, o Options, prefill, decode proxytest.Script) *pushPair {
	t.Helper()
	f := &pushPair{p: proxytest.NewWorker(t, prefill), d: proxytest.NewWorker(t, decode)}
	o.PD.Connector = pd.MoRIRead
	f.r = startRouter(t, o)
	f.r.startDiscovery().ping(
		registration("P", f.p, "host:192.0.2.30,handshake:6301,notify:61005", "transfer_mode", mode, "tp_size", 4, "dp_size", 2),
		registration("D", f.d, "host:192.0.2.31,handshake:6302,notify:61006", "transfer_mode", mode, "tp_size", 8, "dp_size", 3))
	f.r.waitMembers(actors.Prefill, 2)
	f.r.waitMembers(actors.Decode, 3)
	return f
}

// TestMoRIWrite: both requests are sent at once, whatever the options say, and
// each tells the sizes and the rank of the other worker.
func TestMoRIWrite(t *testing.T) {
	t.Parallel()
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprint("sequential ", sequential), func(t *testing.T) {
			t.Parallel()
			o := pdOptions("round_robin")
			o.PD.Sequential = sequential
			f := moriPair(t, "WRITE", o, held(reply(200, moonReply)), held(decodeEither))
			pairs := map[string]bool{}
			for i := range 6 {
				c := f.r.post(chat("hi", false))
				p, d := nthGeneration(t, f.p, i), nthGeneration(t, f.d, i)
				f.p.Release()
				f.d.Release()
				want200(t, finish(t, c), strings.Replace(decodeAnswer, `"cached_tokens":9`, `"cached_tokens":4`, 1))
				pr, dr := p.Get("X-data-parallel-rank"), d.Get("X-data-parallel-rank")
				pairs[pr+dr] = true
				transfer := "tx-" + p.Get("X-Request-Id")[strings.LastIndexByte(p.Get("X-Request-Id"), '_')+1:]
				wantKV(t, "prefill", kvOf(t, p), fmt.Sprintf(`{"transfer_id":%q,"remote_dp_size":3,"remote_tp_size":8,"remote_dp_rank":%s,"remote_engine_id":null,"remote_block_ids":null}`, transfer, dr))
				wantKV(t, "decode", kvOf(t, d), fmt.Sprintf(`{"transfer_id":%q,"remote_dp_size":2,"remote_tp_size":4,"remote_dp_rank":%s,"remote_engine_id":null,"remote_block_ids":null}`, transfer, pr))
				f.r.waitIdle()
			}
			if len(pairs) != 6 {
				t.Errorf("six requests met at the ranks %v, want six pairs", pairs)
			}
		})
	}
}

// TestMoRIRead: the decode request waits for the reply, whose parameters it gets
// with the size of the prefill worker.
func TestMoRIRead(t *testing.T) {
	t.Parallel()
	f := moriPair(t, "READ", pdOptions("round_robin"),
		held(reply(200, `{"choices":[],"kv_transfer_params":{"remote_block_ids":[5, 6],"transfer_id":"tx-echo","remote_dp_size":77,"new":{"a":null}}}`)), decodeEither)
	c := f.r.post(chat("hi", false))
	p := nthGeneration(t, f.p, 0)
	wantNoMore(t, f.d, 0)
	p.Release()
	finish(t, c)
	wantKV(t, "prefill", kvOf(t, p), `{"do_remote_decode":true,"do_remote_prefill":false,"remote_dp_size":3}`)
	d := nthGeneration(t, f.d, 0)
	wantKV(t, "decode", kvOf(t, d), `{"remote_block_ids":[5,6],"transfer_id":"tx-echo","remote_dp_size":2,"new":{"a":null}}`)
	for _, name := range []string{"remote_tp_size", "remote_dp_rank"} {
		if _, there := kvOf(t, p)[name]; there {
			t.Errorf("the prefill request has %s, which is one of WRITE: %s", name, p.Body())
		}
	}
	f.r.waitIdle()
}
