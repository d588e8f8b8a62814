package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loadstar/actors/workerurl"
	"loadstar/proxy/keyring"
)

// accessConfig is who may call what.
type accessConfig struct {
	ClientKeys     []keyring.Key
	ClientKeysFile string          // of further ones
	AdminKey       string          // empty leaves the admin API to this machine
	AdminListen    listenConfig    // an empty host is none: the admin API is where clients are served
	WorkerHosts    workerurl.Hosts // where workers may be
}

// ChecksClients reports whether clients need a key.
func (a accessConfig) ChecksClients() bool {
	return len(a.ClientKeys) > 0 || a.ClientKeysFile != ""
}

// HasAdminListener reports whether the admin API has an address of its own.
func (a accessConfig) HasAdminListener() bool { return a.AdminListen.Host != "" }

// workerTLSConfig names the files of TLS towards workers.
type workerTLSConfig struct {
	CAPath string
	Pair   tlsConfig
}

// checkAccess is check for who may call what.
func (c config) checkAccess() []error {
	var faults []error
	a := &c.Access
	for _, pair := range []struct {
		files     tlsConfig
		cert, key string
		without   string
	}{
		{c.TLS, "--tls-cert-path", "--tls-key-path", "for plain HTTP"},
		{c.WorkerTLS.Pair, "--worker-tls-cert", "--worker-tls-key", "if workers ask for no certificate"},
	} {
		if pair.files.CertPath != "" && pair.files.KeyPath == "" {
			faults = append(faults, fmt.Errorf("%s needs %s: give both, or neither %s", pair.cert, pair.key, pair.without))
		}
		if pair.files.KeyPath != "" && pair.files.CertPath == "" {
			faults = append(faults, fmt.Errorf("%s needs %s: give both, or neither %s", pair.key, pair.cert, pair.without))
		}
	}
	for _, url := range c.workersNamed() {
		// One that is no URL is a fault already, and may hold a secret.
		if _, err := workerurl.Canonical(url); err == nil && !a.WorkerHosts.Allow(url) {
			faults = append(faults, fmt.Errorf("--allowed-worker-hosts does not name the host of %s: add it, or leave the worker out", url))
		}
	}
	if !a.HasAdminListener() {
		return faults
	}
	if a.AdminKey == "" && !c.Compat && !isLoopback(a.AdminListen.Host) {
		faults = append(faults, errors.New("--admin-listen on another address than loopback needs --admin-api-key: without one only this machine is answered"))
	}
	for _, other := range []struct {
		flag   string
		listen listenConfig
	}{{"--port", c.Listen}, {"--prometheus-port", c.Metrics.Listen}, {"the port of --vllm-discovery-address", c.PD.Discovery.Listen}} {
		if a.AdminListen.overlaps(other.listen) {
			faults = append(faults, fmt.Errorf("%s and the port of --admin-listen are both %d: give them different ports", other.flag, other.listen.Port))
		}
	}
	return faults
}

// workersNamed lists the URLs of all workers that are named.
func (c config) workersNamed() []string {
	if !c.PD.Enabled {
		return c.Workers.URLs
	}
	var urls []string
	if c.takesRegular() {
		urls = slices.Clone(c.Workers.URLs)
	}
	for _, w := range c.PD.Prefill {
		urls = append(urls, w.URL)
	}
	return append(urls, c.PD.Decode...)
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
