package scale

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"loadstar/bench/worker/null"
)

// Command and WorkersCommand are the arguments that make the bench program run what
// is here; with the second, behind which two numbers stand, it is ServeWorkers.
const (
	Command        = "scale"
	WorkersCommand = "workers"
)

// pacedWorkers is how many workers streams are spread over.
const pacedWorkers = 4

// workers is a process that is all workers.
type workers struct {
	cmd   *exec.Cmd
	stdin io.Closer
	null  []string // addresses of those that answer at once
	paced []string // and of those that stream
}

// startWorkers starts workers that answer at once and workers that stream.
func startWorkers(bench string, null, paced int) (*workers, error) {
	w := &workers{cmd: exec.Command(bench, Command, WorkersCommand, strconv.Itoa(null), strconv.Itoa(paced))}
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.stdin = stdin
	lines := bufio.NewScanner(stdout)
	for range null + paced {
		if !lines.Scan() {
			w.end()
			return nil, errors.Join(errors.New("the workers' process ended before it had told all addresses"), lines.Err())
		}
		w.null = append(w.null, lines.Text())
	}
	w.null, w.paced = w.null[:null], w.null[null:]
	return w, nil
}

func (w *workers) end() {
	_ = w.stdin.Close()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// ServeWorkers is the workers' process: args are how many answer at once and how many
// stream. It writes their addresses to out, one a line, and serves until in ends,
// which it does when the parent does.
func ServeWorkers(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%d arguments: give the number of workers that answer at once, and of those that stream", len(args))
	}
	var listeners []net.Listener
	defer func() {
		for _, ln := range listeners {
			_ = ln.Close()
		}
	}()
	serving := []func(net.Listener) error{null.Serve, newPaced().serve}
	ended := make(chan error, 1)
	var addresses strings.Builder
	for i, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		for range n {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			listeners = append(listeners, ln)
			fmt.Fprintln(&addresses, ln.Addr())
			go func() { end(ended, serving[i](ln)) }()
		}
	}
	go func() {
		_, err := io.Copy(io.Discard, in)
		end(ended, err)
	}()
	if _, err := io.WriteString(out, addresses.String()); err != nil {
		return err
	}
	return <-ended
}

// end tells why serving is over, if nobody has yet.
func end(ended chan<- error, err error) {
	select {
	case ended <- err:
	default:
	}
}
