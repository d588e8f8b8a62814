package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
	"loadstar/proxy"
)

// route runs the router until a signal or until ctx ends.
func route(ctx context.Context, c config) error {
	log, closeLog, err := newLogger(c.Logging)
	if err != nil {
		return err
	}
	defer closeLog()
	return serve(ctx, c, log, nil)
}

// serve runs the router. ready, if there is one, is called with the address once
// clients are served.
func serve(ctx context.Context, c config, log *slog.Logger, ready func(net.Addr)) error {
	a, err := openAccess(c, log)
	if err != nil {
		return err
	}
	o := proxyOptions(c, log)
	a.put(&o)
	join, err := peersOf(c)
	if err != nil {
		return err
	}
	p, err := proxy.New(o)
	if err != nil {
		return err
	}
	closeNow := func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(over) // nothing was served
	}
	line, err := openSuccession(c)
	if err != nil {
		closeNow()
		return err
	}
	defer line.close()
	s, err := openSockets(c, line.before)
	if err != nil {
		closeNow()
		return err
	}
	fleet := fleetOf(c)
	err = p.AddWorkers(fleet)
	if err == nil && c.PD.Enabled {
		err = startPD(p, c, log)
	}
	if err == nil {
		err = startSources(p, c, &a, log)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err == nil {
		err = line.takeOver(ctx, p, c, signals, log)
	}
	var own ownNATS
	if err == nil {
		own, err = openNATS(c, line.before == nil, log)
		defer own.close()
	}
	if err == nil {
		err = line.open(s.offered(c))
	}
	if err != nil {
		s.close()
		closeNow()
		return err
	}
	if join != nil { // not earlier: until then the process before tells what runs
		own.put(join)
		p.JoinPeers(*join)
	}
	served := make(chan error, 3)
	go func() { served <- p.Serve(s.clients, a.clientTLS) }()
	go func() { served <- p.ServeMetrics(s.metrics) }()
	admin := ""
	if s.admin != nil {
		admin = s.admin.Addr().String()
		go func() { served <- p.ServeAdmin(s.admin, a.clientTLS) }()
	}
	log.Info("listening", "address", s.clients.Addr().String(), "tls", a.clientTLS != nil, "metrics", s.metrics.Addr().String(), "admin", admin,
		"policy", policyText(c), "workers", len(fleet), "version", version)
	boss := managerOf()
	boss.ready(log)
	fresh, stopFresh := context.WithCancel(context.Background())
	defer stopFresh()
	keepFresh(fresh, a.files, log)
	if ready != nil {
		ready(s.clients.Addr())
	}

	watching, stopWatching := context.WithTimeout(ctx, c.Workers.StartupTimeout)
	defer stopWatching()
	if len(fleet) > 0 || c.PD.Discovery.Enabled() || c.Sources.Any() {
		go func() {
			if !p.AwaitWorker(watching) && errors.Is(watching.Err(), context.DeadlineExceeded) {
				log.Error("no request can be served: too few workers became healthy within --worker-startup-timeout-secs; still trying", "timeout", c.Workers.StartupTimeout)
			}
		}()
	}

	for {
		select {
		case sig := <-signals:
			log.Info("shutting down", "signal", sig.String(), "delay", c.Shutdown.Delay, "grace", c.Shutdown.Grace)
		case <-ctx.Done():
			log.Info("shutting down", "delay", c.Shutdown.Delay, "grace", c.Shutdown.Grace)
		case next := <-line.next():
			if err := next.Yield(); err != nil {
				log.Warn("the process that was to take over has ended: going on", "error", err)
				continue
			}
			return line.handOver(p, own, c.Shutdown, next, signals, log)
		case err := <-served:
			closeNow()
			return fmt.Errorf("the listener ended: %w", err)
		}
		line.closeDoor()
		boss.tell(managerStopping, log)
		return shutdown(p, c.Shutdown, signals, log)
	}
}

// connections is how many clients may be connected: no more than the limit on open
// files leaves room for, or the router could not reach its workers any more.
func connections(c config, log *slog.Logger) int {
	phases := 1
	if c.PD.Enabled {
		phases = 2
	}
	fit, ok := proxy.ConnectionsThatFit(phases)
	if !ok || fit >= c.Limits.MaxConnections {
		return c.Limits.MaxConnections
	}
	log.Info("the limit on open files allows fewer clients than --max-connections", "clients", fit, "max_connections", c.Limits.MaxConnections)
	return fit
}

// shutdown ends the router in three steps: not ready but serving, not accepting
// but finishing, over. Another signal ends it at once.
func shutdown(p *proxy.Proxy, c shutdownConfig, signals <-chan os.Signal, log *slog.Logger) error {
	started := time.Now()
	p.BeginDrain()
	ctx, cancel := context.WithTimeout(context.Background(), c.Delay+c.Grace)
	defer cancel()
	go func() {
		select {
		case <-signals:
			log.Warn("a second signal: ending at once")
			cancel()
		case <-ctx.Done():
		}
	}()
	select {
	case <-time.After(c.Delay):
	case <-ctx.Done():
	}
	if err := p.Shutdown(ctx); err != nil {
		return cutOff(ctx, err)
	}
	log.Info("stopped", "after", time.Since(started).Round(time.Millisecond))
	return nil
}

// cutOff is the error of a shutdown that did not end well: that of ctx if it is over,
// which says why requests didn't get the time they needed.
func cutOff(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("requests were cut off by a second signal")
	case ctx.Err() != nil:
		return errors.New("requests were cut off as --shutdown-grace-period-secs was over")
	default:
		return fmt.Errorf("not all has ended: %w", err)
	}
}

// proxyOptions are the settings in the proxy's terms.
func proxyOptions(c config, log *slog.Logger) proxy.Options {
	health := actors.HealthOptions{
		FailureThreshold: c.Health.FailureThreshold, SuccessThreshold: c.Health.SuccessThreshold,
		Interval: c.Health.Interval, RetryInterval: c.Workers.StartupInterval, Timeout: c.Health.Timeout,
	}
	attempts := c.Retry.MaxAttempts
	if c.Retry.Disabled {
		attempts = 1
	}
	p := policy.DefaultOptions()
	p.CacheThreshold, p.BalanceAbs, p.BalanceRel = c.Policy.CacheThreshold, c.Policy.BalanceAbs, c.Policy.BalanceRel
	p.Seed = uint64(time.Now().UnixNano())
	o := proxy.Options{
		Health: proxy.HealthOptions{HealthOptions: health, Path: c.Health.Endpoint},
		Retry: proxy.RetryOptions{
			MaxAttempts: attempts, InitialBackoff: c.Retry.InitialBackoff, MaxBackoff: c.Retry.MaxBackoff,
			Multiplier: c.Retry.Multiplier, Jitter: c.Retry.Jitter,
		},
		Timeouts: proxy.Timeouts{
			Connect: c.Timeouts.Connect, FirstByte: c.Timeouts.FirstByte, Idle: c.Timeouts.Idle, Total: c.Timeouts.Total, PoolIdle: c.Timeouts.PoolIdle,
			ClientHeader: c.Timeouts.ClientHeader, ClientBody: c.Timeouts.ClientBody,
			ClientWrite: c.Timeouts.ClientWrite, ClientIdle: c.Timeouts.ClientIdle,
		},
		Limits: proxy.Limits{
			BodyBytes: int(c.Limits.MaxBodyBytes), BodiesBytes: int(c.Limits.MaxBodiesBytes), HeadBytes: c.Limits.MaxHeaderBytes,
			Connections: connections(c, log), IdleConns: idleConnsPerWorker,
		},
		WorkerKey: c.Workers.APIKey, RequestIDHeaders: c.HTTP.RequestIDHeaders, Ranks: c.Workers.DPSize,
		CORSOrigins: c.HTTP.CORSOrigins, ForwardedHeaders: c.HTTP.ForwardedHeaders, WorkerHeader: c.HTTP.WorkerHeader, Compat: c.Compat,
		Heartbeat: c.Timeouts.Heartbeat, AccessLog: c.Logging.AccessLog, PrometheusBuckets: c.Metrics.Buckets == bucketsPrometheus,
		WorkerHosts: c.Access.WorkerHosts, AdminKey: c.Access.AdminKey, AdminListener: c.Access.HasAdminListener(),
		DecisionLog: c.Metrics.Decisions, DebugEndpoints: c.Metrics.Debug, StartupTimeout: c.Workers.StartupTimeout, Version: version, Log: log,
		AskLoad: c.HTTP.AskLoad, AskModels: c.Models.Ask, Aliases: c.Models.Aliases,
	}
	if c.Compat && len(o.CORSOrigins) == 0 {
		o.CORSOrigins = []string{"*"}
	}
	o.Router.PolicyOptions, o.Router.Health, o.Router.Shadows = p, health, c.Policy.Shadows
	o.Router.Breaker = actors.BreakerOptions{
		Disabled: c.Breaker.Disabled, FailureThreshold: c.Breaker.FailureThreshold, SuccessThreshold: c.Breaker.SuccessThreshold,
		Timeout: c.Breaker.OpenFor, Window: c.Breaker.Window, MaxOpenShare: c.Breaker.MaxOpenShare,
	}
	o.Router.Retries = actors.RetryOptions{Disabled: c.Retry.Budget >= noBudget, Ratio: c.Retry.Budget, Floor: float64(c.Retry.BudgetFloor)}
	o.Router.SlowStart, o.Router.WedgedAfter = c.Containment.SlowStart, c.Containment.WedgedAfter
	putAdmission(&o, c.Admission)
	putFailover(&o, c.Failover)
	putTracing(&o, c.Tracing)
	putKV(&o, c, log)
	o.Router.Backlog = actors.BacklogOptions{
		Blocks:   (c.Policy.BacklogTokens + policy.BlockTokens - 1) / policy.BlockTokens,
		Requests: policy.LeastSent, Patience: time.Duration(policy.FirstPatience),
	}
	o.Router.MaxWorkers, o.Router.TreeBytes = maxWorkers, int(c.Policy.MaxTreeBytes)
	o.Router.KeepPlacements = c.Peers.Enabled()
	for r := range o.Router.Policy {
		o.Router.Policy[r] = c.policyFor(actors.Role(r))
	}
	if c.PD.Enabled {
		o.PD = phaseOptions(c)
	}
	return o
}

// Bounds that have no flag.
const (
	maxWorkers         = 4096
	idleConnsPerWorker = 512
)

// newLogger returns the log that the settings ask for, and what closes its file.
func newLogger(c loggingConfig) (*slog.Logger, func(), error) {
	var out io.Writer = os.Stdout
	closeFile := func() {}
	if c.Dir != "" {
		name := filepath.Join(c.Dir, "loadstar."+time.Now().UTC().Format(time.DateOnly)+".log")
		err := os.MkdirAll(c.Dir, 0o750)
		var f *os.File
		if err == nil {
			f, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot write the log file of --log-dir: %w", err)
		}
		out, closeFile = io.MultiWriter(os.Stdout, f), func() { f.Close() }
	}
	opts := &slog.HandlerOptions{Level: c.Level}
	if c.Format == logJSON {
		return slog.New(slog.NewJSONHandler(out, opts)), closeFile, nil
	}
	return slog.New(slog.NewTextHandler(out, opts)), closeFile, nil
}
