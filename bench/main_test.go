package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"loadstar/bench/load"
	"loadstar/bench/replay"
	"loadstar/bench/sim"
	"loadstar/bench/workload"
)

// run runs the program with arguments until ctx ends.
func run(ctx context.Context, out io.Writer, args ...string) error {
	a := app()
	a.Writer, a.ErrWriter = out, io.Discard
	return a.RunContext(ctx, append([]string{"bench"}, args...))
}

// A load runs against a worker, each as the sub-command does, and both end.
func TestLoadOnWorker(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, w, "worker", "--time-scale", "20", "--output-tokens", "4") }()
	url, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)

	file := filepath.Join(t.TempDir(), "report.json")
	tests := []struct {
		name string
		args []string
		loop string
	}{
		{"closed", []string{"-c", "2"}, "closed"},
		{"open", []string{"--rate", "500"}, "open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"load", "-q", "-n", "10", "--stream", "--unique", "-H", "X-A: b", "--json", "-"}, tt.args...)
			if err := run(t.Context(), &out, append(args, url+"/v1/chat/completions")...); err != nil {
				t.Fatal(err)
			}
			var report load.Report
			if err := json.Unmarshal(out.Bytes(), &report); err != nil {
				t.Fatal(err)
			}
			if report.OK != 10 || report.Loop != tt.loop || report.Events < 40 {
				t.Errorf("%s loop, %d ok, %d events; want %s, 10, at least 40", report.Loop, report.OK, report.Events, tt.loop)
			}
		})
	}
	t.Run("table and file", func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, "load", "-q", "-n", "1", "--json", file, url+"/v1/chat/completions"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "first token") {
			t.Errorf("the table is\n%s", &out)
		}
	})
	t.Run("failures", func(t *testing.T) {
		err := run(t.Context(), io.Discard, "load", "-q", "-n", "1", url+"/v1/none")
		var coded cli.ExitCoder
		if !errors.As(err, &coded) || coded.ExitCode() != 1 {
			t.Errorf("the error is %v, want exit code 1", err)
		}
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// A replay through a worker itself writes its table or JSON.
func TestReplay(t *testing.T) {
	a := freeAddress(t)
	url := "http://" + a + "/v1/chat/completions"
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"hash_ids":[1,2]}`+"\n"+`{"timestamp":1000,"hash_ids":[1,2]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"replay", "--url", url, "--listen", a, "--warm-up", "0", "--speed", "5"}
	t.Run("json", func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, append(slices.Clone(args), "--json", "-", trace)...); err != nil {
			t.Fatal(err)
		}
		var result replay.Result
		if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			t.Fatal(err)
		}
		if len(result.Runs) != 1 || result.Runs[0].Counted != 2 || result.Runs[0].CachedTokens != 32 {
			t.Errorf("the result is %+v, want one run with 2 requests and 32 cached tokens", result)
		}
	})
	t.Run("table", func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, append(slices.Clone(args), "-n", "1", "unique")...); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "TTFT mean") {
			t.Errorf("the table is\n%s", &out)
		}
	})
	t.Run("a fault", func(t *testing.T) {
		err := run(t.Context(), io.Discard, append(slices.Clone(args), "--max-output", "-1", trace)...)
		if err == nil || !strings.Contains(err.Error(), "max output -1: give 1 to") {
			t.Errorf("the error is %v, want one of the flag", err)
		}
	})
}

// The servers of a comparison answer where they are told to.
func TestServers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	worker, forwarder := freeAddress(t), freeAddress(t)
	go func() { ended <- run(ctx, io.Discard, "null", worker) }()
	untilAnswered(t, worker) // cli can't set up two apps at once
	go func() { ended <- run(ctx, io.Discard, "bare", forwarder, worker) }()
	untilAnswered(t, forwarder)
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("a server ended with %v", err)
		}
	}
}

func untilAnswered(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, err := http.Post("http://"+address+"/v1/completions", "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer at %s: %v", address, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestArgumentErrors(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"load without a URL", []string{"load"}, "0 arguments: give one URL, behind the flags"},
		{"a header without a value", []string{"load", "-H", "x", "http://127.0.0.1:1/"}, `header "x": give it as NAME:VALUE`},
		{"a rate of nothing", []string{"load", "--rate", "0", "http://127.0.0.1:1/"}, "rate 0: give a number above 0"},
		{"null without an address", []string{"null"}, "no address is given: name at least one host:port to listen at"},
		{"bare without a worker", []string{"bare", "127.0.0.1:0"}, "give the host:port to listen at and those of the workers"},
		{"routing with an argument", []string{"routing", "nginx"}, `"nginx" is no flag: routing takes nothing else`},
		{"routing without the trace", []string{"routing", "--scenario", "trace"}, `scenario "trace": give one of 40 req/s; 80 req/s; 110 req/s; 2 hot groups at 80 req/s; nothing shared at 90 req/s; one worker half as fast at 60 req/s; a worker loses its cache at 80 req/s; long and short prompts at 60 req/s; those of a trace need --trace`},
		{"compare with an argument", []string{"compare", "nginx"}, `"nginx" is no flag: compare takes nothing else`},
		{"faults without a scenario", []string{"faults"}, "no scenario is given: name overload, freeze, poison or soak"},
		{"report of nothing", []string{"report", "--dir", "testdata"}, "testdata has no raw results: make some with go run ./bench compare"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(t.Context(), io.Discard, tt.args...); err == nil || err.Error() != tt.want {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
		})
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Paths of one machine don't get into results.
func TestShown(t *testing.T) {
	got := strings.Join(shown([]string{"--peers-dir", "/home/x/venv/bin", "--out=/tmp/a.json", "--rounds", "3"}), " ")
	if want := "--peers-dir bin --out=a.json --rounds 3"; got != want {
		t.Errorf("shown as %s, want %s", got, want)
	}
}

// A simulation writes its table or JSON.
func TestSim(t *testing.T) {
	args := []string{"sim", "--seeds", "2", "--seconds", "3", "--warm-up", "1", "--rule", "least_work:c=.5", "--rule", "miss+pending", "--worker-speed", "1", "--worker-speed", ".5", "--restart", "1@2"}
	t.Run("json", func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, append(slices.Clone(args), "--json", "-", "conversations")...); err != nil {
			t.Fatal(err)
		}
		var result sim.Result
		if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			t.Fatal(err)
		}
		if len(result.Rows) != 1 || len(result.Rows[0].Runs) != 4 || result.Rows[0].Runs[3].Counted == 0 {
			t.Fatalf("the result is %+v, want one row with four runs", result)
		}
		if s := result.Rows[0].Settings; s.Restart != (workload.Restart{Worker: 1, Seconds: 2}) || !slices.Equal(s.Speeds, []float64{1, .5}) {
			t.Errorf("the settings are %+v, want the restart of worker 1 after 2 s and speeds 1 and .5", s)
		}
	})
	t.Run("table", func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, append(slices.Clone(args), "unique")...); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "least_work:c=.5") {
			t.Errorf("the table is\n%s", &out)
		}
	})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no workload", nil, "0 arguments: give one workload, behind the flags"},
		{"restart", []string{"--restart", "1", "unique"}, `--restart "1": give WORKER@SECOND, as 1@60`},
		{"speed", []string{"--worker-speed", "x", "unique"}, `--worker-speed "x": give a number`},
		{"nothing counted", []string{"--seconds", "2", "unique"}, "unique: no request comes after the warm-up of 20 s"},
		{"rule", []string{"--rule", "x", "unique"}, `rule x: unknown policy "x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(t.Context(), io.Discard, append([]string{"sim"}, tt.args...)...); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
}
