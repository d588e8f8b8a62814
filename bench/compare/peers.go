package compare

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Commands of the bench program that the comparison runs as processes of their own.
const (
	NullCommand = "null"
	BareCommand = "bare"
)

// path is the generation that is measured.
const path = "/v1/chat/completions"

// Model is what every generation asks for.
const Model = "null"

// setup is what a router is started with.
type setup struct {
	dir      string // for its files
	program  string
	address  string // where it is to listen, host:port
	metrics  string // a second address, which may be used
	workers  []string
	policy   string // in place of the router's usual one, if it isn't empty
	maxConns int
}

// peer is a router that can be measured.
type peer struct {
	name    string
	program string // to be looked for; empty for programs of this module
	install string // how to get it
	args    func(setup) ([]string, error)
	fixed   bool // it can't be given a policy
	version func(ctx context.Context, program string) string
}

const (
	loadstarName = "loadstar"
	bareName     = "bare"
	directName   = "direct" // no router at all
)

var peers = []peer{
	{name: loadstarName, args: loadstarArgs, version: said("--version")},
	{name: bareName, args: bareArgs, fixed: true, version: func(context.Context, string) string { return "of this module" }},
	{name: "nginx", program: "nginx", install: "apt install nginx", args: nginxArgs, fixed: true, version: said("-v")},
	{name: "haproxy", program: "haproxy", install: "apt install haproxy", args: haproxyArgs, fixed: true, version: said("-v")},
	{name: "vllm-router", program: "vllm-router", install: "pip install vllm-router", args: pythonArgs("cache_aware", itself), version: distribution("vllm-router")},
	{name: "vllm-router round_robin", program: "vllm-router", install: "pip install vllm-router", args: pythonArgs("round_robin", itself), version: distribution("vllm-router")},
	{name: "smg", program: "smg", install: "pip install smg", args: pythonArgs("cache_aware", smgModule), version: distribution("smg")},
	{name: "sglang-router", program: "sglang-router", install: "pip install sglang-router", args: pythonArgs("cache_aware", launch), version: distribution("sglang-router")},
}

// find looks for a program in dir and then in PATH.
func find(dir, program string) (string, error) {
	if dir != "" {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	if file, err := exec.LookPath(program); err == nil {
		return file, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", program))
}

func loadstarArgs(s setup) ([]string, error) {
	return routerArgs([]string{s.program}, s, "cache_aware", "--log-level", "warning")
}

// routerArgs is the command line that vllm-router, its relatives and Loadstar have
// in common, behind what runs the program; more stands in front of the workers.
func routerArgs(run []string, s setup, policy string, more ...string) ([]string, error) {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, err
	}
	_, metrics, err := net.SplitHostPort(s.metrics)
	if err != nil {
		return nil, err
	}
	args := append(run, "--host", host, "--port", port, "--prometheus-port", metrics, "--policy", cmp.Or(s.policy, policy))
	args = append(append(args, more...), "--worker-urls")
	return append(args, urls(s.workers)...), nil
}

func bareArgs(s setup) ([]string, error) {
	return append([]string{s.program, BareCommand, s.address}, s.workers...), nil
}

// pythonArgs is for the three routers that share a command line. How one of them
// is run depends on its program.
func pythonArgs(policy string, run func(program string) ([]string, error)) func(setup) ([]string, error) {
	return func(s setup) ([]string, error) {
		args, err := run(s.program)
		if err != nil {
			return nil, err
		}
		return routerArgs(args, s, policy, "--log-level", "error", "--worker-startup-check-interval", "1")
	}
}

func itself(program string) ([]string, error) { return []string{program}, nil }

func launch(program string) ([]string, error) { return []string{program, "launch"}, nil }

// smgModule runs smg as a module of the interpreter that its script names, as
// sglang-router installs a script of the same name that is sglang-router.
func smgModule(program string) ([]string, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	interpreter, found := strings.CutPrefix(line, "#!")
	if !found {
		return nil, fmt.Errorf("%s doesn't name its interpreter in the first line: reinstall smg", program)
	}
	return append(strings.Fields(interpreter), "-m", "smg", "launch"), nil
}

func nginxArgs(s setup) ([]string, error) {
	var servers strings.Builder
	for _, w := range s.workers {
		fmt.Fprintf(&servers, "    server %s;\n", w)
	}
	text := fmt.Sprintf(`worker_processes 1;
worker_rlimit_nofile %[1]d;
daemon off;
pid %[2]s/nginx.pid;
error_log %[2]s/nginx-error.log;
events { worker_connections %[1]d; }
http {
  access_log off;
  client_body_temp_path %[2]s/nginx-body;
  proxy_temp_path %[2]s/nginx-proxy;
  fastcgi_temp_path %[2]s/nginx-fastcgi;
  uwsgi_temp_path %[2]s/nginx-uwsgi;
  scgi_temp_path %[2]s/nginx-scgi;
  client_body_buffer_size 2m;
  client_max_body_size 64m;
  keepalive_requests 100000000;
  upstream workers {
    least_conn;
%[3]s    keepalive 128;
    keepalive_requests 100000000;
  }
  server {
    listen %[4]s;
    location / {
      proxy_pass http://workers;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`, s.maxConns, s.dir, servers.String(), s.address)
	file, err := writeConfig(s.dir, "nginx-*.conf", text)
	return []string{s.program, "-e", filepath.Join(s.dir, "nginx-error.log"), "-p", s.dir, "-c", file}, err
}

func haproxyArgs(s setup) ([]string, error) {
	var servers strings.Builder
	for i, w := range s.workers {
		fmt.Fprintf(&servers, "  server w%d %s\n", i, w)
	}
	text := fmt.Sprintf(`global
  nbthread 1
  maxconn %d
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  http-reuse always
  option abortonclose
frontend clients
  bind %s
  default_backend workers
backend workers
  balance leastconn
%s`, s.maxConns, s.address, servers.String())
	file, err := writeConfig(s.dir, "haproxy-*.cfg", text)
	return []string{s.program, "-q", "-db", "-f", file}, err
}

func writeConfig(dir, pattern, text string) (string, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	if _, err := f.WriteString(text); err != nil {
		_ = f.Close()
		return "", err
	}
	return f.Name(), f.Close()
}

func urls(addresses []string) []string {
	var all []string
	for _, a := range addresses {
		all = append(all, "http://"+a)
	}
	return all
}

// said asks a program for its version: the first line that it writes.
func said(flag string) func(context.Context, string) string {
	return func(ctx context.Context, program string) string {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, flag).CombinedOutput()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err != nil || line == "" {
			return "unknown"
		}
		return line
	}
}

var versioned = regexp.MustCompile(`^(.+)-([0-9][^-]*)\.dist-info$`)

// distribution looks up the version of an installed Python distribution beside
// its program, as none of these tells it.
func distribution(name string) func(context.Context, string) string {
	return func(_ context.Context, program string) string {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(program), "..", "lib", "python*", "site-packages", "*.dist-info"))
		for _, f := range found {
			m := versioned.FindStringSubmatch(filepath.Base(f))
			if m != nil && strings.ReplaceAll(m[1], "_", "-") == name {
				return m[2]
			}
		}
		return "unknown"
	}
}
