// Package proxy is the HTTP side of the router: it serves clients, asks the actors
// for workers, relays requests and answers, and shows and changes the fleet.
package proxy

import (
	"context"
	"crypto/tls"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/discovery/zmq"
	"loadstar/actors/kvevents"
	"loadstar/actors/peers"
	"loadstar/actors/workerurl"
	"loadstar/proxy/decisions"
	"loadstar/proxy/keyring"
	"loadstar/proxy/statuspage"
	"loadstar/proxy/trace"
	"loadstar/proxy/upstream"
	"loadstar/proxy/watch"

	"github.com/valyala/fasthttp"
)

// Options configures a Proxy.
type Options struct {
	Router actors.RouterOptions
	Health HealthOptions
	Retry  RetryOptions

	Failover FailoverOptions

	PD *PDOptions // of requests in two phases; nil for workers that do both

	Timeouts Timeouts
	Limits   Limits

	Heartbeat time.Duration // how long a stream of events may be silent before its client is sent a comment, as often as that; 0 sends none

	WorkerKey         string            // sent to workers as a bearer token in place of what the client sent; empty passes the client's on
	WorkerTLS         *tls.Config       // for https workers; nil is the system's defaults
	WorkerHosts       workerurl.Hosts   // whose workers may be members; the zero value allows all
	ClientKeys        *keyring.Ring     // keys of which a client has to have one; nil lets all call
	AdminKey          string            // lets its holder call the admin API from anywhere; empty lets this machine call it
	AdminListener     bool              // the admin API is served by ServeAdmin alone
	RequestIDHeaders  []string          // where a client may name its request, first found wins; nil is the usual four
	Ranks             int               // data-parallel ranks of each worker; below 2 for none
	CORSOrigins       []string          // origins that browsers may call from; empty for none, "*" for any
	ForwardedHeaders  bool              // add X-Forwarded-For, -Proto and -Host
	Compat            bool              // keep to what vllm-router answers where this router is stricter
	AccessLog         bool              // log one line a request
	PrometheusBuckets bool              // histograms with le buckets instead of vmrange
	WorkerHeader      bool              // name in answers the worker they come from, and explain its choice to who asks
	DecisionLog       int               // decisions that /debug/decisions shows; 0 keeps none
	DebugEndpoints    bool              // serve pprof and the state dump on the metrics listener
	AskLoad           bool              // ask workers with each request how many they have
	AskModels         bool              // ask workers which models they serve, for requests to go by
	Aliases           map[string]string // other names for models
	StartupTimeout    time.Duration     // how long /add_worker waits for a worker to become healthy

	KVEvents *kvevents.Options // what workers tell of their caches, for policies that go by it; nil listens to none

	Tracing *trace.Options // of requests, without metrics and log; nil traces none

	ClassHeader  string        // header whose value, 0 to 7, is a request's class among those who wait; empty for none
	TenantHeader string        // header that names its tenant, where keys don't; empty for none
	Deadline     time.Duration // within which an answer must have begun, where x-request-deadline-ms doesn't say; 0 for none

	Version string
	Log     *slog.Logger

	leastWait time.Duration // no short wait is shorter; for tests, on machines where nothing happens at once
}

// short is one of the router's own waits for what others do at once.
func (o *Options) short(wait time.Duration) time.Duration { return max(wait, o.leastWait) }

// HealthOptions says how workers are checked.
type HealthOptions struct {
	actors.HealthOptions
	Path string // of the check, below the worker's base URL
}

// RetryOptions says when a request that a worker failed is tried again.
type RetryOptions struct {
	MaxAttempts    int // attempts in all; 1 is no retry
	InitialBackoff time.Duration
	MaxBackoff     time.Duration
	Multiplier     float64
	Jitter         float64 // share of the backoff by which it varies either way
}

// Timeouts bounds every wait. Zero is without end.
type Timeouts struct {
	Connect      time.Duration // to a worker, TLS included
	FirstByte    time.Duration // from sending a request to the first byte of its answer
	Idle         time.Duration // between two pieces of an answer
	Total        time.Duration // from when a worker is first granted to the end of the answer, all attempts together
	PoolIdle     time.Duration // unused connections to workers; zero keeps none
	ClientHeader time.Duration // for a client to send a request's head
	ClientBody   time.Duration // between two pieces of a request's body
	ClientWrite  time.Duration // for a client to take anything of what was written
	ClientIdle   time.Duration // between two requests of a client
}

// Limits bounds what is held.
type Limits struct {
	BodyBytes   int // of a request; a byte more is refused
	BodiesBytes int // of all requests' bodies that are held at a time, in whole MiB; 0 is without end. A BodyBytes that is larger never applies.
	HeadBytes   int // of a request's or an answer's head
	Connections int // of clients
	IdleConns   int // unused connections per worker
}

// Proxy is the router's HTTP side. It serves clients, asks the Router for
// workers, and relays.
type Proxy struct {
	opts          Options
	log           *slog.Logger
	start         time.Time
	router        *actors.Router
	prober        *actors.Prober
	watcher       *watch.Watcher // nil where the platform has none
	metrics       *metricSet
	viewers       *statuspage.Hub
	decisions     *decisions.Log // nil if none are kept
	control       *controlClient
	models        *modelDesk
	routes        map[string]*route
	aliases       map[string]alias
	adminKey      *keyring.Set // nil if there is none
	server        *fasthttp.Server
	crowd         *crowd // of server's clients
	adminServer   *fasthttp.Server
	adminCrowd    *crowd
	metricsServer *fasthttp.Server
	idHeads       []string

	draining   chan struct{}   // closed when shutdown has begun
	over       context.Context // ends with Close
	end        context.CancelFunc
	handedOver chan struct{}         // closed when another process has the listening sockets
	discovery  *zmq.Listener         // nil unless workers register themselves
	sources    *discovery.Reconciler // nil unless workers are discovered otherwise
	kv         *kvEvents             // nil unless workers tell of their caches
	peers      *peers.Actor          // nil unless there may be other routers
	tracer     *trace.Tracer         // nil unless requests are traced
	rescues    chan struct{}         // holds one for each rescue that runs
	bodies     bodyMemory            // for requests' bodies
	spares     bodyMemory            // for streams that may be continued
	needsKey   bool                  // some policy reads the routing key
	seed       maphash.Seed          // of tenants' names

	needsAffinity bool // some policy goes by kv_aware's idea of a session

	exchanges sync.Pool // of *exchange
	streams   sync.Pool // of *stream
	guards    sync.Pool // of *watch.Guard
}

// New starts a proxy without workers. Call Close to end it. The error is one of
// configuration.
func New(o Options) (*Proxy, error) {
	p := &Proxy{opts: o, log: o.Log, start: time.Now(), seed: maphash.MakeSeed(), draining: make(chan struct{}), handedOver: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.idHeads = o.RequestIDHeaders
	if p.idHeads == nil {
		p.idHeads = []string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"}
	}
	p.over, p.end = context.WithCancel(context.Background())
	o.Router.Room.Now = p.now
	o.Router.AnyForUnknown = o.Compat
	p.aliases = newAliases(o.Aliases)
	p.decisions = decisions.New(o.DecisionLog)
	if p.kv = newKVEvents(o.KVEvents); p.kv != nil {
		o.Router.Exact = p.kv
	}
	router, err := actors.NewRouter(o.Router)
	if err != nil {
		p.kv.close()
		return nil, err
	}
	p.router = router
	p.bodies = newBodyMemory(o.Limits.BodiesBytes)
	p.spares = make(bodyMemory, o.Failover.MemoryBytes/spareUnit)
	if o.PD != nil {
		p.rescues = make(chan struct{}, o.PD.Rescues)
	}
	for _, r := range p.roles() {
		p.needsKey = p.needsKey || router.NeedsKey(r)
		p.needsAffinity = p.needsAffinity || router.NeedsAffinity(r)
	}
	p.metrics = newMetricSet(p)
	if p.tracer, err = p.newTracer(); err != nil {
		p.end()
		_ = router.Stop(p.over) // nothing runs there
		p.kv.close()
		return nil, err
	}
	p.viewers = statuspage.NewHub(statusEvery, p.statusFrame)
	p.watcher, err = watch.New(watch.Hooks{Left: p.metrics.clientLeft, Unwatched: p.unwatched})
	if err != nil {
		p.log.Warn("clients that leave are noticed late: their connections can't be watched", "error", err)
	}
	p.control = newControlClient(o)
	p.models = newModelDesk(p.control, p.aliases, p.opts.short(modelsKept))
	p.prober = actors.NewProber(router.Registry, o.Health.HealthOptions)
	p.routes = p.ownRoutes()
	p.adminKey = keyOf(o.AdminKey)
	p.server, p.adminServer, p.metricsServer = p.newServer(p.Handle), p.newServer(p.HandleAdmin), p.newMetricsServer()
	p.crowd, p.adminCrowd = p.newCrowd(p.server), p.newCrowd(p.adminServer)
	p.exchanges.New = func() any { return &exchange{leg: leg{p: p}} }
	p.streams.New = func() any { return &stream{p: p} }
	p.guards.New = func() any { return p.watcher.NewGuard() }
	go p.logEvents()
	return p, nil
}

// now is the time that actors understand: monotonic nanoseconds.
func (p *Proxy) now() int64 { return p.at(time.Now()) }

// at is a moment in the registry's time.
func (p *Proxy) at(t time.Time) int64 { return int64(t.Sub(p.start)) }

func (p *Proxy) unwatched(err error) {
	p.metrics.unwatched.Inc()
	p.log.Debug("a client's connection is not watched", "error", err)
}

func (p *Proxy) upstreamOptions() upstream.Options {
	return upstream.Options{
		ConnectTimeout: p.opts.Timeouts.Connect,
		IdleTimeout:    p.opts.Timeouts.PoolIdle,
		MaxIdle:        p.opts.Limits.IdleConns,
		TLS:            p.opts.WorkerTLS,
	}
}

// logDecision writes down how a worker was chosen, for those who debug routing, and
// shows it to those who watch.
func (p *Proxy) logDecision(x *exchange, l *actors.Lease) {
	if p.viewers.Watched() {
		p.showDecision(x, l)
	}
	if !p.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	d := &l.Decision
	p.log.Debug("decision", "id", string(x.id), "worker", l.URL, "reason", d.Reason.String(), "match", d.Match, "blocks", d.Blocks,
		"max_load", d.MaxLoad, "min_load", d.MinLoad, "is_unbalanced", d.Imbalanced, "candidates", d.Candidates)
}

// roles are those that workers may have.
func (p *Proxy) roles() []actors.Role {
	switch {
	case p.opts.PD == nil:
		return regular
	case p.opts.PD.Beside:
		return allRoles
	default:
		return twoPhases
	}
}

var (
	regular   = []actors.Role{actors.Regular}
	twoPhases = []actors.Role{actors.Prefill, actors.Decode}
	allRoles  = []actors.Role{actors.Prefill, actors.Decode, actors.Regular}
)

// serves reports whether some request can be served: in two phases, or whole.
func (p *Proxy) serves(h *actors.FleetHealth) bool {
	if pd := p.opts.PD; pd == nil || pd.Beside && h.Serves(actors.Regular) {
		return h.Serves(actors.Regular)
	}
	return h.Serves(twoPhases...)
}

// policies names the policies in use.
func (p *Proxy) policies() string {
	name := ""
	for _, r := range p.roles() {
		switch n := p.opts.Router.Policy[r]; {
		case name == "":
			name = n
		case name != n:
			name += "+" + n
		}
	}
	return name
}

// stopping reports whether shutdown has begun.
func (p *Proxy) stopping() bool {
	select {
	case <-p.draining:
		return true
	default:
		return false
	}
}
