package compare

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
	logTail      = 2000 // bytes of a log that an error shows
)

// process is a process group of ours.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

// start runs a program on these cores, in a process group of its own, with its
// output in a log in dir.
func start(dir, name string, cores []int, args []string) (*process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startOn(p.cmd, cores); err != nil {
		_ = log.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// end ends the process group: politely, and after a while without asking.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
	}
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // what is left of the group, if anything
	<-p.ended
	_ = p.log.Close()
}

// tail is the end of the log.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text[max(0, len(text)-logTail):])
}

// untilReady waits until a process answers a generation at address with 200.
func (p *process) untilReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		err := generate(ctx, client, address)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: %v\n%s", p.cmd.Path, p.cmd.ProcessState, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready at %s: %w\n%s", p.cmd.Path, address, err, p.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func generate(ctx context.Context, client *http.Client, address string) error {
	const body = `{"model":"` + Model + `","messages":[{"role":"user","content":"hello"}],"stream":false}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s is answered with %d", path, resp.StatusCode)
	}
	return nil
}

// freeAddress is a loopback address that nobody listens at. Somebody else may take
// it before it is used; the run fails then.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// startNull starts n workers that answer at once, as one process, and returns
// their addresses.
func startNull(ctx context.Context, dir, bench string, cores []int, n int) (*process, []string, error) {
	var addresses []string
	for range n {
		a, err := freeAddress()
		if err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, a)
	}
	p, err := start(dir, "null", cores, append([]string{bench, NullCommand}, addresses...))
	if err != nil {
		return nil, nil, err
	}
	for _, a := range addresses {
		if err := p.untilReady(ctx, a); err != nil {
			p.end()
			return nil, nil, err
		}
	}
	return p, addresses, nil
}

// BuildLoadstar makes the router's binary in dir.
func BuildLoadstar(ctx context.Context, dir string) (string, error) {
	return build(ctx, dir, "loadstar/cmd/loadstar")
}

// build makes a program of this module in dir.
func build(ctx context.Context, dir, pkg string) (string, error) {
	file := filepath.Join(dir, filepath.Base(pkg))
	out, err := exec.CommandContext(ctx, "go", "build", "-o", file, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return file, nil
}
