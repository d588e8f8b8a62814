package main

import (
	"strings"
	"testing"
	"time"

	"loadstar/actors/workerurl"
)

// defaultConfig is what an empty command line gives, written out.
var defaultConfig = config{
	Listen: listenConfig{Host: "127.0.0.1", Port: 30000},
	HTTP: httpConfig{
		RequestIDHeaders: []string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"},
	},
	Workers: workersConfig{DPSize: 1, StartupTimeout: 10 * time.Minute, StartupInterval: time.Second},
	Sources: sourcesConfig{Kubernetes: kubernetesConfig{Port: 80}, DNSEvery: 10 * time.Second},
	Policy: policyConfig{
		Name: "least_work", CacheThreshold: 0.3, BalanceAbs: 64, BalanceRel: 1.5, MaxTreeBytes: 32 << 20, BacklogTokens: 8192,
	},
	KV: kvConfig{BlockSize: 16, Host: 0.8, External: 0.6, Disk: 0.3},
	PD: pdConfig{
		Connector: connectorNIXL, Rescues: 16, RescueTimeout: 30 * time.Second,
		Discovery: discoveryConfig{Expiry: 15 * time.Second, MaxWorkers: 1024},
	},
	Health: healthConfig{
		Endpoint: "/health", Interval: 10 * time.Second, Timeout: 5 * time.Second, FailureThreshold: 3, SuccessThreshold: 2,
	},
	Failover: failoverConfig{Continuations: 1, TextBytes: 256 << 10, MemoryBytes: 128 << 20},
	Peers:    peersConfig{Group: "loadstar"},
	Retry: retryConfig{
		MaxAttempts: 5, InitialBackoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Multiplier: 1.5, Jitter: 0.2,
		Budget: 0.1, BudgetFloor: 10,
	},
	Breaker: breakerConfig{
		FailureThreshold: 10, SuccessThreshold: 3, OpenFor: time.Minute, Window: 2 * time.Minute, MaxOpenShare: 0.5,
	},
	Containment: containmentConfig{SlowStart: 10 * time.Second},
	Admission:   admissionConfig{QueueSize: 100, QueueTimeout: time.Minute, QueueAgeing: 5 * time.Second},
	Timeouts: timeoutsConfig{
		Request: 30 * time.Minute, Connect: 10 * time.Second, FirstByte: 30 * time.Minute, Idle: 30 * time.Minute, Prefill: 30 * time.Minute, PoolIdle: 2 * time.Second,
		ClientHeader: 10 * time.Second, ClientBody: time.Minute, ClientWrite: time.Minute, ClientIdle: 75 * time.Second,
	},
	Limits:   limitsConfig{MaxBodyBytes: 512 << 20, MaxBodiesBytes: 2 << 30, MaxHeaderBytes: 32 << 10, MaxConnections: 65536},
	Metrics:  metricsConfig{Listen: listenConfig{Host: "127.0.0.1", Port: 29000}, Buckets: bucketsVMRange, Decisions: 256},
	Tracing:  tracingConfig{Endpoint: "http://localhost:4318/v1/traces", Ratio: 1, Excluded: []string{"/health", "/health_generate", "/liveness", "/readiness"}},
	Logging:  loggingConfig{Format: logText},
	Shutdown: shutdownConfig{Grace: 5 * time.Minute},
}

func TestDefaults(t *testing.T) {
	checkConfig(t, nil, nil, func(*config) {})
}

func hosts(t *testing.T, patterns ...string) workerurl.Hosts {
	t.Helper()
	h, err := workerurl.ParseHosts(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*config)
		want   string // begins the one fault; empty if there is none
	}{
		{"defaults", func(*config) {}, ""},
		{"power of two with no worker", func(c *config) { c.Policy.Name = policyPowerOfTwo }, "--policy power_of_two needs at least 2 workers and --worker-urls names 0"},
		{"power of two with one worker", func(c *config) {
			c.Policy.Name, c.Workers.URLs = policyPowerOfTwo, []string{"http://a:1"}
		}, "--policy power_of_two needs at least 2 workers and --worker-urls names 1"},
		{"power of two with two workers", func(c *config) {
			c.Policy.Name, c.Workers.URLs = policyPowerOfTwo, []string{"http://a:1", "http://b:1"}
		}, ""},
		{"power of two with two ranks", func(c *config) {
			c.Policy.Name, c.Workers.URLs, c.Workers.DPSize = policyPowerOfTwo, []string{"http://a:1"}, 2
		}, ""},
		{"power of two with one rank", func(c *config) {
			c.Policy.Name, c.Workers.URLs, c.Workers.DPSize = policyPowerOfTwo, []string{"http://a:1@3"}, 2
		}, "--policy power_of_two needs at least 2 workers and --worker-urls names 1"},
		{"power of two in the demo", func(c *config) { c.Policy.Name, c.Demo = policyPowerOfTwo, true }, ""},
		{"workers in the demo", func(c *config) { c.Demo, c.Workers.URLs = true, []string{"http://a:1"} }, "--worker-urls: demo brings its own workers"},
		{"equal backoffs", func(c *config) { c.Retry.InitialBackoff = c.Retry.MaxBackoff }, ""},
		{"backoffs upside down", func(c *config) { c.Retry.InitialBackoff = c.Retry.MaxBackoff + time.Millisecond }, "--retry-max-backoff-ms (30000) is below --retry-initial-backoff-ms (30001)"},
		{"failover", func(c *config) { c.Failover.Enabled = true }, ""},
		{"failover in two phases", func(c *config) {
			c.Failover.Enabled, c.PD.Enabled = true, true
			c.PD.Prefill, c.PD.Decode = []prefillWorker{{URL: "http://a:80"}}, []string{"http://b:80"}
		}, "--stream-failover continues streams of one phase"},
		{"failover with too little memory", func(c *config) {
			c.Failover = failoverConfig{Enabled: true, Continuations: 1, TextBytes: 2, MemoryBytes: 1}
		}, "--stream-failover-memory (1) is below --stream-failover-text (2)"},
		{"memory of failover that is off", func(c *config) { c.Failover.MemoryBytes = 0 }, ""},
		{"certificate and key", func(c *config) { c.TLS = tlsConfig{"c", "k"} }, ""},
		{"certificate alone", func(c *config) { c.TLS.CertPath = "c" }, "--tls-cert-path needs --tls-key-path"},
		{"key alone", func(c *config) { c.TLS.KeyPath = "k" }, "--tls-key-path needs --tls-cert-path"},
		{"certificate for workers alone", func(c *config) { c.WorkerTLS.Pair.CertPath = "c" }, "--worker-tls-cert needs --worker-tls-key"},
		{"key for workers alone", func(c *config) { c.WorkerTLS.Pair.KeyPath = "k" }, "--worker-tls-key needs --worker-tls-cert"},
		{"worker on an allowed host", func(c *config) {
			c.Access.WorkerHosts, c.Workers.URLs = hosts(t, "10.0.0.0/8"), []string{"http://10.0.0.1:80"}
		}, ""},
		{"worker on another host", func(c *config) {
			c.Access.WorkerHosts, c.Workers.URLs = hosts(t, "10.0.0.0/8"), []string{"http://10.0.0.1:80", "http://a:80"}
		}, "--allowed-worker-hosts does not name the host of http://a:80"},
		{"worker of a phase on another host", func(c *config) {
			c.Access.WorkerHosts, c.PD.Enabled = hosts(t, "a"), true
			c.PD.Prefill, c.PD.Decode = []prefillWorker{{URL: "http://a:80"}}, []string{"http://b:80"}
		}, "--allowed-worker-hosts does not name the host of http://b:80"},
		{"admin listener here", func(c *config) { c.Access.AdminListen = listenConfig{"127.0.0.2", 9} }, ""},
		{"admin listener here, by name", func(c *config) { c.Access.AdminListen = listenConfig{"localhost", 9} }, ""},
		{"admin listener for others", func(c *config) { c.Access.AdminListen = listenConfig{"10.0.0.1", 9} }, "--admin-listen on another address than loopback needs --admin-api-key"},
		{"admin listener for all", func(c *config) { c.Access.AdminListen = listenConfig{"::", 9} }, "--admin-listen on another address than loopback needs --admin-api-key"},
		{"admin listener for others with a key", func(c *config) {
			c.Access.AdminListen, c.Access.AdminKey = listenConfig{"10.0.0.1", 9}, "k"
		}, ""},
		{"admin listener for others, compatible", func(c *config) {
			c.Access.AdminListen, c.Compat = listenConfig{"10.0.0.1", 9}, true
		}, ""},
		{"admin and clients on one port", func(c *config) { c.Access.AdminListen = c.Listen }, "--port and the port of --admin-listen are both 30000"},
		{"admin and metrics on one port", func(c *config) { c.Access.AdminListen = c.Metrics.Listen }, "--prometheus-port and the port of --admin-listen are both 29000"},
		{"one port twice", func(c *config) { c.Metrics.Listen.Port = 30000 }, "--port and --prometheus-port are both 30000"},
		{"one port twice, every address", func(c *config) {
			c.Listen = listenConfig{"0.0.0.0", 29000}
		}, "--port and --prometheus-port are both 29000"},
		{"one port twice, every IPv6 address", func(c *config) {
			c.Metrics.Listen = listenConfig{"::", 30000}
		}, "--port and --prometheus-port are both 30000"},
		{"one port on two addresses", func(c *config) { c.Metrics.Listen = listenConfig{"127.0.0.2", 30000} }, ""},
		{"port 0 twice", func(c *config) { c.Listen.Port, c.Metrics.Listen.Port = 0, 0 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := defaultConfig
			c.change(&conf)
			faults := conf.check()
			switch {
			case c.want == "" && len(faults) > 0:
				t.Errorf("faults %v, want none", faults)
			case c.want != "" && (len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), c.want)):
				t.Errorf("faults %v, want one that begins with %q", faults, c.want)
			}
		})
	}
}

func TestListenAddr(t *testing.T) {
	for _, c := range []struct {
		listen listenConfig
		want   string
	}{
		{listenConfig{"127.0.0.1", 0}, "127.0.0.1:0"},
		{listenConfig{"::1", 30000}, "[::1]:30000"},
	} {
		if got := c.listen.Addr(); got != c.want {
			t.Errorf("address %q, want %q", got, c.want)
		}
	}
}
