package compare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "smg")
	if err := os.WriteFile(script, []byte("#!/opt/py/bin/python3 -s\nimport x\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const python = "--host 127.0.0.1 --port 1 --prometheus-port 2 --policy cache_aware --log-level error --worker-startup-check-interval 1 --worker-urls http://127.0.0.1:8 http://127.0.0.1:9"
	tests := []struct{ name, program, want string }{
		{"loadstar", "ls", "ls --host 127.0.0.1 --port 1 --prometheus-port 2 --policy cache_aware --log-level warning --worker-urls http://127.0.0.1:8 http://127.0.0.1:9"},
		{"bare", "b", "b bare 127.0.0.1:1 127.0.0.1:8 127.0.0.1:9"},
		{"vllm-router", "v", "v " + python},
		{"vllm-router round_robin", "v", "v " + strings.Replace(python, "cache_aware", "round_robin", 1)},
		{"sglang-router", "s", "s launch " + python},
		{"smg", script, "/opt/py/bin/python3 -s -m smg launch " + python},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := byName(t, tt.name).args(setup{
				dir: dir, program: tt.program, address: "127.0.0.1:1", metrics: "127.0.0.1:2",
				workers: []string{"127.0.0.1:8", "127.0.0.1:9"},
			})
			if got := strings.Join(args, " "); err != nil || got != tt.want {
				t.Errorf("it is run as\n%s (%v), want\n%s", got, err, tt.want)
			}
		})
	}
}

func byName(t *testing.T, name string) peer {
	t.Helper()
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("there is no router %q", name)
	}
	return peers[i]
}

// The configurations name the workers, the address and files in the directory.
func TestConfigs(t *testing.T) {
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"nginx", []string{"server 127.0.0.1:8;", "server 127.0.0.1:9;", "listen 127.0.0.1:1;", "worker_connections 77;"}},
		{"haproxy", []string{"server w0 127.0.0.1:8\n", "server w1 127.0.0.1:9\n", "bind 127.0.0.1:1\n", "maxconn 77\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			args, err := byName(t, tt.name).args(setup{dir: dir, program: "p", address: "127.0.0.1:1", workers: []string{"127.0.0.1:8", "127.0.0.1:9"}, maxConns: 77})
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(args[len(args)-1])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("its configuration has no %q:\n%s", want, text)
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()
	for _, f := range []string{filepath.Join(dir, "bench-a"), filepath.Join(path, "bench-a"), filepath.Join(path, "bench-b")} {
		if err := os.WriteFile(f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bench-b"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	tests := []struct{ name, dir, program, want string }{
		{"in the directory first", dir, "bench-a", filepath.Join(dir, "bench-a")},
		{"in PATH without one", "", "bench-a", filepath.Join(path, "bench-a")},
		{"what can't be run is passed over", dir, "bench-b", filepath.Join(path, "bench-b")},
		{"nowhere", dir, "bench-c", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := find(tt.dir, tt.program)
			if (err != nil) != (tt.want == "") || err == nil && got != tt.want {
				t.Errorf("found %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"bin", "lib/python3.9/site-packages/some_router-1.2.3.dist-info", "lib/python3.9/site-packages/some_router.libs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"of a distribution", distribution("some-router")(t.Context(), filepath.Join(dir, "bin", "x")), "1.2.3"},
		{"of another", distribution("router")(t.Context(), filepath.Join(dir, "bin", "x")), "unknown"},
		{"said", said("version")(t.Context(), "no-such-program"), "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("the version is %q, want %q", tt.got, tt.want)
			}
		})
	}
}
