package worker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Where decode may come first, it waits for its prefill, but not for ever.
func TestDecodeFirst(t *testing.T) {
	push := pdConfig()
	push.KVPush = true
	pushTo := func(p *Worker) string {
		return fmt.Sprintf(`{"do_remote_prefill":true,"remote_engine_id":%q,"remote_host":"127.0.0.1","remote_port":7000,"tp_size":1,"remote_request_id":"r1"}`, p.engines[0].id)
	}
	mooncakeTo := func(p *Worker) string {
		return fmt.Sprintf(`{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-1","remote_bootstrap_addr":"http://127.0.0.1:7000","remote_engine_id":%q}`, p.engines[0].id)
	}
	tests := []struct {
		name, params, reply string // the prefill's params, and what its answer has
		cfg                 Config
		to                  func(*Worker) string
	}{
		{"NIXL push", toDecode, "push", push, pushTo},
		{"Mooncake", `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-1"}`, "", pdConfig(), mooncakeTo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := open(t, tt.cfg), open(t, pdConfig())
				second := later(t.Context(), d, decode(tenBlocks('a'), tt.to(p)))
				time.Sleep(5 * unit)
				first := post(t.Context(), p, completions, prefill(tenBlocks('a'), tt.params), "X-Request-Id", "r1")
				if tt.reply == "" {
					if got := handover(t, first); got != "null" {
						t.Errorf("the prefill's answer has %s, want null", got)
					}
				} else {
					expect(t, first.body, "kv_transfer_params.transfer_mode", tt.reply, "kv_transfer_params.remote_request_id", "r1")
				}
				if got, want := (<-second).after, 5*unit+10*unit+unit+3*unit; got != want {
					t.Errorf("the decode took %v, want %v", got, want)
				}
				if s := p.Stats(); s.KVSent != 1 || s.PinnedBlocks != 0 {
					t.Errorf("%d sent, %d blocks pinned, want 1 and 0", s.KVSent, s.PinnedBlocks)
				}
			})
		})
		t.Run(tt.name+" after the prefill", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := open(t, tt.cfg), open(t, pdConfig())
				post(t.Context(), p, completions, prefill(tenBlocks('a'), tt.params), "X-Request-Id", "r1")
				if got, want := post(t.Context(), d, completions, decode(tenBlocks('a'), tt.to(p))).after, unit+3*unit; got != want {
					t.Errorf("the decode took %v, want %v", got, want)
				}
			})
		})
		t.Run(tt.name+" without a prefill", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := pdConfig()
				cfg.KVWait = 20 * unit
				p, d := open(t, tt.cfg), open(t, cfg)
				got := post(t.Context(), d, completions, decode(tenBlocks('a'), tt.to(p)))
				if want := 20*unit + 10*unit + 2*unit; got.after != want || d.Stats().KVRecomputed != 1 {
					t.Errorf("the decode took %v, %d recomputed, want %v and 1", got.after, d.Stats().KVRecomputed, want)
				}
				// Too late: what comes now is nobody's.
				post(t.Context(), p, completions, prefill(tenBlocks('a'), tt.params), "X-Request-Id", "r1")
				time.Sleep(10 * unit) // longer than a transfer
				if s := p.Stats(); s.PinnedRequests != 1 || s.KVSent != 0 {
					t.Errorf("%d pinned, %d sent, want 1 and 0", s.PinnedRequests, s.KVSent)
				}
			})
		})
	}
}

// A decode worker that waits for a prefill worker learns of its end, and of its own.
func TestCloseEndsTheWait(t *testing.T) {
	for _, which := range []string{"prefill", "decode"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := open(t, pdConfig()), open(t, pdConfig())
				kv := fmt.Sprintf(`{"do_remote_prefill":true,"transfer_id":"x","remote_bootstrap_addr":"http://127.0.0.1:1","remote_engine_id":%q}`, p.engines[0].id)
				done := later(t.Context(), d, decode(tenBlocks('a'), kv))
				synctest.Wait()
				closed := map[string]*Worker{"prefill": p, "decode": d}[which]
				closed.Close()
				if id := closed.engines[0].id; findEngine(id) != nil {
					t.Errorf("engine %s is found after its end", id)
				}
				got := <-done
				if want := map[string]int{"prefill": 200, "decode": 0}[which]; got.status != want {
					t.Errorf("status %d, want %d", got.status, want)
				}
				if want := map[string]time.Duration{"prefill": 10*unit + 2*unit, "decode": 0}[which]; got.after != want {
					t.Errorf("it ended after %v, want %v", got.after, want)
				}
			})
		})
	}
}

// New requests wait while there is no room for them beside what is pinned, and
// those behind them too: the queue is served in the order of arrival.
func TestPinnedBlocksHoldRequestsUp(t *testing.T) {
	const small = `{"prompt":"x","max_tokens":1}`
	large := prefill(tenBlocks('b'), toDecode)
	tests := []struct {
		name          string
		first, second string
		after         [2]time.Duration
	}{
		{"what fits comes first", small, large, [2]time.Duration{unit / 64, 60 * unit}},
		{"what fits comes second", large, small, [2]time.Duration{60 * unit, 60*unit + unit/64}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := pdConfig()
				cfg.CacheBlocks, cfg.KVLease = 20, 50*unit
				p := open(t, cfg)
				post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode))
				first := later(t.Context(), p, tt.first)
				synctest.Wait() // it has arrived
				second := later(t.Context(), p, tt.second)
				for i, done := range []<-chan answered{first, second} {
					if got, want := (<-done).after, tt.after[i]; got != want {
						t.Errorf("request %d took %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// What a decode worker gives up makes room at once.
func TestGivenUpBlocksMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pdConfig()
		cfg.CacheBlocks = 20
		p := open(t, cfg)
		cfg.MaxRunning, cfg.DecodeBase = 1, time.Hour
		d := open(t, cfg)
		kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
		later(t.Context(), d, `{"prompt":"x"}`)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		later(ctx, d, decode(tenBlocks('a'), kv))
		held := later(t.Context(), p, prefill(tenBlocks('b'), toDecode))
		time.Sleep(5 * unit)
		cancel()
		if got, want := (<-held).after, 5*unit+10*unit; got != want {
			t.Errorf("the request that waited for room took %v, want %v", got, want)
		}
		d.Close()
	})
}

// A request whose blocks are lost has waited its turn: it is prefilled before
// those that came after it.
func TestLostBlocksKeepTheirTurn(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRunning = 1
	s := newState(cfg)
	now := time.Unix(0, 0)
	jobs := []*job{newJob([]prompt{exactly(1, 'a')}, 1, 1), newJob([]prompt{exactly(1, 'b')}, 1, 1)}
	jobs[0].fetches = true
	for _, j := range jobs {
		s.submit(j, now)
	}
	s.load(jobs[0], grant{}, now)
	if jobs[0].phase != prefilling || jobs[1].phase != queued {
		t.Errorf("the phases are %d and %d, want %d and %d", jobs[0].phase, jobs[1].phase, prefilling, queued)
	}
}
