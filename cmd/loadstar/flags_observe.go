package main

import "loadstar/proxy/decisions"

// metricsOptions is the metrics listener.
func metricsOptions(m *metricsConfig) []*option {
	const category = "metrics"
	return []*option{
		{
			name: "prometheus-host", arg: "HOST", category: category, def: "127.0.0.1",
			usage:   "serve metrics on HOST, an IP address or a name",
			differs: "what is not an IP address becomes 0.0.0.0 there",
			one:     readHost(&m.Listen.Host),
		},
		{
			name: "prometheus-port", arg: "PORT", category: category, def: "29000",
			usage:   "serve metrics on PORT; 0 lets the system choose one, which is logged",
			differs: "0 is refused there",
			one:     readWhole(&m.Listen.Port, 0, 65535),
		},
		{
			name: "histogram-buckets", arg: "KIND", category: category, def: string(bucketsVMRange), from: ours,
			usage: "write histograms with VictoriaMetrics' vmrange or with prometheus buckets (le)",
			one:   readOneOf(&m.Buckets, "histogram-buckets", bucketsPrometheus, bucketsVMRange),
		},
		{
			name: "debug-endpoints", category: category, from: ours,
			usage: "serve profiles and a dump of the state on the metrics listener",
			one:   readSwitch(&m.Debug),
		},
		{
			name: "decision-log", arg: "N", category: category, def: "256", from: ours,
			usage: "keep the last N decisions for /debug/decisions of the admin API (at most 4096); 0 keeps none",
			one:   readWhole(&m.Decisions, 0, decisions.MaxEntries),
		},
	}
}

// loggingOptions is what is logged, and where.
func loggingOptions(l *loggingConfig) []*option {
	const category = "logging"
	return []*option{
		{
			name: "log-dir", arg: "DIR", category: category,
			usage:   "write the log to a file in DIR too, which is made if it isn't there",
			differs: "begins a new file each day there; here the file is named by the day of the start",
			one:     readText(&l.Dir),
		},
		{
			name: "log-level", arg: "LEVEL", category: category, def: "info",
			usage:   "log from LEVEL on: debug, info, warning (or warn), error (or critical)",
			differs: "warning and critical mean info there",
			one:     readLevel(&l.Level),
		},
		{
			name: "log-format", arg: "FORMAT", category: category, def: string(logText), from: ours,
			usage: "write log lines as text or json",
			one:   readOneOf(&l.Format, "log-format", logText, logJSON),
		},
		{
			name: "access-log", category: category, from: ours,
			usage: "log a line for each request",
			one:   readSwitch(&l.AccessLog),
		},
	}
}
