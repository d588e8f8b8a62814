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
	return demoOn(ctx, c, log, func(addr net.Addr) { fmt.Fprint(os.Stdout, demoBanner(addr.String(), c)) })
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

// demoBanner says how to use the demo at addr. Keys stay out of it.
func demoBanner(addr string, c config) string {
	workers := fmt.Sprintf("%d simulated workers", demoWorkers)
	if c.PD.Enabled {
		workers = fmt.Sprintf("%[1]d prefill and %[1]d decode workers, simulated", demoWorkers)
	}
	curl, scheme, admin := "curl", "http://", addr
	if c.TLS.CertPath != "" {
		curl, scheme = "curl -k", "https://" // a demo's certificate is rarely for this address
	}
	if c.Access.HasAdminListener() {
		admin = c.Access.AdminListen.Addr()
	}
	const key = " -H 'Authorization: Bearer KEY'"
	clientKey, adminKey, where := "", "", ""
	if c.Access.ChecksClients() {
		clientKey, where = key, "a client's"
	}
	if c.Access.AdminKey != "" {
		adminKey, where = key, "the admin's"
	}
	if clientKey != "" && adminKey != "" {
		where = "a client's, or below the admin's"
	}
	if where != "" {
		where = " (KEY is " + where + ")"
	}
	return fmt.Sprintf(`
Loadstar is at %[1]s%[2]s with %[3]s. Try, in another terminal%[4]s:

  %[5]s -N %[1]s%[2]s/v1/chat/completions%[6]s -H 'Content-Type: application/json' \
    -d '{"model":"%[7]s","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
  %[5]s %[1]s%[8]s/workers%[9]s

and %[1]s%[8]s/status in a browser. Ctrl-C ends it.

`, scheme, addr, workers, where, curl, clientKey, demoModel, admin, adminKey)
}
