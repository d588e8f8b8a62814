package main

import (
	"fmt"
	"math"
	"strings"
)

// listenOptions is where the router listens, and with which certificate.
func listenOptions(c *config) []*option {
	const category = "address"
	return []*option{
		{
			name: "host", arg: "HOST", category: category, def: "127.0.0.1",
			usage: "listen on HOST, an IP address or a name",
			one:   readHost(&c.Listen.Host),
		},
		{
			name: "port", arg: "PORT", category: category, def: "30000",
			usage:   "listen on PORT; 0 lets the system choose one, which is logged",
			differs: "0 is refused there",
			one:     readWhole(&c.Listen.Port, 0, 65535),
		},
		{
			name: "tls-cert-path", arg: "FILE", category: category, from: ours,
			usage: "speak TLS with the certificate chain in FILE (PEM), read again when it changes and on SIGHUP; needs --tls-key-path",
			one:   readText(&c.TLS.CertPath),
		},
		{
			name: "tls-key-path", arg: "FILE", category: category, from: ours,
			usage: "the certificate's private key (PEM); needs --tls-cert-path",
			one:   readText(&c.TLS.KeyPath),
		},
	}
}

// demoOptions is what the demo takes beside the router's own flags.
func demoOptions(c *config) []*option {
	return []*option{{
		name: "listen", arg: "HOST:PORT", category: "demo", from: ours,
		usage: "listen there; short for --host and --port, and wins over them",
		one:   readListen(&c.Listen),
	}}
}

// httpOptions is what the router adds to requests and answers.
func httpOptions(c *config) []*option {
	const category = "requests and answers"
	return []*option{
		{
			name: "request-id-headers", arg: "NAME ...", category: category,
			def: "x-request-id x-correlation-id x-trace-id request-id",
			usage: "take a request's id from the first of these headers that it has; " +
				"without names every id is made here",
			differs: "with no names, the Rust front end takes its defaults",
			many:    headerNames(&c.HTTP.RequestIDHeaders),
		},
		{
			name: "cors-allowed-origins", arg: "ORIGIN ...", category: category,
			usage:   "let browsers call from these origins, * for any; without any, answers say nothing of origins",
			differs: "without any, from everywhere there, and so here with --compat",
			many:    corsOrigins(&c.HTTP.CORSOrigins),
		},
		{
			name: "x-forwarded-headers", category: category, from: ours,
			usage: "tell workers of the client in X-Forwarded-For, -Proto and -Host",
			one:   readSwitch(&c.HTTP.ForwardedHeaders),
		},
		{
			name: "worker-header", category: category, from: ours,
			usage: "name in answers the worker they come from (x-loadstar-worker), and to requests with \"x-loadstar-explain: 1\" explain the choice; " +
				"clients see workers' addresses by it",
			one: readSwitch(&c.HTTP.WorkerHeader),
		},
		{
			name: "ask-load-metrics", category: category, from: ours,
			usage: "ask workers with each request how many they have (endpoint-load-metrics-format: TEXT), so that what others send them weighs in choices; " +
				"what they say to that reaches only clients that ask themselves",
			one: readSwitch(&c.HTTP.AskLoad),
		},
		{
			name: "compat", category: category, from: ours,
			usage: "do as vllm-router does where this router is deliberately stricter: " +
				"administration from anywhere without a key, success for unknown and repeated workers, errors as plain text, unknown models to any worker, no budget for retries, cache_aware unless --policy is given",
			one: readSwitch(&c.Compat),
		},
	}
}

// limitOptions bounds what clients may send and open.
func limitOptions(l *limitsConfig) []*option {
	const category = "limits"
	return []*option{
		{
			name: "max-payload-size", arg: "BYTES", category: category, def: "536870912",
			usage: "refuse request bodies of more than BYTES with 413",
			one:   readWhole(&l.MaxBodyBytes, 1, math.MaxInt64),
		},
		{
			name: "max-bodies-memory", arg: "BYTES", category: category, def: "2147483648", from: ours,
			usage: "hold at most BYTES of all requests' bodies together and refuse what is above with 503; bodies up to 64 KiB don't count, and until garbage is collected the process may take about three times as much, 0 is no limit",
			one:   readWhole(&l.MaxBodiesBytes, 0, math.MaxInt64),
		},
		{
			name: "max-header-bytes", arg: "BYTES", category: category, def: "32768", from: ours,
			usage: "refuse request heads of more than BYTES with 431",
			one:   readWhole(&l.MaxHeaderBytes, 1024, 16<<20),
		},
		{
			name: "max-connections", arg: "N", category: category, def: "65536", from: ours,
			usage: "keep at most N connections of clients open; those above are answered with 503, or over TLS closed",
			one:   readWhole(&l.MaxConnections, 1, 1<<24),
		},
	}
}

// headerNames reads names of headers, in lower case. No name at all is a choice
// of its own.
func headerNames(dst *[]string) func([]string) []error {
	return func(values []string) []error {
		names, faults := []string{}, []error(nil)
		for _, v := range values {
			if !isToken(v) {
				faults = append(faults, fmt.Errorf("%q is not a header's name: write it as x-request-id, several separated by spaces", v))
				continue
			}
			names = append(names, strings.ToLower(v))
		}
		*dst = names
		return faults
	}
}

// isToken reports whether s may be the name of a header.
func isToken(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && !strings.ContainsRune(marks, rune(c)) {
			return false
		}
	}
	return s != ""
}

// corsOrigins reads origins as browsers send them, or a star. They are compared
// byte by byte, so a slash at the end would never match.
func corsOrigins(dst *[]string) func([]string) []error {
	return func(values []string) []error {
		origins, faults := []string{}, []error(nil)
		for _, v := range values {
			_, rest, hasScheme := strings.Cut(v, "://")
			plain := hasScheme && rest != "" && !strings.ContainsAny(rest, "/,?#@")
			if v != "*" && v != "null" && (!plain || strings.ContainsFunc(v, isSpaceOrControl)) {
				faults = append(faults, fmt.Errorf("%q is not an origin: write it as https://HOST[:PORT], without a slash at the end, several separated by spaces", v))
				continue
			}
			origins = append(origins, v)
		}
		*dst = origins
		return faults
	}
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
