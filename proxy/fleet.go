package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/actors/workerurl"
	"loadstar/proxy/upstream"
)

// WorkerSpec is what is known of a worker when it is added.
type WorkerSpec struct {
	URL       string   // may end in @ and a data-parallel rank, which then is the only one
	Model     string   // that it serves; empty if that isn't known
	Models    []string // that it serves beside
	Priority  int
	Cost      float64
	Labels    map[string]string
	Roles     actors.Roles // phases it serves; none is whole requests
	Bootstrap int          // port of its Mooncake bootstrap server; 0 for none
	Source    string       // who named it
	Process   string       // tells the process there from the next one, where that is known
}

// Sources of workers that are no discovery.Worker's.
const (
	SourceFlags = "flags"
	sourceAPI   = "api"
	sourceZMQ   = "zmq"
)

// AddWorker makes a worker a member of the fleet, or each of its data-parallel
// ranks, and returns its canonical name. It gets requests once a check has
// found it healthy. Errors: those of workerurl.Name and Registry.Add.
func (p *Proxy) AddWorker(w WorkerSpec) (name string, err error) {
	name, err = workerurl.Name(w.URL)
	if err != nil {
		return "", err
	}
	w.URL = name
	return name, p.AddWorkers([]WorkerSpec{w})
}

// AddWorkers makes workers members of the fleet, all of them or none. Their URLs
// are canonical. One that is named in several roles is one worker. Errors: those
// of Registry.Add.
func (p *Proxy) AddWorkers(ws []WorkerSpec) error {
	var servers []*server
	for _, w := range ws {
		servers = p.enroll(servers, w)
	}
	return p.add(servers)
}

// server is a worker about to be added: a process at one base URL, that counts
// as several workers if it has data-parallel ranks.
type server struct {
	name  string // base URL, with a rank behind it if that alone was asked for
	site  *site
	specs []actors.Spec
	sized bool // the number of its ranks is settled
}

// enroll appends a worker to servers, or adds its role to the server it is.
func (p *Proxy) enroll(servers []*server, w WorkerSpec) []*server {
	base, rank := splitRank(w.URL)
	bootstrap := ""
	if w.Bootstrap != 0 {
		bootstrap = bootstrapURL(base, w.Bootstrap)
	}
	for _, s := range servers {
		if s.name == w.URL && s.specs[0].Roles&w.Roles == 0 {
			for i := range s.specs {
				s.specs[i].Roles |= w.Roles
			}
			s.site.bootstrap += bootstrap // of the prefill worker alone
			return servers
		}
	}
	s := &server{name: w.URL, site: newSite(base), sized: p.opts.PD == nil || rank != actors.NoRank}
	s.site.bootstrap = bootstrap
	if p.opts.PD != nil {
		s.site.connector = p.opts.PD.Connector
	}
	s.setRanks(actors.Spec{
		URL: w.URL, Base: base, Rank: rank, Model: w.Model, Models: w.Models, Priority: w.Priority, Cost: w.Cost, Labels: w.Labels, Roles: w.Roles,
		Source: w.Source, Process: w.Process,
	}, p.opts.Ranks)
	return append(servers, s)
}

// setRanks gives the server n data-parallel ranks, or none if n is below 2, unless
// it stands for one rank.
func (s *server) setRanks(spec actors.Spec, n int) {
	s.site.dpSize = max(1, n)
	if s.specs = []actors.Spec{spec}; s.name == s.site.base {
		s.specs = actors.Expand(spec, n)
	}
}

// errHost continues a sentence that begins with a worker's URL.
var errHost = errors.New("has a host that --allowed-worker-hosts does not name")

// add makes members of all workers at servers.
func (p *Proxy) add(servers []*server) error {
	var specs []actors.Spec
	for _, s := range servers {
		if !p.opts.WorkerHosts.Allow(s.site.base) {
			retire(specs)
			return fmt.Errorf("%s %w", s.site.base, errHost)
		}
		for i := range s.specs {
			pool, err := upstream.NewPool(s.site.base, p.upstreamOptions())
			if err != nil {
				retire(specs)
				return err
			}
			spec := s.specs[i]
			spec.Handle = &backend{pool, s.site}
			specs = append(specs, spec)
		}
	}
	if _, err := p.router.Add(specs); err != nil {
		retire(specs)
		return err
	}
	for _, s := range servers {
		for range s.specs {
			p.prober.Watch(s.site.base, p.checkOf(s))
		}
	}
	return nil
}

// retire closes the connections of workers that did not become members.
func retire(specs []actors.Spec) {
	for i := range specs {
		specs[i].Handle.(*backend).pool.Retire()
	}
}

// RemoveWorker ends the membership of the worker with a canonical name, or of
// all ranks at a base URL. Requests that run there go on. Errors: those of
// Registry.Remove.
func (p *Proxy) RemoveWorker(name string) error {
	removed, err := p.router.Remove(name)
	for _, r := range removed {
		p.letGo(r.Base, r.Handle)
	}
	return err
}

// splitRank takes the rank off a canonical name.
func splitRank(name string) (base string, rank int) {
	i := strings.LastIndexByte(name, '@')
	if i < 0 {
		return name, actors.NoRank
	}
	rank, err := strconv.Atoi(name[i+1:])
	if err != nil {
		return name, actors.NoRank
	}
	return name[:i], rank
}

// awaitHealthy waits until a worker is healthy, for at most d or until the
// client leaves, and reports whether it is.
func (x *exchange) awaitHealthy(base string, d time.Duration) bool {
	const step = 20 * time.Millisecond
	x.link.guard.Arm(x.link.client, nil)
	for end := time.Now().Add(d); ; {
		known := false
		for _, w := range x.p.router.At(base) {
			if w.Member && w.Healthy {
				return true
			}
			known = known || w.Member
		}
		if !known || x.p.stopping() || time.Now().After(end) || x.link.guard.Wait(step) {
			return false
		}
	}
}

// AwaitWorker waits until some worker may serve requests, and reports false if
// ctx ends before.
func (p *Proxy) AwaitWorker(ctx context.Context) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if h := p.router.Health(p.now()); p.serves(&h) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// lost notes that nothing listens at a base URL: whatever comes up there has an
// empty cache.
func (p *Proxy) lost(base string) {
	for _, w := range p.router.At(base) {
		p.router.Forget(w.ID)
	}
}

// retireAll closes the unused connections to all workers.
func (p *Proxy) retireAll() {
	v, err := p.router.Snapshot(p.now())
	if err != nil {
		return
	}
	for i := range v.Workers {
		v.Workers[i].Handle.(*backend).pool.Retire()
	}
}

// unescapeWorker takes a worker's URL out of the path of an admin call.
func unescapeWorker(path []byte) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(string(path), "/workers/"))
	if err != nil || name == "" {
		return "", errors.New("the path must end in a worker's URL, percent-encoded")
	}
	return name, nil
}
