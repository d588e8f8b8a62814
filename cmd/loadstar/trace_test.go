package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

func TestTraceFlags(t *testing.T) {
	health := []string{"/health", "/health_generate", "/liveness", "/readiness"}
	for _, tc := range []struct {
		name     string
		args     string
		env      map[string]string
		endpoint string
		excluded []string
	}{
		{"defaults", "", nil, "http://localhost:4318/v1/traces", health},
		{"as vllm-router has it", "--otlp-traces-endpoint c:4318 --otel-excluded-paths /a /b", nil, "http://c:4318/v1/traces", []string{"/a", "/b"}},
		{"no paths", "--otel-excluded-paths", nil, "http://localhost:4318/v1/traces", health},
		{"everybody's variable", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:1"}, "http://e:1/v1/traces", health},
		{"our own goes before it", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:1", "LOADSTAR_OTLP_TRACES_ENDPOINT": "o:1"}, "http://o:1/v1/traces", health},
		{"the flag goes before it", "--otlp-traces-endpoint f:1", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:1"}, "http://f:1/v1/traces", health},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := parse(strings.Fields(tc.args), func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Tracing; got.Enabled || got.Endpoint != tc.endpoint || got.Ratio != 1 || !slices.Equal(got.Excluded, tc.excluded) {
				t.Errorf("%+v, want %s without %v", got, tc.endpoint, tc.excluded)
			}
		})
	}
}

func TestTraceFlagFaults(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--otlp-traces-endpoint grpc://c:4317", "write HOST:PORT"},
		{"--otlp-traces-endpoint http://me:secret@c", "can't hold a password"},
		{"--otel-sampling-ratio 2", "from 0 to 1"},
		{"--otel-excluded-paths a", "not a path"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			_, err := parse(strings.Fields(tc.args), nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// The router as it is run traces what it is told to.
func TestTraceRouter(t *testing.T) {
	c := proxytest.NewCollector(t)
	_, urls := simulated(t, 1)
	addr := running(t, io.Discard, "--enable-trace", "--otlp-traces-endpoint", c.URL(), "--worker-urls", urls[0])
	waitFleet(t, addr, "a healthy worker", fleetView.healthy)
	answer(t, addr, plainChat)
	for n := 1; ; n++ {
		for _, s := range c.WaitSpans(n) {
			if s.Name == "attempt" && s.Attrs["loadstar.worker"] == urls[0] {
				return
			}
		}
		n = len(c.Spans())
	}
}
