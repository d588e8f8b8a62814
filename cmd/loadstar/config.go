package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// config is every setting, checked. Nothing past newApp reads a flag or the
// environment. Its defaults are those of the flags: parse(nil, nil) gives them.
//
// A duration of zero means "none" wherever the field says so.
type config struct {
	Demo  bool          // the demo command: simulated workers are added after the check
	Top   topConfig     // of the top command, which has nothing else
	Check checkupConfig // likewise of check
	// Completion is likewise of completion.
	Completion completionConfig
	Compat     bool // reopens what is deliberately stricter than in vllm-router
	Listen     listenConfig
	TLS        tlsConfig
	Access     accessConfig
	HTTP       httpConfig
	Workers    workersConfig
	Sources    sourcesConfig
	// WorkerTLS is for https workers.
	WorkerTLS workerTLSConfig
	Models    modelsConfig
	Policy    policyConfig
	KV        kvConfig
	PD        pdConfig
	Health    healthConfig
	Retry     retryConfig
	Failover  failoverConfig
	Peers     peersConfig
	Breaker   breakerConfig

	Containment containmentConfig
	Timeouts    timeoutsConfig
	Limits      limitsConfig
	Admission   admissionConfig
	Metrics     metricsConfig
	Tracing     tracingConfig
	Logging     loggingConfig
	Shutdown    shutdownConfig
}

// listenConfig is an address to listen on. Port 0 lets the system choose.
type listenConfig struct {
	Host string
	Port int
}

// Addr is the address in the form that net.Listen takes.
func (l listenConfig) Addr() string {
	return net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
}

// tlsConfig names the files of a certificate and its key. Both are set or neither is.
type tlsConfig struct {
	CertPath string
	KeyPath  string
}

// httpConfig is how requests and answers are decorated on their way through.
type httpConfig struct {
	// RequestIDHeaders are the headers, in lower case, whose first one present
	// is taken for the request's id. Empty means that every id is made here.
	RequestIDHeaders []string
	// CORSOrigins are the origins that browsers may call from; empty is none.
	CORSOrigins      []string
	ForwardedHeaders bool // add X-Forwarded-For, -Proto and -Host
	WorkerHeader     bool // name workers in answers
	AskLoad          bool // ask workers with each request how many they have
}

// workersConfig is the fleet at start-up.
type workersConfig struct {
	URLs   []string // canonical, some with a rank, without duplicates, in the order given
	APIKey string   // bearer key towards workers; empty is none
	DPSize int      // data-parallel ranks behind each URL

	StartupTimeout  time.Duration
	StartupInterval time.Duration // between two probes of a worker that is starting
}

// policyConfig is how a worker is chosen.
type policyConfig struct {
	Name           string
	CacheThreshold float64  // share of the prompt that must be cached at a worker, 0 to 1
	BalanceAbs     int      // requests
	BalanceRel     float64  // ratio, at least 1
	MaxTreeBytes   int64    // memory of all prefix trees together
	Shadows        []string // policies that are asked and not obeyed
	BacklogTokens  int      // of prompt at a worker, from which on requests wait; 0 for none
}

// healthConfig is the active health check.
type healthConfig struct {
	Endpoint         string // path, with its leading slash
	Interval         time.Duration
	Timeout          time.Duration
	FailureThreshold int // bad checks in a row that take a worker out
	SuccessThreshold int // good checks in a row that bring it back
}

// retryConfig is how a failed attempt is repeated.
type retryConfig struct {
	Disabled       bool
	MaxAttempts    int // the first one included
	InitialBackoff time.Duration
	MaxBackoff     time.Duration
	Multiplier     float64 // at least 1
	Jitter         float64 // share of the backoff, 0 to 1
	Budget         float64 // retries for each request; noBudget does not bound them
	BudgetFloor    int     // retries a second beyond that
}

// noBudget is the budget that bounds nothing.
const noBudget = 1000

// breakerConfig is the circuit breaker of each worker.
type breakerConfig struct {
	Disabled         bool
	FailureThreshold int
	SuccessThreshold int
	OpenFor          time.Duration
	Window           time.Duration
	MaxOpenShare     float64 // of the healthy workers of a phase, above 0
}

// containmentConfig is what is done about workers in trouble, apart from their
// breakers.
type containmentConfig struct {
	SlowStart   time.Duration // zero is none
	WedgedAfter time.Duration // zero is never
}

// timeoutsConfig is how long anything may take. Zero is "none", except in
// ClientIdle, which is never zero, and PoolIdle, where it means no reuse.
type timeoutsConfig struct {
	Request   time.Duration // the default of FirstByte, Idle and Prefill
	Connect   time.Duration
	FirstByte time.Duration // from the request's last byte to the answer's first
	Idle      time.Duration // between two bytes of an answer
	Prefill   time.Duration // of a prefill request, its answer included
	Total     time.Duration // of a request, all attempts and its stream included
	Heartbeat time.Duration // silence of a stream after which its client gets a comment
	PoolIdle  time.Duration // life of an unused connection to a worker

	ClientHeader time.Duration
	ClientBody   time.Duration // silence between two reads of a request's body
	ClientWrite  time.Duration // a client that takes nothing
	ClientIdle   time.Duration // between two requests on one connection
}

// limitsConfig bounds what clients may send and open.
type limitsConfig struct {
	MaxBodyBytes   int64
	MaxBodiesBytes int64 // of all requests' bodies together; 0 is without end
	MaxHeaderBytes int
	MaxConnections int
}

// bucketKind says how histograms are written.
type bucketKind string

// The kinds of histogram buckets.
const (
	bucketsPrometheus bucketKind = "prometheus" // le="…"
	bucketsVMRange    bucketKind = "vmrange"    // VictoriaMetrics' own
)

// metricsConfig is the metrics listener.
type metricsConfig struct {
	Listen  listenConfig
	Buckets bucketKind
	Debug   bool // pprof and the state dump are served there too

	Decisions int // that the admin API shows; zero keeps none
}

// logFormat says how a log line is written.
type logFormat string

// The formats of log lines.
const (
	logText logFormat = "text"
	logJSON logFormat = "json"
)

// loggingConfig is what is logged, and where.
type loggingConfig struct {
	Dir       string // also write to a file in here; empty is standard output only
	Level     slog.Level
	Format    logFormat
	AccessLog bool
}

// shutdownConfig is what a termination signal starts.
type shutdownConfig struct {
	Delay time.Duration // not ready but still accepting
	Grace time.Duration // for running streams; zero cuts them at once

	Takeover string // path at which sockets are handed over; empty is none
}

// check reports every contradiction between settings at once. The range of a
// single setting is checked where its flag is read, which knows whether it came
// from the command line or the environment.
func (c config) check() []error {
	var faults []error
	if c.Demo && len(c.Workers.URLs) > 0 {
		faults = append(faults, errors.New("--worker-urls: demo brings its own workers: leave the flag out, or leave out demo"))
	}
	if n := workersAt(c.Workers.URLs, c.Workers.DPSize); c.Policy.Name == policyPowerOfTwo && n < 2 && !c.Demo && (!c.PD.Enabled || n == 1 && c.takesRegular()) && !c.Sources.Any() {
		faults = append(faults, fmt.Errorf("--policy power_of_two needs at least 2 workers and --worker-urls names %d: name more, or choose another policy", n))
	}
	faults = append(faults, c.checkPD()...)
	faults = append(faults, c.checkSources()...)
	faults = append(faults, c.checkKV()...)
	faults = append(faults, c.checkFailover()...)
	faults = append(faults, c.checkPeers()...)
	if all := c.Limits.MaxBodiesBytes; all > 0 && all < c.Limits.MaxBodyBytes {
		faults = append(faults, fmt.Errorf("--max-bodies-memory (%d) is below --max-payload-size (%d), so the largest bodies would never pass: raise the first or lower the second",
			all, c.Limits.MaxBodyBytes))
	}
	if c.Retry.MaxBackoff < c.Retry.InitialBackoff {
		faults = append(faults, fmt.Errorf("--retry-max-backoff-ms (%d) is below --retry-initial-backoff-ms (%d): raise the first or lower the second",
			c.Retry.MaxBackoff.Milliseconds(), c.Retry.InitialBackoff.Milliseconds()))
	}
	faults = append(faults, c.checkAccess()...)
	faults = append(faults, c.checkAdmission()...)
	faults = append(faults, c.checkTakeover()...)
	if c.Listen.overlaps(c.Metrics.Listen) {
		faults = append(faults, fmt.Errorf("--port and --prometheus-port are both %d: give them different ports", c.Listen.Port))
	}
	return faults
}

// overlaps reports whether the two addresses cannot both be listened on. Names
// are not resolved: two names of one address are found by the system's bind.
func (l listenConfig) overlaps(other listenConfig) bool {
	wild := func(host string) bool {
		a, err := netip.ParseAddr(host)
		return host == "" || err == nil && a.IsUnspecified()
	}
	return l.Port != 0 && l.Port == other.Port && (l.Host == other.Host || wild(l.Host) || wild(other.Host))
}
