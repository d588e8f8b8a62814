package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"loadstar/actors"
	"loadstar/cmd/loadstar/takeover"
	"loadstar/proxy"
)

// lingerIdle is for how long, after a hand-over, a client may leave its connection
// unused before that is closed.
const lingerIdle = 2 * time.Second

// sockets are the listening sockets of a router.
type sockets struct {
	clients net.Listener
	metrics net.Listener
	admin   net.Listener // nil if the admin API has none of its own
}

// openSockets opens them, or takes those of the process before, which may be nil.
func openSockets(c config, before *takeover.Before) (s sockets, err error) {
	defer func() {
		if err != nil {
			s.close()
			s = sockets{}
		}
	}()
	forClients := func(name string, at listenConfig) (net.Listener, error) {
		if before != nil {
			if ln := before.Take(name, at.Addr()); ln != nil {
				return proxy.Adopt(ln, c.Timeouts.ClientWrite)
			}
		}
		return proxy.Listen(at.Addr(), c.Timeouts.ClientWrite)
	}
	if s.clients, err = forClients(clientsSocket, c.Listen); err != nil {
		return s, fmt.Errorf("cannot listen for clients: %w; choose another --host or --port", err)
	}
	if before != nil {
		s.metrics = before.Take(metricsSocket, c.Metrics.Listen.Addr())
	}
	if s.metrics == nil {
		if s.metrics, err = net.Listen("tcp", c.Metrics.Listen.Addr()); err != nil {
			return s, fmt.Errorf("cannot listen for metrics: %w; choose another --prometheus-host or --prometheus-port", err)
		}
	}
	if c.Access.HasAdminListener() {
		if s.admin, err = forClients(adminSocket, c.Access.AdminListen); err != nil {
			return s, fmt.Errorf("cannot listen for admin calls: %w; choose another --admin-listen", err)
		}
	}
	if before != nil {
		before.Drop()
	}
	return s, nil
}

// Names under which sockets are handed over.
const (
	clientsSocket = "clients"
	metricsSocket = "metrics"
	adminSocket   = "admin"
)

func (s *sockets) close() {
	for _, ln := range []net.Listener{s.clients, s.metrics, s.admin} {
		if ln != nil {
			ln.Close()
		}
	}
}

// offered are the sockets as they are handed over.
func (s *sockets) offered(c config) []takeover.Socket {
	all := []takeover.Socket{
		{Name: clientsSocket, Address: c.Listen.Addr(), Listener: s.clients},
		{Name: metricsSocket, Address: c.Metrics.Listen.Addr(), Listener: s.metrics},
	}
	if s.admin != nil {
		all = append(all, takeover.Socket{Name: adminSocket, Address: c.Access.AdminListen.Addr(), Listener: s.admin})
	}
	return all
}

// succession is a router's place between the process before and the next one. The
// zero value is that of a router started without --takeover.
type succession struct {
	before *takeover.Before // nil if there is none
	door   *takeover.Door   // nil without --takeover
	alone  chan struct{}    // closed when the process before has ended
}

// openSuccession asks the process before for its sockets and makes a door beside
// its own.
func openSuccession(c config) (*succession, error) {
	s := &succession{alone: make(chan struct{})}
	if c.Shutdown.Takeover == "" {
		close(s.alone)
		return s, nil
	}
	var err error
	if s.before, err = takeover.Ask(c.Shutdown.Takeover); err != nil {
		return nil, fmt.Errorf("cannot take over by --takeover %q: %w", c.Shutdown.Takeover, err)
	}
	if s.before == nil {
		close(s.alone)
	}
	if s.door, err = takeover.Make(c.Shutdown.Takeover); err != nil {
		s.close()
		return nil, fmt.Errorf("cannot listen at --takeover %q: %w", c.Shutdown.Takeover, err)
	}
	return s, nil
}

// closeDoor ends what is offered to a next process; one that is starting goes on
// alone.
func (s *succession) closeDoor() {
	if s.door != nil {
		s.door.Close()
		s.door = nil
	}
}

func (s *succession) close() {
	s.closeDoor()
	if s.before != nil {
		s.before.Close()
		s.before = nil
	}
}

// takeOver waits until some worker is healthy and has the process before give its
// place up. After an error that one goes on.
func (s *succession) takeOver(ctx context.Context, p *proxy.Proxy, c config, signals <-chan os.Signal, log *slog.Logger) error {
	if s.before == nil {
		return nil
	}
	log.Info("taking over", "pid", s.before.PID)
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := make(chan struct{})
	go func() {
		if p.AwaitWorker(waiting) {
			close(ready)
		}
	}()
	go func() {
		select {
		case sig := <-signals:
			cancel(fmt.Errorf("%v has come", sig))
		case <-waiting.Done():
		}
	}()
	switch err := s.before.Await(waiting, ready, c.Workers.StartupTimeout); {
	case errors.Is(err, takeover.ErrNotReady):
		return errors.New("no worker became healthy within --worker-startup-timeout-secs: this process ends, and the one before goes on")
	case err != nil && waiting.Err() != nil:
		return fmt.Errorf("not taken over: %w", context.Cause(waiting))
	case err != nil:
		return fmt.Errorf("not taken over: %w", err)
	}
	if s.before.Gone() {
		log.Warn("the process before has ended by itself", "pid", s.before.PID)
	}
	go s.hearLoads(s.before, p, log)
	return nil
}

// hearLoads counts what the process before still runs as foreign load.
func (s *succession) hearLoads(before *takeover.Before, p *proxy.Proxy, log *slog.Logger) {
	defer close(s.alone)
	origin := fmt.Sprintf("process %d", before.PID)
	before.Loads(func(loads []takeover.Load) {
		all := make([]actors.Elsewhere, len(loads))
		for i, l := range loads {
			all[i] = actors.Elsewhere{URL: l.Worker, N: l.N}
		}
		if err := p.SetForeign(origin, all); err != nil && !errors.Is(err, actors.ErrStopped) {
			log.Error("what the process before runs is not counted", "error", err)
		}
	})
	log.Info("the process before has finished", "pid", before.PID)
}

// open offers the sockets to the next process, if there may be one.
func (s *succession) open(offered []takeover.Socket) error {
	if s.door == nil {
		return nil
	}
	if err := s.door.Open(offered); err != nil {
		return fmt.Errorf("cannot put the socket of --takeover in its place: %w", err)
	}
	return nil
}

// next gives the next process when it is ready.
func (s *succession) next() <-chan *takeover.Next {
	if s.door == nil {
		return nil
	}
	return s.door.Asked()
}

// handOver finishes what runs here, while the next process has the sockets. The
// first signal changes nothing, for this process ends anyway; another one ends it at
// once.
func (s *succession) handOver(p *proxy.Proxy, own ownNATS, c shutdownConfig, next *takeover.Next, signals <-chan os.Signal, log *slog.Logger) error {
	started, linger := time.Now(), max(c.Delay, lingerIdle)
	log.Info("handed over: finishing what runs", "grace", c.Grace)
	p.HandOver()
	go func() {
		p.LeavePeers() // the next process tells of what runs here, together with its own
		own.close()    // and waits for the address
	}()
	ctx, cancel := context.WithTimeout(context.Background(), linger+c.Grace)
	defer cancel()
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					log.Warn("a second signal: ending at once")
					cancel()
					return
				}
				log.Info("finishing already; another signal ends it at once")
			case <-ctx.Done():
				return
			}
		}
	}()
	told := make(chan struct{})
	go func() {
		defer close(told)
		next.Tell(ctx, func() ([]takeover.Load, bool) {
			all, ok := p.Running()
			loads := make([]takeover.Load, len(all))
			for i, e := range all {
				loads[i] = takeover.Load{Worker: e.URL, N: e.N}
			}
			return loads, ok
		})
	}()
	p.AwaitQuiet(ctx, linger)
	select {
	case <-s.alone: // until then the next process hears of the one before from here alone
	case <-ctx.Done():
	}
	err := p.Shutdown(ctx)
	if err != nil {
		err = cutOff(ctx, err)
	}
	cancel()
	<-told
	if err != nil {
		return err
	}
	log.Info("stopped", "after", time.Since(started).Round(time.Millisecond))
	return nil
}

// checkTakeover is check for --takeover.
func (c config) checkTakeover() []error {
	if c.Shutdown.Takeover == "" {
		return nil
	}
	var faults []error
	if c.Demo {
		faults = append(faults, errors.New("--takeover: the demo's workers end with it: leave the flag out"))
	}
	if c.PD.Discovery.Enabled() {
		faults = append(faults, errors.New("--takeover and --vllm-discovery-address exclude each other: the address is the first process's until it ends; leave one of them out"))
	}
	if !takeover.Supported {
		faults = append(faults, fmt.Errorf("--takeover is not there on %s: leave it out", runtime.GOOS))
	}
	return faults
}

// readTakeover reads the path of a door.
func readTakeover(dst *string) func(string) error {
	read := readFileName(dst)
	return func(value string) error {
		if len(value) > takeover.MaxPath {
			return fmt.Errorf("%q is longer than %d bytes, which is too long for a socket", value, takeover.MaxPath)
		}
		return read(value)
	}
}
