package proxy

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/actors/workerurl"
	"loadstar/proxy/upstream"
)

// WorkerSpec is what is known of a worker when it is added.
type WorkerSpec struct {
	URL      string
	Model    string
	Priority int
	Cost     float64
	Labels   map[string]string
}

// AddWorker makes a worker a member of the fleet, or each of its data-parallel
// ranks, and returns its canonical base URL. It gets requests once a check has
// found it healthy. Errors: those of workerurl.Canonical and Registry.Add.
func (p *Proxy) AddWorker(w WorkerSpec) (base string, err error) {
	base, err = workerurl.Canonical(w.URL)
	if err != nil {
		return "", err
	}
	w.URL = base
	return base, p.AddWorkers([]WorkerSpec{w})
}

// AddWorkers makes workers members of the fleet, all of them or none. Their URLs
// are canonical. Errors: those of Registry.Add.
func (p *Proxy) AddWorkers(ws []WorkerSpec) error {
	var specs []actors.Spec
	for _, w := range ws {
		specs = append(specs, actors.Expand(actors.Spec{
			Base: w.URL, Model: w.Model, Priority: w.Priority, Cost: w.Cost, Labels: w.Labels,
		}, p.opts.Ranks)...)
	}
	pools, err := p.pools(specs)
	if err == nil {
		_, err = p.router.Add(specs)
	}
	if err != nil {
		for _, pool := range pools {
			pool.Retire()
		}
		return err
	}
	for i := range specs {
		p.prober.Watch(specs[i].Base)
	}
	return nil
}

// pools gives each worker a pool of connections. After an error it returns those
// made before.
func (p *Proxy) pools(specs []actors.Spec) (pools []*upstream.Pool, err error) {
	for i := range specs {
		pool, err := upstream.NewPool(specs[i].Base, p.upstreamOptions())
		if err != nil {
			return pools, err
		}
		pools = append(pools, pool)
		specs[i].Handle = pool
	}
	return pools, nil
}

// RemoveWorker ends the membership of the worker with a canonical name, or of
// all ranks at a base URL. Requests that run there go on. Errors: those of
// Registry.Remove.
func (p *Proxy) RemoveWorker(name string) error {
	removed, err := p.router.Remove(name)
	for _, r := range removed {
		p.prober.Unwatch(r.Base)
		r.Handle.(*upstream.Pool).Retire()
	}
	return err
}

// canonicalName is CanonicalURL for a name that may end in a rank.
func canonicalName(raw string) (string, error) {
	base, rank := raw, ""
	if i := strings.LastIndexByte(raw, '@'); i >= 0 && i+1 < len(raw) && strings.Trim(raw[i+1:], "0123456789") == "" {
		base, rank = raw[:i], raw[i:]
	}
	base, err := workerurl.Canonical(base)
	return base + rank, err
}

// awaitHealthy waits until a worker is healthy, for at most d or until the
// client leaves, and reports whether it is.
func (x *exchange) awaitHealthy(base string, d time.Duration) bool {
	const step = 20 * time.Millisecond
	x.link.guard.Arm(x.link.client, nil)
	for end := time.Now().Add(d); ; {
		v, err := x.p.router.Snapshot(x.p.now())
		if err != nil {
			return false
		}
		known := false
		for i := range v.Workers {
			if w := &v.Workers[i]; w.Base == base && w.Member {
				known = true
				if w.Healthy {
					return true
				}
			}
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
		if h := p.router.Health(p.now()); h.Serves(p.roles()...) {
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
	v, err := p.router.Snapshot(p.now())
	if err != nil {
		return
	}
	for i := range v.Workers {
		if v.Workers[i].Base == base {
			p.router.Forget(v.Workers[i].ID)
		}
	}
}

// retireAll closes the unused connections to all workers.
func (p *Proxy) retireAll() {
	v, err := p.router.Snapshot(p.now())
	if err != nil {
		return
	}
	for i := range v.Workers {
		v.Workers[i].Handle.(*upstream.Pool).Retire()
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
