package compare

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker/null"
)

func TestNamed(t *testing.T) {
	tests := []struct{ name, in, router, policy, err string }{
		{"alone", "loadstar", "loadstar", "", ""},
		{"with a policy", "vllm-router:round_robin", "vllm-router", "round_robin", ""},
		{"a name with a space", "vllm-router round_robin:random", "vllm-router round_robin", "random", ""},
		{"unknown", "x:y", "", "", `router "x": give one of ` + strings.Join(Names(), ", ")},
		{"no choice", "nginx:random", "", "", `router "nginx:random": it has no choice of policies, leave out :random`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, policy, err := named(tt.in)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if p.name != tt.router || policy != tt.policy || got != tt.err {
				t.Errorf("it is %q, %q, %q, want %q, %q, %q", p.name, policy, got, tt.router, tt.policy, tt.err)
			}
		})
	}
}

// A policy that is asked for takes the usual one's place.
func TestPolicyArgs(t *testing.T) {
	for _, name := range []string{"loadstar", "vllm-router", "sglang-router"} {
		t.Run(name, func(t *testing.T) {
			args, err := byName(t, name).args(setup{program: "p", address: "127.0.0.1:1", metrics: "127.0.0.1:2", policy: "some"})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.Index(args, "--policy")
			if i < 0 || args[i+1] != "some" || slices.Contains(args, "cache_aware") {
				t.Errorf("the arguments are %v, want --policy some", args)
			}
		})
	}
}

// A router is started before workers, answers at its URL, and is gone when ended.
func TestStart(t *testing.T) {
	cores, err := cpus()
	if err != nil || len(cores) == 0 {
		t.Skip("the cores are unknown")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { _ = null.Serve(ln) }()
	router, err := Start(t.Context(), Launch{
		Programs: Programs{Bench: self(t)}, Name: "bare", Workers: []string{ln.Addr().String()}, Dir: t.TempDir(), Core: cores[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func() uint64 {
		report, err := load.Run(context.Background(), load.Config{
			URL: router.URL, Source: load.Chat{Model: Model, Bytes: 200}.Same(), Connections: 1, Requests: 3, Timeout: 20 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		return report.OK
	}
	if got := send(); got != 3 {
		t.Errorf("%d requests are answered, want 3", got)
	}
	router.End()
	if got := send(); got != 0 {
		t.Errorf("%d requests are answered after the end, want none", got)
	}
	if router.Version == "" {
		t.Error("its version is empty")
	}
}

func TestStartMissing(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := Start(t.Context(), Launch{Name: "vllm-router", Dir: t.TempDir()})
	if err == nil || !strings.HasSuffix(err.Error(), "to have it measured: pip install vllm-router") {
		t.Errorf("the error is %v, want one that says how to get it", err)
	}
}

// The policy and further arguments reach the program. It tells them and ends.
func TestStartArgs(t *testing.T) {
	cores, err := cpus()
	if err != nil || len(cores) == 0 {
		t.Skip("the cores are unknown")
	}
	program := filepath.Join(t.TempDir(), "loadstar")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Launch{
		Programs: Programs{Loadstar: program}, Name: "loadstar:some", Args: []string{"--further", "1"},
		Workers: []string{"127.0.0.1:9"}, Dir: t.TempDir(), Core: cores[0],
	})
	if err == nil {
		t.Fatal("a router that ended is taken for ready")
	}
	for _, want := range []string{" --policy some ", " --worker-urls http://127.0.0.1:9 --further 1\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
