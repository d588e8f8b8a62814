package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// readBuffer is the least size of a client connection's read buffer; the limit
// on heads sets it.
const readBuffer = 4096

// newServer configures fasthttp for serving clients. It must not change what
// passes: it adds no header, parses no form and normalises no name.
func (p *Proxy) newServer(handle fasthttp.RequestHandler) *fasthttp.Server {
	t, l := &p.opts.Timeouts, &p.opts.Limits
	return &fasthttp.Server{
		Handler:       handle,
		ErrorHandler:  p.badHead,
		ExpectHandler: p.expect,
		Logger:        quietLogger{p.log},

		ReadBufferSize:     max(readBuffer, l.HeadBytes),
		Concurrency:        l.Connections,
		ReadTimeout:        t.ClientHeader,
		IdleTimeout:        t.ClientIdle,
		MaxRequestBodySize: l.BodyBytes,
		StreamRequestBody:  true, // bodies are read, counted and refused by readBody
		LazyRequestTime:    true, // nobody asks for it

		NoDefaultServerHeader:         true,
		NoDefaultDate:                 true,
		NoDefaultContentType:          true,
		DisableHeaderNamesNormalizing: true,
		DisablePreParseMultipartForm:  true,
		SecureErrorLogMessage:         true,
		CloseOnShutdown:               true,
	}
}

// badHead answers a request whose head can't be read.
func (p *Proxy) badHead(ctx *fasthttp.RequestCtx, err error) {
	defer p.survive(ctx)
	e := badRequest("The request is not valid HTTP.")
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		e = &problem{
			fasthttp.StatusRequestHeaderFieldsTooLarge, kindInvalid, "headers_too_large",
			fmt.Sprintf("The request's head is larger than %d bytes, the limit set by --max-header-bytes.", p.opts.Limits.HeadBytes), 0,
		}
	case isTimeout(err):
		e = &problem{fasthttp.StatusRequestTimeout, kindInvalid, "request_timeout", "The request's head, or the beginning of its body, did not arrive in time.", 0}
	}
	p.metrics.rejected(e.status)
	answerProblem(ctx, e)
}

// expect decides on a request that waits for leave to send its body.
func (p *Proxy) expect(ctx *fasthttp.RequestCtx) (status int) {
	status = fasthttp.StatusInternalServerError // unless it gets to another
	defer p.survive(ctx)
	e := p.barredEarly(ctx)
	if e == nil && ctx.Request.Header.ContentLength() > p.opts.Limits.BodyBytes {
		e = tooLarge(p.opts.Limits.BodyBytes)
	}
	if e != nil {
		p.metrics.rejected(e.status)
		answerProblem(ctx, e)
		return e.status
	}
	return fasthttp.StatusContinue
}

// quietLogger takes what fasthttp has to say of single connections, which is
// for debugging.
type quietLogger struct{ log *slog.Logger }

// Printf implements fasthttp.Logger. What went wrong may quote the request, so
// only its type is told.
func (q quietLogger) Printf(_ string, args ...any) {
	if len(args) > 0 && q.log.Enabled(context.Background(), slog.LevelDebug) {
		q.log.Debug("a client's connection ended with an error", "type", fmt.Sprintf("%T", args[len(args)-1]))
	}
}

// Serve serves clients that connect to ln until Shutdown; certs is nil for plain
// HTTP.
func (p *Proxy) Serve(ln net.Listener, certs *tls.Config) error {
	return p.server.Serve(p.listener(ln, certs, p.crowd))
}

// BeginDrain makes the router known as not ready, while it still serves, each
// answer with Connection: close.
func (p *Proxy) BeginDrain() {
	if !p.stopping() {
		close(p.draining)
	}
}

// Shutdown stops to accept clients and waits until those there are served, or
// for ctx. Then it ends everything, and reports if requests were cut off.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.BeginDrain()
	p.viewers.End() // who watches would watch for as long as others are waited for
	err := errors.Join(p.server.ShutdownWithContext(ctx), p.adminServer.ShutdownWithContext(ctx))
	err = errors.Join(err, p.Close(ctx))
	// Metrics are served to the last, so that an end can be watched.
	over, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.metricsServer.ShutdownWithContext(over) // a scrape cut off is no loss
	return err
}

// Close ends what New has started. Requests that still run lose their workers'
// accounting, so Shutdown comes first.
func (p *Proxy) Close(ctx context.Context) error {
	defer p.end() // the metrics' listener too, which is open to the last
	p.viewers.End()
	if p.discovery != nil {
		p.discovery.Close()
	}
	if p.sources != nil {
		p.sources.Close()
	}
	p.LeavePeers()
	p.prober.Stop()
	p.retireAll()
	err := p.router.Stop(ctx)
	p.kv.close()
	if p.tracer != nil {
		p.tracer.Close(ctx)
	}
	if p.watcher != nil {
		p.watcher.Stop()
	}
	p.models.close()
	p.control.close()
	return err
}
