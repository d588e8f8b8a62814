package main

import (
	"strings"
	"testing"
)

// referenceFlag is a flag of vllm-router 0.1.17.
type referenceFlag struct {
	name string
	def  string // as typed; empty if it has none
	rust bool   // only its Rust front end has it
}

// referenceFlags is every flag of vllm-router's two front ends.
var referenceFlags = []referenceFlag{
	{name: "host", def: "127.0.0.1"},
	{name: "port", def: "30000"},
	{name: "worker-urls"},
	{name: "policy", def: "cache_aware"},
	{name: "prefill-policy"},
	{name: "decode-policy"},
	{name: "worker-startup-timeout-secs", def: "600"},
	{name: "worker-startup-check-interval", def: "30"},
	{name: "cache-threshold", def: "0.3"},
	{name: "balance-abs-threshold", def: "64"},
	{name: "balance-rel-threshold", def: "1.5"},
	{name: "eviction-interval-secs", def: "120"},
	{name: "eviction-interval", def: "120", rust: true},
	{name: "max-tree-size", def: "33554432"},
	{name: "max-payload-size", def: "536870912"},
	{name: "intra-node-data-parallel-size", def: "1"},
	{name: "enable-igw"},
	{name: "api-key"},
	{name: "api-key-validation-urls", rust: true},
	{name: "log-dir"},
	{name: "log-level", def: "info"},
	{name: "service-discovery"},
	{name: "selector"},
	{name: "service-discovery-port", def: "80"},
	{name: "service-discovery-namespace"},
	{name: "prefill-selector"},
	{name: "decode-selector"},
	{name: "prometheus-port", def: "29000"},
	{name: "prometheus-host", def: "127.0.0.1"},
	{name: "request-id-headers", def: "x-request-id x-correlation-id x-trace-id request-id"},
	{name: "request-timeout-secs", def: "1800"},
	{name: "pool-idle-timeout-secs", def: "2", rust: true},
	{name: "retry-max-retries", def: "5"},
	{name: "retry-initial-backoff-ms", def: "50"},
	{name: "retry-max-backoff-ms", def: "30000"},
	{name: "retry-backoff-multiplier", def: "1.5"},
	{name: "retry-jitter-factor", def: "0.2"},
	{name: "disable-retries"},
	{name: "cb-failure-threshold", def: "10"},
	{name: "cb-success-threshold", def: "3"},
	{name: "cb-timeout-duration-secs", def: "60"},
	{name: "cb-window-duration-secs", def: "120"},
	{name: "disable-circuit-breaker"},
	{name: "health-failure-threshold", def: "3"},
	{name: "health-success-threshold", def: "2"},
	{name: "health-check-timeout-secs", def: "5"},
	{name: "health-check-interval-secs", def: "60"},
	{name: "health-check-endpoint", def: "/health"},
	{name: "max-concurrent-requests", def: "32768"},
	{name: "queue-size", def: "100"},
	{name: "queue-timeout-secs", def: "60"},
	{name: "rate-limit-tokens-per-second"},
	{name: "cors-allowed-origins"},
	{name: "enable-program-scheduling"},
	{name: "program-scheduling-config-json"},
	{name: "router-temperature", def: "0.0"},
	{name: "kv-penalty-host", def: "0.8"},
	{name: "kv-penalty-external", def: "0.6"},
	{name: "kv-penalty-disk", def: "0.3"},
	{name: "kv-aware-session-affinity-ttl-secs"},
	{name: "kv-event-source"},
	{name: "kv-event-replay-source"},
	{name: "kv-event-block-size", def: "16"},
	{name: "kv-event-model"},
	{name: "pd-kv-events"},
	{name: "wasm-middleware"},
	{name: "wasm-middleware-sha256"},
	{name: "wasm-middleware-route"},
	{name: "vllm-pd-disaggregation"},
	{name: "prefill"},
	{name: "decode"},
	{name: "vllm-discovery-address"},
	{name: "kv-connector", def: "nixl"},
	{name: "mini-lb"},
	{name: "backend", def: "vllm", rust: true},
	{name: "runtime", def: "vllm", rust: true},
	{name: "epd-config", rust: true},
	{name: "history-backend", rust: true},
	{name: "profile", rust: true},
	{name: "enable-trace", rust: true},
	{name: "otlp-traces-endpoint", rust: true},
	{name: "otel-sampling-ratio", def: "1.0", rust: true},
	{name: "otel-excluded-paths", def: "/health /health_generate /liveness /readiness", rust: true},
	{name: "version", rust: true},
	{name: "help"},
}

// Every flag of the reference is taken or refused by name; none is unknown, and
// none is both.
func TestEveryReferenceFlagIsKnown(t *testing.T) {
	words := newVocabulary(options(new(config)))
	for _, f := range referenceFlags {
		t.Run(f.name, func(t *testing.T) {
			name, err := words.resolve("--" + f.name)
			if err != nil {
				t.Fatalf("%v, want it taken or refused by name", err)
			}
			_, taken := words.options[name]
			r, isRefused := refused[name]
			if own := name == helpFlag || name == versionFlag; (taken || own) == isRefused {
				t.Errorf("taken %v, refused %v, want one of them", taken, isRefused)
			}
			if isRefused && r.rust != f.rust {
				t.Errorf("the refusal says Rust only: %v, want %v", r.rust, f.rust)
			}
		})
	}
}

// A command line that gives a flag the reference's own default asks for
// nothing, so it must run; and where our default is another one, the flag says so.
func TestReferenceDefaultsAreTaken(t *testing.T) {
	words := newVocabulary(options(new(config)))
	for _, f := range referenceFlags {
		if f.def == "" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			args := append([]string{"--" + f.name}, strings.Fields(f.def)...)
			if _, err := parse(args, nil); err != nil {
				t.Errorf("%v, want the reference's default taken", err)
			}
			if _, isRefused := refused[f.name]; isRefused {
				return
			}
			name, _ := words.resolve("--" + f.name)
			o := words.options[name]
			if o.def != f.def && o.differs == "" {
				t.Errorf("default %q, want %q or a word on the difference", o.def, f.def)
			}
		})
	}
}
