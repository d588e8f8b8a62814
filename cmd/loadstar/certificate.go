package main

import (
	"crypto/tls"
	"fmt"
	"time"
)

// pair is a certificate and its key in two files, as they were last read.
type pair struct {
	files             tlsConfig
	certFlag, keyFlag string
	present           chan *tls.Certificate // holds one, but for a moment while somebody takes or replaces it
}

func newPair(files tlsConfig, certFlag, keyFlag string) *pair {
	p := &pair{files, certFlag, keyFlag, make(chan *tls.Certificate, 1)}
	p.present <- nil
	return p
}

// load reads the files and says until when the certificate is valid. An error
// leaves the pair as it was.
func (p *pair) load() (string, error) {
	c, err := p.read()
	if err != nil {
		return "", fmt.Errorf("cannot use the certificate of %s %q and %s %q: %w", p.certFlag, p.files.CertPath, p.keyFlag, p.files.KeyPath, err)
	}
	<-p.present
	p.present <- &c
	return "a certificate valid until " + c.Leaf.NotAfter.UTC().Format(time.RFC3339), nil
}

// maxPEM is how many bytes of a certificate chain, or of a key, are taken.
const maxPEM = 1 << 20

func (p *pair) read() (tls.Certificate, error) {
	cert, err := readBounded(p.files.CertPath, maxPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the certificate: %w", err)
	}
	key, err := readBounded(p.files.KeyPath, maxPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key: %w", err)
	}
	return tls.X509KeyPair(cert, key)
}

func (p *pair) get() *tls.Certificate {
	c := <-p.present
	p.present <- c
	return c
}
