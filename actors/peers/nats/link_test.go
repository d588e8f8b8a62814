package nats

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"loadstar/actors/peers"
	natsd "loadstar/bench/nats"
)

func TestMain(m *testing.M) {
	// Of the server in this process, which leaves some behind for good.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

// patience is how long an event is waited for.
const patience = 20 * time.Second

// ear takes what a link brings.
type ear struct {
	heard   chan string
	changes chan peers.LinkState
	lost    chan int
	block   chan struct{} // Hear waits for it, if there is one
}

func newEar() *ear {
	return &ear{heard: make(chan string, 1<<16), changes: make(chan peers.LinkState, 1<<10), lost: make(chan int, 1<<10)}
}

// Hear implements peers.Receiver.
func (e *ear) Hear(k peers.Kind, message []byte) {
	if e.block != nil {
		<-e.block
	}
	e.heard <- k.String() + " " + string(message)
}

// Lost implements peers.Receiver.
func (e *ear) Lost(n int) { e.lost <- n }

// Changed implements peers.Receiver.
func (e *ear) Changed(s peers.LinkState) { e.changes <- s }

func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("still waiting for %s", what)
		panic("unreachable")
	}
}

// link opens a link, and waits for its first state.
func link(t *testing.T, o Options) (*Link, *ear, peers.LinkState) {
	t.Helper()
	if o.Group == "" {
		o.Group = "g"
	}
	e := newEar()
	l := Open(o, e)
	t.Cleanup(l.Close)
	return l, e, next(t, "a state", e.changes)
}

func serverWith(t *testing.T, o *server.Options) *natsd.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := natsd.StartWith(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func wantUp(t *testing.T, s peers.LinkState) {
	t.Helper()
	if !s.Up || s.Err != nil {
		t.Fatalf("the link is %+v, want it up", s)
	}
}

// What is published reaches the others of the group and nobody else, itself neither.
func TestPublish(t *testing.T) {
	s := serverWith(t, &server.Options{})
	a, earA, state := link(t, Options{Servers: []string{"nats://127.0.0.1:1", s.URL()}})
	wantUp(t, state)
	_, earB, _ := link(t, Options{Servers: []string{s.URL()}})
	_, other, _ := link(t, Options{Servers: []string{s.URL()}, Group: "g.x"})
	for _, k := range []peers.Kind{peers.Figures, peers.Placed} {
		if err := a.Publish(k, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if got, want := next(t, "a message", earB.heard), k.String()+" hello"; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	if len(earA.heard) > 0 || len(other.heard) > 0 {
		t.Error("a router heard itself, or another group")
	}
	a.Close()
	if err := a.Publish(peers.Figures, nil); !errors.Is(err, ErrDown) {
		t.Errorf("published behind Close: %v, want %v", err, ErrDown)
	}
}

// What was published before Close gets there.
func TestCloseFlushes(t *testing.T) {
	s := serverWith(t, &server.Options{})
	a, _, _ := link(t, Options{Servers: []string{s.URL()}})
	_, ear, _ := link(t, Options{Servers: []string{s.URL()}})
	for range 500 {
		if err := a.Publish(peers.Figures, []byte("last")); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	for range 500 {
		next(t, "the last words", ear.heard)
	}
}

// A server that goes is told of once, refuses what is published meanwhile, and is found
// again when it is back.
func TestServerGoesAndComes(t *testing.T) {
	s := serverWith(t, &server.Options{})
	_, port, _ := net.SplitHostPort(s.Addr())
	a, earA, _ := link(t, Options{Servers: []string{s.URL()}})
	_, earB, _ := link(t, Options{Servers: []string{s.URL()}})
	for range 2 {
		s.Close()
		for _, e := range []*ear{earA, earB} {
			if state := next(t, "the loss", e.changes); state.Up || state.Err == nil {
				t.Fatalf("the link is %+v, want it down and why", state)
			}
		}
		if err := a.Publish(peers.Figures, []byte("lost")); !errors.Is(err, ErrDown) {
			t.Errorf("published without a server: %v, want %v", err, ErrDown)
		}
		var n int
		fmt.Sscan(port, &n)
		s = serverWith(t, &server.Options{Port: n})
		for _, e := range []*ear{earA, earB} {
			wantUp(t, next(t, "the return", e.changes))
		}
		if err := a.Publish(peers.Figures, []byte("again")); err != nil {
			t.Fatal(err)
		}
		if got := next(t, "a message", earB.heard); got != "figures again" {
			t.Errorf("heard %q, want what was said now", got)
		}
	}
}

// Nothing waits for a server that isn't there or says nothing: neither Open, Publish
// nor Close.
func TestNoServer(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for name, url := range map[string]string{"none": "nats://127.0.0.1:1", "a mute one": "nats://" + mute.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			for try := 1; ; try++ { // a busy machine takes long now and then
				began := time.Now()
				e := newEar()
				l := Open(Options{Servers: []string{url}, Group: "g"}, e)
				if err := l.Publish(peers.Figures, nil); !errors.Is(err, ErrDown) {
					t.Errorf("published: %v, want %v", err, ErrDown)
				}
				l.Close()
				took := time.Since(began)
				if took <= connectTimeout {
					break
				}
				if try == 3 {
					t.Fatalf("it took %v, want less than an attempt to connect", took)
				}
			}
		})
	}
	// It is told of once, however often it is tried again.
	_, e, state := link(t, Options{Servers: []string{"nats://127.0.0.1:1"}})
	if state.Up || state.Err == nil {
		t.Errorf("the link is %+v, want it down and why", state)
	}
	time.Sleep(3 * firstPause)
	if len(e.changes) > 0 {
		t.Errorf("told again: %+v", <-e.changes)
	}
}

const secret = "s3cr3t"

// What a server asks for is presented, and is told of nowhere.
func TestAccess(t *testing.T) {
	s := serverWith(t, &server.Options{Username: "u", Password: secret})
	token := serverWith(t, &server.Options{Authorization: secret})
	credentialed, creds := withCredentials(t)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, url, creds string
		up               bool
	}{
		{"user and password", "nats://u:" + secret + "@" + s.Addr(), "", true},
		{"a wrong password", "nats://u:x" + secret + "@" + s.Addr(), "", false},
		{"no user", s.URL(), "", false},
		{"token", "nats://" + secret + "@" + token.Addr(), "", true},
		{"a wrong token", "nats://x" + secret + "@" + token.Addr(), "", false},
		{"credentials", credentialed.URL(), creds, true},
		{"no credentials", credentialed.URL(), "", false},
		{"a file without credentials", credentialed.URL(), bad, false},
		{"no file", credentialed.URL(), bad + "x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, state := link(t, Options{Servers: []string{tc.url}, CredsFile: tc.creds})
			if state.Up != tc.up {
				t.Errorf("the link is %+v, want up %v", state, tc.up)
			}
			if text := fmt.Sprint(state.Server, state.Err); strings.Contains(text, secret) {
				t.Errorf("a secret is told: %s", text)
			}
		})
	}
}

// withCredentials is a server that knows users by their signatures, and the file of one
// of them.
func withCredentials(t *testing.T) (*natsd.Server, string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		k, err := create()
		must(err)
		public, err := k.PublicKey()
		must(err)
		return k, public
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	account, accountKey := pair(nkeys.CreateAccount)
	user, userKey := pair(nkeys.CreateUser)
	operatorClaims := jwt.NewOperatorClaims(operatorKey)
	_, err := operatorClaims.Encode(operator)
	must(err)
	accountJWT, err := jwt.NewAccountClaims(accountKey).Encode(operator)
	must(err)
	userJWT, err := jwt.NewUserClaims(userKey).Encode(account)
	must(err)
	seed, err := user.Seed()
	must(err)
	text, err := jwt.FormatUserConfig(userJWT, seed)
	must(err)
	file := filepath.Join(t.TempDir(), "creds")
	must(os.WriteFile(file, text, 0o600))
	resolver := &server.MemAccResolver{}
	must(resolver.Store(accountKey, accountJWT))
	return serverWith(t, &server.Options{TrustedKeys: []string{operatorKey}, AccountResolver: resolver}), file
}

// A subject that is not allowed is told of once, on a link that is up.
func TestDenied(t *testing.T) {
	s := serverWith(t, &server.Options{Users: []*server.User{{
		Username: "u", Password: secret,
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"other"}}},
	}}})
	l, e, state := link(t, Options{Servers: []string{"nats://u:" + secret + "@" + s.Addr()}})
	wantUp(t, state)
	for range 20 {
		if err := l.Publish(peers.Figures, nil); err != nil {
			t.Fatal(err)
		}
	}
	if state := next(t, "the news", e.changes); !state.Up || state.Err == nil || strings.Contains(fmt.Sprint(state), secret) {
		t.Errorf("the link is %+v, want it up with what is denied", state)
	}
	l.Close()
	if len(e.changes) > 0 {
		t.Errorf("told again: %+v", <-e.changes)
	}
}

// What comes faster than it is taken is lost, counted, and takes no more memory.
func TestSlowReceiver(t *testing.T) {
	s := serverWith(t, &server.Options{})
	a, _, _ := link(t, Options{Servers: []string{s.URL()}})
	slow := newEar()
	slow.block = make(chan struct{})
	l := Open(Options{Servers: []string{s.URL()}, Group: "g"}, slow)
	defer l.Close()
	defer close(slow.block)
	wantUp(t, next(t, "a state", slow.changes))
	for range 4 * pendingCount {
		if err := a.Publish(peers.Figures, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := next(t, "a loss", slow.lost); n < 1 {
		t.Errorf("%d lost, want some", n)
	}
}

// authority makes a certificate that this process trusts as it does the system's, which
// it reads once.
var authority = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	file, err := os.CreateTemp("", "ca")
	if err != nil {
		return tls.Certificate{}, err
	}
	defer os.Remove(file.Name())
	err = errors.Join(pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: der}), file.Close(), os.Setenv("SSL_CERT_FILE", file.Name()))
	if err == nil {
		_, err = x509.SystemCertPool()
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// tls:// checks the server's certificate by the system's authorities.
func TestTLS(t *testing.T) {
	certificate, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	s := serverWith(t, &server.Options{TLS: true, TLSTimeout: 5, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
	}})
	_, port, _ := net.SplitHostPort(s.Addr())
	for _, tc := range []struct {
		name, host string
		up         bool
	}{{"the name that is certified", "127.0.0.1", true}, {"another", "localhost", false}} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, state := link(t, Options{Servers: []string{"tls://" + net.JoinHostPort(tc.host, port)}}); state.Up != tc.up {
				t.Errorf("the link is %+v, want up %v", state, tc.up)
			}
		})
	}
}
