package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	tests := []struct {
		text string
		want Fault
		ok   bool
	}{
		{"status=503", Fault{Status: 503}, true},
		{"reset", Fault{Reset: true}, true},
		{"cut=3", Fault{Cut: 3}, true},
		{"hang", Fault{Hang: true}, true},
		{"slow=20", Fault{Slow: 20 * time.Millisecond}, true},
		{"slow=20, status=500", Fault{Slow: 20 * time.Millisecond, Status: 500}, true},
		{"", Fault{}, false},
		{"explode", Fault{}, false},
		{"status", Fault{}, false},
		{"status=200", Fault{}, false},
		{"status=ok", Fault{}, false},
		{"cut=0", Fault{}, false},
		{"slow=-1", Fault{}, false},
		{"slow=999999999999", Fault{}, false},
		{"hang=1", Fault{}, false},
		{"hang,", Fault{}, false},
		{"stop,percent=100", Fault{Stop: true, Percent: 100}, true},
		{"stop=1", Fault{}, false},
		{"percent=0", Fault{}, false},
		{"percent=101", Fault{}, false},
		{"prefill:hang", Fault{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseFault(tt.text)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("ParseFault(%q) = %+v, %v, want %+v, ok %t", tt.text, got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	w, url := start(t, Config{AllowFaults: true, OutputTokens: 8})
	const plain, stream = `{"prompt":"x"}`, `{"prompt":"x","stream":true}`
	whole := ask(t, "POST", url+"/v1/completions", plain)
	tests := []struct {
		name, fault, body string
		status            int
		check             func(t *testing.T, got answer)
	}{
		{"status", "status=503", plain, 503, func(t *testing.T, got answer) {
			expect(t, got.body, "error.type", "ServiceUnavailableError", "error.code", 503)
		}},
		{"status of a stream", "status=500", stream, 500, func(t *testing.T, got answer) {
			expect(t, got.body, "error.type", "InternalServerError")
		}},
		{"reset", "reset", plain, 0, func(t *testing.T, got answer) {
			if !errors.Is(got.err, syscall.ECONNRESET) {
				t.Errorf("the client saw %v, want a reset connection", got.err)
			}
		}},
		{"cut stream", "cut=3", stream, 200, func(t *testing.T, got answer) {
			if n := len(parseEvents(t, got.body)); n != 3 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
				t.Errorf("%d events and %v, want 3 and %v", n, got.err, io.ErrUnexpectedEOF)
			}
		}},
		{"cut body", "cut=10", plain, 200, func(t *testing.T, got answer) {
			if len(got.body) != 10 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes and %v, want 10 and %v", len(got.body), got.err, io.ErrUnexpectedEOF)
			}
		}},
		{"cut body near its end", "cut=100000", plain, 200, func(t *testing.T, got answer) {
			if !errors.Is(got.err, io.ErrUnexpectedEOF) || got.header.Get("Content-Length") == "" {
				t.Errorf("%d bytes and %v, want %v", len(got.body), got.err, io.ErrUnexpectedEOF)
			}
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, "POST", url+"/v1/completions", tt.body, "X-Sim-Fail", tt.fault)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			tt.check(t, got)
			eventually(t, w, "failure", func(s Stats) bool { return s.Failed == int64(i+1) && s.Open == 0 && s.Running == 0 })
		})
	}
	t.Run("unknown", func(t *testing.T) {
		got := ask(t, "POST", url+"/v1/completions", plain, "X-Sim-Fail", "explode")
		expect(t, got.body, "error.param", "X-Sim-Fail", "error.code", 400)
	})
	t.Run("slow", func(t *testing.T) {
		begin := time.Now()
		got := ask(t, "POST", url+"/v1/completions", plain, "X-Sim-Fail", "slow=50")
		if d := time.Since(begin); d < 50*time.Millisecond || got.status != 200 {
			t.Errorf("%d after %v, want 200 after 50 ms", got.status, d)
		}
	})
	t.Run("none", func(t *testing.T) {
		got := ask(t, "POST", url+"/v1/completions", plain)
		expect(t, got.body, "choices.0.text", at(t, whole.body, "choices.0.text"))
	})
}

// A fault may be for one half of a request that two workers share.
func TestFaultsOfAHalf(t *testing.T) {
	const second = `{"do_remote_prefill":true}`
	tests := []struct {
		name, header           string
		cfg                    Config
		whole, prefill, decode int // statuses
	}{
		{"header, prefill", "prefill:status=503", Config{}, 200, 503, 200},
		{"header, decode", "slow=1, decode:status=502", Config{}, 200, 200, 502},
		{"header, both", "prefill:status=503,decode:slow=1,decode:status=502", Config{}, 200, 503, 502},
		{"header, all", "status=500,decode:status=502", Config{}, 500, 500, 500},
		{"header, unreadable", "decode:explode", Config{}, 400, 400, 400},
		{"configured", "", Config{PrefillFault: Fault{Status: 503}, DecodeFault: Fault{Status: 502}}, 200, 503, 502},
		{"header over configured", "prefill:status=500", Config{PrefillFault: Fault{Status: 503}, DecodeFault: Fault{Status: 502}}, 200, 500, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.AllowFaults, tt.cfg.TimeScale = true, 1e6
			w := open(t, tt.cfg)
			for body, want := range map[string]int{
				`{"prompt":"x"}`: tt.whole, prefill("x", toDecode): tt.prefill, decode("x", second): tt.decode,
			} {
				if got := post(t.Context(), w, completions, body, "X-Sim-Fail", tt.header); got.status != want {
					t.Errorf("%s: status %d, want %d", body, got.status, want)
				}
			}
		})
	}
	// The answer of a prefill that is done is cut: its blocks stay pinned.
	for _, fault := range []string{"prefill:cut=5", "cut=5", "cut=7,prefill:cut=5"} {
		w := open(t, Config{AllowFaults: true, TimeScale: 1e6})
		got := post(t.Context(), w, completions, prefill("x", toDecode), "X-Sim-Fail", fault)
		if s := w.Stats(); len(got.body) != 5 || s.Failed != 1 || s.PinnedRequests != 1 {
			t.Errorf("%s: %q, %d failed, %d pinned, want five bytes, 1 and 1", fault, got.body, s.Failed, s.PinnedRequests)
		}
	}
}

func TestFaultByChance(t *testing.T) {
	w := open(t, Config{Fault: Fault{Status: 500, Percent: 50}, TimeScale: 1e6})
	for range 200 {
		post(t.Context(), w, completions, `{"prompt":"x","max_tokens":1}`)
	}
	// One in 2^200 that they all go the same way.
	if s := w.Stats(); s.Failed == 0 || s.Completed == 0 || s.Failed+s.Completed != 200 {
		t.Errorf("%d failed, %d completed, want some of 200 each", s.Failed, s.Completed)
	}
}

func TestFaultsNeedPermission(t *testing.T) {
	_, url := start(t, Config{})
	if got := ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`, "X-Sim-Fail", "status=503"); got.status != 200 {
		t.Errorf("status %d, want 200", got.status)
	}
}

func TestConfiguredFault(t *testing.T) {
	_, url := start(t, Config{Fault: Fault{Status: 500}, AllowFaults: true})
	if got := ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`); got.status != 500 {
		t.Errorf("status %d, want 500", got.status)
	}
	if got := ask(t, "POST", url+"/v1/completions", `{"prompt":"x"}`, "X-Sim-Fail", "slow=1"); got.status != 200 {
		t.Errorf("with a fault of its own: status %d, want 200", got.status)
	}
	if got := ask(t, "GET", url+"/health", ""); got.status != 200 {
		t.Errorf("health: status %d, want 200", got.status)
	}
}

// A client that leaves frees its place, whatever the worker was doing for it.
func TestClientLeaves(t *testing.T) {
	still := Config{AllowFaults: true, TimeScale: 1, DecodeBase: time.Hour, PrefillBlocksPerSecond: 1e9}
	alone, reading := still, still
	alone.MaxRunning = 1
	reading.PrefillBlocksPerSecond, reading.ChunkedPrefill = 1e-3, true
	tests := []struct {
		name        string
		cfg         Config
		fault, body string
		there       func(Stats) bool // the moment to leave
	}{
		{"waiting", alone, "", `{"prompt":"x"}`, func(s Stats) bool { return s.Waiting == 1 }},
		{"prefilling", reading, "", `{"prompt":"x"}`, func(s Stats) bool { return s.Running == 2 }},
		{"decoding", still, "", `{"prompt":"x"}`, func(s Stats) bool { return s.Running == 2 && s.GeneratedTokens == 2 }},
		{"streaming", still, "", `{"prompt":"x","stream":true}`, func(s Stats) bool { return s.Running == 2 && s.GeneratedTokens == 2 }},
		{"hanging", still, "hang", `{"prompt":"x"}`, func(s Stats) bool { return s.Open == 2 }},
		{"slow", still, "slow=600000", `{"prompt":"x"}`, func(s Stats) bool { return s.Open == 2 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, url := start(t, tt.cfg)
			// Another request runs throughout and must not notice.
			stay, leave := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() { first <- send(stay, url, "", `{"prompt":"y"}`) }()
			defer func() {
				leave()
				if err := <-first; !errors.Is(err, context.Canceled) {
					t.Errorf("the first client saw %v, want %v", err, context.Canceled)
				}
			}()
			eventually(t, w, "first request", func(s Stats) bool { return s.Running == 1 })

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- send(ctx, url, tt.fault, tt.body) }()
			eventually(t, w, "second request", tt.there)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the client saw %v, want %v", err, context.Canceled)
			}
			eventually(t, w, "abort", func(s Stats) bool {
				return s.Aborted == 1 && s.Open == 1 && s.Running == 1 && s.Waiting == 0
			})
		})
	}
}

// Close ends a request also on a server that isn't the worker's own.
func TestCloseEndsForeignRequests(t *testing.T) {
	for name, fault := range map[string]string{"running": "", "hanging": "hang", "slow": "slow=600000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := New(Config{DecodeBase: time.Hour, AllowFaults: true})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Sim-Fail", fault)
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				w.Handler().ServeHTTP(&recorder{header: http.Header{}}, r)
			}()
			eventually(t, w, "request", func(s Stats) bool { return s.Open == 1 && (s.Running == 1 || fault != "") })
			w.Close()
			select {
			case got := <-ended:
				if err, _ := got.(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("the handler ended with %v, want %v", got, http.ErrAbortHandler)
				}
			case <-time.After(patience):
				t.Error("the handler runs on after Close")
			}
			if s := w.Stats(); s.Open != 1 || s.Entered != 1 {
				t.Errorf("stats after Close are %+v, want those of the moment, one request open", s)
			}
		})
	}
}

// send posts a completion and reads the answer to its end.
func send(ctx context.Context, url, fault, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	if fault != "" {
		r.Header.Set("X-Sim-Fail", fault)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	_, err = io.Copy(io.Discard, got.Body)
	return err
}
