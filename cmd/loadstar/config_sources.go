package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery/dns"
)

// sourcesConfig is where workers come from that nobody names: Kubernetes, a file and DNS.
type sourcesConfig struct {
	Kubernetes kubernetesConfig
	File       string // of workers; empty is none
	DNS        []dnsQuery
	DNSEvery   time.Duration
}

// kubernetesConfig is which pods are workers. Without Enabled nothing of it counts.
type kubernetesConfig struct {
	Enabled    bool
	Selector   string // of workers of whole requests; empty is none, as of those below
	Prefill    string
	Decode     string
	Namespace  string // empty is all
	Port       int
	Kubeconfig string // empty is what the process finds by itself
}

// dnsQuery is a name to look for workers at.
type dnsQuery struct {
	dns.Query
	Role actors.Role
}

// Any reports whether there is a source at all.
func (c sourcesConfig) Any() bool { return c.Kubernetes.Enabled || c.File != "" || len(c.DNS) > 0 }

// May reports whether workers of a role may come from a source.
func (c sourcesConfig) May(r actors.Role) bool {
	return c.File != "" || c.Kubernetes.Enabled && c.Kubernetes.selector(r) != "" ||
		slices.ContainsFunc(c.DNS, func(q dnsQuery) bool { return q.Role == r })
}

// selector is the selector of the pods of a role.
func (k kubernetesConfig) selector(r actors.Role) string {
	return [...]string{actors.Regular: k.Selector, actors.Prefill: k.Prefill, actors.Decode: k.Decode}[r]
}

// roles are those that workers may have.
func (c config) roles() []actors.Role {
	switch {
	case !c.PD.Enabled:
		return []actors.Role{actors.Regular}
	case c.takesRegular():
		return []actors.Role{actors.Prefill, actors.Decode, actors.Regular}
	default:
		return []actors.Role{actors.Prefill, actors.Decode}
	}
}

// checkSources is check for where workers come from.
func (c config) checkSources() []error {
	var faults []error
	k := c.Sources.Kubernetes
	if c.Demo && c.Sources.Any() {
		faults = append(faults, errors.New("--service-discovery, --workers-file, --dns-discovery: demo brings its own workers: leave the flags out, or leave out demo"))
	}
	named := k.Selector + k.Prefill + k.Decode
	switch {
	case !k.Enabled && named != "" && !c.Compat:
		faults = append(faults, errors.New("--selector, --prefill-selector and --decode-selector mean nothing without --service-discovery: "+
			"add it, or leave them out (vllm-router ignores them then; so does this router with --compat)"))
	case k.Enabled && c.PD.Enabled && k.Prefill+k.Decode == "" && (k.Selector == "" || !c.takesRegular()):
		faults = append(faults, errors.New("--service-discovery with --vllm-pd-disaggregation requires --prefill-selector or --decode-selector: "+
			"give labels of the pods of at least one phase"))
	case k.Enabled && !c.PD.Enabled && k.Selector == "":
		faults = append(faults, errors.New("--service-discovery requires --selector: give labels of the pods that are workers, as KEY=VALUE"))
	case k.Enabled && !c.takesRegular() && k.Selector != "" && !c.Compat:
		faults = append(faults, errors.New("--selector is about workers of whole requests, of which --vllm-pd-disaggregation alone has none: "+
			"give --prefill-selector and --decode-selector, or add --enable-igw (vllm-router ignores --selector then; so does this router with --compat)"))
	}
	for _, q := range c.Sources.DNS {
		if !slices.Contains(c.roles(), q.Role) {
			as := "without a role in front"
			if c.PD.Enabled {
				as = "as prefill=NAME or decode=NAME, or add --enable-igw"
			}
			faults = append(faults, fmt.Errorf("--dns-discovery %s: this router takes no %s workers: write it %s", q.Query, q.Role, as))
		}
	}
	return faults
}
