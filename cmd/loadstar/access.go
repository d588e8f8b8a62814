package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"loadstar/proxy"
	"loadstar/proxy/keyring"
)

// access is what is read from files of keys and certificates.
type access struct {
	clientKeys *keyring.Ring // nil if clients need none
	clientTLS  *tls.Config   // nil for plain HTTP
	workerTLS  *tls.Config
	files      []*watchedFiles // to be read again when they change
	log        *slog.Logger
}

// warnShort tells of keys that may be guessed.
func (a *access) warnShort(from string, n int) {
	a.log.Warn("short keys are no secret for long: guesses are refused, but not slowed down", "from", from, "keys", n, "shorter_than_bytes", keyring.ShortKey)
}

// openAccess reads all files for the first time. Errors name the flag and the file.
func openAccess(c config, log *slog.Logger) (access, error) {
	a := access{workerTLS: &tls.Config{MinVersion: tls.VersionTLS12}, log: log}
	if k := c.Access.AdminKey; k != "" && len(k) < keyring.ShortKey {
		a.warnShort("--admin-api-key", 1)
	}
	return a, errors.Join(a.openClientKeys(c.Access), a.openClientTLS(c.TLS), a.openWorkerTLS(c.WorkerTLS))
}

func (a *access) openClientKeys(c accessConfig) error {
	if !c.ChecksClients() {
		return nil
	}
	a.clientKeys = keyring.NewRing(&keyring.Set{})
	load := func() (string, error) {
		s, err := readClientKeys(c)
		if err != nil {
			return "", err
		}
		a.clientKeys.Replace(s)
		if n := s.Short(); n > 0 {
			a.warnShort("--client-api-key and --client-api-keys-file", n)
		}
		return fmt.Sprintf("%d keys of clients", s.Len()), nil
	}
	if c.ClientKeysFile == "" {
		_, err := load()
		return err
	}
	return a.open(load, c.ClientKeysFile)
}

func (a *access) openClientTLS(files tlsConfig) error {
	if files.CertPath == "" {
		return nil
	}
	p := newPair(files, "--tls-cert-path", "--tls-key-path")
	a.clientTLS = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.get(), nil },
	}
	return a.open(p.load, files.CertPath, files.KeyPath)
}

func (a *access) openWorkerTLS(c workerTLSConfig) error {
	if c.CAPath != "" {
		text, err := os.ReadFile(c.CAPath)
		if err != nil {
			return fmt.Errorf("cannot use the authorities of --worker-tls-ca %q: %w", c.CAPath, withoutPath(err))
		}
		a.workerTLS.RootCAs = x509.NewCertPool()
		if !a.workerTLS.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("cannot use the authorities of --worker-tls-ca %q: it holds no certificate in PEM", c.CAPath)
		}
	}
	if c.Pair.CertPath == "" {
		return nil
	}
	p := newPair(c.Pair, "--worker-tls-cert", "--worker-tls-key")
	a.workerTLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.get(), nil }
	return a.open(p.load, c.Pair.CertPath, c.Pair.KeyPath)
}

// readClientKeys is the set of the keys given by flag and by file.
func readClientKeys(c accessConfig) (*keyring.Set, error) {
	keys := c.ClientKeys
	if c.ClientKeysFile != "" {
		more, err := readKeysFile(c.ClientKeysFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use the keys of --client-api-keys-file %q: %w", c.ClientKeysFile, err)
		}
		keys = append(keys[:len(keys):len(keys)], more...)
	}
	s, err := keyring.NewSet(keys...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the keys of --client-api-key and --client-api-keys-file: %w", err)
	}
	return s, nil
}

func readKeysFile(path string) ([]keyring.Key, error) {
	text, err := readBounded(path, keyring.MaxFile)
	if err != nil {
		return nil, err
	}
	return keyring.ParseFile(text)
}

// withoutPath is an error of a file whose name the reader is told anyway.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// put writes what was read into the proxy's settings.
func (a *access) put(o *proxy.Options) {
	o.ClientKeys, o.WorkerTLS = a.clientKeys, a.workerTLS
}
