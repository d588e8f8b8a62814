package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"loadstar/bench/load"
	"loadstar/bench/worker"
)

// Waits for processes of ours.
const (
	startTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second
)

// bed is the processes of a scenario.
type bed struct {
	binary  string
	logs    string // directory of the routers' logs
	routers []*router
	workers []*simulated
}

// simulated is a worker's process.
type simulated struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// router is a router's process.
type router struct {
	url, metrics string
	cmd          *exec.Cmd
	log          *os.File
}

// startWorkers starts n workers of the same kind.
func (b *bed) startWorkers(n int, cfg worker.Config) ([]*simulated, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var started []*simulated
	for range n {
		w := &simulated{cmd: exec.Command(self, Command, SimulateCommand)}
		w.cmd.Stderr = os.Stderr
		stdin, err := w.cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		w.stdin = stdin
		stdout, err := w.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := w.cmd.Start(); err != nil {
			return nil, err
		}
		b.workers = append(b.workers, w)
		if err := json.NewEncoder(stdin).Encode(simulation{Number: len(started), Worker: cfg}); err != nil {
			return nil, err
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("a worker ended before it listened: %w", err)
		}
		w.url = strings.TrimSpace(line)
		started = append(started, w)
	}
	return started, nil
}

func (w *simulated) signal(s os.Signal) error { return w.cmd.Process.Signal(s) }

// startRouter starts a router before the workers and waits until all of them are
// in use.
func (b *bed) startRouter(ctx context.Context, workers []*simulated, args ...string) (*router, error) {
	args = append(args, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-urls")
	for _, w := range workers {
		args = append(args, w.url)
	}
	log, err := os.CreateTemp(b.logs, "router-*.log")
	if err != nil {
		return nil, err
	}
	r := &router{cmd: exec.Command(b.binary, args...), log: log}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		_ = log.Close()
		return nil, err
	}
	b.routers = append(b.routers, r)
	for deadline := time.Now().Add(startTimeout); ; {
		ready, err := r.ready(ctx, len(workers))
		if ready {
			return r, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s is not ready after %v; its log is %s", b.binary, startTimeout, log.Name()), err)
		}
		if err := load.Pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// ready reports whether a router listens and has that many healthy workers.
func (r *router) ready(ctx context.Context, workers int) (bool, error) {
	if r.url == "" && !r.findAddresses() {
		return false, errors.New("its log has no line that says listening")
	}
	s, err := scrape(ctx, r.metrics)
	if err != nil {
		return false, err
	}
	healthy := s.sum("vllm_router_worker_health")
	return int(healthy) == workers, fmt.Errorf("%v of %d workers are healthy", healthy, workers)
}

// findAddresses reads in the log where the router listens.
func (r *router) findAddresses() bool {
	text, err := os.ReadFile(r.log.Name())
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Msg, Address, Metrics string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" {
			r.url, r.metrics = "http://"+l.Address, "http://"+l.Metrics+"/metrics"
			return true
		}
	}
	return false
}

// end ends a router's process. It may be called again.
func (r *router) end() {
	if r.cmd.ProcessState != nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopTimeout, func() { _ = r.cmd.Process.Kill() })
	_ = r.cmd.Wait()
	timer.Stop()
	_ = r.log.Close()
}

// end ends every process of the bed.
func (b *bed) end() {
	for _, r := range b.routers {
		r.end()
	}
	for _, w := range b.workers {
		_ = w.stdin.Close()
		_ = w.cmd.Process.Kill() // holds for a stopped process as well
		_ = w.cmd.Wait()
	}
	b.routers, b.workers = nil, nil
}
