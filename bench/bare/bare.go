// Package bare is the least a forwarder on fasthttp can do: fasthttp's server in
// front of its host clients, workers in turn, answers as streams. It counts
// nothing, chooses nothing and does not see its clients leave. What a router on
// the same library costs beyond it is what the router does.
package bare

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

const (
	maxBody  = 64 << 20
	maxConns = 1 << 16 // to one worker
)

// Serve forwards what comes to ln to the workers, whose addresses are given as
// host:port, until ln is closed, when it returns nil, or fails.
func Serve(ln net.Listener, workers []string) error {
	if len(workers) == 0 {
		return errors.New("no worker is given: name at least one host:port")
	}
	f := &forwarder{}
	for _, address := range workers {
		f.workers = append(f.workers, &fasthttp.HostClient{
			Addr: address, StreamResponseBody: true, MaxConns: maxConns,
			NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true, DisablePathNormalizing: true,
		})
	}
	server := &fasthttp.Server{
		Handler: f.forward, MaxRequestBodySize: maxBody, Concurrency: maxConns,
		NoDefaultServerHeader: true, NoDefaultDate: true, DisableHeaderNamesNormalizing: true,
	}
	return server.Serve(ln)
}

type forwarder struct {
	workers []*fasthttp.HostClient
	turn    atomic.Uint64
}

func (f *forwarder) forward(ctx *fasthttp.RequestCtx) {
	worker := f.workers[f.turn.Add(1)%uint64(len(f.workers))]
	ctx.Request.URI().SetScheme("http")
	ctx.Request.SetHost(worker.Addr)
	answer := fasthttp.AcquireResponse()
	if err := worker.Do(&ctx.Request, answer); err != nil {
		fasthttp.ReleaseResponse(answer)
		ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		return
	}
	answer.Header.CopyTo(&ctx.Response.Header)
	ctx.Response.SetBodyStream(body{answer}, answer.Header.ContentLength())
}

// body is an answer's body, which returns the answer to its pool when it is closed.
type body struct{ answer *fasthttp.Response }

func (b body) Read(p []byte) (int, error) { return b.answer.BodyStream().Read(p) }

// CloseWithError is how fasthttp ends a stream that it has sent or can't send. If
// there were a Close as well, it would call both.
func (b body) CloseWithError(err error) error {
	if stream, ok := b.answer.BodyStream().(fasthttp.ReadCloserWithError); ok {
		err = stream.CloseWithError(err)
	}
	fasthttp.ReleaseResponse(b.answer)
	return err
}
