package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstar/proxy/keyring"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert, key, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue signs a certificate for 127.0.0.1 with this serial number.
func (a *authority) issue(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// files writes into files of one directory.
type files struct {
	t   *testing.T
	dir string
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(name string, text []byte) string {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return f.path(name)
}

// replace puts a new file in the place of one, as tools do that are careful.
func (f files) replace(name string, text []byte) {
	f.t.Helper()
	if err := os.Rename(f.write(name+".new", text), f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// get makes one request and returns the status.
func get(t *testing.T, client *http.Client, url, key string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still waiting for %s", patience, what)
		}
	}
}

// Keys that may be guessed are told of, and never quoted.
func TestShortKeys(t *testing.T) {
	f := files{t, t.TempDir()}
	long := strings.Repeat("k", keyring.ShortKey)
	f.write("keys", []byte("a-long-enough-name:"+long[1:]+"\n"+long+"\nshort-2\n"))
	for _, tc := range []struct {
		name string
		c    accessConfig
		want []string
	}{
		{"none", accessConfig{}, nil},
		{"long", accessConfig{ClientKeys: []keyring.Key{keyring.KeyOf(long)}, AdminKey: long}, nil},
		{"short", accessConfig{ClientKeys: []keyring.Key{keyring.KeyOf("short-1")}}, []string{"from=\"--client-api-key and", "keys=1 "}},
		{"file", accessConfig{ClientKeysFile: f.path("keys")}, []string{"from=\"--client-api-key and", "keys=2 "}},
		{"admin", accessConfig{AdminKey: long[1:]}, []string{"from=--admin-api-key", "keys=1 "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			if _, err := openAccess(config{Access: tc.c}, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			if got := strings.Count(text, "level=WARN"); got != min(len(tc.want), 1) || strings.Contains(text, "short-") || strings.Contains(text, "kkk") {
				t.Errorf("logged %q, want a warning: %v, and no key", text, len(tc.want) > 0)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("logged %q, want %s in it", text, want)
				}
			}
		})
	}
}

// A file that has changed is read once; one that is faulty is left, with what was
// read before in use, until it changes again.
func TestWatchedFiles(t *testing.T) {
	f := files{t, t.TempDir()}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	f.write("keys", []byte("a:one\n"))
	a, err := openAccess(config{Access: accessConfig{ClientKeysFile: f.path("keys")}}, slog.New(slog.DiscardHandler))
	if err != nil || len(a.files) != 1 {
		t.Fatalf("%d files, %v, want 1", len(a.files), err)
	}
	for i, step := range []struct {
		name   string
		change func()
		asked  bool
		keys   int
		want   string // in what is logged; empty for nothing
	}{
		{"unchanged", func() {}, false, 1, ""},
		{"written over", func() { f.write("keys", []byte("one\ntwo\n")) }, false, 2, "2 keys of clients"},
		{"unchanged again", func() {}, false, 2, ""},
		{"asked", func() {}, true, 2, "2 keys of clients"},
		{"replaced by one of the same size", func() { f.replace("keys", []byte("one\nten\n")) }, false, 2, "2 keys of clients"},
		{"touched", func() { os.Chtimes(f.path("keys"), time.Now(), time.Now().Add(time.Minute)) }, false, 2, "2 keys of clients"},
		{"faulty", func() { f.write("keys", []byte("one\nse cret\nthree\n")) }, false, 2, "line 2: the key holds a space"},
		{"still faulty", func() {}, false, 2, ""},
		{"cut off", func() { f.write("keys", nil) }, false, 2, "it holds no key"},
		{"gone", func() { os.Remove(f.path("keys")) }, false, 2, "no such file or directory"},
		{"still gone", func() {}, false, 2, ""},
		{"a pipe that nobody writes to", func() { syscall.Mkfifo(f.path("keys"), 0o600) }, false, 2, "it holds no key"},
		{"a pipe that nothing comes by", func() { hold(t, f.path("keys")) }, true, 2, "i/o timeout"},
		{"a file again", func() { f.replace("keys", []byte("one\ntwo\nthree\nfour")) }, false, 4, "4 keys of clients"},
		{"back", func() { f.write("keys", []byte("one\ntwo\nthree")) }, false, 3, "3 keys of clients"},
	} {
		log.Reset()
		step.change()
		checked := make(chan struct{})
		go func() {
			defer close(checked)
			a.files[0].check(step.asked, logger)
		}()
		select {
		case <-checked:
		case <-time.After(patience):
			t.Fatalf("%d, %s: it is still being read", i, step.name)
		}
		var v keyring.Reader
		if n := v.At(a.clientKeys).Len(); n != step.keys {
			t.Errorf("%d, %s: %d keys, want %d", i, step.name, n, step.keys)
		}
		if got := log.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) || strings.Contains(got, "cret") {
			t.Errorf("%d, %s: log %q, want %q and no key", i, step.name, got, step.want)
		}
	}
}

// hold keeps a pipe open for writing until the test ends.
func hold(t *testing.T, path string) {
	t.Helper()
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
}

// Keys and certificates are read again when they change, and at once on SIGHUP,
// while clients are served; a faulty file changes nothing.
func TestReload(t *testing.T) {
	worker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer worker.Close()
	ca, f := newAuthority(t), files{t, t.TempDir()}
	cert, key := ca.issue(t, 2)
	f.write("cert", cert)
	f.write("key", key)
	f.write("keys", []byte("old\n"))
	cmd, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--worker-urls", worker.URL,
		"--tls-cert-path", f.path("cert"), "--tls-key-path", f.path("key"), "--client-api-keys-file", f.path("keys"), "--client-api-key", "fixed")
	url := "https://" + listening(t, out)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool}, DisableKeepAlives: true}}
	eventually(t, "readiness", func() bool { return get(t, client, url+"/readiness", "") == 200 })
	serial := func() int64 {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: ca.pool})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got, want := []int{get(t, client, url+"/x", "old"), get(t, client, url+"/x", "fixed"), get(t, client, url+"/x", "new")}, [3]int{200, 200, 401}; [3]int(got) != want {
		t.Errorf("old, fixed and new key: %v, want %v", got, want)
	}
	if _, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: ca.pool, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken, want 1.2 at least")
	}

	// By their change alone.
	f.replace("keys", []byte("new\n"))
	eventually(t, "the new key", func() bool { return get(t, client, url+"/x", "new") == 200 })
	if got, want := []int{get(t, client, url+"/x", "old"), get(t, client, url+"/x", "fixed")}, [2]int{401, 200}; [2]int(got) != want {
		t.Errorf("old and fixed key: %v, want %v", got, want)
	}

	// A pair is replaced file by file, and doesn't fit meanwhile.
	cert, key = ca.issue(t, 3)
	f.replace("cert", cert)
	f.replace("keys", []byte("# soon\n"))
	hup(t, cmd.Process)
	for range 5 {
		if n := serial(); n != 2 {
			t.Fatalf("certificate %d with half of a pair replaced, want 2", n)
		}
		if s := get(t, client, url+"/x", "new"); s != 200 {
			t.Fatalf("status %d with a faulty file of keys, want 200", s)
		}
	}
	f.replace("key", key)
	hup(t, cmd.Process)
	eventually(t, "the new certificate", func() bool { return serial() == 3 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func hup(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// An https worker is used if its certificate is by the authority that was named,
// and is shown the router's, by checks and by requests.
func TestWorkerTLS(t *testing.T) {
	ca, other, f := newAuthority(t), newAuthority(t), files{t, t.TempDir()}
	f.write("ca", ca.pem())
	f.write("other", other.pem())
	cert, key := ca.issue(t, 5)
	f.write("cert", cert)
	f.write("key", key)
	pair, err := tls.X509KeyPair(ca.issue(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		args  []string
		works bool
	}{
		{"with both", []string{"--worker-tls-ca", f.path("ca"), "--worker-tls-cert", f.path("cert"), "--worker-tls-key", f.path("key")}, true},
		{"without a certificate", []string{"--worker-tls-ca", f.path("ca")}, false},
		{"by another authority", []string{"--worker-tls-ca", f.path("other"), "--worker-tls-cert", f.path("cert"), "--worker-tls-key", f.path("key")}, false},
		{"by the system's authorities", []string{"--worker-tls-cert", f.path("cert"), "--worker-tls-key", f.path("key")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			worker := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := r.TLS.PeerCertificates[0].SerialNumber.Int64(); n != 5 {
					t.Errorf("%s came with certificate %d, want 5", r.URL.Path, n)
				}
			}))
			worker.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool}
			worker.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			worker.StartTLS()
			defer worker.Close()
			_, out := start(t, `"listening"`, append(tc.args, "--port", "0", "--prometheus-port", "0", "--log-format", "json",
				"--worker-startup-check-interval", "0.05", "--worker-urls", worker.URL)...)
			url := "http://" + listening(t, out)
			if tc.works {
				eventually(t, "readiness", func() bool { return get(t, http.DefaultClient, url+"/readiness", "") == 200 })
				if got := get(t, http.DefaultClient, url+"/x", ""); got != 200 {
					t.Errorf("status %d, want 200", got)
				}
				return
			}
			var workers string
			eventually(t, "a check that fails", func() bool {
				resp, err := http.Get(url + "/workers")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				workers = string(text)
				return strings.Contains(workers, "tls: ") || strings.Contains(workers, "x509: ")
			})
			if strings.Contains(workers, `"is_healthy":true`) {
				t.Errorf("workers %s, want none healthy", workers)
			}
		})
	}
}
