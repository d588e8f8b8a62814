package proxytest

import (
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestFDs(t *testing.T) {
	before := FDs()
	if before == 0 {
		t.Skip("no /proc/self/fd here")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if got := FDs(); got < before+1 {
		t.Errorf("descriptors are %d with a listener more, want at least %d", got, before+1)
	}
	l.Close()
	// The runtime's own poller may have been opened by the listener.
	if got := FDs(); got > before+3 {
		t.Errorf("descriptors are %d, want %d again", got, before)
	}
}

// TestNoLeaks wants a leak found and the lasting goroutines of fasthttp ignored,
// whose names a new version may change.
func TestNoLeaks(t *testing.T) {
	fake := &fakeTB{TB: t}
	NoLeaks(fake)
	stop := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		<-stop
		close(gone)
	}()
	if errs := fake.finish(); len(errs) != 1 || !strings.Contains(errs[0], "TestNoLeaks") {
		t.Errorf("the test was failed by %.200q, want the goroutine left", errs)
	}
	close(stop)
	<-gone

	fake = &fakeTB{TB: t}
	NoLeaks(fake)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok") }}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	dialer := &fasthttp.TCPDialer{}
	client := &fasthttp.HostClient{Addr: l.Addr().String(), Dial: dialer.Dial}
	if _, body, err := client.Get(nil, "http://"+l.Addr().String()+"/"); err != nil || string(body) != "ok" {
		t.Fatalf("got %q and error %v, want ok", body, err)
	}
	client.CloseIdleConnections()
	must(t, srv.Shutdown())
	must(t, <-served)
	if errs := fake.finish(); len(errs) != 0 {
		t.Errorf("the test was failed by %.2000q, want nothing", errs)
	}
}
