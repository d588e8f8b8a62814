package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// abroad serves p's /kv to workers as if it were in another process, where its
// engine has the id "abroad", and counts what they ask.
func abroad(t *testing.T, p *Worker) (base string, asked func() string) {
	t.Helper()
	calls := make(chan string, 64)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls <- strings.TrimPrefix(r.URL.Path, "/kv/")
		body = bytes.Replace(body, []byte(`"abroad"`), fmt.Appendf(nil, "%q", p.engines[0].id), 1)
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.Handler().ServeHTTP(rw, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		var all []string
		for len(calls) > 0 {
			all = append(all, <-calls)
		}
		return strings.Join(all, " ")
	}
}

// Between processes blocks are claimed over HTTP.
func TestHandoverBetweenProcesses(t *testing.T) {
	p, d := open(t, quick()), open(t, quick())
	base, asked := abroad(t, p)
	mooncake := `"transfer_id":"x","remote_bootstrap_addr":"` + base + `","remote_engine_id":"abroad"`

	var kv map[string]any
	if err := json.Unmarshal([]byte(handover(t, post(t.Context(), p, completions, prefill(tenBlocks('a'), toDecode)))), &kv); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	kv["remote_engine_id"], kv["remote_host"], kv["remote_port"] = "abroad", host, json.Number(port)
	nixl, _ := json.Marshal(kv)

	post(t.Context(), p, completions, prefill(tenBlocks('b'), `{"do_remote_decode":true,"transfer_id":"x"}`))
	tests := []struct {
		name, params, asked string
		prompt              byte
		cached              int
	}{
		{"NIXL", string(nixl), "renew take", 'a', 160},
		{"NIXL, sent already", string(nixl), "renew take", 'c', 0},
		{"Mooncake", `{"do_remote_prefill":true,` + mooncake + `}`, "renew take", 'b', 160},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := post(t.Context(), d, completions, decode(tenBlocks(tt.prompt), tt.params))
			expect(t, got.body, "usage.prompt_tokens_details.cached_tokens", tt.cached)
			if got := asked(); got != tt.asked {
				t.Errorf("the prefill worker was asked to %q, want %q", got, tt.asked)
			}
		})
	}
	eventually(t, p, "sent blocks freed", func(s Stats) bool { return s.KVSent == 2 && s.PinnedBlocks == 0 })
	if s := d.Stats(); s.KVLoaded != 2 || s.KVRecomputed != 1 {
		t.Errorf("%d loaded, %d recomputed, want 2 and 1", s.KVLoaded, s.KVRecomputed)
	}

	// A wait that has lasted too long is over at the other end too.
	impatient := quick()
	impatient.KVWait = 2500 * time.Millisecond // so that the claim arrives before
	d = open(t, impatient)
	post(t.Context(), d, completions, decode(tenBlocks('d'), strings.Replace(tests[2].params, `"x"`, `"y"`, 1)))
	if s := d.Stats(); s.KVRecomputed != 1 {
		t.Errorf("%d recomputed, want 1", s.KVRecomputed)
	}
	if got, want := asked(), "renew take release"; got != want {
		t.Errorf("the prefill worker was asked to %q, want %q", got, want)
	}
	post(t.Context(), p, completions, prefill(tenBlocks('d'), `{"do_remote_decode":true,"transfer_id":"y"}`))
	if s := p.Stats(); s.PinnedRequests != 1 || s.KVSent != 2 {
		t.Errorf("%d pinned, %d sent, want 1 kept and 2 sent as before", s.PinnedRequests, s.KVSent)
	}
}

func TestTransferRefusals(t *testing.T) {
	w, url := start(t, Config{})
	ours := fmt.Sprintf(`{"engine_id":%q,"key":"x"}`, w.engines[0].id)
	for _, tt := range []struct {
		name, what, body string
		status           int
	}{
		{"no JSON", "take", `{`, 400},
		{"other engine", "take", `{"engine_id":"other"}`, 404},
		{"other question", "steal", ours, 404},
		{"unknown key", "take", ours, 200},
		{"renew of nothing", "renew", ours, 200},
		{"release of nothing", "release", ours, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, "POST", url+"/kv/"+tt.what, tt.body)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			if got.status == 200 {
				expect(t, got.body, "ok", false)
			}
		})
	}
}
