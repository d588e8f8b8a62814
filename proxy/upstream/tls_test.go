package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"
)

// trusting is a configuration that trusts what ca has issued.
func trusting(ca *issuer) *tls.Config { return &tls.Config{RootCAs: ca.pool()} }

func TestTLS(t *testing.T) {
	ca, other := newIssuer(t), newIssuer(t)
	for _, tt := range []struct {
		name   string
		config *tls.Config
		server *tls.Config
		good   bool
	}{
		{"address in the certificate", trusting(ca), ca.server(t, "127.0.0.1"), true},
		{"name asked for", &tls.Config{RootCAs: ca.pool(), ServerName: "worker.test"}, ca.server(t, "worker.test"), true},
		{"name not asked for", trusting(ca), ca.server(t, "worker.test"), false},
		{"other name", &tls.Config{RootCAs: ca.pool(), ServerName: "worker.test"}, ca.server(t, "127.0.0.1"), false},
		{"other issuer", trusting(other), ca.server(t, "127.0.0.1"), false},
		{"issuer that the system doesn't know", nil, ca.server(t, "127.0.0.1"), false},
		{"unchecked", &tls.Config{InsecureSkipVerify: true}, other.server(t, "worker.test"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorker(t, "127.0.0.1", tt.server)
			o := options()
			o.TLS = tt.config
			before := ""
			if tt.config != nil {
				before = tt.config.ServerName
			}
			p := testPool(t, "https://"+w.addr, o)
			if tt.config != nil && tt.config.ServerName != before {
				t.Error("the caller's configuration was changed")
			}
			if tt.good {
				c, end := dial(t, p, w)
				state := c.Conn.(*tls.Conn).ConnectionState()
				if got, want := state.NegotiatedProtocol, "http/1.1"; got != want {
					t.Errorf("protocol %q, want %q", got, want)
				}
				wantOpen(t, c, end)
				return
			}
			go func() {
				for end := range w.conns {
					_ = end.(*tls.Conn).HandshakeContext(t.Context()) // fails, as it should
					end.Close()
				}
			}()
			c, err := p.Dial(t.Context())
			if err == nil {
				c.Close()
				t.Fatal("no error, want one of the certificate")
			}
			if bad := new(tls.CertificateVerificationError); !errors.As(err, &bad) {
				t.Errorf("error %v, want one of the certificate", err)
			}
		})
	}
}

// TestTLSWithoutCertificates checks that a worker that speaks no TLS is refused.
func TestTLSWithoutCertificates(t *testing.T) {
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	p := testPool(t, "https://"+w.addr, o)
	go func() {
		for end := range w.conns {
			_, _ = end.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) // whether it comes doesn't matter
		}
	}()
	if c, err := p.Dial(t.Context()); err == nil {
		c.Close()
		t.Fatal("no error, want one: that was no TLS")
	}
}

// TestTLSHandshakeIsBounded dials a worker that accepts and says nothing.
func TestTLSHandshakeIsBounded(t *testing.T) {
	t.Run("by the timeout", func(t *testing.T) {
		w := newWorker(t, "127.0.0.1", nil)
		o := options()
		o.ConnectTimeout = brief
		p := testPool(t, "https://"+w.addr, o)
		c, err := p.Dial(t.Context())
		if err == nil {
			c.Close()
			t.Fatal("no error, want a timeout")
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
		wantEnd(t, w.accept())
	})
	t.Run("by the context", func(t *testing.T) {
		w := newWorker(t, "127.0.0.1", nil)
		p := testPool(t, "https://"+w.addr, options())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dialled := make(chan error, 1)
		go func() {
			c, err := p.Dial(ctx)
			if err == nil {
				c.Close()
			}
			dialled <- err
		}()
		end := w.accept()
		if _, err := end.Read(make([]byte, 1)); err != nil { // the handshake has begun
			t.Fatal(err)
		}
		cancel()
		select {
		case err := <-dialled:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
		case <-time.After(patience):
			t.Fatal("Dial still waits")
		}
		wantEnd(t, end)
	})
}

// TestTLSReuse checks that what a worker sends beside its answers, such as
// session tickets, doesn't keep a connection from being used again.
func TestTLSReuse(t *testing.T) {
	ca := newIssuer(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			config := ca.server(t, "127.0.0.1")
			config.MaxVersion = version
			w := newWorker(t, "127.0.0.1", config)
			o := options()
			o.TLS = trusting(ca)
			p := testPool(t, "https://"+w.addr, o)
			c, end := dial(t, p, w)
			now := time.Now()
			for range 3 {
				wantOpen(t, c, end)
				now = now.Add(time.Second)
				p.Put(c, now)
				if got := p.Idle(now.Add(time.Second)); got != c {
					t.Fatalf("Idle() = %p, want %p", got, c)
				}
			}
			// A deadline of the pool's own isn't left behind.
			if _, err := end.Write([]byte("y")); err != nil {
				t.Fatal(err)
			}
			if b, err := c.Reader().ReadByte(); err != nil || b != 'y' {
				t.Fatalf("read %q, error %v; want y", b, err)
			}
		})
	}
}

// gathering keeps what is written until it is flushed, so that several records
// arrive at once.
type gathering struct {
	net.Conn
	on   bool
	kept bytes.Buffer
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.on {
		return g.kept.Write(p)
	}
	return g.Conn.Write(p)
}

// TestTLSUndrained plays a worker that sends more than its answer, in a record
// of its own that arrives with the answer: it lies within the TLS connection, and
// must not be taken for the next request's answer.
func TestTLSUndrained(t *testing.T) {
	ca := newIssuer(t)
	w := newWorker(t, "127.0.0.1", nil)
	o := options()
	o.TLS = trusting(ca)
	p := testPool(t, "https://"+w.addr, o)

	type side struct {
		conn *tls.Conn
		g    *gathering
	}
	served := make(chan side, 1)
	config := ca.server(t, "127.0.0.1")
	go func() {
		g := &gathering{Conn: <-w.conns}
		s := tls.Server(g, config)
		_ = s.HandshakeContext(t.Context()) // its error is the other end's too
		served <- side{s, g}
	}()
	c, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := <-served
	t.Cleanup(func() { s.conn.Close() })

	s.g.on = true
	for _, record := range []string{"answer", "more"} {
		if _, err := s.conn.Write([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.g.Conn.Write(s.g.kept.Bytes()); err != nil {
		t.Fatal(err)
	}
	s.g.on = false
	discard(t, c, len("answer"))
	if n := c.Reader().Buffered(); n != 0 {
		t.Fatalf("%d bytes are buffered, want none: this test has lost its case", n)
	}
	p.Put(c, time.Now())
	if got := p.Idle(time.Now()); got != nil {
		t.Error("the connection was kept, want it closed")
	}
	wantEnd(t, s.conn)
}
