package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var restarts = flag.Int("restarts", 4, "how often TestRestartsUnderLoad restarts the router")

// busyWorker streams a few events and counts what runs there.
func busyWorker(t *testing.T, running *atomic.Int64) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		running.Add(1)
		defer running.Add(-1)
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/completions" {
			io.WriteString(w, `{"choices":[]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 10 {
			fmt.Fprintf(w, "data: {\"i\":%d}\n\n", i)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return "http://" + ln.Addr().String()
}

// door is a path for --takeover.
func door(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "door")
}

// routerAt starts a router that takes over at path.
func routerAt(t *testing.T, path string, urls []string) (cmd *exec.Cmd, addr string) {
	t.Helper()
	args := []string{"--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-startup-check-interval", "1", "--takeover", path}
	cmd, out := start(t, `"listening"`, append(append(args, "--worker-urls"), urls...)...)
	return cmd, listening(t, out)
}

// ask makes a request and reports what is wrong with the answer.
func ask(client *http.Client, url string) error {
	resp, err := client.Post(url, "application/json", strings.NewReader(`{"stream":true,"prompt":"x"}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != 200 || strings.HasSuffix(url, "chat/completions") && !strings.HasSuffix(string(text), "data: [DONE]\n\n"):
		return fmt.Errorf("status %d, %q", resp.StatusCode, text)
	}
	return nil
}

// TestRestartsUnderLoad: a router is restarted again and again, and no request
// fails: neither streams, nor requests on kept connections, nor those on new ones.
func TestRestartsUnderLoad(t *testing.T) {
	var running atomic.Int64
	urls := []string{busyWorker(t, &running), busyWorker(t, &running)}
	path := door(t)
	cmd, addr := routerAt(t, path, urls)
	waitReady(t, addr)
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed, ended, count := make(chan error, 1000), make(chan struct{}), atomic.Int64{}
	const clients = 24
	for i := range clients {
		go func() {
			defer func() { ended <- struct{}{} }()
			tr := &http.Transport{DisableKeepAlives: i%3 == 0, MaxIdleConnsPerHost: 1}
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr, Timeout: 2 * patience}
			target := "http://" + addr + "/v1/chat/completions"
			if i%2 == 0 {
				target = "http://" + addr + "/v1/completions"
			}
			for stop.Err() == nil {
				if err := ask(client, target); err != nil {
					failed <- fmt.Errorf("client %d: %w", i, err)
					return
				}
				count.Add(1)
				time.Sleep(time.Duration(i) * time.Millisecond) // thinks
			}
		}()
	}
	var old []*exec.Cmd
	for range *restarts {
		old = append(old, cmd)
		var at string
		if cmd, at = routerAt(t, path, urls); at != addr {
			t.Fatalf("the next process listens on %s, want %s", at, addr)
		}
		time.Sleep(100 * time.Millisecond) // some load for each process
	}
	for _, c := range old {
		if code := exitOf(t, c); code != 0 {
			t.Errorf("exit code %d of a process that has handed over, want 0", code)
		}
	}
	cancel()
	for range clients {
		<-ended
	}
	close(failed)
	n := 0
	for err := range failed {
		if n++; n <= 5 {
			t.Error(err)
		}
	}
	t.Logf("%d restarts, %d requests, %d failed", *restarts, count.Load(), n)
	waitLoads(t, addr, "nothing to run", func(load, foreign int) bool { return load == 0 && foreign == 0 && running.Load() == 0 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 0 {
		t.Errorf("%q is left behind, want nothing", left)
	}
}

// waitLoads waits until what /workers says of all workers together holds.
func waitLoads(t *testing.T, addr, what string, holds func(load, foreign int) bool) {
	t.Helper()
	load, foreign := 0, 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/workers")
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Workers []struct{ Load, Foreign int }
		}
		err = json.NewDecoder(resp.Body).Decode(&in)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		load, foreign = 0, 0
		for _, w := range in.Workers {
			load, foreign = load+w.Load, foreign+w.Foreign
		}
		if holds(load, foreign) {
			return
		}
	}
	t.Fatalf("waited for %s: load %d and foreign load %d", what, load, foreign)
}

// TestForeignLoadOfTheProcessBefore: what a worker holds is what the new process and
// the one before say together, through two restarts, and nothing when all has ended.
func TestForeignLoadOfTheProcessBefore(t *testing.T) {
	url, held, letGo := holdingWorker(t)
	path := door(t)
	first, addr := routerAt(t, path, []string{url})
	waitReady(t, addr)
	total := 0
	done := make(chan error, 16)
	begin := func(n int) {
		for range n {
			go func() {
				done <- ask(&http.Client{Transport: &http.Transport{}}, "http://"+addr+"/v1/chat/completions")
			}()
			<-held
		}
		total += n
	}
	sum := func(foreign int) {
		t.Helper()
		waitLoads(t, addr, fmt.Sprintf("%d in all, of which %d elsewhere", total, foreign), func(load, f int) bool { return load+f == total && f == foreign })
	}
	begin(3)
	sum(0)
	second, _ := routerAt(t, path, []string{url})
	sum(3)
	third, _ := routerAt(t, path, []string{url}) // the second has nothing of its own, and passes on what the first says
	sum(3)
	begin(2)
	sum(3)
	time.Sleep(lingerIdle + 500*time.Millisecond)
	sum(3)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket at PATH: %v, %v, want mode 0600", info.Mode(), err)
	}
	close(letGo)
	for range total {
		if err := <-done; err != nil {
			t.Errorf("a stream that ran through restarts: %v", err)
		}
	}
	total = 0
	sum(0)
	for _, cmd := range []*exec.Cmd{first, second} {
		if code := exitOf(t, cmd); code != 0 {
			t.Errorf("exit code %d of a process that has handed over, want 0", code)
		}
	}
	third.Process.Signal(syscall.SIGTERM)
	if code := exitOf(t, third); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// spawn starts the program and doesn't wait for what it says.
func spawn(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "LOADSTAR_TEST_MAIN=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// takesOver is what a process logs that has the sockets and waits for its worker.
const takesOver = "taking over"

// TestTakeoverThatFails: a process that has no healthy worker in time ends, one that
// is killed just ends, and the one before serves on and hands over to the next.
func TestTakeoverThatFails(t *testing.T) {
	var running atomic.Int64
	url, path := busyWorker(t, &running), door(t)
	first, addr := routerAt(t, path, []string{url})
	waitReady(t, addr)
	sick := []string{"--port", "0", "--prometheus-port", "0", "--worker-urls", "http://127.0.0.1:1", "--takeover", path, "--worker-startup-timeout-secs", "1"}
	serves := func() {
		t.Helper()
		if err := ask(http.DefaultClient, "http://"+addr+"/v1/completions"); err != nil {
			t.Errorf("the process before: %v", err)
		}
	}
	if code := exitOf(t, spawn(t, sick...)); code != 1 {
		t.Errorf("exit code %d of a process without a healthy worker, want 1", code)
	}
	serves()
	sick[len(sick)-1] = "600"
	killed, _ := start(t, takesOver, sick...)
	killed.Process.Kill()
	killed.Wait()
	serves()
	second, at := routerAt(t, path, []string{url})
	if at != addr {
		t.Errorf("the next process listens on %s, want %s", at, addr)
	}
	serves()
	if code := exitOf(t, first); code != 0 {
		t.Errorf("exit code %d of the process before, want 0", code)
	}
	second.Process.Signal(syscall.SIGTERM)
	exitOf(t, second)
}

// TestSignalDuringTakeover: the process before is told to end while the next one
// isn't ready: it does, and the sockets are the next one's all the same.
func TestSignalDuringTakeover(t *testing.T) {
	var running atomic.Int64
	url, path := busyWorker(t, &running), door(t)
	first, addr := routerAt(t, path, []string{url})
	waitReady(t, addr)
	next, _ := start(t, takesOver, "--port", "0", "--prometheus-port", "0", "--takeover", path, "--worker-urls", "http://127.0.0.1:1")
	first.Process.Signal(syscall.SIGTERM)
	if code := exitOf(t, first); code != 0 {
		t.Errorf("exit code %d of the process before, want 0", code)
	}
	resp, err := http.Get("http://" + addr + "/liveness")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the next process at the same address: %v", err)
	}
	resp.Body.Close()
	next.Process.Signal(syscall.SIGTERM)
	if code := exitOf(t, next); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestTakeoverFlags: what can't go together with a hand-over is said at the start.
func TestTakeoverFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"demo", []string{"demo", "--takeover", "p"}, "--takeover: the demo's workers end with it: leave the flag out"},
		{
			"discovery",
			[]string{"--takeover", "p", "--vllm-pd-disaggregation", "--vllm-discovery-address", "127.0.0.1:1"},
			"--takeover and --vllm-discovery-address exclude each other: the address is the first process's until it ends; leave one of them out",
		},
		{"no path", []string{"--takeover="}, "--takeover: the name of the file is empty: give one, or leave the flag out"},
		{
			"a long path",
			[]string{"--takeover", strings.Repeat("p", 91)},
			"--takeover: \"" + strings.Repeat("p", 91) + "\" is longer than 90 bytes, which is too long for a socket",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(tc.args, nil)
			if got := faultsOf(t, err); len(got) != 1 || got[0] != tc.want {
				t.Errorf("faults %q, want %q", got, tc.want)
			}
		})
	}
}
