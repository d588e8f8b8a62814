package proxy

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// often are options with checks so often that many fit into a test.
func often(policy string) Options {
	o := pdOptions(policy)
	o.Router.Health.Interval = 10 * time.Millisecond
	o.Health.HealthOptions = o.Router.Health
	return o
}

// heldPrefill replies once it is released.
func heldPrefill(x *proxytest.Exchange) {
	if x.Hold() {
		x.Reply(200, nixlReply, jsonType)
	}
}

// waitHealth waits until a worker is healthy, or isn't.
func (r *router) waitHealth(w *proxytest.Worker, healthy bool) {
	r.t.Helper()
	r.until(fmt.Sprintf("%s to be healthy: %v", w.URL(), healthy), func() bool {
		v := r.snapshot()
		for i := range v.Workers {
			if k := &v.Workers[i]; k.URL == w.URL() && k.Member {
				return k.Healthy == healthy
			}
		}
		return false
	})
}

// enlist adds a worker for a phase.
func (r *router) enlist(role actors.Role, w *proxytest.Worker) {
	r.t.Helper()
	if err := r.AddWorkers([]WorkerSpec{{URL: w.URL(), Roles: actors.RolesOf(role)}}); err != nil {
		r.t.Fatal(err)
	}
	r.waitHealth(w, true)
}

// sick has a worker fail its checks until the router takes it for unhealthy.
func (r *router) sick(w *proxytest.Worker) {
	r.t.Helper()
	w.SetHealth(proxytest.JSON(503, "{}"))
	r.waitHealth(w, false)
}

// well ends sick.
func (r *router) well(w *proxytest.Worker) {
	r.t.Helper()
	w.SetHealth(proxytest.JSON(200, "{}"))
	r.waitHealth(w, true)
}

// TestPairFleetChangesInFlight: whatever becomes of the workers' membership and
// health while requests run there in either phase, their loads are what runs, and
// the requests end well.
func TestPairFleetChangesInFlight(t *testing.T) {
	role := map[string]actors.Role{"prefill": actors.Prefill, "decode": actors.Decode}
	type change struct {
		name string
		make func(f *pdFleet, same func())
	}
	changes := []change{{"12 health cycles", func(f *pdFleet, same func()) {
		p, d := f.prefill[0], f.decode[0]
		past := [2]int{p.HealthChecks(), d.HealthChecks()}
		f.until("12 checks of each worker", func() bool {
			same()
			return p.HealthChecks() >= past[0]+12 && d.HealthChecks() >= past[1]+12
		})
	}}}
	for name, role := range role {
		of := func(f *pdFleet) *proxytest.Worker {
			if role == actors.Prefill {
				return f.prefill[0]
			}
			return f.decode[0]
		}
		changes = append(changes, change{"unhealthy and healthy again: " + name, func(f *pdFleet, same func()) {
			f.sick(of(f))
			same()
			f.well(of(f))
		}}, change{"removed and added again: " + name, func(f *pdFleet, same func()) {
			if err := f.RemoveWorker(of(f).URL()); err != nil {
				f.t.Fatal(err)
			}
			same()
			f.enlist(role, of(f))
		}})
	}
	for _, phase := range []string{"prefill", "decode"} {
		for _, c := range changes {
			t.Run("in "+phase+", "+c.name, func(t *testing.T) {
				eachWay(t, func(t *testing.T, policy string, stream bool) {
					script := heldStream
					if !stream {
						script = halfReply(decodeAnswer)
					}
					f := startFleet(t, often(policy), 1, heldPrefill, script)
					client := f.post(chat(theCase, stream))
					f.waitSeen(1, 0)
					if phase == "decode" {
						release(f.prefill...)
						f.waitSeen(1, 1)
						f.until("decode", func() bool { return f.sum().decoding == 2 })
					}
					during := f.loads()
					same := func() {
						if got := f.loads(); !maps.Equal(got, during) {
							t.Errorf("loads\n %v, want those before the change\n %v", got, during)
						}
					}
					c.make(f, same)
					same()
					if phase == "prefill" {
						release(f.prefill...)
						f.waitSeen(1, 1)
					}
					release(f.decode...)
					if got, err := client.ReadResponse(loaded); err != nil || got.Status != 200 {
						t.Errorf("answer %+v, %v; want a whole 200", got, err)
					}
					f.wantSeen(1, 1)
					f.finish()
					f.wantBlocks(0, 0)
				})
			})
		}
	}
}

// reserved is the decode worker where the case has its place, while it is
// prefilled.
func (f *pdFleet) reserved() *proxytest.Worker {
	f.t.Helper()
	now := f.loads()
	for _, w := range f.decode {
		if now[w.URL()].reserved > f.before[w.URL()].reserved {
			return w
		}
	}
	f.t.Fatalf("the case is reserved nowhere: %v", now)
	return nil
}

// where is the worker that has seen a request.
func where(x *proxytest.Exchange, ws []*proxytest.Worker) *proxytest.Worker {
	for _, w := range ws {
		for _, y := range w.Seen() {
			if y == x {
				return w
			}
		}
	}
	return nil
}

// wantHandover fails the test unless a decode request has the parameters of the
// prefill worker's reply, and an id that names both workers.
func (f *pdFleet) wantHandover(x *proxytest.Exchange) {
	f.t.Helper()
	if !strings.Contains(string(x.Body()), `"remote_engine_id":"e1","remote_block_ids":[[1,2]]`) {
		f.t.Errorf("the decode request hasn't the reply's parameters: %s", x.Body())
	}
	p := where(f.prefills()[len(f.prefills())-1], f.prefill)
	if id, want := x.Get("X-Request-Id"), "___prefill_addr_"+p.Addr()+"___decode_addr_"+where(x, f.decode).Addr()+"_"; !strings.HasPrefix(id, want) {
		f.t.Errorf("the decode request's id is %s, want it to begin with %s", id, want)
	}
}

// TestPairDecodeMovesToAFitWorker: a decode worker that is lost while the prompt is
// prefilled elsewhere is replaced, and the other one fetches the same blocks.
func TestPairDecodeMovesToAFitWorker(t *testing.T) {
	for _, how := range []string{"unhealthy", "removed"} {
		t.Run(how, func(t *testing.T) {
			eachWay(t, func(t *testing.T, policy string, stream bool) {
				f := startFleet(t, often(policy), 2, heldPrefill, nil)
				c := f.post(chat(theCase, stream))
				f.waitSeen(1, 0)
				lost := f.reserved()
				if how == "removed" {
					if err := f.RemoveWorker(lost.URL()); err != nil {
						t.Fatal(err)
					}
				} else {
					f.sick(lost)
				}
				release(f.prefill...)
				if got, err := c.ReadResponse(loaded); err != nil || got.Status != 200 {
					t.Errorf("answer %+v, %v; want a whole 200", got, err)
				}
				f.wantSeen(1, 1)
				if where(f.decodes()[0], f.decode) == lost {
					t.Errorf("the lost worker was asked")
				}
				f.wantHandover(f.decodes()[0])
				f.until("no place to be left at the lost worker", func() bool {
					return f.loads()[lost.URL()] == f.before[lost.URL()]
				})
				if how == "removed" {
					f.enlist(actors.Decode, lost)
				} else {
					f.well(lost)
				}
				f.finish()
				f.wantBlocks(0, 0)
			})
		})
	}
}

// TestPairNoDecodeWorkerLeft: when nobody is left to decode what was prefilled, the
// client is told so, and the blocks are given up.
func TestPairNoDecodeWorkerLeft(t *testing.T) {
	eachWay(t, func(t *testing.T, policy string, stream bool) {
		f := startFleet(t, often(policy), 1, heldPrefill, nil)
		c := f.post(chat(theCase, stream))
		f.waitSeen(1, 0)
		f.sick(f.decode[0])
		release(f.prefill...)
		got, err := c.ReadResponse(loaded)
		if err != nil {
			t.Fatal(err)
		}
		wantRole(t, got, 503, "no_available_workers", "decode")
		wantValues(t, got, "Retry-After", "1")
		f.wantSeen(1, 0)
		f.wantBlocks(0, 1)
		f.well(f.decode[0])
		f.finish()
	})
}
