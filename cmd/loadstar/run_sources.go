package main

import (
	"fmt"
	"log/slog"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/discovery/dns"
	"loadstar/actors/discovery/file"
	"loadstar/actors/discovery/kubernetes"
	"loadstar/proxy"
)

// startSources has workers come from where the settings say. Files are watched with
// those of a.
func startSources(p *proxy.Proxy, c config, a *access, log *slog.Logger) error {
	if !c.Sources.Any() {
		return nil
	}
	r := p.Sources()
	if path := c.Sources.File; path != "" {
		if err := a.open(workersFrom(path, r.Add("file"), c), path); err != nil {
			return err
		}
	}
	if c.Sources.Kubernetes.Enabled {
		if err := startKubernetes(r, c, log); err != nil {
			return err
		}
	}
	for _, q := range c.Sources.DNS {
		r.Run("dns/"+q.String(), dns.Run(q.Query, dns.Options{Roles: actors.RolesOf(q.Role), Every: c.Sources.DNSEvery}))
	}
	return nil
}

// startKubernetes runs one source for each role, prefill first: it has the pods that
// match both selectors.
func startKubernetes(r *discovery.Reconciler, c config, log *slog.Logger) error {
	k := c.Sources.Kubernetes
	kubernetes.RouteLogs(log)
	client, err := kubernetes.NewClient(k.Kubeconfig)
	if err != nil {
		return fmt.Errorf("--service-discovery: %w", err)
	}
	for _, role := range c.roles() {
		if k.selector(role) == "" {
			continue
		}
		name, bootstrap := "kubernetes", 0
		if c.PD.Enabled {
			name += "/" + role.String()
		}
		if role == actors.Prefill {
			bootstrap = c.PD.bootstrapPort(prefillWorker{})
		}
		r.Run(name, client.Run(kubernetes.Options{
			Selector: k.selector(role), Namespace: k.Namespace, Roles: actors.RolesOf(role), Port: k.Port, Bootstrap: bootstrap,
		}))
	}
	return nil
}

// workersFrom reads the workers of a file for a source.
func workersFrom(path string, s *discovery.Source, c config) func() (string, error) {
	return func() (string, error) {
		text, err := readBounded(path, file.MaxSize)
		if err == nil {
			var workers []discovery.Worker
			if workers, err = file.Parse(text, c.roles()); err == nil {
				for i := range workers {
					if workers[i].Roles.Has(actors.Prefill) && workers[i].Bootstrap == 0 {
						workers[i].Bootstrap = c.PD.bootstrapPort(prefillWorker{})
					}
				}
				s.Say(workers)
				return fmt.Sprintf("%d workers", len(workers)), nil
			}
		}
		s.Failed()
		return "", fmt.Errorf("cannot use the workers of --workers-file %q: %w", path, err)
	}
}
