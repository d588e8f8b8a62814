package main

import (
	"errors"
	"fmt"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
)

// kvConnector says how a prefill worker hands the KV cache of a prompt over to a
// decode worker.
type kvConnector string

// The connectors.
const (
	connectorNIXL     kvConnector = "nixl"
	connectorMooncake kvConnector = "mooncake"
	connectorMoRI     kvConnector = "moriio"
)

// pdConfig is the mode in which each request has a phase at two workers. Without
// Enabled nothing of it counts.
type pdConfig struct {
	Enabled   bool
	Prefill   []prefillWorker // without duplicates, in the order given
	Decode    []string        // canonical, some with a rank, without duplicates, in the order given
	Connector kvConnector

	PrefillPolicy string // empty is policyConfig's
	DecodePolicy  string // empty is policyConfig's

	ShortPromptBytes int // a prompt of which the decode worker lacks less isn't split; 0 splits all
	Sequential       bool
	Rescues          int // at a time; 0 is none
	RescueTimeout    time.Duration
	Discovery        discoveryConfig
}

// prefillWorker is a prefill worker that was named.
type prefillWorker struct {
	URL       string // canonical; may end in a rank
	Bootstrap int    // port of its Mooncake bootstrap server; 0 if none was named, or noBootstrap
}

// noBootstrap is the port of a worker that was said to have no bootstrap server.
const noBootstrap = -1

// defaultBootstrap is the port of Mooncake's bootstrap server if none was named.
const defaultBootstrap = 8998

// bootstrapPort is the port of w's bootstrap server, or 0 if it has none.
func (c pdConfig) bootstrapPort(w prefillWorker) int {
	if w.Bootstrap == 0 && c.Connector == connectorMooncake {
		return defaultBootstrap
	}
	return max(w.Bootstrap, 0)
}

// discoveryConfig is the address at which workers register themselves.
type discoveryConfig struct {
	Listen     listenConfig  // port 0 is none; an empty host is every interface
	Expiry     time.Duration // how long a worker is kept without news of it
	MaxWorkers int
}

// Enabled reports whether workers may register.
func (d discoveryConfig) Enabled() bool { return d.Listen.Port != 0 }

// policyFor is the name of the policy that chooses workers for a role.
func (c config) policyFor(r actors.Role) string {
	name := [...]string{actors.Regular: "", actors.Prefill: c.PD.PrefillPolicy, actors.Decode: c.PD.DecodePolicy}[r]
	if !c.PD.Enabled || name == "" {
		return c.Policy.Name
	}
	return name
}

// takesRegular reports whether workers of whole requests may be members.
func (c config) takesRegular() bool { return !c.PD.Enabled || c.Models.Ask }

// checkPD is check for requests in two phases.
func (c config) checkPD() []error {
	pd := &c.PD
	if !pd.Enabled {
		return nil
	}
	faults := c.checkPDWorkers()
	if pd.ShortPromptBytes > 0 && !policy.NeedsPrefixes(c.policyFor(actors.Prefill)) && !policy.NeedsPrefixes(c.policyFor(actors.Decode)) {
		faults = append(faults, errors.New("--pd-short-prompt-bytes needs a policy that reads prompts: "+
			"leave it out, or give cache_aware or least_work by --prefill-policy or --decode-policy"))
	}
	if !pd.Discovery.Enabled() {
		return faults
	}
	for _, other := range []struct {
		flag   string
		listen listenConfig
	}{{"--port", c.Listen}, {"--prometheus-port", c.Metrics.Listen}} {
		if pd.Discovery.Listen.overlaps(other.listen) {
			faults = append(faults, fmt.Errorf("%s and the port of --vllm-discovery-address are both %d: give them different ports", other.flag, other.listen.Port))
		}
	}
	return faults
}

// checkPDWorkers reports what is wrong with where workers come from.
func (c config) checkPDWorkers() []error {
	pd := &c.PD
	named := len(pd.Prefill)+len(pd.Decode) > 0
	if c.Demo {
		var faults []error
		if named || pd.Discovery.Enabled() {
			faults = append(faults, errors.New("--prefill, --decode, --vllm-discovery-address: demo brings its own workers: leave the flags out, or leave out demo"))
		}
		if pd.Connector == connectorMoRI {
			faults = append(faults, errors.New("--kv-connector moriio: demo's workers don't register, which it needs: give nixl or mooncake"))
		}
		return faults
	}
	var faults []error
	if len(c.Workers.URLs) > 0 && !c.takesRegular() && !c.Compat {
		faults = append(faults, errors.New("--worker-urls names workers of whole requests, of which --vllm-pd-disaggregation alone has none: "+
			"name workers by --prefill and --decode, or add --enable-igw (vllm-router ignores --worker-urls then; so does this router with --compat)"))
	}
	switch {
	case pd.Connector == connectorMoRI && !pd.Discovery.Enabled():
		faults = append(faults, errors.New("--kv-connector moriio requires --vllm-discovery-address: its workers register there, and say how they reach each other"))
	case pd.Connector == connectorMooncake && pd.Discovery.Enabled():
		faults = append(faults, errors.New("--kv-connector mooncake does not go with --vllm-discovery-address: "+
			"a worker that registers doesn't name its bootstrap server, so that server would never be asked: name workers by --prefill URL PORT and --decode URL"))
	}
	if pd.Connector == connectorMoRI && named {
		faults = append(faults, errors.New("--kv-connector moriio does not go with --prefill and --decode: "+
			"its workers find each other by what they say when they register: leave the two flags out"))
	}
	if pd.Discovery.Enabled() || pd.Connector == connectorMoRI {
		return faults
	}
	prefill := make([]string, len(pd.Prefill))
	for i, w := range pd.Prefill {
		prefill[i] = w.URL
	}
	for _, phase := range []struct {
		role     actors.Role
		urls     []string
		inherits bool
	}{
		{actors.Prefill, prefill, pd.PrefillPolicy == ""},
		{actors.Decode, pd.Decode, pd.DecodePolicy == ""},
	} {
		flag, n := "--"+phase.role.String(), workersAt(phase.urls, c.Workers.DPSize)
		switch {
		case c.Sources.May(phase.role):
		case n == 0:
			faults = append(faults, fmt.Errorf("--vllm-pd-disaggregation requires %s: name a %s worker, or have workers register by --vllm-discovery-address, or discover them", flag, phase.role))
		case n == 1 && c.policyFor(phase.role) == policyPowerOfTwo:
			by := flag + "-policy"
			if phase.inherits {
				by = "--policy"
			}
			faults = append(faults, fmt.Errorf("%s power_of_two needs at least 2 %s workers and %s names 1: name more, or choose another policy", by, phase.role, flag))
		}
	}
	return faults
}
