package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstar/actors/policy"
)

// program under test: the test binary runs main when asked to, so that signals
// and exit codes are the real ones.
func TestMain(m *testing.M) {
	if os.Getenv("LOADSTAR_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// start runs the program with args and returns it with its first lines until
// one contains ready.
func start(t *testing.T, ready string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "LOADSTAR_TEST_MAIN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var faults strings.Builder
	cmd.Stderr = &faults
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	var lines strings.Builder
	br := bufio.NewReader(out)
	for {
		line, err := br.ReadString('\n')
		lines.WriteString(line)
		if strings.Contains(line, ready) {
			go io.Copy(io.Discard, br)
			return cmd, lines.String()
		}
		if err != nil {
			_ = cmd.Wait() // until then its faults are not complete
			t.Fatalf("the program ended without saying %q: %v\n%s%s", ready, err, lines.String(), faults.String())
		}
	}
}

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 30 * time.Second

func exitOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
		return cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("the program did not end within %v", patience)
		return -1
	}
}

// TestDemo: the demo prints an address and a curl that work, streams, and ends
// by a signal.
func TestDemo(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // in what it prints
	}{
		{"whole requests", nil, "with 2 simulated workers"},
		{"two phases", []string{"--vllm-pd-disaggregation"}, "with 2 prefill and 2 decode workers, simulated"},
		{"two phases by Mooncake", []string{"--vllm-pd-disaggregation", "--kv-connector", "mooncake"}, "with 2 prefill and 2 decode workers, simulated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testDemo(t, c.want, c.args)
		})
	}
}

func testDemo(t *testing.T, want string, args []string) {
	args = append([]string{"demo", "--listen", "127.0.0.1:0", "--prometheus-port", "0", "--log-level", "warning"}, args...)
	cmd, out := start(t, "Ctrl-C", args...)
	if !strings.Contains(out, want) {
		t.Errorf("it printed %q, want %q in it", out, want)
	}
	_, rest, _ := strings.Cut(out, "Loadstar is at http://")
	addr, _, ok := strings.Cut(rest, " ")
	if !ok {
		t.Fatalf("no address in %q", out)
	}
	// The curl's own words.
	_, rest, _ = strings.Cut(out, "-d '")
	body, _, _ := strings.Cut(rest, "'")
	deadline := time.Now().Add(patience)
	for {
		resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == 503 && time.Now().Before(deadline) { // not checked yet
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if resp.StatusCode != 200 || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("answer %d %q", resp.StatusCode, text)
		}
		break
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// holdingWorker serves /health and holds everything else until let go.
func holdingWorker(t *testing.T) (url string, held <-chan struct{}, letGo chan struct{}) {
	t.Helper()
	arrived := make(chan struct{}, 16)
	letGo = make(chan struct{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		select {
		case <-letGo:
			io.WriteString(w, "data: [DONE]\n\n")
		case <-r.Context().Done():
		}
	})}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return "http://" + ln.Addr().String(), arrived, letGo
}

// listening takes the address out of the log line that names it.
func listening(t *testing.T, out string) string {
	t.Helper()
	for _, line := range strings.Split(out, "\n") {
		var entry struct {
			Msg, Address string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			return entry.Address
		}
	}
	t.Fatalf("no address in %s", out)
	return ""
}

func waitReady(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/readiness")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("not ready within %v", patience)
		}
	}
}

// TestSignals: SIGTERM flips readiness while requests are still taken, then a
// running stream is finished; a second signal ends at once.
func TestSignals(t *testing.T) {
	for _, second := range []bool{false, true} {
		name := "one signal"
		if second {
			name = "two signals"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, held, letGo := holdingWorker(t)
			cmd, out := start(t, `"listening"`, "--host", "127.0.0.1", "--port", "0", "--prometheus-port", "0", "--log-format", "json",
				"--shutdown-delay-secs", "2.5", "--shutdown-grace-period-secs", "60", "--worker-urls", url)
			addr := listening(t, out)
			waitReady(t, addr)
			resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			<-held
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			notReady := false
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					break // the delay is over
				}
				c.Close()
				r, err := http.Get("http://" + addr + "/readiness")
				if err != nil {
					break
				}
				r.Body.Close()
				notReady = notReady || r.StatusCode == 503 && r.Close
			}
			if !notReady {
				t.Error("/readiness was never 503 with Connection: close while the port was open")
			}
			if second {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if code := exitOf(t, cmd); code != 1 {
					t.Errorf("exit code %d with a stream cut off, want 1", code)
				}
				if got, want := fmt.Sprint(cmd.Stderr), "requests were cut off by a second signal\n"; got != want {
					t.Errorf("it said %q, want %q", got, want)
				}
				return
			}
			close(letGo)
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != "data: [DONE]\n\n" {
				t.Errorf("the stream that ran: %q, %v", text, err)
			}
			if code := exitOf(t, cmd); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

func TestCutOff(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"a second signal", ended, "requests were cut off by a second signal"},
		{"out of time", late, "requests were cut off as --shutdown-grace-period-secs was over"},
		{"neither", t.Context(), "not all has ended: why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cutOff(c.ctx, errors.New("why")).Error(); got != c.want {
				t.Errorf("error %q, want %q", got, c.want)
			}
		})
	}
}

// TestStartFaults: what can't be started is said in one line.
func TestStartFaults(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"port taken", []string{"--port", port, "--prometheus-port", "0"}, "cannot listen for clients"},
		{"metrics port taken", []string{"--port", "0", "--prometheus-port", port}, "cannot listen for metrics"},
		{
			"discovery port taken",
			[]string{"--port", "0", "--prometheus-port", "0", "--vllm-pd-disaggregation", "--vllm-discovery-address", "127.0.0.1:" + port},
			"cannot listen for workers at 127.0.0.1:" + port,
		},
		{"no such file of keys", []string{"--port", "0", "--client-api-keys-file", "/nonexistent/keys"}, `cannot use the keys of --client-api-keys-file "/nonexistent/keys": no such file or directory`},
		{"no key in the file", []string{"--port", "0", "--client-api-keys-file", "/dev/null"}, `cannot use the keys of --client-api-keys-file "/dev/null": it holds no key`},
		{"an endless file of keys", []string{"--port", "0", "--client-api-keys-file", "/dev/zero"}, `cannot use the keys of --client-api-keys-file "/dev/zero": it is larger than 4194304 bytes`},
		{"no such authorities", []string{"--port", "0", "--worker-tls-ca", "/nonexistent.pem"}, `cannot use the authorities of --worker-tls-ca "/nonexistent.pem": no such file or directory`},
		{"no authority in the file", []string{"--port", "0", "--worker-tls-ca", "/dev/null"}, `cannot use the authorities of --worker-tls-ca "/dev/null": it holds no certificate in PEM`},
		{"no such certificate for workers", []string{"--port", "0", "--worker-tls-cert", "/nonexistent.pem", "--worker-tls-key", "/nonexistent.key"}, "cannot use the certificate of --worker-tls-cert"},
		{"admin port taken", []string{"--port", "0", "--prometheus-port", "0", "--admin-listen", "127.0.0.1:" + port}, "cannot listen for admin calls"},
		{"no place for the socket of a hand-over", []string{"--port", "0", "--prometheus-port", "0", "--takeover", "/nonexistent/door"}, `cannot listen at --takeover "/nonexistent/door"`},
		{"no such certificate", []string{"--port", "0", "--tls-cert-path", "/nonexistent.pem", "--tls-key-path", "/nonexistent.key"}, "cannot use the certificate"},
		{"no directory for logs", []string{"--port", "0", "--log-dir", "/dev/null/logs"}, "cannot write the log file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience) // it ends if it does start
			defer cancel()
			err := program{version: "test", out: io.Discard, route: route, demo: demo}.run(ctx, tc.args)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if exitCode(err) != 1 {
				t.Errorf("exit code %d, want 1", exitCode(err))
			}
		})
	}
}

// TestLogFile: --log-dir gets what standard output gets. A directory that isn't there is
// made: vllm-router does so, and its command lines work here.
func TestLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "logs")
	ctx, cancel := context.WithCancel(t.Context())
	c, err := parse([]string{"--port", "0", "--prometheus-port", "0", "--log-dir", dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, closeLog, err := newLogger(c.Logging)
	if err != nil {
		t.Fatal(err)
	}
	err = serve(ctx, c, log, func(net.Addr) { cancel() })
	closeLog()
	if err != nil {
		t.Errorf("serve: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v; want one", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(text), "listening") || !strings.Contains(string(text), "stopped") {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

// TestPolicyNames: the flag knows the policies there are.
func TestPolicyNames(t *testing.T) {
	for _, name := range policy.Names() {
		args := []string{"--policy", name, "--worker-urls", "http://a:1", "http://b:1"}
		if policy.NeedsExact(name) {
			args = append(args, "--kv-event-source", "http://a:1=tcp://a:5557")
		}
		c, err := parse(args, nil)
		if err != nil {
			t.Errorf("--policy %s: %v", name, err)
			continue
		}
		if _, err := policy.New(name, proxyOptions(c, slog.Default()).Router.PolicyOptions); err != nil {
			t.Errorf("policy %s: %v", name, err)
		}
	}
}
