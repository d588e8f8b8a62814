package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// certificate returns a certificate for 127.0.0.1 and the configuration of a
// client that trusts it.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// TestTLSClients: over TLS answers stream as they do without, and a client that
// leaves is noticed as soon.
func TestTLSClients(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	certs, trust := certificate(t)
	r := startRouter(t, testOptions("cache_aware"), w)
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(ln, certs) // ends with the router
	post := func(stream bool) *proxytest.Client {
		c := proxytest.DialTLS(t, ln.Addr().String(), trust)
		if err := c.Post("/v1/chat/completions", chat("hi", stream), jsonType); err != nil {
			t.Fatal(err)
		}
		return c
	}
	stream, plain := post(true), post(false)
	w.WaitInFlight(2, patience)
	if e, err := stream.ReadEvent(patience); err != nil || e.Data != "one" {
		t.Fatalf("first event %+v, %v; want it while the stream runs", e, err)
	}
	w.Release()
	for _, c := range []*proxytest.Client{stream, plain} {
		if got, err := c.ReadResponse(patience); err != nil || got.Status != 200 {
			t.Errorf("answer %v, %v", got, err)
		}
	}
	r.waitLoad(w, 0)
	gone := []*proxytest.Client{post(true), post(false), post(true)}
	r.waitLoad(w, 3)
	gone[0].CloseFIN()
	gone[1].CloseFIN()
	gone[2].Reset()
	r.waitLoad(w, 0)
	w.WaitInFlight(0, patience)
	r.waitOutcome(actors.ClientGone, 3)
}

// TestPlainHTTPToTLSListener gets no further than the handshake.
func TestPlainHTTPToTLSListener(t *testing.T) {
	certs, _ := certificate(t)
	r := startRouter(t, testOptions("round_robin"))
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(ln, certs) // ends with the router
	got, err := proxytest.Try(ln.Addr().String(), proxytest.Request{Target: "/health"}, patience)
	if err == nil && got.Status < 400 {
		t.Errorf("plain HTTP got %d from a TLS listener", got.Status)
	}
}

// TestShutdown: not ready but serving, then no new clients but running streams
// to their end.
func TestShutdown(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("round_robin"), w)
	stream := r.post(chat("hi", true))
	if _, err := stream.ReadEvent(patience); err != nil {
		t.Fatal(err)
	}
	idle := proxytest.Dial(t, r.addr) // an idle keep-alive connection
	if err := idle.Get("/liveness"); err != nil {
		t.Fatal(err)
	}
	if got, err := idle.ReadResponse(patience); err != nil || got.Get("Connection") != "" {
		t.Fatalf("answer %v, %v", got, err)
	}

	r.BeginDrain()
	got := r.call("GET", "/readiness", "")
	wantAnswer(t, got, 503, `{"status":"not_ready","reason":"shutting down","total_workers":1}`)
	w.SetScript(proxytest.JSON(200, "{}"))
	got = r.call("POST", "/v1/chat/completions", chat("hi", false))
	wantAnswer(t, got, 200, "{}")
	if got.Get("Connection") != "close" {
		t.Errorf("while draining: Connection %q, want close", got.Get("Connection"))
	}

	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- r.server.ShutdownWithContext(ctx)
	}()
	select {
	case <-idle.PeerClosed():
	case <-time.After(patience):
		t.Error("an idle connection stays open")
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := proxytest.Connect(r.addr, nil)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("new connections are still accepted")
		}
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown returned with a stream running: %v", err)
	default:
	}
	if r.load(w) != 1 {
		t.Errorf("load %d, want the stream's 1", r.load(w))
	}
	w.Release()
	if got, err := stream.ReadResponse(patience); err != nil || !got.Clean {
		t.Errorf("the stream that ran: %v, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestShutdownGraceEnds: what doesn't end in time is reported, and nothing
// waits for it.
func TestShutdownGraceEnds(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	o := testOptions("round_robin")
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(ln, nil) }()
	r := &router{Proxy: p, t: t, addr: ln.Addr().String()}
	if _, err := p.AddWorker(WorkerSpec{URL: w.URL()}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	r.post(chat("hi", true))
	r.waitLoad(w, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := p.Shutdown(ctx); err == nil {
		t.Error("Shutdown() = nil with a stream cut off, want an error")
	}
	<-served
}

// TestBigUploadToTLSWorker: a worker that takes its time to read a big body over
// TLS gets it whole, and a client that leaves meanwhile is noticed.
func TestBigUploadToTLSWorker(t *testing.T) {
	sizes := make(chan int64, 2)
	hold := make(chan struct{})
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/slow":
			time.Sleep(100 * time.Millisecond)
			n, _ := io.Copy(io.Discard, r.Body)
			sizes <- n
		case "/v1/held":
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
	}))
	defer srv.Close()
	defer close(hold)
	o := testOptions("round_robin")
	o.WorkerTLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
	r := startRouter(t, o)
	if _, err := r.AddWorker(WorkerSpec{URL: srv.URL}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	const size = 16 << 20
	got := r.call("POST", "/v1/slow", strings.Repeat("x", size))
	if got.Status != 200 {
		t.Fatalf("status %d %s, want 200", got.Status, got.Body)
	}
	if n := <-sizes; n != size {
		t.Errorf("the worker got %d bytes, want %d", n, size)
	}
	c := proxytest.Dial(t, r.addr)
	if err := c.Post("/v1/held", strings.Repeat("x", size), jsonType); err != nil {
		t.Fatal(err)
	}
	r.wait("the request to run", func(v *actors.Snapshot) bool { return v.Live == 1 })
	c.CloseFIN()
	r.wait("the request to end", func(v *actors.Snapshot) bool { return v.Live == 0 })
	r.waitOutcome(actors.ClientGone, 1)
}
