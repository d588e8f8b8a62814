package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"loadstar/bench/worker"
)

// Headers between the generator and its workers, which a router passes on.
const (
	headerSent   = "X-Bench-Sent"   // of a request: when it was sent, in Unix microseconds
	headerWaited = "X-Bench-Waited" // of an answer: microseconds from then to the worker
	headerWorker = "X-Bench-Worker" // of an answer: the worker's number
	headerPoison = "X-Bench-Poison" // of a request that is to fail: its name
	headerFault  = "X-Sim-Fail"     // of such a request: how
)

const statsPath = "/bench/stats"

// simulation is what a worker's process is told.
type simulation struct {
	Number int
	Worker worker.Config
}

// workerStats is what a worker's process tells.
type workerStats struct {
	worker.Stats
	Poisoned map[string]int // calls for each poisoned request
}

// Simulate is a worker's process: it reads a simulation from in, writes its URL to
// out and serves until in ends, which it does when the parent does.
func Simulate(in io.Reader, out io.Writer) error {
	var s simulation
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("the simulation on the standard input can't be read: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w := worker.New(s.Worker)
	defer w.Close()
	c := &counter{next: w.Handler(), worker: w, number: strconv.Itoa(s.Number), poisoned: make(map[string]int)}
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		ended <- nil
	}()
	if _, err := fmt.Fprintf(out, "http://%s\n", ln.Addr()); err != nil {
		return err
	}
	err = <-ended
	_ = server.Close()
	return err
}

// counter is a worker that says how long requests were on their way and counts
// the calls of poisoned ones.
type counter struct {
	next   http.Handler
	worker *worker.Worker
	number string

	mu       sync.Mutex
	poisoned map[string]int
}

func (c *counter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == statsPath {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = json.NewEncoder(rw).Encode(workerStats{Stats: c.worker.Stats(), Poisoned: c.poisoned})
		return
	}
	if name := r.Header.Get(headerPoison); name != "" {
		c.mu.Lock()
		c.poisoned[name]++
		c.mu.Unlock()
	}
	if sent, err := strconv.ParseInt(r.Header.Get(headerSent), 10, 64); err == nil {
		rw.Header().Set(headerWaited, strconv.FormatInt(time.Now().UnixMicro()-sent, 10))
		rw.Header().Set(headerWorker, c.number)
	}
	c.next.ServeHTTP(rw, r)
}
