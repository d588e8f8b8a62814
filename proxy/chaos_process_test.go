package proxy

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// workerProcess is a worker of TestChaos in a process of its own, which can be
// killed, frozen and started again at the same address.
type workerProcess struct {
	t       *testing.T
	addr    string
	prefill bool

	mu  sync.Mutex
	cmd *exec.Cmd // nil while it is dead
	in  *os.File  // questions
	out *os.File  // answers
	buf *bufio.Reader
}

// Of the environment of such a process.
const (
	processAddr    = "LOADSTAR_TEST_WORKER" // where it listens; no other process has it
	processPrefill = "LOADSTAR_TEST_PREFILL"
)

// answerWithin is how long such a process may take for an answer, or to start.
const answerWithin = 20 * time.Second

// TestWorkerProcess is such a process. It answers a line for each line it reads,
// and ends with its input, which is the end of its test.
func TestWorkerProcess(t *testing.T) {
	addr := os.Getenv(processAddr)
	if addr == "" {
		t.Skip("a process of TestChaos")
	}
	script := controlCalls(chaosScript)
	if os.Getenv(processPrefill) != "" {
		script = controlCalls(chaosPrefill)
	}
	w := proxytest.NewWorkerAt(t, addr, script)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "counts":
			// What was quiet before is quiet at least as long when it is read.
			fmt.Println(int64(time.Since(w.QuietSince())), w.InFlight())
		case "release":
			w.Release()
			fmt.Println("ok")
		case "drop":
			w.DropConnections()
			fmt.Println("ok")
		case "forget":
			w.Forget()
			fmt.Println("ok")
		case "list":
			fmt.Println(inFlight(w))
		}
	}
}

// inFlight tells, in a line, what a worker has in flight.
func inFlight(w *proxytest.Worker) string {
	var all []string
	for _, x := range w.Seen() {
		if x.Outcome() == proxytest.InFlight {
			all = append(all, fmt.Sprintf("%s %q since %v, on connection %d (%d)", x.RequestLine, x.Get("X-Chaos"), time.Since(x.ArrivedAt), x.Conn, x.Seq))
		}
	}
	return strings.Join(all, "; ")
}

func newWorkerProcess(t *testing.T, prefill bool) *workerProcess {
	t.Helper()
	p := &workerProcess{t: t, addr: proxytest.Reserve(t), prefill: prefill}
	t.Cleanup(p.finish)
	p.start()
	return p
}

// start starts the process and waits until it listens.
func (p *workerProcess) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return
	}
	fail := func(err error) {
		if err != nil {
			p.t.Fatalf("the worker's process can't be started: %v", err)
		}
	}
	exe, err := os.Executable()
	fail(err)
	theirIn, in, err := os.Pipe()
	fail(err)
	out, theirOut, err := os.Pipe()
	fail(err)
	cmd := exec.Command(exe, "-test.run=^TestWorkerProcess$", "-test.count=1", "-test.timeout=0")
	cmd.Env = append(os.Environ(), processAddr+"="+p.addr)
	if p.prefill {
		cmd.Env = append(cmd.Env, processPrefill+"=yes")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, os.Stderr
	// A process group of its own: if this process dies while that is frozen, the
	// kernel ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	theirIn.Close()
	theirOut.Close()
	fail(err)
	p.cmd, p.in, p.out, p.buf = cmd, in, out, bufio.NewReader(out)
	if line, err := p.line(); err != nil || line != "ready" {
		p.t.Errorf("the worker's process says %q (%v), want ready", line, err)
	}
}

// line reads a line of the process. The caller holds mu.
func (p *workerProcess) line() (string, error) {
	_ = p.out.SetReadDeadline(time.Now().Add(answerWithin))
	line, err := p.buf.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// ask has the process answer a question; a dead one answers nothing.
func (p *workerProcess) ask(question string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return ""
	}
	if _, err := fmt.Fprintln(p.in, question); err != nil {
		p.t.Errorf("the worker's process can't be asked for %s: %v", question, err)
		return ""
	}
	line, err := p.line()
	if err != nil {
		p.t.Errorf("the worker's process has no answer to %s: %v", question, err)
	}
	return line
}

func (p *workerProcess) URL() string      { return "http://" + p.addr }
func (p *workerProcess) Release()         { p.ask("release") }
func (p *workerProcess) DropConnections() { p.ask("drop") }
func (p *workerProcess) Forget()          { p.ask("forget") }
func (p *workerProcess) list() string     { return p.ask("list") }

// InFlight is what the process sees; a dead one sees nothing.
func (p *workerProcess) InFlight() int {
	_, n := p.counts()
	return n
}

// QuietSince is when something last happened on the process's sockets.
func (p *workerProcess) QuietSince() time.Time {
	quiet, _ := p.counts()
	return quiet
}

func (p *workerProcess) counts() (quietSince time.Time, inFlight int) {
	var quiet int64
	line := p.ask("counts")
	if line == "" {
		return time.Time{}, 0
	}
	if _, err := fmt.Sscan(line, &quiet, &inFlight); err != nil {
		p.t.Errorf("the worker's process counts %q: %v", line, err)
	}
	return time.Now().Add(-time.Duration(quiet)), inFlight
}

func (p *workerProcess) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd == nil
}

// signal sends a signal to the process, if it lives.
func (p *workerProcess) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%v to the worker's process: %v", s, err)
	}
}

// kill ends the process as a crash does. It may be frozen.
func (p *workerProcess) kill() {
	p.signal(syscall.SIGKILL)
	_, _ = p.reap()
}

// reap ends the process's input and waits for its end. It returns what the process
// had yet to say.
func (p *workerProcess) reap() (said string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return "", nil
	}
	p.in.Close()
	_ = p.out.SetReadDeadline(time.Now().Add(answerWithin))
	rest, _ := io.ReadAll(p.buf)
	err = p.cmd.Wait()
	p.out.Close()
	p.cmd = nil
	return string(rest), err
}

// finish ends the process with its test, and has it tell what it found wrong.
func (p *workerProcess) finish() {
	p.signal(syscall.SIGCONT)
	if said, err := p.reap(); err != nil {
		p.t.Errorf("the worker's process has failed: %v\n%s", err, said)
	}
}
