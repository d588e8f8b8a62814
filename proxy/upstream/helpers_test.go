package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a test waits for what is due at once, on a busy machine too.
const patience = 20 * time.Second

// brief is a limit that is to be reached, and not before others have done what they do
// at once: a busy machine may keep any of them waiting for two seconds.
const brief = 2500 * time.Millisecond

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker is the other end of a pool's connections: a listener that accepts and
// says nothing by itself.
type worker struct {
	t     testing.TB
	addr  string
	conns chan net.Conn
}

// newWorker starts a worker that listens on host, behind TLS if certs isn't nil.
func newWorker(t testing.TB, host string, certs *tls.Config) *worker {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, addr: ln.Addr().String(), conns: make(chan net.Conn, 1024)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if certs != nil {
				c = tls.Server(c, certs)
			}
			w.conns <- c
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
		close(w.conns)
		for c := range w.conns {
			c.Close()
		}
	})
	return w
}

// accept returns the worker's end of the next connection.
func (w *worker) accept() net.Conn {
	w.t.Helper()
	select {
	case c := <-w.conns:
		w.t.Cleanup(func() { c.Close() })
		return c
	case <-time.After(patience):
		w.t.Fatal("no connection came")
		return nil
	}
}

// options are those of most tests.
func options() Options {
	return Options{ConnectTimeout: patience, IdleTimeout: time.Minute, MaxIdle: 64}
}

// testPool returns a pool that ends with the test. Nothing sweeps it.
func testPool(t testing.TB, base string, o Options) *Pool {
	t.Helper()
	p, err := newPool(base, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Retire)
	return p
}

// dial opens a connection and returns both of its ends.
func dial(t testing.TB, p *Pool, w *worker) (*Conn, net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var end net.Conn
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		select {
		case end = <-w.conns:
			if tc, ok := end.(*tls.Conn); ok {
				_ = tc.HandshakeContext(ctx) // its error is the other end's too
			}
		case <-ctx.Done():
		}
	}()
	c, err := p.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-accepted
	if end == nil {
		t.Fatal("the worker got no connection")
	}
	t.Cleanup(func() { c.Interrupter().Close(); end.Close() }) // whoever owns c by then
	return c, end
}

// wantEnd waits until the other side of c has ended the connection.
func wantEnd(t testing.TB, c net.Conn) {
	t.Helper()
	if tc, ok := c.(*tls.Conn); ok {
		c = tc.NetConn() // what is closed is what lies beneath
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); timedOut(err) {
		t.Fatalf("the connection is open after %v, want it closed", patience)
	}
}

// wantOpen checks that a connection carries a byte from one end to the other.
func wantOpen(t testing.TB, c *Conn, end net.Conn) {
	t.Helper()
	if _, err := end.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if b, err := c.Reader().ReadByte(); err != nil || b != 'y' {
		t.Fatalf("read %q, error %v; want y", b, err)
	}
}

// await waits until what holds, which is due at once.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// issuer is a root for certificates.
type issuer struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &i.key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	if i.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return i
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// pool is the root that trusts what i has issued.
func (i *issuer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.cert)
	return p
}

// server is the configuration of a worker with a certificate for hosts, which
// are names and addresses.
func (i *issuer) server(t testing.TB, hosts ...string) *tls.Config {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, i.cert, &key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"h2", "http/1.1"},
	}
}

// timedOut reports whether err is that of a deadline.
func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
