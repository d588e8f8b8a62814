package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"loadstar/bench/worker"
)

// demoModel is the name that the simulated workers serve.
const demoModel = "demo"

// demoWorkers is how many of them there are, for each phase if there are two.
const demoWorkers = 2

// demo runs the router in front of simulated workers in the same process.
func demo(ctx context.Context, c config) error {
	log, closeLog, err := newLogger(c.Logging)
	if err != nil {
		return err
	}
	defer closeLog()
	return demoOn(ctx, c, log, func(addr net.Addr) { fmt.Fprint(os.Stdout, demoBanner(addr, c.PD.Enabled)) })
}

// demoOn is demo with its surroundings given.
func demoOn(ctx context.Context, c config, log *slog.Logger, ready func(net.Addr)) error {
	workers := demoWorkers
	if c.PD.Enabled {
		workers = 2 * demoWorkers
	}
	for i := range workers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("cannot listen for a simulated worker: %w", err)
		}
		w := worker.New(worker.Config{Model: demoModel, DecodeBase: 20 * time.Millisecond})
		defer w.Close()
		go func() {
			if err := w.Serve(ln); err != nil {
				log.Error("a simulated worker ended", "error", err)
			}
		}()
		switch url := "http://" + ln.Addr().String(); {
		case !c.PD.Enabled:
			c.Workers.URLs = append(c.Workers.URLs, url)
		case i < demoWorkers: // its bootstrap server is the worker itself
			c.PD.Prefill = append(c.PD.Prefill, prefillWorker{url, ln.Addr().(*net.TCPAddr).Port})
		default:
			c.PD.Decode = append(c.PD.Decode, url)
		}
	}
	// A demo beside a router that already serves metrics should just run.
	if ln, err := net.Listen("tcp", c.Metrics.Listen.Addr()); err != nil {
		c.Metrics.Listen.Port = 0
	} else {
		ln.Close()
	}
	return serve(ctx, c, log, ready)
}

// demoBanner says how to use the demo.
func demoBanner(addr net.Addr, phases bool) string {
	workers := fmt.Sprintf("%d simulated workers", demoWorkers)
	if phases {
		workers = fmt.Sprintf("%[1]d prefill and %[1]d decode workers, simulated", demoWorkers)
	}
	return fmt.Sprintf(`
Loadstar is at http://%[1]s with %[2]s. Try, in another terminal:

  curl -N http://%[1]s/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model":"%[3]s","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
  curl http://%[1]s/workers

and http://%[1]s/status in a browser. Ctrl-C ends it.

`, addr, workers, demoModel)
}
