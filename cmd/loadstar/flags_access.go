package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"loadstar/actors/workerurl"
	"loadstar/proxy/keyring"
)

// accessOptions is who may call what, and where workers may be.
func accessOptions(a *accessConfig) []*option {
	const category = "access"
	return []*option{
		{
			name: "client-api-key", arg: "KEY ...", category: category, from: ours, secret: true, needs: "key",
			usage: "serve only clients that present one of these keys, as Authorization: Bearer KEY; NAME:KEY names its holder in logs; " +
				"other users of the machine see a command line, so prefer a file or the variable",
			many: clientKeys(&a.ClientKeys),
		},
		{
			name: "client-api-keys-file", arg: "FILE", category: category, from: ours,
			usage: "take further such keys from FILE, one a line, # begins a comment; read again when it changes and on SIGHUP, and the keys before are kept while it is faulty",
			one:   readFileName(&a.ClientKeysFile),
		},
		{
			name: "admin-api-key", arg: "KEY", category: category, from: ours, secret: true,
			usage: "answer admin calls that present KEY as a bearer key, from everywhere, and no others; without one, those of this machine",
			one:   readSetKey(&a.AdminKey),
		},
		{
			name: "admin-listen", arg: "HOST:PORT", category: category, from: ours,
			usage: "take admin calls there only, not on --port; on another address than loopback it needs --admin-api-key",
			one:   readListen(&a.AdminListen),
		},
		{
			name: "allowed-worker-hosts", arg: "HOST,...", category: category, from: ours, needs: "host",
			usage: "take workers on these hosts only: names, *.SUFFIX, addresses and networks as 10.0.0.0/8; a worker's name is compared as written and not resolved",
			many:  workerHosts(&a.WorkerHosts),
		},
	}
}

// workerTLSOptions is how https workers are known, and how they know this router.
func workerTLSOptions(t *workerTLSConfig) []*option {
	const category = "workers"
	return []*option{
		{
			name: "worker-tls-ca", arg: "FILE", category: category, from: ours,
			usage: "trust https workers whose certificate is signed by one in FILE (PEM), and no others; without it, the system's authorities",
			one:   readFileName(&t.CAPath),
		},
		{
			name: "worker-tls-cert", arg: "FILE", category: category, from: ours,
			usage: "present the certificate chain in FILE (PEM) to https workers that ask for one; needs --worker-tls-key",
			one:   readFileName(&t.Pair.CertPath),
		},
		{
			name: "worker-tls-key", arg: "FILE", category: category, from: ours,
			usage: "the private key of --worker-tls-cert (PEM)",
			one:   readFileName(&t.Pair.KeyPath),
		},
	}
}

// clientKeys reads keys, of which only digests are kept. Errors never quote them.
func clientKeys(dst *[]keyring.Key) func([]string) []error {
	return func(values []string) []error {
		var keys []keyring.Key
		var faults []error
		for i, v := range values {
			k, err := keyring.ParseKey([]byte(v))
			if err != nil {
				faults = append(faults, fmt.Errorf("key %d: %w", i+1, err))
				continue
			}
			keys = append(keys, k)
		}
		if len(keys) > keyring.MaxKeys {
			faults = append(faults, fmt.Errorf("%d keys are more than the %d that are taken", len(keys), keyring.MaxKeys))
		}
		*dst = keys
		return faults
	}
}

// workerHosts reads patterns of hosts, separated by commas or given one by one.
func workerHosts(dst *workerurl.Hosts) func([]string) []error {
	return func(values []string) []error {
		var patterns []string
		for _, v := range values {
			patterns = slices.AppendSeq(patterns, strings.SplitSeq(v, ","))
		}
		h, err := workerurl.ParseHosts(patterns)
		if err != nil {
			return []error{err}
		}
		*dst = h
		return nil
	}
}

// readSetKey is readKey for a key whose absence would open something: an empty one
// is rather a variable of a script that is not set.
func readSetKey(dst *string) func(string) error {
	read := readKey(dst)
	return func(value string) error {
		if value == "" {
			return errors.New("the key is empty: give one, or leave the flag out")
		}
		return read(value)
	}
}

// readFileName reads a path, which is not empty for the same reason.
func readFileName(dst *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("the name of the file is empty: give one, or leave the flag out")
		}
		*dst = value
		return nil
	}
}
