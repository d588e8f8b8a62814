package watch

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// tlsPair returns the two ends of a TLS connection, the handshake done.
func tlsPair(t *testing.T, version, cipher uint16) (client *tls.Conn, server net.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	rawClient, rawServer := pair(t)
	s := tls.Server(rawServer, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	c := tls.Client(rawClient, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, CipherSuites: []uint16{cipher}})
	shaken := make(chan error, 1)
	go func() { shaken <- c.Handshake() }()
	if err := s.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return c, s
}

// TestTLS: a client that says goodbye within TLS has left, also while it keeps the
// connection beneath. One that sends something ahead has not.
func TestTLS(t *testing.T) {
	request := bytes.Repeat([]byte("GET / HTTP/1.1\r\n\r\n"), 100)
	for _, v := range []struct {
		name            string
		version, cipher uint16
	}{
		{"1.2, AES-GCM", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		{"1.2, ChaCha20", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256},
		{"1.2, AES-CBC", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
		{"1.3", tls.VersionTLS13, 0},
	} {
		for _, tc := range []struct {
			name  string
			ahead int // requests sent before
			leave func(c *tls.Conn) error
		}{
			{"close", 0, (*tls.Conn).Close},
			{"close_notify", 0, (*tls.Conn).CloseWrite},
			{"close_notify behind pipelined requests", 3, (*tls.Conn).CloseWrite},
			{"TCP only", 0, func(c *tls.Conn) error { return c.NetConn().Close() }},
		} {
			for _, before := range []bool{true, false} {
				name := v.name + ", " + tc.name + ", armed before"
				if !before {
					name = v.name + ", " + tc.name + ", armed after"
				}
				t.Run(name, func(t *testing.T) {
					w := newWatcher(t)
					client, server := tlsPair(t, v.version, v.cipher)
					g, up := w.NewGuard(), make(target)
					if before {
						g.Arm(server, up)
					}
					for range tc.ahead {
						if _, err := client.Write(request); err != nil {
							t.Fatal(err)
						}
					}
					if before {
						wantOpen(t, up)
					}
					if err := tc.leave(client); err != nil {
						t.Fatal(err)
					}
					if !before {
						g.Arm(server, up)
					}
					wantClosed(t, up)
					if !g.Disarm() {
						t.Error("Disarm() = false after the client left")
					}
				})
			}
		}
	}
}

// TestArrivals: what a client sends ahead wakes the watcher once, and not for as
// long as it lies there.
func TestArrivals(t *testing.T) {
	client, server := pair(t)
	reports := make(chan bool, 1000)
	p, err := newPoller(func(_ uint64, closed bool, _ time.Time) { reports <- closed })
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.add(raw, 1, true); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("ahead")); err != nil {
		t.Fatal(err)
	}
	next := func() bool {
		select {
		case closed := <-reports:
			return closed
		case <-time.After(patience):
			t.Fatalf("no report within %v", patience)
			return false
		}
	}
	if next() {
		t.Error("bytes count as the end")
	}
	select {
	case <-reports:
		t.Error("bytes that lie there are reported again")
	case <-time.After(50 * time.Millisecond):
	}
	if got := peek(raw, make([]byte, 10)); string(got) != "ahead" {
		t.Errorf("peek() = %q, want %q", got, "ahead")
	}
	client.Close()
	if !next() {
		t.Error("the end counts as bytes")
	}
}
