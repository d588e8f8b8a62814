package main

import (
	"loadstar/proxy"
	"loadstar/proxy/trace"
)

// tracingConfig is which requests are traced, and where to.
type tracingConfig struct {
	Enabled  bool
	Endpoint string   // URL of a collector
	Ratio    float64  // of the requests that come without a trace, 0 to 1
	Excluded []string // paths
}

// traceOptions is which requests are traced, and where to.
func traceOptions(t *tracingConfig) []*option {
	const category = "tracing"
	return []*option{
		{
			name: "enable-trace", category: category, from: rust,
			usage: "trace requests with OpenTelemetry; without it trace headers pass on as they came",
			one:   readSwitch(&t.Enabled),
		},
		{
			name: "otlp-traces-endpoint", arg: "ENDPOINT", category: category, from: rust, def: "http://localhost:4318", also: "OTEL_EXPORTER_OTLP_ENDPOINT",
			usage:   "send traces by OTLP over HTTP, as JSON, to ENDPOINT, HOST:PORT or a URL; the variable OTEL_EXPORTER_OTLP_ENDPOINT says so too",
			differs: "traces go by gRPC there, which collectors take at another port",
			one:     readCollector(&t.Endpoint),
		},
		{
			name: "otel-sampling-ratio", arg: "RATIO", category: category, from: rust, def: "1.0",
			usage: "trace this share, 0 to 1, of the requests that come without a trace of their own",
			one:   readDecimal(&t.Ratio, 0, 1),
		},
		{
			name: "otel-excluded-paths", arg: "PATH ...", category: category, from: rust, def: "/health /health_generate /liveness /readiness",
			usage: "trace no requests for these paths; without any, those of the default",
			many:  readPaths(&t.Excluded),
		},
	}
}

// readCollector reads the address of a collector.
func readCollector(dst *string) func(string) error {
	return func(value string) error {
		u, err := trace.EndpointOf(value)
		if err == nil {
			*dst = u
		}
		return err
	}
}

// readPaths reads paths. None leave those that are there.
func readPaths(dst *[]string) func([]string) []error {
	return func(values []string) []error {
		var (
			paths  []string
			faults []error
		)
		for _, v := range values {
			var p string
			if err := readPath(&p)(v); err != nil {
				faults = append(faults, err)
				continue
			}
			paths = append(paths, p)
		}
		if len(paths) > 0 && len(faults) == 0 {
			*dst = paths
		}
		return faults
	}
}

// putTracing puts the settings into the proxy's terms.
func putTracing(o *proxy.Options, c tracingConfig) {
	if c.Enabled {
		o.Tracing = &trace.Options{Endpoint: c.Endpoint, Ratio: c.Ratio, Excluded: c.Excluded}
	}
}
