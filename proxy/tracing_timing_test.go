package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"loadstar/proxy/trace"

	"github.com/valyala/fasthttp"
)

// BenchmarkTracing is a small request with its client and its worker. The processor's
// time tells what tracing costs, also while others use the machine.
func BenchmarkTracing(b *testing.B) {
	for _, bm := range []struct {
		name  string
		on    bool
		ratio float64
	}{{"off", false, 0}, {"ratio 0", true, 0}, {"ratio 0.01", true, 0.01}, {"ratio 1", true, 1}} {
		b.Run(bm.name, func(b *testing.B) {
			collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer collector.Close()
			o := testOptions("round_robin")
			if bm.on {
				o.Tracing = &trace.Options{Endpoint: collector.URL, Ratio: bm.ratio}
			}
			benchRequests(b, o)
		})
	}
}

func benchRequests(b *testing.B, o Options) {
	worker := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(`{"ok":1}`) }}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go worker.Serve(ln)
	defer worker.Shutdown()
	r := startRouter(b, o)
	if _, err := r.AddWorker(WorkerSpec{URL: "http://" + ln.Addr().String(), Priority: 50}); err != nil {
		b.Fatal(err)
	}
	if ctx, cancel := context.WithTimeout(b.Context(), patience); !r.AwaitWorker(ctx) {
		b.Fatal("no worker")
	} else {
		cancel()
	}
	client := &fasthttp.HostClient{Addr: r.addr, MaxIdleConnDuration: time.Minute}
	defer client.CloseIdleConnections()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	req.SetRequestURI("http://" + r.addr + chatPath)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyString(chat("hi", false))
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if err := client.Do(req, resp); err != nil || resp.StatusCode() != 200 {
			b.Fatal(err, resp.StatusCode())
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used, of both kinds.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
