package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answered is what a worker said, and when.
type answered struct {
	status int
	body   []byte
	after  time.Duration
}

// post has w's handler serve a request as if it had come to port 7000, without a
// network, so that synctest can drive it.
func post(ctx context.Context, w *Worker, path, body string, headers ...string) (a answered) {
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7000})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rw := &recorder{header: http.Header{}}
	begin := time.Now()
	defer func() {
		if err := recover(); err != nil {
			if err, _ := err.(error); !errors.Is(err, http.ErrAbortHandler) {
				panic(err)
			}
		}
		a = answered{rw.status, rw.body.Bytes(), time.Since(begin)}
	}()
	w.Handler().ServeHTTP(rw, r)
	return a
}

// later posts a completion in a goroutine of its own.
func later(ctx context.Context, w *Worker, body string, headers ...string) <-chan answered {
	done := make(chan answered, 1)
	go func() { done <- post(ctx, w, completions, body, headers...) }()
	return done
}

// pdConfig is testConfig with ten blocks transferred in a unit and a cache that
// holds some prompts.
func pdConfig() Config {
	c := testConfig()
	c.TransferPerBlock, c.CacheBlocks, c.AllowFaults = unit/10, 100, true
	return c
}

// open starts a worker that the test closes.
func open(t *testing.T, cfg Config) *Worker {
	w := New(cfg)
	t.Cleanup(w.Close)
	return w
}

// tenBlocks is a prompt whose prefill takes ten units, told from others by its
// first byte.
func tenBlocks(first byte) string { return string(first) + strings.Repeat("x", 10*BlockBytes-1) }

const toDecode = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// prefill is the first half's request as a router makes it.
func prefill(prompt, kv string) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"min_tokens":1,"stream":false,"kv_transfer_params":%s}`, prompt, kv)
}

// decode is the second half's, of three tokens.
func decode(prompt, kv string) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":3,"kv_transfer_params":%s}`, prompt, kv)
}

const completions = "/v1/completions"

// handover is what a prefill's answer has for the decode request.
func handover(t *testing.T, a answered) string {
	t.Helper()
	var body struct {
		KV json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != 200 {
		t.Fatalf("the prefill answered %d %q", a.status, a.body)
	}
	return string(body.KV)
}

func TestPrefillHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := open(t, pdConfig()), open(t, pdConfig())
		first := post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode), "X-Request-Id", "r1")
		if first.after != 10*unit {
			t.Errorf("the prefill took %v, want %v", first.after, 10*unit)
		}
		expect(t, first.body, "choices.0.finish_reason", "length", "usage.completion_tokens", 1,
			"kv_transfer_params.do_remote_prefill", true, "kv_transfer_params.do_remote_decode", false,
			"kv_transfer_params.remote_engine_id", p.engines[0].id, "kv_transfer_params.remote_host", "127.0.0.1",
			"kv_transfer_params.remote_port", 7000, "kv_transfer_params.tp_size", 1, "kv_transfer_params.transfer_mode", nil)
		ids, _ := at(t, first.body, "kv_transfer_params.remote_block_ids.0").([]any)
		if len(ids) != 11 {
			t.Errorf("%d block ids, want 11: ten of the prompt and one of the token", len(ids))
		}
		time.Sleep(time.Second)
		if s := p.Stats(); s.PinnedRequests != 1 || s.PinnedBlocks != 11 || s.HeldBlocks != 11 || s.Running != 0 || s.Open != 0 {
			t.Errorf("after the prefill: %+v, want one request of 11 blocks pinned, and no other", s)
		}

		second := post(t.Context(), d, completions, decode(tenBlocks('a'), handover(t, first)))
		if want := unit + 3*unit; second.after != want { // transfer, three steps
			t.Errorf("the decode took %v, want %v", second.after, want)
		}
		expect(t, second.body, "usage.prompt_tokens", 160, "usage.prompt_tokens_details.cached_tokens", 160,
			"usage.completion_tokens", 3, "kv_transfer_params", nil)
		if s := p.Stats(); s.PinnedRequests != 0 || s.PinnedBlocks != 0 || s.HeldBlocks != 0 || s.KVSent != 1 {
			t.Errorf("the prefill worker after the transfer: %+v, want nothing pinned, one sent", s)
		}
		if s := d.Stats(); s.KVLoaded != 1 || s.LoadedTokens != 160 || s.LoadTime != unit || s.KVRecomputed != 0 || s.HitBlocks != 0 {
			t.Errorf("the decode worker: %+v, want 160 tokens loaded in %v and nothing recomputed", s, unit)
		}
		whole := post(t.Context(), open(t, pdConfig()), completions, decode(tenBlocks('a'), "null"))
		if got, want := at(t, second.body, "choices.0.text"), at(t, whole.body, "choices.0.text"); got != want {
			t.Errorf("the answer is %q, want what one worker says: %q", got, want)
		}
	})
}

// What the decode worker has in its cache isn't transferred, but it is freed.
func TestDecodeLoadsWhatItLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := open(t, pdConfig()), open(t, pdConfig())
		for i, want := range []time.Duration{unit + 3*unit, unit/10 + 3*unit} {
			kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
			got := post(t.Context(), d, completions, decode(tenBlocks('a'), kv))
			if got.after != want {
				t.Errorf("decode %d took %v, want %v", i, got.after, want)
			}
			expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", 160)
		}
		if s := d.Stats(); s.HitBlocks != 9 || s.LoadedTokens != 160+16 {
			t.Errorf("%d blocks hit, %d tokens loaded, want 9 and 176", s.HitBlocks, s.LoadedTokens)
		}
		if s := p.Stats(); s.KVSent != 2 || s.PinnedBlocks != 0 {
			t.Errorf("%d sent, %d blocks pinned, want 2 and 0", s.KVSent, s.PinnedBlocks)
		}
	})
}

func TestEveryAPIHandsOver(t *testing.T) {
	for _, tt := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"max_tokens":1,` + hello + `,"kv_transfer_params":` + toDecode + `}`},
		{"/v1/responses", `{"max_output_tokens":1,"input":"hello","kv_transfer_params":` + toDecode + `}`},
		{"/v1/messages", `{"max_tokens":1,` + hello + `,"kv_transfer_params":` + toDecode + `}`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := open(t, pdConfig()), open(t, pdConfig())
				kv := handover(t, post(t.Context(), p, tt.path, tt.body))
				if got := post(t.Context(), d, tt.path, strings.Replace(tt.body, toDecode, kv, 1)); got.status != 200 {
					t.Errorf("the decode answered %d %q, want 200", got.status, got.body)
				}
				if s := d.Stats(); s.KVLoaded != 1 || p.Stats().KVSent != 1 {
					t.Errorf("%d loaded, %d sent, want 1 and 1", s.KVLoaded, p.Stats().KVSent)
				}
			})
		})
	}
}

// A prefill hands over only if it ended by length.
func TestPrefillThatStops(t *testing.T) {
	tests := []struct {
		name, min, fault, reason string
		pinned                   int64
	}{
		{"by length", "0", "slow=0", "length", 1},
		{"by itself", "0", "prefill:stop", "stop", 0},
		{"by itself, as any request", "0", "stop", "stop", 0},
		{"not allowed to", "1", "prefill:stop", "length", 1},
		{"only decode would", "0", "decode:stop", "length", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, pdConfig())
				body := strings.Replace(prefill(tenBlocks('a'), toDecode), `"min_tokens":1`, `"min_tokens":`+tt.min, 1)
				got := post(t.Context(), p, completions, body, "X-Sim-Fail", tt.fault)
				expect(t, got.body, "choices.0.finish_reason", tt.reason)
				if kv := handover(t, got); (kv != "null") != (tt.pinned == 1) || kv == "" {
					t.Errorf("kv_transfer_params is %q with %d pinned", kv, tt.pinned)
				}
				if s := p.Stats(); s.Pinned != tt.pinned {
					t.Errorf("%d pinned, want %d", s.Pinned, tt.pinned)
				}
			})
		})
	}
}

// What a decode request can't get is prefilled again, or fails if so configured.
func TestLostBlocks(t *testing.T) {
	tests := []struct {
		name     string
		change   func(kv map[string]any)
		prompt   byte // of the decode request
		failed   int64
		mismatch int64
	}{
		{"unknown engine", func(kv map[string]any) { kv["remote_engine_id"], kv["remote_host"] = "other", "127.0.0.1" }, 'a', 1, 0},
		{"unknown request", func(kv map[string]any) { kv["remote_request_id"] = "other" }, 'a', 1, 0},
		{"another's blocks", func(map[string]any) {}, 'b', 1, 1},
		{"no port", func(kv map[string]any) { kv["remote_port"] = nil }, 'a', 0, 0},
		{"no engine", func(kv map[string]any) { kv["remote_engine_id"] = nil }, 'a', 0, 0},
		{"no request", func(kv map[string]any) { delete(kv, "remote_request_id") }, 'a', 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, d := open(t, quick()), open(t, quick())
			var kv map[string]any
			if err := json.Unmarshal([]byte(handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))), &kv); err != nil {
				t.Fatal(err)
			}
			kv["remote_port"] = 1 // nobody listens there
			tt.change(kv)
			params, _ := json.Marshal(kv)
			got := post(t.Context(), d, completions, decode(tenBlocks(tt.prompt), string(params)))
			expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", 0, "usage.completion_tokens", 3)
			if s := d.Stats(); s.KVRecomputed != 1 || s.KVFailed != tt.failed || s.KVLoaded != 0 || s.PromptTokens != 160 {
				t.Errorf("%+v, want one request of 160 tokens recomputed, %d failed, none loaded", s, tt.failed)
			}
			if s := p.Stats(); s.PinnedRequests != 1 || s.KVMismatched != tt.mismatch {
				t.Errorf("%d pinned, %d mismatched, want 1 and %d", s.PinnedRequests, s.KVMismatched, tt.mismatch)
			}
			if tt.failed == 0 {
				return // nothing was tried
			}
			strict := quick()
			strict.FailLostKV = true
			d = open(t, strict)
			got = post(t.Context(), d, completions, decode(tenBlocks(tt.prompt), string(params)))
			if got.status != 500 {
				t.Errorf("where lost blocks fail: status %d, want 500", got.status)
			}
			stream := post(t.Context(), d, completions, strings.Replace(decode(tenBlocks(tt.prompt), string(params)), `{`, `{"stream":true,`, 1))
			events := parseEvents(t, stream.body)
			if len(events) != 2 || string(events[1].data) != "[DONE]" {
				t.Fatalf("the stream is %q, want an error and [DONE]", stream.body)
			}
			expect(t, events[0].data, "error.code", 500)
			if s := d.Stats(); s.KVFailed != 2 || s.Failed != 2 || s.KVRecomputed != 0 || s.Loading != 0 || s.Open != 0 {
				t.Errorf("%+v, want two failed and none recomputed", s)
			}
		})
	}
}

// quick is pdConfig without the waits, for tests in real time.
func quick() Config {
	c := pdConfig()
	c.TimeScale = 1e6
	return c
}

// Two prompts can't share one hand-over.
func TestPromptsOfADecodeRequest(t *testing.T) {
	d := open(t, quick())
	got := post(t.Context(), d, completions, `{"prompt":["a","b"],"kv_transfer_params":{"do_remote_prefill":true}}`)
	if s := d.Stats(); got.status != 500 || s.Failed != 1 {
		t.Errorf("status %d, %d failed, want 500 and 1", got.status, s.Failed)
	}
}

func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pdConfig()
		cfg.KVLease = 50 * unit
		p, d := open(t, cfg), open(t, cfg)
		kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
		time.Sleep(50*unit - 1)
		if s := p.Stats(); s.PinnedBlocks != 11 {
			t.Errorf("%d blocks pinned just before the lease ends, want 11", s.PinnedBlocks)
		}
		time.Sleep(time.Nanosecond)
		if s := p.Stats(); s.PinnedBlocks != 0 || s.PinnedRequests != 0 || s.KVExpired != 1 {
			t.Errorf("at the end of the lease: %+v, want it expired and nothing pinned", s)
		}
		got := post(t.Context(), d, completions, decode(tenBlocks('a'), kv))
		if want := 10*unit + 2*unit; got.after != want || d.Stats().KVRecomputed != 1 {
			t.Errorf("the decode took %v, %d recomputed, want %v and 1", got.after, d.Stats().KVRecomputed, want)
		}
	})
}

// A decode request that waits in its engine's queue keeps the lease running, and
// is not counted as running itself before its blocks have come.
func TestQueueRenewsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pdConfig()
		cfg.KVLease, cfg.MaxRunning = 30*unit, 1
		p, d := open(t, cfg), open(t, cfg)
		long := later(t.Context(), d, `{"prompt":"x","max_tokens":200,"ignore_eos":true}`)
		kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
		second := later(t.Context(), d, decode(tenBlocks('a'), kv))
		time.Sleep(150 * unit)
		if s := p.Stats(); s.PinnedRequests != 1 || s.KVExpired != 0 {
			t.Errorf("%d pinned, %d expired after five leases, want 1 and 0", s.PinnedRequests, s.KVExpired)
		}
		if s := d.Stats(); s.Waiting != 1 || s.Loading != 0 || s.Running != 1 {
			t.Errorf("%+v, want one waiting and one running", s)
		}
		<-long
		time.Sleep(unit / 2)
		if s := d.Stats(); s.Loading != 1 || s.Running != 0 || s.HeldBlocks != 10 {
			t.Errorf("%+v, want one loading into 10 blocks", s)
		}
		var metrics strings.Builder
		writeMetrics(&metrics, cfg, d.stats())
		if want := `vllm:num_requests_waiting{engine="0",model_name="sim"} 1`; !strings.Contains(metrics.String(), "\n"+want+"\n") {
			t.Errorf("metrics lack %s in\n%s", want, metrics.String())
		}
		<-second
		if s := d.Stats(); s.KVLoaded != 1 {
			t.Errorf("%d loaded, want 1", s.KVLoaded)
		}
	})
}

// Where the request is when its client leaves decides what becomes of the blocks.
func TestDecodeIsAborted(t *testing.T) {
	still := pdConfig()
	still.DecodeBase, still.MaxRunning, still.MaxQueue = time.Hour, 1, 1
	refusing := still
	refusing.MaxQueue = -1
	idle := pdConfig()
	tests := []struct {
		name                  string
		cfg                   Config
		fault                 string
		busy                  bool
		at                    time.Duration // when the client leaves
		sent, dropped, pinned int64
	}{
		{"before the engine knows it", idle, "decode:hang", false, unit, 0, 0, 1},
		{"refused by the engine", refusing, "slow=0", true, unit, 0, 0, 1},
		{"in the queue", still, "slow=0", true, unit, 0, 1, 0},
		{"in the transfer", idle, "slow=0", false, unit / 2, 0, 0, 1}, // which goes on
		{"in decode", idle, "slow=0", false, 2 * unit, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d := open(t, pdConfig()), open(t, tt.cfg)
				kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
				if tt.busy {
					later(t.Context(), d, `{"prompt":"x"}`)
					time.Sleep(unit)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := later(ctx, d, decode(tenBlocks('a'), kv), "X-Sim-Fail", tt.fault)
				time.Sleep(tt.at)
				cancel()
				<-done
				s := p.Stats()
				if s.KVSent != tt.sent || s.KVDropped != tt.dropped || int64(s.PinnedRequests) != tt.pinned || s.KVExpired != 0 {
					t.Errorf("%d sent, %d dropped, %d pinned, want %d, %d and %d", s.KVSent, s.KVDropped, s.PinnedRequests, tt.sent, tt.dropped, tt.pinned)
				}
				if s := d.Stats(); s.Loading != 0 || s.Waiting != 0 {
					t.Errorf("%d loading, %d waiting at the decode worker, want none", s.Loading, s.Waiting)
				} else if want := time.Duration(s.KVLoaded) * unit; s.LoadTime != want || s.KVLoaded != tt.sent {
					t.Errorf("%d loaded in %v, want %d in %v", s.KVLoaded, s.LoadTime, tt.sent, want)
				}
				d.Close()
			})
		})
	}
}

// A decode worker that is killed tells nobody: the lease frees the blocks.
func TestDecodeWorkerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pdConfig()
		cfg.KVLease, cfg.MaxRunning, cfg.DecodeBase = 50*unit, 1, time.Hour
		p, d := open(t, cfg), open(t, cfg)
		kv := handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))
		later(t.Context(), d, `{"prompt":"x"}`)
		synctest.Wait()
		done := later(t.Context(), d, decode(tenBlocks('a'), kv))
		time.Sleep(unit)
		d.Close()
		<-done
		if s := p.Stats(); s.PinnedRequests != 1 || s.KVDropped != 0 {
			t.Errorf("%d pinned, %d dropped, want 1 and 0", s.PinnedRequests, s.KVDropped)
		}
		time.Sleep(50 * unit)
		if s := p.Stats(); s.PinnedRequests != 0 || s.KVExpired != 1 {
			t.Errorf("after a lease %d pinned, %d expired, want 0 and 1", s.PinnedRequests, s.KVExpired)
		}
	})
}

// A prefill that is aborted keeps nothing.
func TestPrefillIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pdConfig())
		ctx, cancel := context.WithCancel(t.Context())
		done := later(ctx, p, prefill(tenBlocks('a'), toDecode))
		time.Sleep(9 * unit)
		cancel()
		<-done
		time.Sleep(9 * unit)
		if s := p.Stats(); s.Aborted != 1 || s.Pinned != 0 || s.HeldBlocks != 0 {
			t.Errorf("%+v, want one aborted and nothing pinned", s)
		}
	})
}
