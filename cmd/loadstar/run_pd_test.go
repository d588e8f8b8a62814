package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"loadstar/bench/worker"
)

// running runs the router with args until the test ends, and returns its address
// once clients are served.
func running(t *testing.T, log io.Writer, args ...string) string {
	t.Helper()
	c, err := parse(append(args, "--port", "0", "--prometheus-port", "0", "--shutdown-grace-period-secs", "20"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, c, slog.New(slog.NewTextHandler(log, nil)), func(a net.Addr) { ready <- a })
	}()
	select {
	case a := <-ready:
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
		return a.String()
	case err := <-ended:
		cancel()
		t.Fatalf("it did not start: %v", err)
		return ""
	}
}

// simulated starts n workers that take 50 ms for a block of prompt and 5 ms for a
// token of an answer, and returns them with their URLs.
func simulated(t *testing.T, n int) (workers []*worker.Worker, urls []string) {
	t.Helper()
	return simulatedRanks(t, n, 0)
}

// simulatedRanks is simulated with data-parallel ranks.
func simulatedRanks(t *testing.T, n, ranks int) (workers []*worker.Worker, urls []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w := worker.New(worker.Config{PrefillBlocksPerSecond: 20, DecodeBase: 5 * time.Millisecond, OutputTokens: 1000, Ranks: ranks})
		go w.Serve(ln)
		t.Cleanup(w.Close)
		workers, urls = append(workers, w), append(urls, "http://"+ln.Addr().String())
	}
	return workers, urls
}

// fleetView is what GET /workers says, as far as these tests look.
type fleetView struct {
	Workers []struct {
		URL     string         `json:"url"`
		Type    string         `json:"worker_type"`
		Healthy bool           `json:"is_healthy"`
		Load    int            `json:"load"`
		Phases  map[string]int `json:"phases"`
	} `json:"workers"`
	Stats struct {
		Prefill int `json:"prefill_count"`
		Decode  int `json:"decode_count"`
		Regular int `json:"regular_count"`
	} `json:"stats"`
}

// types gives each worker's URL with its type.
func (v fleetView) types() map[string]string {
	types := make(map[string]string)
	for _, w := range v.Workers {
		types[w.URL] = w.Type
	}
	return types
}

// phases counts requests by type of worker and phase.
func (v fleetView) phases() map[string]int {
	counts := make(map[string]int)
	for _, w := range v.Workers {
		for phase, n := range w.Phases {
			counts[w.Type+" worker: "+phase] += n
		}
	}
	return counts
}

func (v fleetView) healthy() bool {
	for _, w := range v.Workers {
		if !w.Healthy {
			return false
		}
	}
	return len(v.Workers) > 0
}

// waitFleet asks for the workers until what it hears suits.
func waitFleet(t *testing.T, addr, what string, suits func(fleetView) bool) fleetView {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/workers")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var v fleetView
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		switch {
		case err != nil:
			t.Fatalf("%v in %s", err, text)
		case suits(v):
			return v
		case time.Now().After(end):
			t.Fatalf("waited in vain for %s: %s", what, text)
		}
	}
}

func waitIdle(t *testing.T, addr string) {
	t.Helper()
	waitFleet(t, addr, "no request anywhere", func(v fleetView) bool { return len(v.phases()) == 0 })
}

// chat begins a chat, which the returned function ends, and gives its answer.
func chat(t *testing.T, addr, body string) (*http.Response, func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp, func() {
		leave()
		resp.Body.Close()
	}
}

// answer runs a chat to its end.
func answer(t *testing.T, addr, body string) string {
	t.Helper()
	resp, end := chat(t, addr, body)
	defer end()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("answer %d %s, %v", resp.StatusCode, text, err)
	}
	return string(text)
}

// moved is how many requests' KV caches have gone from prefill to decode workers.
func moved(prefill, decode []*worker.Worker) (sent, loaded int64) {
	for _, w := range prefill {
		sent += w.Stats().KVSent
	}
	for _, w := range decode {
		loaded += w.Stats().KVLoaded
	}
	return sent, loaded
}

const (
	plainChat  = `{"model":"sim","max_tokens":8,"messages":[{"role":"user","content":"Hello"}]}`
	streamChat = `{"model":"sim","max_tokens":8,"stream":true,"messages":[{"role":"user","content":"Good morning"}]}`
	longChat   = `{"model":"sim","stream":true,"messages":[{"role":"user","content":"Tell me everything"}]}`
)

// Two prefill and two decode workers serve chats, whole and streamed, and the
// router shows who does what.
func TestTwoPhases(t *testing.T) {
	workers, urls := simulated(t, 4)
	prefill, decode := workers[:2], workers[2:]
	addr := running(t, io.Discard, "--vllm-pd-disaggregation", "--policy", "round_robin",
		"--prefill", urls[0], "--prefill", urls[1], "none", "--decode", urls[2], "--decode", urls[3])
	v := waitFleet(t, addr, "four healthy workers", fleetView.healthy)
	want := map[string]string{urls[0]: "prefill", urls[1]: "prefill", urls[2]: "decode", urls[3]: "decode"}
	if got := v.types(); !maps.Equal(got, want) {
		t.Errorf("workers %v, want %v", got, want)
	}
	if s := v.Stats; s.Prefill != 2 || s.Decode != 2 || s.Regular != 0 {
		t.Errorf("counts %+v, want 2 prefill and 2 decode workers", s)
	}

	for i, body := range []string{plainChat, streamChat} {
		text := answer(t, addr, body)
		if streamed := strings.HasSuffix(text, "data: [DONE]\n\n"); streamed != (body == streamChat) || !strings.Contains(text, `"content":"`) {
			t.Errorf("to %s the answer %s, want one of that kind", body, text)
		}
		if sent, loaded := moved(prefill, decode); sent != int64(i+1) || loaded != int64(i+1) {
			t.Errorf("after %s %d caches sent and %d loaded, want %d", body, sent, loaded, i+1)
		}
	}
	waitIdle(t, addr)

	resp, leave := chat(t, addr, longChat)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	decoding := map[string]int{"decode worker: decode": 1}
	waitFleet(t, addr, "a decode worker at work", func(v fleetView) bool { return maps.Equal(v.phases(), decoding) })
	leave()
	waitIdle(t, addr)

	// Eight seconds of prompt.
	ctx, cancel := context.WithCancel(t.Context())
	long := strings.Replace(plainChat, "Hello", strings.Repeat("a word and ", 1000), 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/chat/completions", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		over <- err
	}()
	prefilling := map[string]int{"prefill worker: prefill": 1, "decode worker: reserved": 1}
	waitFleet(t, addr, "a prefill worker at work", func(v fleetView) bool { return maps.Equal(v.phases(), prefilling) })
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the prompt was answered: %v", err)
	}
	waitIdle(t, addr)
}

// One worker that is named for both phases serves both.
func TestOneWorkerForBothPhases(t *testing.T) {
	_, urls := simulated(t, 1)
	addr := running(t, io.Discard, "--vllm-pd-disaggregation", "--prefill", urls[0], "--decode", urls[0])
	v := waitFleet(t, addr, "a healthy worker", fleetView.healthy)
	if want := map[string]string{urls[0]: "prefill+decode"}; !maps.Equal(v.types(), want) {
		t.Errorf("workers %v, want %v", v.types(), want)
	}
	if text := answer(t, addr, plainChat); !strings.Contains(text, `"content":"`) {
		t.Errorf("answer %s, want a chat's", text)
	}
	waitIdle(t, addr)
}

// A URL with a rank is that rank alone, one without is all the ranks it turns out
// to have.
func TestRanks(t *testing.T) {
	workers, urls := simulatedRanks(t, 2, 2)
	addr := running(t, io.Discard, "--vllm-pd-disaggregation", "--prefill", urls[0], "--decode", urls[1]+"@1")
	want := map[string]string{urls[0] + "@0": "prefill", urls[0] + "@1": "prefill", urls[1] + "@1": "decode"}
	v := waitFleet(t, addr, "all healthy ranks", func(v fleetView) bool { return len(v.Workers) == len(want) && v.healthy() })
	if !maps.Equal(v.types(), want) {
		t.Errorf("workers %v, want %v", v.types(), want)
	}
	for range 2 {
		answer(t, addr, plainChat)
	}
	if got, want := workers[1].Stats().Ranks, map[int]int64{1: 2}; !maps.Equal(got, want) {
		t.Errorf("requests by rank %v, want %v", got, want)
	}
	waitIdle(t, addr)
}

// Workers that register are used beside those that were named.
func TestDiscovery(t *testing.T) {
	prefill, prefillURLs := simulated(t, 1)
	decode, decodeURLs := simulated(t, 1)
	at := freeAddr(t)
	addr := running(t, io.Discard, "--vllm-pd-disaggregation", "--vllm-discovery-address", at, "--prefill", prefillURLs[0])

	d := zmq4.NewDealer(t.Context())
	defer d.Close()
	if err := d.Dial("tcp://" + at); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(decodeURLs[0], "http://")
	if err := d.Send(zmq4.NewMsg(packed("type", "D", "http_address", host, "zmq_address", host))); err != nil {
		t.Fatal(err)
	}
	v := waitFleet(t, addr, "two healthy workers", func(v fleetView) bool { return len(v.Workers) == 2 && v.healthy() })
	if want := map[string]string{prefillURLs[0]: "prefill", decodeURLs[0]: "decode"}; !maps.Equal(v.types(), want) {
		t.Errorf("workers %v, want %v", v.types(), want)
	}
	answer(t, addr, plainChat)
	if sent, loaded := moved(prefill, decode); sent != 1 || loaded != 1 {
		t.Errorf("%d caches sent and %d loaded, want 1", sent, loaded)
	}
	waitIdle(t, addr)
}

// freeAddr is an address that nobody listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// packed is a msgpack map of texts.
func packed(words ...string) []byte {
	b := []byte{0x80 | byte(len(words)/2)}
	for _, w := range words {
		b = append(append(b, 0xd9, byte(len(w))), w...)
	}
	return b
}

// With --compat workers of whole requests are left out, and that is said.
func TestWorkersLeftOut(t *testing.T) {
	_, urls := simulated(t, 3)
	name := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	t.Run("router", func(t *testing.T) {
		addr := running(t, log, "--compat", "--vllm-pd-disaggregation", "--worker-urls", urls[0], "--prefill", urls[1], "--decode", urls[2])
		v := waitFleet(t, addr, "healthy workers", fleetView.healthy)
		if want := map[string]string{urls[1]: "prefill", urls[2]: "decode"}; !maps.Equal(v.types(), want) {
			t.Errorf("workers %v, want %v", v.types(), want)
		}
	})
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), "--worker-urls is ignored") {
		t.Errorf("log %s, %v, want it to say that --worker-urls is ignored", text, err)
	}
}

// The process ends with every fault of a command line for two phases, a line each.
func TestPDStartFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, strings.Fields("--vllm-pd-disaggregation --prefill http://p:1 abc --prefill q:1 --decode ftp://d:1 "+
		"--kv-connector nixel --worker-urls http://w:1 --vllm-discovery-address somewhere")...)
	cmd.Env = []string{"LOADSTAR_TEST_MAIN=1"}
	var text strings.Builder
	cmd.Stderr = &text
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("it ended with %v, want exit code 2", err)
	}
	want := []string{
		`--prefill: invalid bootstrap port "abc": it must be a number from 1 to 65535, or none`,
		`--prefill: "q:1" has no scheme: write it as http://HOST:PORT`,
		`--decode: "ftp://d:1" has the scheme "ftp": only http and https are spoken`,
		`--kv-connector: "nixel" is unknown: did you mean nixl? give one of nixl, mooncake, moriio`,
		`--vllm-discovery-address: "somewhere" is not an address: write HOST:PORT, such as 0.0.0.0:30001, without a scheme`,
		fmt.Sprint("--worker-urls names workers of whole requests, of which --vllm-pd-disaggregation alone has none: ",
			"name workers by --prefill and --decode, or add --enable-igw (vllm-router ignores --worker-urls then; so does this router with --compat)"),
	}
	if got := strings.Split(strings.TrimSpace(text.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("it said\n%q, want\n%q", got, want)
	}
}
