package proxy

import (
	"net"
	"time"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/pprofhandler"
)

// newMetricsServer configures the listener for those who run the router.
func (p *Proxy) newMetricsServer() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               p.handleMetrics,
		Logger:                quietLogger{p.log},
		NoDefaultServerHeader: true,
		SecureErrorLogMessage: true,
		ReadTimeout:           10 * time.Second,
		WriteTimeout:          90 * time.Second, // a profile takes its time
		IdleTimeout:           90 * time.Second,
		GetOnly:               true,
		CloseOnShutdown:       true,
		Concurrency:           1024,
	}
}

// ServeMetrics serves metrics, and what DebugEndpoints adds, to clients that
// connect to ln until Shutdown.
func (p *Proxy) ServeMetrics(ln net.Listener) error {
	return p.metricsServer.Serve(p.closeOnHandOver(newPatientListener(ln, p.log)))
}

// handleMetrics answers every path with the metrics, as vllm-router does, but
// for /health and what is for debugging.
func (p *Proxy) handleMetrics(ctx *fasthttp.RequestCtx) {
	defer p.survive(ctx)
	path := string(ctx.Path())
	debug := p.opts.DebugEndpoints && len(path) >= len("/debug/") && path[:len("/debug/")] == "/debug/"
	switch {
	case path == "/health":
		ctx.SetBodyString("OK")
	case debug && path == "/debug/leases":
		p.dumpLeases(ctx)
	case debug && path == "/debug/pprof/cmdline":
		ctx.Error("Not found: the command line may hold keys", 404)
	case debug:
		pprofhandler.PprofHandler(ctx)
	default:
		ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
		p.metrics.write(ctx)
	}
}

// dumpLeases lists every live lease.
func (p *Proxy) dumpLeases(ctx *fasthttp.RequestCtx) {
	type lease struct {
		Worker string  `json:"worker"`
		Phase  string  `json:"phase"`
		Age    float64 `json:"age_seconds"`
	}
	all, err := p.router.Leases(p.now())
	if err != nil {
		answerProblem(ctx, problemOf(err))
		return
	}
	out := make([]lease, len(all))
	for i, l := range all {
		out[i] = lease{l.URL, actors.Phase.String(l.Phase), l.Age.Seconds()}
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(mustJSON(map[string]any{"leases": out}))
}
