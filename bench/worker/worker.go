package worker

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Worker is one simulated inference server.
type Worker struct {
	cfg     Config
	faults  faults        // those configured
	engines []*engine     // one for each data-parallel rank
	turn    atomic.Uint64 // requests that named no rank
	server  *http.Server
}

// New starts a worker's engines. Close ends them.
func New(cfg Config) *Worker {
	cfg = cfg.withDefaults()
	w := &Worker{
		cfg: cfg, engines: newEngines(cfg),
		faults: faults{cfg.Fault, cfg.PrefillFault, cfg.DecodeFault},
	}
	w.server = &http.Server{
		Handler:           w.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       keepAlive, // as short as vLLM's, so that stale connections happen
	}
	return w
}

// Handler serves the worker's API on a server of the caller's.
func (w *Worker) Handler() http.Handler { return w.server.Handler }

// Serve answers on ln until Close, when it returns nil, or until ln fails. It
// closes ln. Several listeners may be served at once.
func (w *Worker) Serve(ln net.Listener) error {
	if err := w.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close drops every connection, running requests included, and ends the
// engines; what they had pinned is gone. It may be called again.
func (w *Worker) Close() {
	for _, e := range w.engines {
		e.withdraw()
		e.close()
	}
	_ = w.server.Close() // what a listener says on closing changes nothing here
}

// Forget empties the prefix cache, as a restart does that nobody sees.
func (w *Worker) Forget() {
	for _, e := range w.engines {
		e.flush()
	}
}

// Stats is what the worker has seen so far; after Close, what it had seen by then.
func (w *Worker) Stats() Stats { return sum(w.stats()) }
