package replay

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"loadstar/bench/worker"
)

// generation is the path whose requests are counted. Others, as for tokens of a
// prompt, are not work that was placed.
const generation = "/v1/chat/completions"

// simulated is a worker in this process.
type simulated struct {
	worker   *worker.Worker
	server   *http.Server
	address  string
	requests atomic.Int64
}

// startWorkers starts a worker at each address.
func startWorkers(addresses []string, config func(i int) worker.Config) ([]*simulated, error) {
	var all []*simulated
	for i, a := range addresses {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			endWorkers(all)
			return nil, err
		}
		w := &simulated{worker: worker.New(config(i)), address: ln.Addr().String()}
		w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second}
		go func() { _ = w.server.Serve(ln) }()
		all = append(all, w)
	}
	return all, nil
}

func (w *simulated) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == generation {
		w.requests.Add(1)
	}
	w.worker.Handler().ServeHTTP(rw, r)
}

func endWorkers(all []*simulated) {
	for _, w := range all {
		w.worker.Close()
		_ = w.server.Close()
	}
}

// given is what a worker has had.
type given struct{ requests, tokens int64 }

func givenTo(all []*simulated) []given {
	var g []given
	for _, w := range all {
		g = append(g, given{w.requests.Load(), w.worker.Stats().PromptTokens})
	}
	return g
}
