package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"loadstar/proxy/keyring"
)

// Command lines as vllm-router is started with in its documentation, its tests
// and in deployments: each must run here and mean the same.
func TestReferenceCommandLines(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want func(*config)
	}{
		{"two workers", "--worker-urls http://worker1:8000 http://worker2:8000", func(c *config) {
			c.Workers.URLs = []string{"http://worker1:8000", "http://worker2:8000"}
		}},
		{"no workers, added later", "--host 0.0.0.0 --port 8090", func(c *config) {
			c.Listen = listenConfig{"0.0.0.0", 8090}
		}},
		{"workers first, policy after", "--worker-urls http://127.0.0.1:28101 http://127.0.0.1:28102 http://127.0.0.1:28103 --policy round_robin", func(c *config) {
			c.Workers.URLs = []string{"http://127.0.0.1:28101", "http://127.0.0.1:28102", "http://127.0.0.1:28103"}
			c.Policy.Name = "round_robin"
		}},
		{"list at the end", "--policy consistent_hash --host 127.0.0.1 --port 30001 --worker-urls http://a:8000 http://b:8000", func(c *config) {
			c.Policy.Name, c.Listen.Port = "consistent_hash", 30001
			c.Workers.URLs = []string{"http://a:8000", "http://b:8000"}
		}},
		{"the flag repeated, as clap writes it", "--worker-urls http://a:8000 --worker-urls http://b:8000 --policy rendezvous_hash", func(c *config) {
			c.Policy.Name = "rendezvous_hash"
			c.Workers.URLs = []string{"http://a:8000", "http://b:8000"}
		}},
		{"equals signs", "--worker-urls=http://a:8000 --policy=random --port=8000 --log-level=debug", func(c *config) {
			c.Workers.URLs, c.Policy.Name, c.Listen.Port, c.Logging.Level = []string{"http://a:8000"}, "random", 8000, slog.LevelDebug
		}},
		{"power of two", "--policy power_of_two --worker-urls http://a:8000/ http://b:8000/ --worker-startup-check-interval 5", func(c *config) {
			c.Policy.Name, c.Workers.StartupInterval = "power_of_two", 5*time.Second
			c.Workers.URLs = []string{"http://a:8000", "http://b:8000"}
		}},
		{"cache aware, tuned", "--policy cache_aware --cache-threshold 0.5 --balance-abs-threshold 32 --balance-rel-threshold 1.1 --eviction-interval-secs 60 --max-tree-size 16777216 --worker-urls http://a:1 http://b:1", func(c *config) {
			c.Policy = policyConfig{Name: "cache_aware", CacheThreshold: 0.5, BalanceAbs: 32, BalanceRel: 1.1, MaxTreeBytes: 16 << 20, BacklogTokens: 8192}
			c.Workers.URLs = []string{"http://a:1", "http://b:1"}
		}},
		{"the overhead harness", "--host 127.0.0.1 --port 41000 --worker-urls http://127.0.0.1:41001 http://127.0.0.1:41002 http://127.0.0.1:41003 http://127.0.0.1:41004 --policy cache_aware --eviction-interval 3600 --max-tree-size 67108864 --log-level warn --worker-startup-check-interval 1 --prometheus-port 41009 --prometheus-host 127.0.0.1", func(c *config) {
			c.Listen.Port, c.Metrics.Listen.Port = 41000, 41009
			c.Workers.URLs = []string{"http://127.0.0.1:41001", "http://127.0.0.1:41002", "http://127.0.0.1:41003", "http://127.0.0.1:41004"}
			c.Policy.Name, c.Policy.MaxTreeBytes, c.Logging.Level = "cache_aware", 64<<20, slog.LevelWarn
		}},
		{"the integration fixture", "--host 127.0.0.1 --port 40123 --policy random --prometheus-port 40124 --prometheus-host 127.0.0.1 --worker-urls http://127.0.0.1:40125", func(c *config) {
			c.Listen.Port, c.Metrics.Listen.Port, c.Policy.Name = 40123, 40124, "random"
			c.Workers.URLs = []string{"http://127.0.0.1:40125"}
		}},
		{"the fixture's retries", "--worker-urls http://127.0.0.1:1 --retry-max-retries 3 --retry-initial-backoff-ms 10 --retry-max-backoff-ms 50 --retry-backoff-multiplier 2.0 --retry-jitter-factor 0.0", func(c *config) {
			c.Workers.URLs = []string{"http://127.0.0.1:1"}
			c.Retry = retryConfig{
				MaxAttempts: 3, InitialBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Multiplier: 2, Budget: 0.1, BudgetFloor: 10,
			}
		}},
		{"the fixture's breaker", "--worker-urls http://127.0.0.1:1 --cb-failure-threshold 3 --cb-success-threshold 2 --cb-timeout-duration-secs 3 --cb-window-duration-secs 10 --disable-retries", func(c *config) {
			c.Workers.URLs = []string{"http://127.0.0.1:1"}
			c.Breaker = breakerConfig{FailureThreshold: 3, SuccessThreshold: 2, OpenFor: 3 * time.Second, Window: 10 * time.Second, MaxOpenShare: 0.5}
			c.Retry.Disabled = true
		}},
		{"the fixture's breaker switched off", "--worker-urls http://127.0.0.1:1 --disable-circuit-breaker", func(c *config) {
			c.Workers.URLs, c.Breaker.Disabled = []string{"http://127.0.0.1:1"}, true
		}},
		{"the fixture's payload limit", "--max-payload-size 1048576", func(c *config) { c.Limits.MaxBodyBytes = 1 << 20 }},
		{"the fixture's start-up wait", "--worker-startup-timeout-secs 15 --worker-startup-check-interval 2", func(c *config) {
			c.Workers.StartupTimeout, c.Workers.StartupInterval = 15*time.Second, 2*time.Second
		}},
		{"data-parallel ranks with a key", "--worker-urls http://node1:8000 http://node2:8000 --intra-node-data-parallel-size 8 --api-key sk-secret --policy power_of_two", func(c *config) {
			c.Workers.URLs, c.Workers.DPSize = []string{"http://node1:8000", "http://node2:8000"}, 8
			c.Workers.APIKey, c.Policy.Name = "sk-secret", "power_of_two"
		}},
		{"limits at their defaults", "--max-concurrent-requests 32768 --queue-size 100 --queue-timeout-secs 60 --worker-urls http://a:1", func(c *config) {
			c.Workers.URLs, c.Admission.MaxConcurrent = []string{"http://a:1"}, 32768
		}},
		{"health checks as the reference has them", "--health-check-interval-secs 60 --health-check-timeout-secs 5 --health-failure-threshold 3 --health-success-threshold 2 --health-check-endpoint /health", func(c *config) {
			c.Health.Interval = time.Minute
		}},
		{"health checks, quick", "--health-check-interval-secs 2 --health-check-timeout-secs 1 --health-failure-threshold 1 --health-success-threshold 1 --health-check-endpoint /health_generate", func(c *config) {
			c.Health = healthConfig{"/health_generate", 2 * time.Second, time.Second, 1, 1}
		}},
		{"log to a directory", "--log-dir /var/log/router --log-level warning", func(c *config) {
			c.Logging.Dir, c.Logging.Level = "/var/log/router", slog.LevelWarn
		}},
		{"critical", "--log-level critical", func(c *config) { c.Logging.Level = slog.LevelError }},
		{"request ids", "--request-id-headers x-trace-id X-Request-ID --request-timeout-secs 600", func(c *config) {
			c.HTTP.RequestIDHeaders = []string{"x-trace-id", "x-request-id"}
			c.Timeouts.Request, c.Timeouts.FirstByte, c.Timeouts.Idle, c.Timeouts.Prefill = 10*time.Minute, 10*time.Minute, 10*time.Minute, 10*time.Minute
		}},
		{"no request ids of clients", "--request-id-headers --port 8000", func(c *config) {
			c.HTTP.RequestIDHeaders, c.Listen.Port = []string{}, 8000
		}},
		{"browsers", "--cors-allowed-origins https://chat.example http://localhost:3000 --host ::", func(c *config) {
			c.HTTP.CORSOrigins, c.Listen.Host = []string{"https://chat.example", "http://localhost:3000"}, "::"
		}},
		{"no browsers named", "--cors-allowed-origins", func(c *config) { c.HTTP.CORSOrigins = []string{} }},
		{"pool of the Rust front end", "--pool-idle-timeout-secs 0 --backend vllm", func(c *config) { c.Timeouts.PoolIdle = 0 }},
		{"workers of another kind, behind a prefix", "--backend openai --worker-urls HTTPS://Gateway.Example/team-a/ --policy sticky_least_loaded", func(c *config) {
			c.Workers.URLs, c.Policy.Name = []string{"https://gateway.example:443/team-a"}, "sticky_least_loaded"
		}},
		{"switches with values, as charts write them", "--disable-retries true --disable-circuit-breaker=false --service-discovery=false --enable-igw false", func(c *config) {
			c.Retry.Disabled = true
		}},
		{"names cut short, as argparse allows", "--eviction-interval 30 --prometheus-p 9090 --max-pay 1000 --disable-r --worker-u http://a:1", func(c *config) {
			c.Metrics.Listen.Port, c.Limits.MaxBodyBytes, c.Retry.Disabled, c.Workers.URLs = 9090, 1000, true, []string{"http://a:1"}
		}},
		{"one worker twice", "--worker-urls http://a:80 http://A/", func(c *config) { c.Workers.URLs = []string{"http://a:80"} }},
		{"the last one counts", "--port 1 --port 2 --policy random --policy round_robin", func(c *config) {
			c.Listen.Port, c.Policy.Name = 2, "round_robin"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, strings.Fields(c.line), nil, c.want)
		})
	}
}

// What vllm-router's command line cannot say.
func TestOwnFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want func(*config)
	}{
		{"TLS", "--tls-cert-path c.pem --tls-key-path k.pem", func(c *config) { c.TLS = tlsConfig{"c.pem", "k.pem"} }},
		{"TLS towards workers", "--worker-tls-ca ca.pem --worker-tls-cert c.pem --worker-tls-key k.pem", func(c *config) {
			c.WorkerTLS = workerTLSConfig{"ca.pem", tlsConfig{"c.pem", "k.pem"}}
		}},
		{"shadows", "--shadow-policy least_work --shadow-policy random round_robin", func(c *config) {
			c.Policy.Shadows = []string{"least_work", "random", "round_robin"}
		}},
		{"keys", "--client-api-key k1 a:k2 --client-api-key k3 --client-api-keys-file keys.txt --admin-api-key ak --admin-listen 10.0.0.1:9000", func(c *config) {
			k2 := keyring.KeyOf("k2")
			k2.Tenant = "a"
			c.Access.ClientKeys, c.Access.ClientKeysFile = []keyring.Key{keyring.KeyOf("k1"), k2, keyring.KeyOf("k3")}, "keys.txt"
			c.Access.AdminKey, c.Access.AdminListen = "ak", listenConfig{"10.0.0.1", 9000}
		}},
		{"allowed hosts", "--allowed-worker-hosts a,*.b 10.0.0.0/8", func(c *config) { c.Access.WorkerHosts = hosts(t, "a", "*.b", "10.0.0.0/8") }},
		{"compatible", "--compat --x-forwarded-headers --worker-header --ask-load-metrics", func(c *config) {
			c.Compat, c.HTTP.ForwardedHeaders, c.HTTP.WorkerHeader, c.HTTP.AskLoad, c.Retry.Budget = true, true, true, true, noBudget
			c.Policy.BacklogTokens = 0
			c.Policy.Name = "cache_aware"
		}},
		{"compatible, with a budget of its own", "--retry-budget 0.3 --compat", func(c *config) {
			c.Compat, c.Retry.Budget, c.Policy.Name = true, 0.3, "cache_aware"
			c.Policy.BacklogTokens = 0
		}},
		{"a threshold of cache_aware's, and it is meant", "--balance-abs-threshold 32", func(c *config) { c.Policy.BalanceAbs, c.Policy.Name = 32, "cache_aware" }},
		{"its usual value, and it is meant", "--balance-rel-threshold 1.5", func(c *config) { c.Policy.Name = "cache_aware" }},
		{"a threshold, but another policy", "--cache-threshold 0.4 --policy round_robin", func(c *config) { c.Policy.CacheThreshold, c.Policy.Name = 0.4, "round_robin" }},
		{"not compatible after all", "--compat=false", func(*config) {}},
		{"limits", "--max-header-bytes 65536 --max-connections 10", func(c *config) { c.Limits.MaxHeaderBytes, c.Limits.MaxConnections = 65536, 10 }},
		{"timeouts towards workers", "--connect-timeout-secs 1.5 --first-byte-timeout-secs 30 --idle-timeout-secs none --pool-idle-timeout-secs 4", func(c *config) {
			c.Timeouts.Connect, c.Timeouts.FirstByte, c.Timeouts.Idle, c.Timeouts.PoolIdle = 1500*time.Millisecond, 30*time.Second, 0, 4*time.Second
		}},
		{"the request timeout does not win over its refinements", "--idle-timeout-secs 7 --request-timeout-secs none", func(c *config) {
			c.Timeouts.Request, c.Timeouts.FirstByte, c.Timeouts.Idle, c.Timeouts.Prefill = 0, 0, 7*time.Second, 0
		}},
		{"timeouts towards clients", "--client-header-timeout-secs 1 --client-body-timeout-secs 0 --client-write-timeout-secs none --client-idle-timeout-secs 4", func(c *config) {
			c.Timeouts.ClientHeader, c.Timeouts.ClientBody, c.Timeouts.ClientWrite, c.Timeouts.ClientIdle = time.Second, 0, 0, 4*time.Second
		}},
		{"shutdown", "--shutdown-delay-secs 15 --shutdown-grace-period-secs 0", func(c *config) { c.Shutdown = shutdownConfig{Delay: 15 * time.Second} }},
		{"a successor", "--takeover /run/loadstar/door", func(c *config) { c.Shutdown.Takeover = "/run/loadstar/door" }},
		{"logs and metrics", "--log-format json --access-log --histogram-buckets prometheus --debug-endpoints --decision-log 0", func(c *config) {
			c.Logging.Format, c.Logging.AccessLog, c.Metrics.Buckets, c.Metrics.Debug = logJSON, true, bucketsPrometheus, true
			c.Metrics.Decisions = 0
		}},
		{"ports that the system chooses", "--port 0 --prometheus-port 0", func(c *config) { c.Listen.Port, c.Metrics.Listen.Port = 0, 0 }},
		{"demo", "demo --listen [::1]:8080 --port 9 --policy least_work --retry-max-r 2", func(c *config) {
			c.Demo, c.Listen, c.Policy.Name, c.Retry.MaxAttempts = true, listenConfig{"::1", 8080}, "least_work", 2
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, strings.Fields(c.line), nil, c.want)
		})
	}
}
