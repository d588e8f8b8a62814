package proxy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/proxytest"
)

// pdOptions are testOptions for workers of two phases.
func pdOptions(policy string) Options {
	o := testOptions(policy)
	o.PD = &PDOptions{Connector: pd.NIXL, PrefillTimeout: farOff, Rescues: 4, RescueTimeout: farOff}
	return o
}

// startPD starts a router in front of prefill and decode workers, and waits until
// each is healthy.
func startPD(t testing.TB, o Options, prefill, decode []*proxytest.Worker) *router {
	t.Helper()
	r := startRouter(t, o)
	r.addPD(prefill, decode)
	return r
}

func (r *router) addPD(prefill, decode []*proxytest.Worker) {
	r.t.Helper()
	var specs []WorkerSpec
	for _, w := range prefill {
		specs = append(specs, WorkerSpec{URL: w.URL(), Roles: actors.RolesOf(actors.Prefill)})
	}
	for _, w := range decode {
		specs = append(specs, WorkerSpec{URL: w.URL(), Roles: actors.RolesOf(actors.Decode)})
	}
	if err := r.AddWorkers(specs); err != nil {
		r.t.Fatal(err)
	}
	r.waitHealthy(len(specs))
}

// phase waits until a worker has n leases in a phase.
func (r *router) waitPhase(w *proxytest.Worker, ph actors.Phase, n int) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%d leases in phase %v at %s", n, ph, w.URL()), func(v *actors.Snapshot) bool {
		for i := range v.Workers {
			if v.Workers[i].URL == w.URL() {
				return v.Workers[i].InPhase[ph] == n
			}
		}
		return n == 0
	})
}

// waitIdle waits until nothing runs and nothing is reserved anywhere.
func (r *router) waitIdle() {
	r.t.Helper()
	r.wait("no lease at all", func(v *actors.Snapshot) bool { return v.Live == 0 })
}

// nixlReply is a prefill worker's reply in pull mode.
const nixlReply = `{"id":"p","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],` +
	`"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}},` +
	`"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"e1","remote_block_ids":[[1,2]],"remote_host":"10.0.0.1","remote_port":5600}}`

// controlCalls answers what a router asks of a worker beside requests and health,
// and lets script do the rest.
func controlCalls(script proxytest.Script) proxytest.Script {
	return func(x *proxytest.Exchange) {
		switch x.Path() {
		case "/metrics":
			x.Reply(404, "")
		default:
			script(x)
		}
	}
}

func prefillWith(reply string) proxytest.Script {
	return controlCalls(func(x *proxytest.Exchange) { x.Reply(200, reply, jsonType) })
}

const decodeAnswer = `{"id":"d","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yz"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":9}}}`

// decodeEither streams or answers whole, as the request asks.
func decodeEither(x *proxytest.Exchange) {
	var q struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(x.Body(), &q)
	switch {
	case x.Path() == "/metrics":
		x.Reply(404, "")
	case q.Stream:
		proxytest.SSE(5, time.Millisecond)(x)
	default:
		x.Reply(200, decodeAnswer, jsonType)
	}
}

// generations are the requests that a worker has seen, but for control calls.
func generations(w *proxytest.Worker) []*proxytest.Exchange {
	var all []*proxytest.Exchange
	for _, x := range w.Seen() {
		if x.Path() != "/metrics" {
			all = append(all, x)
		}
	}
	return all
}
